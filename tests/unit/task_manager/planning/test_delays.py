"""What a delay costs those who are promised a start: no more than it is, and each is told the event that moved it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from task_manager.engine.extension import PromiseDelay, delayed_promises
from task_manager.order.policy import AgingSjf, Fifo
from task_manager.planning.pass_model import Discipline, PassInput, PassSettings, Plan, PromiseRule
from task_manager.planning.scheduling_pass import plan_pass
from tests.property.test_promises import Stream
from tests.support.scheduling import Cluster
from tests.unit.task_manager.rig import a_node, a_task, tid

RULES = list(PromiseRule)


def longer(snapshot: PassInput, index: int, more_s: float, *, timeout: bool = True) -> PassInput:
    """One attempt is booked for longer: it was given more time, or may take longer to stop."""
    running = list(snapshot.running)
    one = running[index]
    given_s = more_s if timeout else 0.0
    running[index] = replace(one, until_s=one.until_s + more_s, timeout_s=one.timeout_s + given_s)
    return replace(snapshot, running=running)


def moves(snapshot: PassInput, plan: Plan) -> dict[str, float]:
    """By how much each promised start is later under this plan."""
    started = {placement.task_id for placement in plan.placements}
    found = {}
    for task_id, place in snapshot.reservations.items():
        task = snapshot.tasks.get(task_id)
        if place.promised_s is None or task is None or not task.waiting:
            continue
        now = plan.promised.get(task_id) or plan.reservations.get(task_id)
        new_s = snapshot.now_s if task_id in started else None if now is None else now.promised_s or now.start_s
        found[task_id.name] = float("inf") if new_s is None else max(0.0, new_s - place.promised_s)
    return found


def q1(**more: object) -> Cluster:
    settings = PassSettings(start_limit_s=5.0, stop_limit_s=1.0, **more)  # type: ignore[arg-type]
    settings = replace(settings, limits=replace(settings.limits, min_timeout_s=1.0))
    cluster = Cluster([a_node("vm", gpus=8)], AgingSjf(), settings)
    cluster.submit(a_task("A", timeout=100.0, gpus=4), a_task("B", timeout=2_000.0, gpus=4))
    cluster.submit(a_task("X", at=0.0, timeout=20.0, gpus=4, priority=-1))
    cluster.run(until=21.0)
    cluster.submit(a_task("L", at=21.0, timeout=600.0, gpus=4))
    cluster.run(until=21.0)
    return cluster


def test_seconds_of_more_time_cost_seconds() -> None:
    cluster = q1()
    before = {task_id.name: place.promised_s for task_id, place in cluster.reservations.items()}
    assert before["X"] == 106.0
    assert cluster.last is not None
    assert cluster.last.reservations[tid("L")].start_s == 132.0
    assert delayed_promises(cluster.snapshot(), tid("A"), 5.0, plan_pass) == (PromiseDelay(tid("X"), 106.0, 111.0),)
    live = cluster.live[tid("A")]
    live.booking = longer(cluster.snapshot(), 0, 5.0).running[0]
    cluster.step()
    assert cluster.reservations[tid("X")].promised_s == 111.0
    assert cluster.last.reservations[tid("L")].start_s == 137.0
    assert cluster.causes == [f"{tid('A')} on vm was given more time"]


def test_seconds_of_a_late_end_cost_seconds() -> None:
    """Nobody knows when it ends, so nothing is promised meanwhile. But nobody goes ahead of those who were."""
    for late_s in (5.0, 200.0):
        cluster = q1()
        cluster._run_s = lambda task: task.timeout_s
        live = cluster.live[tid("A")]
        live.ends_s = 106.0 + late_s

        def end(cluster: Cluster = cluster) -> None:
            cluster._end(tid("A"), None)

        cluster._events = [event for event in cluster._events if event[0] != 100.0]
        cluster.at(live.ends_s, end, ends=True)
        cluster.run(until=106.0)
        assert cluster.causes == [f"{tid('A')} on vm runs longer than was booked for it"]
        assert tid("X") not in cluster.reservations
        assert cluster.owed[tid("X")].promised_s is None
        cluster.submit(a_task("short", at=107.0, timeout=10.0, gpus=4))
        cluster.run(until=live.ends_s + 30.0)
        assert cluster.starts[tid("X")] == 106.0 + late_s


def test_with_slack_seconds_cost_nothing() -> None:
    cluster = q1(promises=PromiseRule.LATE)
    before = {task_id: place.promised_s for task_id, place in cluster.reservations.items()}
    assert before.keys() == {tid("X"), tid("L")}
    assert delayed_promises(cluster.snapshot(), tid("A"), 5.0, plan_pass) == ()
    cluster.live[tid("A")].booking = longer(cluster.snapshot(), 0, 5.0).running[0]
    cluster.step()
    for task_id, place in cluster.reservations.items():
        told_s = before[task_id]
        assert place.promised_s is not None
        assert told_s is not None
        assert place.promised_s <= told_s
    assert cluster.causes == []
    cluster.run()
    assert cluster.missed == []


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("group", range(5))
def test_nobody_loses_more_than_was_given(rule: PromiseRule, group: int) -> None:
    """Random lives, and at random moments one attempt of them is booked for longer."""
    asked = moved = 0
    for seed in range(group, 60, 5):
        chance = random.Random(seed)
        cluster = Stream(5_000 + seed, calm=seed % 3 > 0, late=seed % 4 == 0).build(
            AgingSjf() if seed % 2 else Fifo(), Discipline.CONSERVATIVE, promises=rule
        )
        for moment in sorted(chance.uniform(0, 2_000) for _ in range(12)):
            cluster.run(until=moment)
            snapshot = cluster.snapshot()
            while plan_pass(snapshot).more:
                cluster.step()
                snapshot = cluster.snapshot()
            if not snapshot.running or not snapshot.reservations:
                continue
            before = moves(snapshot, plan_pass(snapshot))
            if any(before.values()):
                continue  # something moves them even without this event
            index, more_s = chance.randrange(len(snapshot.running)), chance.choice((1.0, 30.0, 400.0, 5_000.0))
            if snapshot.running[index].until_s <= snapshot.now_s:
                continue
            seen = longer(snapshot, index, more_s, timeout=chance.random() < 0.7)
            assert cluster.last_seen is not None
            seen = replace(seen, changes=cluster.last_seen.changes(seen.running, cluster.nodes, seen.now_s))
            plan = plan_pass(seen)
            lost = moves(snapshot, plan)
            asked += 1
            moved += any(lost.values())
            assert max(lost.values(), default=0.0) <= more_s + 0.01, f"seed {seed} at {moment}: {lost}"
            who = seen.running[index]
            told = {dropped.task_id.name: dropped.cause for dropped in plan.dropped}
            assert told.keys() == {name for name, by_s in lost.items() if by_s > 0.002}
            assert all(f"{who.task_id} on {who.node_id} " in cause for cause in told.values()), told
    assert asked > 10
    assert moved > 3
