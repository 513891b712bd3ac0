"""What ``headway simulate`` does, apart from its words on the screen."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from headway.units import BadValue

from ..order import policies
from ..order.policy import Policy
from ..planning import scheduling_pass
from ..planning.pass_model import Discipline, PassSettings
from . import dag, plots, trace, workload
from .cluster_spec import ClusterSpec
from .measures import Measures, TaskLife, measure
from .simulated_cluster import SimulatedCluster, SimulationOutcome
from .trace_records import TraceRecord
from .workload import WorkloadTask

MAX_TIMEOUT_FACTOR = 1_000_000.0


@dataclass(frozen=True, slots=True)
class Contestant:
    """One policy under one discipline."""

    name: str  # for people: what was typed, with the discipline where there are several
    policy: str
    discipline: Discipline

    @property
    def by_user(self) -> bool:
        return self.policy.partition(":")[0] == "fair"


@dataclass(frozen=True, slots=True)
class ContestantResult:
    """What it came to."""

    contest: Contestant
    measures: Measures
    outcome: SimulationOutcome

    def to_json(self) -> dict[str, Any]:
        return {
            "policy": self.contest.policy,
            "discipline": self.contest.discipline.value,
            **self.measures.to_json(),
            "promised": self.outcome.promised,
            "promises_missed": self.outcome.missed,
            "policy_failed": self.outcome.policy_failed,
        }


@dataclass(frozen=True, slots=True)
class Simulation:
    """A workload, a cluster, and who competes."""

    items: tuple[WorkloadTask, ...]
    order: tuple[int, ...]  # items in the order of their files
    cluster: ClusterSpec
    contests: tuple[Contestant, ...]
    notes: tuple[str, ...] = ()
    promises: bool = True

    @property
    def total(self) -> int:
        """Tasks to be run in all contests together."""
        return len(self.items) * len(self.contests)

    def run(self, on_ended: Callable[[int], None] = lambda count: None) -> list[ContestantResult]:
        """All contests; ``on_ended`` is told of ended tasks as they come."""
        results = []
        promised = self.promises and promises_matter(self.items, self.cluster)
        for contest in self.contests:
            policy = _policy(contest.policy)
            settings = PassSettings(discipline=contest.discipline, estimates=promised and _promises(contest, policy))
            outcome = SimulatedCluster(self.items, self.cluster, policy, settings, scheduling_pass.plan_pass).run(
                on_ended
            )
            measures = measure(outcome.lives, gpus=self.cluster.gpus, cpu_centi=self.cluster.cpu_centi)
            results.append(ContestantResult(contest, measures, outcome))
        return results

    def starts_csv(self, results: Sequence[ContestantResult]) -> str:
        """Each task's start in seconds, a column for each contest, in the order of the files."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["id", *(result.contest.name for result in results)])
        for i in self.order:
            writer.writerow([self.items[i].label, *(f"{result.outcome.lives[i].start_s:.6f}" for result in results)])
        return text.getvalue()

    def plots(self, results: Sequence[ContestantResult]) -> dict[str, str]:
        """Names of files, and the SVG in them."""
        lives: dict[str, Sequence[TaskLife]] = {result.contest.name: result.outcome.lives for result in results}
        return plots.plots(lives, {r.contest.name: r.measures for r in results}, gpus=self.cluster.gpus)


def parse_contestants(names: Sequence[str], disciplines: Sequence[str]) -> tuple[Contestant, ...]:
    """Each policy under each discipline; what is named twice competes once.

    Raises:
        BadValue: there is no such policy, parameter or discipline.
    """
    found = dict.fromkeys(Discipline(word) for word in disciplines)
    contests = []
    for text in _names(names):
        _policy(text)
        for discipline in found:
            name = text if len(found) == 1 else f"{text} {discipline.value}"
            contests.append(Contestant(name, text, discipline))
    return tuple(contests)


def load(
    traces: Sequence[Path],
    dags: Sequence[tuple[Path, float]],
    *,
    machines: ClusterSpec,
    contests: tuple[Contestant, ...],
    timeout_factor: float = 1.0,
    promises: bool = True,
) -> Simulation:
    """Reads all files, and lays them over each other on one clock.

    ``dags`` come with the second of their submission.

    Raises:
        TraceInvalid: a file that can't be simulated on this cluster.
        OSError: a file that can't be read.
    """
    files = [trace.read_trace(path) for path in traces]
    files += [dag.read_dag(path, submit_s=submit_s, job=number) for number, (path, submit_s) in enumerate(dags)]
    names = [f"{path.name}/" if len(files) > 1 else "" for path in traces]
    names += _workflow_names([path for path, _ in dags])
    records: list[TraceRecord] = []
    places: list[tuple[int, int]] = []
    for number, (file, name) in enumerate(zip(files, names, strict=True)):
        # Needs are places in the file's own list; here the lists lie behind each other.
        offset = len(records)
        for record in file.records:
            needs = tuple(need + offset for need in record.needs)
            records.append(replace(record, label=name + record.label, needs=needs) if name or needs else record)
            places.append((number, record.row))
    items = workload.build(records, machines, timeout_factor=timeout_factor)
    order = sorted(range(len(records)), key=places.__getitem__)
    notes = [note for file in files for note in file.notes]
    if any(contest.by_user for contest in contests) and not any(record.user for record in records):
        notes.append("The trace names no users: to `fair` all tasks are of one.")
    return Simulation(items, tuple(order), machines, contests, tuple(notes), promises)


def _workflow_names(paths: Sequence[Path]) -> list[str]:
    """A workflow that is given several times is told apart by a number."""
    names, seen = [], Counter[str]()
    for path in paths:
        seen[path.name] += 1
        names.append(f"{path.stem}/" if seen[path.name] == 1 else f"{path.stem}#{seen[path.name]}/")
    return names


def _names(texts: Sequence[str]) -> list[str]:
    """``fifo,aging_sjf:beta=2,gamma=1`` is two policies: a part with an = and no colon goes with the one before."""
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


def promises_matter(items: Sequence[WorkloadTask], machines: ClusterSpec) -> bool:
    """Whether a start can depend on stored places.

    Where all tasks run to their timeouts on one machine, and nobody can come in ahead of a task whose window has
    closed, a plan that is made afresh gives such a task the same place again.
    """
    return (
        len(machines.nodes) > 1
        or any(item.needs or item.run_s != item.task.timeout_s for item in items)
        or len({item.task.priority for item in items}) > 1
    )


def _promises(contest: Contestant, policy: Policy) -> bool:
    """Whether starts are promised at all. Where not, a pass may end once nothing more can start: it starts the same."""
    return policy.static and contest.discipline in (Discipline.CONSERVATIVE, Discipline.EASY)


def _policy(text: str) -> Policy:
    try:
        return policies.by_name(text)
    except policies.BadPolicy as error:
        raise BadValue(str(error)) from error
