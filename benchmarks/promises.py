"""What promising every start at once (`late`) changes against promising it once the order is settled.

Real traces and generated streams, each run under both rules. A single stream jumps by 10 to 20 % from nothing, so what
counts is the mean ratio over many paired streams.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from headway.ids import NodeId, TaskId
from headway.states import Admission, NodeHealth, TaskState
from task_manager.limits import AdmissionLimits, ShortTaskReserve
from task_manager.model import Gpu, Node, Task
from task_manager.order import policy_registry
from task_manager.planning.bookings import Reservation
from task_manager.planning.pass_model import PassInput, PassSettings, PromiseRule
from task_manager.simulate import cluster_spec, comparison
from tests.support.scheduling import Cluster
from tests.unit.task_manager.rig import a_task

from .measure import Figure, quantile

GiB = 1 << 30
KINDS = ("plain", "several nodes", "dags", "retries", "caps", "reserve", "priorities", "trouble", "all")
_TRACES = (("hpc2n_scaled16_dev.csv", "2x8"), ("hpc2n_240_dev.csv", "1x240"), ("openb_dev.csv", "1x8"))


@dataclass(frozen=True)
class Waits:
    """What one run came to, in seconds."""

    mean_s: float
    p95_s: float
    most_s: float
    missed: int
    at_once: float  # the share of tasks that waited and had a promise within their first second

    @staticmethod
    def of(waits: Sequence[float], missed: int, at_once: float) -> Waits:
        return Waits(math.fsum(waits) / len(waits), quantile(waits, 0.95), max(waits), missed, at_once)


class Measured(Cluster):
    """Notes how long each try of a task waited, and when it was promised a start first."""

    def __init__(self, *args: object, **more: object) -> None:
        super().__init__(*args, checked=False, **more)  # type: ignore[arg-type]
        self.waits: list[float] = []
        self._came: dict[TaskId, float] = {}
        self._stored: dict[TaskId, Reservation] = {}  # before the last pass
        self.waited = self.soon = 0

    def enqueue(self, task: Task) -> None:
        self._came.setdefault(task.id, self.now)
        super().enqueue(task)

    def _start(self, task_id: TaskId, node_id: NodeId, gpu_uuids: tuple[str, ...]) -> None:
        wait_s = self.now - self._came.pop(task_id)
        self.waits.append(wait_s)
        place = self._stored.get(task_id)
        if wait_s > 1.0:
            self.waited += 1
            told_at = None if place is None else place.first_promised_at
            self.soon += told_at is not None and told_at - (self.now - wait_s) <= 1.0
        super()._start(task_id, node_id, gpu_uuids)

    def snapshot(self) -> PassInput:
        self._stored = dict(self.reservations)
        return super().snapshot()


@dataclass
class Stream:
    """One generated stream; the same seed gives the same tasks under both rules."""

    kind: str
    seed: int
    tasks: int = 500
    children: dict[str, list[Task]] = field(default_factory=dict)

    def has(self, what: str) -> bool:
        return self.kind in (what, "all")

    def run(self, rule: PromiseRule, policy: str) -> Waits:
        chance = random.Random(self.seed)
        nodes = [_node(i, 8) for i in range(4)] if self.kind != "plain" else [_node(0, 8)]
        limits = AdmissionLimits(
            running_gpus_per_user=(4 if self.kind == "plain" else 16) if self.has("caps") else None,
            short_reserve=ShortTaskReserve(8, 3_600.0) if self.has("reserve") else None,
        )
        settings = PassSettings(promises=rule, limits=limits, start_limit_s=5.0, stop_limit_s=2.0)
        runs: dict[TaskId, float] = {}
        cluster: Measured = Measured(
            nodes, policy_registry.by_name(policy), settings,
            run_s=lambda task: min(task.timeout_s, runs[task.id] * (0.3 if task.user_failures < task.retries else 1.0)),
            on_end=lambda task: self._ended(cluster, task),
        )  # fmt: skip
        drafts = []
        for _ in range(self.tasks):
            run_s = 10.0 ** chance.uniform(1.0, 4.0)
            drafts.append((run_s, run_s * chance.uniform(1.0, 4.0), chance.choices((1, 2, 4, 8), (80, 12, 5, 3))[0]))
        work = sum(run_s * gpus for run_s, _, gpus in drafts)
        gap_s = work / (8 * len(nodes) * chance.choice((0.85, 1.0, 1.2)) * self.tasks)
        at, came = 0.0, list[Task]()
        for i, (run_s, timeout_s, gpus) in enumerate(drafts):
            task = a_task(
                f"t{i:04d}", at=at, timeout=timeout_s, gpus=gpus, owner=f"u{chance.randrange(12)}",
                priority=chance.choice((0, 0, 0, 0, 1, -1)) if self.has("priorities") else 0,
                retries=chance.choice((0, 0, 1, 2)) if self.has("retries") else 0,
            )  # fmt: skip
            runs[task.id] = run_s
            if came and self.has("dags") and chance.random() < 0.4:
                parent = chance.choice(came[-20:])
                self.children.setdefault(parent.id.name, []).append(replace(task, submitted_at=parent.submitted_at))
            else:
                cluster.submit(task)
            came.append(task)
            at += chance.expovariate(1.0 / gap_s)
        if self.has("trouble"):
            self._trouble(cluster, chance, at)
        cluster.run()
        return Waits.of(cluster.waits, len(cluster.missed), cluster.soon / max(1, cluster.waited))

    def _ended(self, cluster: Cluster, task: Task) -> Task | None:
        if task.user_failures < task.retries:
            return replace(task, state=TaskState.QUEUED, user_failures=task.user_failures + 1)
        for child in self.children.pop(task.id.name, []):
            cluster.enqueue(child)
        return None

    def _trouble(self, cluster: Cluster, chance: random.Random, last_s: float) -> None:
        """More time for running tasks, and machines that are closed for a while."""

        def more_time() -> None:
            if cluster.live:
                live = cluster.live[chance.choice(sorted(cluster.live))]
                more_s = chance.choice((60.0, 600.0, 3_600.0))
                live.booking = replace(
                    live.booking, until_s=live.booking.until_s + more_s, timeout_s=live.booking.timeout_s + more_s
                )

        def admit(node_id: NodeId, admission: Admission) -> None:
            cluster.nodes[node_id] = replace(cluster.nodes[node_id], admission=admission)

        for _ in range(20):
            cluster.at(chance.uniform(0, last_s), more_time)
        for _ in range(4):
            when, node_id = chance.uniform(0, last_s), chance.choice(list(cluster.nodes))
            cluster.at(when, lambda node_id=node_id: admit(node_id, Admission.CORDONED))  # type: ignore[misc]
            cluster.at(when + 3_000, lambda node_id=node_id: admit(node_id, Admission.OPEN))  # type: ignore[misc]


def promises() -> Iterator[Figure]:
    """Ratios of `late` to `settled`, under `aging_sjf`; ``HEADWAY_PROMISES_STREAMS`` sets how many of each kind."""
    streams = int(os.environ.get("HEADWAY_PROMISES_STREAMS", "12"))
    policy = os.environ.get("HEADWAY_PROMISES_POLICY", "aging_sjf")
    folder = os.environ.get("HEADWAY_TESTS_DATA")
    data = Path(folder) if folder else Path(__file__).resolve().parents[2] / "shared" / "data"
    missed = 0
    for name, machines in _TRACES:
        path = data / "traces" / name
        if path.is_file():
            pair = [_traced(path, machines, rule, policy) for rule in PromiseRule]
            missed += pair[1].missed
            yield _figure(f"{name} on {machines}", [(pair[0], pair[1])])
    for kind in KINDS:
        pairs = [
            (Stream(kind, seed).run(PromiseRule.SETTLED, policy), Stream(kind, seed).run(PromiseRule.LATE, policy))
            for seed in range(streams)
        ]
        missed += sum(late.missed for _, late in pairs)
        yield _figure(f"{kind}, {streams} streams", pairs)
    yield Figure("promises: missed without a cause", missed, "", 0.0)


def _traced(path: Path, machines: str, rule: PromiseRule, policy: str) -> Waits:
    contestants = comparison.parse_contestants([policy], ["conservative"])
    made = comparison.load(
        [path], [], cluster=cluster_spec.parse_cluster(machines), contestants=contestants, promises=rule.value
    )
    (result,) = made.run()
    return Waits.of([life.wait_s for life in result.outcome.lives], result.outcome.missed, math.nan)


def _figure(name: str, pairs: Sequence[tuple[Waits, Waits]]) -> Figure:
    def ratios(of: str) -> list[float]:
        return [(getattr(late, of) + 1.0) / (getattr(settled, of) + 1.0) for settled, late in pairs]

    def mean(values: Sequence[float]) -> float:
        return math.exp(math.fsum(map(math.log, values)) / len(values))

    means = ratios("mean_s")
    spread = 1.0
    if len(means) > 1:
        logs = [math.log(value) for value in means]
        middle = math.fsum(logs) / len(logs)
        spread = math.sqrt(math.fsum((one - middle) ** 2 for one in logs) / (len(logs) - 1) / len(logs))
    soon = [late.at_once for _, late in pairs]
    note = (
        f"p95 {mean(ratios('p95_s')):.2f}, max {mean(ratios('most_s')):.2f} (worst {max(ratios('most_s')):.2f}), "
        f"missed {sum(late.missed for _, late in pairs)}"
    )
    if len(means) > 1:
        before = math.fsum(settled.at_once for settled, _ in pairs) / len(pairs)
        note += f", ± {100 * spread:.1f} %, promised within a second {100 * math.fsum(soon) / len(soon):.0f} %"
        note += f" (before {100 * before:.0f} %)"
    return Figure(f"promises: {name}, mean wait", mean(means), "×", note=note)


def _node(i: int, gpus: int) -> Node:
    cards = tuple(Gpu(f"GPU-{i}-{k}", "NVIDIA A100-SXM4-80GB", 80 * GiB, k) for k in range(gpus))
    return Node(NodeId(f"n{i}"), 1, f"n{i}:7004", NodeHealth.READY, Admission.OPEN, 100_000, 4_096 * GiB, cards)
