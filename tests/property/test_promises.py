"""Random clusters and streams: no promise is broken without a cause, and what must always hold holds at each pass."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import pytest

from headway.states import Admission, NodeHealth, TaskState
from task_manager.model import Node, Task
from task_manager.order.policy import AgingSjf, Fifo, Policy
from task_manager.planning.pass_model import Discipline, PassSettings
from tests.support.scheduling import Cluster
from tests.unit.task_manager.rig import GiB, a_node, a_task, gpus_of

CLUSTERS = 200
GROUPS = 10


@dataclass
class Stream:
    """One random life. ``calm``: no machine is lost or closed, so no promise may fall for any cause. ``late``: some
    attempts outlive their bookings, and some are given more time."""

    seed: int
    calm: bool
    late: bool = False

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.children: dict[str, list[Task]] = {}

    def nodes(self) -> list[Node]:
        chance = self.chance
        nodes = []
        for i in range(chance.randint(1, 3)):
            name, count = f"n{i}", chance.choice([0, 1, 2, 2, 4, 8])
            cards = gpus_of(name, count, chance.choice(["A100", "H100"]))
            if count > 1 and chance.random() < 0.2:
                cards = (*cards[1:], *gpus_of(f"{name}x", 1, "T4", 16 * GiB))
            nodes.append(
                a_node(name, cpu=chance.choice([400, 800, 3200]), memory=chance.choice([8, 64]) * GiB, gpus=cards)
            )
        return nodes

    def task(self, i: int, at: float, largest: int) -> Task:
        chance = self.chance
        gpus = chance.choice([0, 1, 1, 1, 2, 2, 4, 8])
        return a_task(
            f"t{i:03d}",
            at=at,
            timeout=float(chance.choice([20, 60, 60, 200, 600, 1500])) + chance.randint(0, 40) / 8,
            gpus=min(gpus, largest),
            cpu=chance.choice([100, 100, 200, 400]),
            memory=chance.choice([1, 2, 4]) * GiB,
            models=chance.choice([(), (), (), ("A100",), ("H100",)]),
            priority=chance.choice([0, 0, 0, 0, 1, -1]),
            retries=chance.choice([0, 0, 1, 2]),
            owner=chance.choice(["ann", "ben", "cem"]),
        )

    def run_s(self, task: Task) -> float:
        if self.late and self.chance.random() < 0.2:
            return self.cluster.settings.duration_s(task) + self.chance.choice([0.5, 10.0, 59.0, 61.0, 300.0])
        return task.timeout_s * self.chance.choice([1.0, 1.0, 0.9, 0.5, 0.1, 0.02])

    def on_end(self, task: Task) -> Task | None:
        if task.user_failures < task.retries and self.chance.random() < 0.5:
            return replace(task, state=TaskState.QUEUED, user_failures=task.user_failures + 1)
        for child in self.children.pop(task.id.name, []):
            self.cluster.enqueue(child)
        return None

    def build(self, policy: Policy, discipline: Discipline, *, make: type[Cluster] = Cluster, **more: Any) -> Cluster:
        """``more``: settings of the pass."""
        chance = self.chance
        nodes = self.nodes()
        settings = PassSettings(
            discipline=discipline,
            reserved=chance.choice([2, 5, 200]),
            promised=chance.choice([3, 200]),
            start_limit_s=chance.choice([0.0, 15.0]),
            stop_limit_s=chance.choice([0.0, 5.0]),
            **more,
        )
        self.cluster = cluster = make(
            nodes, policy, settings, run_s=self.run_s, on_end=self.on_end, wall_offset_s=chance.choice([0.0, 1.7e9])
        )
        wall = cluster.wall_offset_s
        largest = max(len(node.gpus) for node in nodes)
        at = 0.0
        tasks: list[Task] = []
        for i in range(chance.randint(8, 26)):
            at += chance.choice([0.0, 0.0, 5.0, 30.0, 200.0])
            task = self.task(i, wall + at, largest)
            if tasks and chance.random() < 0.2:
                # A child ages with its job, which came before it, so it may be ahead of those that have a promise.
                parent = chance.choice(tasks)
                self.children.setdefault(parent.id.name, []).append(replace(task, submitted_at=parent.submitted_at))
            else:
                tasks.append(task)
        cluster.submit(*tasks)
        for task in chance.sample(tasks, len(tasks) // 6):
            cluster.at(chance.uniform(0, at + 500), lambda task=task: cluster.cancel(task.id))  # type: ignore[misc]
        if not self.calm:
            self.trouble(at)
        for _ in range(4 if self.late else 0):
            cluster.at(chance.uniform(0, at + 500), self.more_time)
        return cluster

    def more_time(self) -> None:
        """As an admin gives it, whatever it costs others."""
        if self.cluster.live:
            live = self.cluster.live[self.chance.choice(sorted(self.cluster.live))]
            more_s, booking = self.chance.choice([1.0, 30.0, 1000.0]), live.booking
            live.booking = replace(booking, until_s=booking.until_s + more_s, timeout_s=booking.timeout_s + more_s)

    def trouble(self, last: float) -> None:
        cluster, chance = self.cluster, self.chance
        node = chance.choice(list(cluster.nodes.values()))
        kind = chance.choice(["lost", "down", "cordon", "sick", "silent", "shrinks"])

        def change(**facts: object) -> None:
            if node.id in cluster.nodes:
                cluster.nodes[node.id] = replace(node, **facts)  # type: ignore[arg-type]

        def silent() -> None:
            cluster.closed[node.id] = f"{node.id} does not answer"

        when = chance.uniform(0, last + 300)
        if kind == "lost":
            cluster.at(when, lambda: cluster.lose(node.id))
        elif kind == "down":
            cluster.at(when, lambda: change(health=NodeHealth.DOWN))
        elif kind == "cordon":
            cluster.at(when, lambda: change(admission=Admission.CORDONED))
            cluster.at(when + 400, change)
        elif kind == "sick" and node.gpus:
            cluster.at(when, lambda: change(gpus=(replace(node.gpus[0], sick=True), *node.gpus[1:])))
        elif kind == "shrinks":
            cluster.at(when, lambda: change(cpu_centi=node.cpu_centi // 2))
        else:
            cluster.at(when, silent)
            cluster.at(when + chance.uniform(1, 300), lambda: cluster.closed.__delitem__(node.id))


def lived(stream: Stream, policy: Policy, discipline: Discipline) -> Cluster:
    """A whole life, in which the laws held and no promise was missed without a cause."""
    cluster = stream.build(policy, discipline)
    try:
        cluster.run()
    except AssertionError as error:
        raise AssertionError(f"seed {stream.seed}: {error}") from error
    assert cluster.missed == [], f"seed {stream.seed}"
    return cluster


@pytest.mark.parametrize("group", range(GROUPS))
def test_no_promise_is_broken_without_a_cause(group: int) -> None:
    promises = causes = 0
    for seed in range(group, CLUSTERS, GROUPS):
        stream = Stream(seed, calm=seed % 2 == 0)
        discipline = Discipline.EASY if seed % 5 == 0 else Discipline.CONSERVATIVE
        cluster = lived(stream, Fifo() if seed % 7 == 0 else AgingSjf(), discipline)
        if stream.calm:
            assert cluster.causes == [], f"seed {seed}"
            assert not cluster.live
        promises += cluster.promises
        causes += len(cluster.causes)
    assert promises > 20


@pytest.mark.parametrize("group", range(4))
def test_what_takes_longer_than_booked_moves_promises_and_keeps_the_laws(group: int) -> None:
    promises = causes = 0
    for seed in range(1000 + group, 1100, 4):
        stream = Stream(seed, calm=seed % 3 != 0, late=True)
        discipline = Discipline.EASY if seed % 5 == 0 else Discipline.CONSERVATIVE
        cluster = lived(stream, Fifo() if seed % 2 == 0 else AgingSjf(), discipline)
        assert not cluster.live
        promises += cluster.promises
        causes += len(cluster.causes)
    assert promises > 20
    assert causes > 5


@pytest.mark.parametrize("discipline", [Discipline.GREEDY, Discipline.STRICT])
def test_the_other_disciplines_keep_the_laws_and_promise_nothing(discipline: Discipline) -> None:
    for seed in range(20):
        cluster = Stream(seed, calm=False).build(AgingSjf(), discipline)
        cluster.run()
        assert cluster.promises == 0
