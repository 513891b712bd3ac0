"""Compares policies: runs a workload under each of them and measures the results. `cli` shows them."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.units import BadValue, counted

from ..order import policy_registry
from ..order.policy import Policy
from ..planning import scheduling_pass
from ..planning.pass_model import Discipline, PassSettings, PromiseRule
from . import dag, plots, trace, workload
from .cluster_spec import ClusterSpec
from .errors import TraceInvalid
from .formats import recognition
from .measures import Measures, TaskLife, measure
from .simulated_cluster import SimulatedCluster, SimulationOutcome
from .trace_records import TraceRecord, TraceRecords
from .workload import WorkloadTask

MAX_TIMEOUT_FACTOR = 1_000_000.0


@dataclass(frozen=True, slots=True)
class Contestant:
    """One policy under one discipline."""

    name: str  # for people: what was typed, with the discipline if there are several
    policy: str
    discipline: Discipline

    @property
    def by_user(self) -> bool:
        """Whether the policy looks at users."""
        return self.policy.partition(":")[0] == "fair"


@dataclass(frozen=True, slots=True)
class ContestantResult:
    """The result of one contestant."""

    contestant: Contestant
    measures: Measures
    outcome: SimulationOutcome

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON; times are in seconds."""
        return {
            "policy": self.contestant.policy,
            "discipline": self.contestant.discipline.value,
            **self.measures.to_json(),
            "promised": self.outcome.promised,
            "promises_missed": self.outcome.missed,
            "policy_failed": self.outcome.policy_failed,
        }


@dataclass(frozen=True, slots=True)
class Simulation:
    """A workload, a cluster, and the contestants."""

    tasks: tuple[WorkloadTask, ...]
    order: tuple[int, ...]  # indexes of the tasks, in the order of their files
    cluster: ClusterSpec
    contestants: tuple[Contestant, ...]
    notes: tuple[str, ...] = ()
    promises: bool = True
    rule: PromiseRule = PromiseRule.SETTLED
    booked_start_s: float = 0.0  # on top of each timeout, as the live plan books it
    booked_stop_s: float = 0.0
    count_promises: bool = False  # also where they can change no start

    @property
    def total(self) -> int:
        """How many tasks are run for all contestants together."""
        return len(self.tasks) * len(self.contestants)

    def run(self, on_ended: Callable[[int], None] = lambda count: None) -> list[ContestantResult]:
        """Runs all contestants. ``on_ended`` is called with the number of tasks that have just ended.

        Raises:
            StuckError: a pass starts none of the waiting tasks, and nothing else can happen.
        """
        results = []
        for contestant in self.contestants:
            policy = _policy(contestant.policy)
            settings = self._settings(contestant, policy)
            cluster = SimulatedCluster(self.tasks, self.cluster, policy, settings, scheduling_pass.plan_pass)
            outcome = cluster.run(on_ended)
            measures = measure(outcome.lives, gpus=self.cluster.gpus, cpu_centi=self.cluster.cpu_centi)
            results.append(ContestantResult(contestant, measures, outcome))
        return results

    def _settings(self, contestant: Contestant, policy: Policy) -> PassSettings:
        """Without promised starts, a pass may end as soon as nothing more can start."""
        settings = PassSettings(
            discipline=contestant.discipline,
            promises=self.rule,
            start_limit_s=self.booked_start_s,
            stop_limit_s=self.booked_stop_s,
        )
        if not self.promises:
            return replace(settings, estimates=False)
        if settings.promises_all:
            return settings
        padding_s = self.booked_start_s + self.booked_stop_s
        matters = padding_s > 0 or self.count_promises or promises_matter(self.tasks, self.cluster)
        return replace(settings, estimates=matters and _promises(contestant, policy))

    def starts_csv(self, results: Sequence[ContestantResult]) -> str:
        """Each task's start in seconds as CSV, in the order of the files, with a column for each contestant."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["id", *(result.contestant.name for result in results)])
        for i in self.order:
            writer.writerow([self.tasks[i].label, *(f"{result.outcome.lives[i].start_s:.6f}" for result in results)])
        return text.getvalue()

    def plots(self, results: Sequence[ContestantResult]) -> dict[str, str]:
        """File names and their SVG."""
        lives: dict[str, Sequence[TaskLife]] = {result.contestant.name: result.outcome.lives for result in results}
        return plots.plots(lives, {r.contestant.name: r.measures for r in results}, gpus=self.cluster.gpus)


def parse_contestants(names: Sequence[str], disciplines: Sequence[str]) -> tuple[Contestant, ...]:
    """Each policy under each discipline. What is named twice is taken once.

    Raises:
        BadValue: there is no such policy, or it refuses its parameters.
        ValueError: there is no such discipline.
    """
    found = dict.fromkeys(Discipline(word) for word in disciplines)
    contestants = []
    for text in _names(names):
        _policy(text)
        for discipline in found:
            name = text if len(found) == 1 else f"{text} {discipline.value}"
            contestants.append(Contestant(name, text, discipline))
    return tuple(contestants)


def is_policy(word: str) -> bool:
    """Whether a policy has this name, with parameters or without."""
    return word.partition(":")[0] in policy_registry.known_names()


def load(
    traces: Sequence[Path],
    dags: Sequence[tuple[Path, float]],
    *,
    cluster: ClusterSpec,
    contestants: tuple[Contestant, ...],
    timeout_factor: float = 1.0,
    promises: str | None = "settled",
    form: str = "",
    skip_too_large: bool = False,
    booked_s: tuple[float, float] = (0.0, 0.0),
) -> Simulation:
    """Reads all files and merges their tasks into one workload.

    ``dags`` come with the second of their submission. ``form`` is the format of the traces; empty: it is found by
    looking. With ``skip_too_large`` tasks that no node could ever run are left out, and a note counts them.
    ``booked_s``: what is booked for the start and the stop of each task, on top of its timeout. ``promises`` is a
    `PromiseRule`; None: no starts are promised.

    Raises:
        TraceInvalid: a file can't be simulated on this cluster.
        OSError: a file can't be read.
    """
    files, notes = _read(traces, dags, form)
    records: list[TraceRecord] = []
    rows: list[tuple[int, int]] = []
    for number, (name, file) in enumerate(files):
        # Needs are indexes in the file's own list; here the lists are joined.
        offset = len(records)
        for record in file.records:
            needs = tuple(need + offset for need in record.needs)
            records.append(replace(record, label=name + record.label, needs=needs) if name or needs else record)
            rows.append((number, record.row))
        notes += file.notes
    if skip_too_large:
        records, rows, left_out = _without_too_large(records, rows, cluster)
        notes += left_out
    tasks = workload.build(records, cluster, timeout_factor=timeout_factor)
    order = sorted(range(len(records)), key=rows.__getitem__)
    if any(record.processors for record in records):
        taken = "GPUs" if cluster.gpus else "CPUs"
        notes.append(f"A job of SWF names processors: they are taken as {taken} of one node.")
    notes += _notes_on_users(records, contestants)
    return Simulation(
        tasks, tuple(order), cluster, contestants, tuple(notes), promises is not None,
        PromiseRule(promises or "settled"), *booked_s,
    )  # fmt: skip


def _read(
    traces: Sequence[Path], dags: Sequence[tuple[Path, float]], form: str
) -> tuple[list[tuple[str, TraceRecords]], list[str]]:
    """The tasks of all files, each with the prefix of their names; and notes on what was recognised."""
    plain: list[tuple[Path, TraceRecords]] = []
    flows: list[tuple[Path, TraceRecords]] = []
    notes: list[str] = []
    for path in traces:
        content, name = trace.trace_content(path)
        known = recognition.recognise(content, name, form, job=len(flows))
        if known.sentence:
            notes.append(known.sentence)
        (flows if known.name == recognition.WORKFLOW else plain).append((path, known.parse(content, name)))
    for path, submit_s in dags:
        flows.append((path, dag.read_dag(path, submit_s=submit_s, job=len(flows))))
    several = len(plain) + len(flows) > 1
    files = [(f"{path.name}/" if several else "", file) for path, file in plain]
    files += zip(_workflow_names([path for path, _ in flows]), (file for _, file in flows), strict=True)
    return files, notes


def _without_too_large(
    records: list[TraceRecord], rows: list[tuple[int, int]], cluster: ClusterSpec
) -> tuple[list[TraceRecord], list[tuple[int, int]], list[str]]:
    """The tasks that the cluster could run, and a note on the others.

    Raises:
        TraceInvalid: none of them fits.
    """
    fit = workload.those_that_fit(records, cluster)
    if all(fit):
        return records, rows, []
    if not any(fit):
        raise TraceInvalid(
            f"All {counted(len(records), 'task')} are too large for {cluster.text}; none is left to run."
        )
    places = [i for i, fits in enumerate(fit) if fits]
    new = {old: i for i, old in enumerate(places)}
    kept = [replace(records[i], needs=tuple(new[need] for need in records[i].needs)) for i in places]
    lost = len(records) - len(kept)
    first = next(record for record, fits in zip(records, fit, strict=True) if not fits)
    note = (
        f"{counted(lost, 'task')} of {len(records)} {'is' if lost == 1 else 'are'} left out: no node of {cluster.text} "
        f"could ever run {'it' if lost == 1 else 'them'} (first: {first.where})."
    )
    return kept, [rows[i] for i in places], [note]


def _notes_on_users(records: Sequence[TraceRecord], contestants: Sequence[Contestant]) -> list[str]:
    if not any(contestant.by_user for contestant in contestants):
        return []
    nameless = sum(not record.user for record in records)
    if nameless == len(records):
        return ["The trace names no users: to `fair` all tasks are of one."]
    if not nameless:
        return []
    verb, they = ("names", "it is") if nameless == 1 else ("name", "they are")
    return [f"{counted(nameless, 'task')} of {len(records)} {verb} no user: to `fair` {they} of one without a name."]


def _workflow_names(paths: Sequence[Path]) -> list[str]:
    """Prefixes of task names. A workflow that is given several times gets a number."""
    names, seen = [], Counter[str]()
    for path in paths:
        seen[path.name] += 1
        names.append(f"{path.stem}/" if seen[path.name] == 1 else f"{path.stem}#{seen[path.name]}/")
    return names


def _names(texts: Sequence[str]) -> list[str]:
    """``fifo,aging_sjf:beta=2,gamma=1`` is two policies: a part with = and no colon belongs to the one before."""
    names: list[str] = []
    for text in texts:
        own: list[str] = []
        for part in text.split(","):
            if own and "=" in part and ":" not in part:
                own[-1] += f",{part}"
            else:
                own.append(part)
        names.extend(name.strip() for name in own)
    return list(dict.fromkeys(names))


def promises_matter(tasks: Sequence[WorkloadTask], cluster: ClusterSpec) -> bool:
    """Whether promised starts can change when tasks start.

    They can't if all tasks run to their timeouts on one node and have the same priority. Then a plan that is made anew
    gives a promised task the same reservation again.
    """
    return (
        len(cluster.nodes) > 1
        or any(item.needs or item.run_s != item.task.timeout_s for item in tasks)
        or len({item.task.priority for item in tasks}) > 1
    )


def _promises(contestant: Contestant, policy: Policy) -> bool:
    """Whether `settled` promises starts at all."""
    return policy.static and contestant.discipline in (Discipline.CONSERVATIVE, Discipline.EASY)


def _policy(text: str) -> Policy:
    try:
        return policy_registry.by_name(text)
    except policy_registry.BadPolicy as error:
        raise BadValue(str(error)) from error
