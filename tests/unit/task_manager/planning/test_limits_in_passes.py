"""Caps and the short reserve in a pass: they hide nobody, and whom they are kept for is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from task_manager.engine import queue_pass
from task_manager.limits import AdmissionLimits, ShortTaskReserve
from task_manager.order import policy_registry
from task_manager.order.policy import Fifo
from task_manager.order.queue import TaskQueue
from task_manager.planning import candidates
from task_manager.planning.pass_model import Discipline, PassSettings, Plan, Wait, WaitCause
from task_manager.planning.reasons.explain import ClusterSnapshot, wait_reasons
from task_manager.planning.scheduling_pass import plan_pass
from tests.support.clock import FakeClock
from tests.support.scheduling import Cluster
from tests.unit.task_manager.rig import SETTINGS, a_node, a_task, a_task_manager, tid

CAPPED = AdmissionLimits(running_gpus_per_user=4)
LONG = AdmissionLimits(short_reserve=ShortTaskReserve(4, 10.0))  # of 8 GPUs


def a_cluster(limits: AdmissionLimits, discipline: Discipline, **more: Any) -> Cluster:
    """One GPU is held for 1,000 s; the account's next task, or the next long one, needs all that may be held."""
    settings = PassSettings(discipline=discipline, limits=limits, **more)
    cluster = Cluster([a_node(gpus=8, cpu=100_000)], policy_registry.by_name("fifo"), settings, checked=False)
    cluster.submit(a_task("runs", timeout=1_000.0, gpus=1, memory=1))
    cluster.submit(a_task("all", at=1.0, timeout=500.0, gpus=4, memory=1))
    return cluster


def last(cluster: Cluster) -> Plan:
    assert cluster.last is not None
    return cluster.last


@pytest.mark.parametrize("discipline", [Discipline.CONSERVATIVE, Discipline.EASY])
@pytest.mark.parametrize("many", [1, 300])
@pytest.mark.parametrize("limits", [CAPPED, LONG])
def test_behind_tasks_that_a_limit_holds_those_short_enough_start(
    limits: AdmissionLimits, many: int, discipline: Discipline
) -> None:
    """All of an account's tasks of one shape were passed over after the first that its cap held."""
    cluster = a_cluster(limits, discipline, reserved=3, filled=3)
    cluster.submit(*(a_task(f"x{i:03d}", at=2.0, timeout=2_000.0 + i, gpus=1, memory=1) for i in range(many)))
    cluster.submit(a_task("short", at=3.0, timeout=900.0, gpus=1, memory=1))
    cluster.submit(a_task("other", at=4.0, timeout=9.0, gpus=4, memory=1, owner="ben"))
    cluster.run(until=5.0)
    assert {task_id.name for task_id in cluster.live} == {"runs", "short", "other"}
    why = WaitCause.USER_LIMIT if limits is CAPPED else WaitCause.SHORT_RESERVE
    for i in range(many):
        task = cluster.tasks[tid(f"x{i:03d}")]
        wait = last(cluster).wait_of(task)
        assert wait is not None
        assert (wait.why, wait.blocker) == (why, tid("all"))
    assert len(last(cluster).waits) <= 3 + candidates._IN_A_ROW + 1


def test_of_many_that_a_cap_holds_few_are_looked_at() -> None:
    cluster = a_cluster(CAPPED, Discipline.CONSERVATIVE, reserved=3)
    cluster.run(until=1.0)
    for i in range(3_000):
        cluster.enqueue(a_task(f"x{i:04d}", at=2.0, timeout=2_000.0 + i, gpus=1, memory=1))
    cluster.enqueue(a_task("gap", at=3.0, timeout=950.0, retries=1, gpus=1, memory=1))  # with what retries may take
    cluster.enqueue(a_task("short", at=4.0, timeout=900.0, gpus=1, memory=1))
    cluster.step()
    assert {task_id.name for task_id in cluster.live} == {"runs", "short"}
    assert len(last(cluster).waits) < 50
    wait = last(cluster).wait_of(cluster.tasks[tid("gap")])
    assert wait is not None
    assert wait.why is WaitCause.USER_LIMIT


def test_the_short_ones_of_a_lane_are_found_however_many_there_are() -> None:
    queue = TaskQueue(Fifo(), limits=CAPPED)
    tasks = {f"t{i:03d}": a_task(f"t{i:03d}", at=float(i), timeout=float(i * 37 % 500), gpus=1) for i in range(500)}
    for task in tasks.values():
        queue.add(task, runnable=True)
    queue.set_duration(lambda task: task.timeout_s + 10.0, 1)
    shape = tasks["t000"].shape
    (lane,) = queue.ready_by_shape[shape]
    after = queue.key_of(tid("t100"))
    assert after is not None
    for most_s in (-1.0, 10.0, 15.0, 200.0, 1e9):
        found = [key[5] for key in queue.shorter_than(shape, lane, most_s, after)]
        assert found == [n for n, task in tasks.items() if n > "t100" and task.timeout_s + 10.0 <= most_s]
    for name in ("t101", "t102"):
        queue.remove(tid(name))
    queue.add(replace(tasks["t103"], timeout_s=1e6), runnable=True)
    other = queue.copier()()
    for one in (queue, other):
        assert [key[5] for key in one.shorter_than(shape, lane, 1e5, after)] == sorted(tasks)[104:]
    queue.set_duration(lambda task: 0.0, 2)
    assert len(list(queue.shorter_than(shape, lane, 0.0, after))) == 397


@pytest.mark.parametrize(
    ("limits", "why", "part"),
    [
        (CAPPED, WaitCause.USER_LIMIT, "The GPUs that the account ann may still hold are kept for"),
        (
            LONG,
            WaitCause.SHORT_RESERVE,
            "Tasks with timeouts as long as this may hold only some of the GPUs. What they",
        ),
    ],
)
@pytest.mark.parametrize("discipline", [Discipline.CONSERVATIVE, Discipline.EASY])
def test_for_whom_a_limit_is_kept_is_told(
    discipline: Discipline, limits: AdmissionLimits, why: WaitCause, part: str
) -> None:
    """It was said that the account held as much as it may, while the rest was booked for a task of its own."""
    cluster = a_cluster(limits, discipline)
    cluster.submit(a_task("x", at=2.0, timeout=2_000.0, gpus=1, memory=1))
    cluster.run(until=5.0)
    task, wait = cluster.tasks[tid("x")], last(cluster).waits[tid("x")]
    assert (wait.why, wait.blocker) == (why, tid("all"))
    told = [
        reason.sentence for reason in wait_reasons(task, ClusterSnapshot(cluster.free_resources()), ahead=1, wait=wait)
    ]
    assert len(told) == 1
    assert told[0].startswith(part)
    assert str(tid("all")) in told[0]
    promised = last(cluster).waits[tid("all")]
    assert tid("all") in cluster.reservations
    assert (promised.why, promised.blocker) == (why, None), (
        "those that run hold it, and its own place is not in its way"
    )


def test_a_task_of_another_account_is_not_blamed_for_a_cap() -> None:
    cluster = a_cluster(CAPPED, Discipline.CONSERVATIVE)
    cluster.submit(a_task("bens", at=0.5, timeout=50.0, gpus=3, memory=1, owner="ben"))
    cluster.submit(a_task("more", at=0.5, timeout=50.0, gpus=3, memory=1))
    cluster.submit(a_task("x", at=2.0, timeout=20.0, gpus=1, memory=1))
    cluster.run(until=5.0)
    assert last(cluster).waits[tid("x")] == Wait(WaitCause.USER_LIMIT, last(cluster).waits[tid("x")].node_id, None)


@pytest.mark.parametrize("discipline", [Discipline.EASY, Discipline.STRICT])
def test_rough_starts_of_capped_tasks_are_no_earlier_than_their_cap_lets_them(discipline: Discipline) -> None:
    """The second of an account was said to start before the first, with one GPU for both."""
    settings = PassSettings(discipline=discipline, limits=AdmissionLimits(running_gpus_per_user=1))
    cluster = Cluster([a_node(gpus=4, cpu=1_000)], policy_registry.by_name("fifo"), settings)
    cluster.submit(a_task("runs", timeout=1_000.0, gpus=1))
    cluster.submit(*(a_task(f"t{i}", at=1.0 + i, timeout=100.0, gpus=1) for i in range(3)))
    cluster.run(until=10.0)
    found = [last(cluster).estimate_of(cluster.tasks[tid(f"t{i}")], 1 + i) for i in range(3)]
    starts = [one.start_s for one in found if one is not None]
    assert len(starts) == 3
    assert starts == sorted(starts)
    assert starts[0] >= 1_000.0
    if discipline is Discipline.EASY:
        assert starts[:2] == [1_000.0, 1_100.0]
        assert [one.rough for one in found if one is not None] == [False, True, True]


def test_whatever_leaves_makes_way_for_one_that_was_not_looked_at() -> None:
    cluster = a_cluster(AdmissionLimits(), Discipline.CONSERVATIVE, reserved=1, filled=1)
    cluster.submit(a_task("all8", at=0.5, timeout=500.0, gpus=8, memory=1))
    cluster.submit(*(a_task(f"x{i}", at=2.0 + i, timeout=5_000.0, gpus=1, memory=1) for i in range(3)))
    cluster.submit(a_task("short", at=7.0, timeout=5.0, gpus=1, memory=1))
    cluster.run(until=8.0)
    assert last(cluster).cut
    assert tid("short") in cluster.tasks
    cluster = a_cluster(AdmissionLimits(), Discipline.CONSERVATIVE)
    cluster.run(until=8.0)
    assert not last(cluster).cut


async def test_a_task_that_was_tried_in_vain_and_goes_lets_the_next_one_be_tried(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No pass ran, and what might have started waited for the next event."""
    real = queue_pass.current_pass_input

    def few(*args: Any) -> Any:
        seen = real(*args)
        return replace(seen, settings=replace(seen.settings, filled=1))

    monkeypatch.setattr(queue_pass, "current_pass_input", few)
    settings = replace(SETTINGS, reserved=1, discipline=Discipline.CONSERVATIVE)
    async with a_task_manager(tmp_path, clock, settings=settings, order=policy_registry.by_name("fifo")) as rig:
        await rig.nodes(a_node(gpus=2))
        now = clock.now()
        await rig.enqueue(a_task("runs", gpus=1, at=now, timeout=3_600))
        await rig.enqueue(a_task("large", gpus=2, at=now + 1, timeout=60))
        await rig.enqueue(a_task("long1", gpus=1, at=now + 2, timeout=36_000))
        await rig.enqueue(a_task("long2", gpus=1, at=now + 3, timeout=36_000))
        await rig.enqueue(a_task("short", gpus=1, at=now + 4, timeout=60))
        assert rig.engine.state.plan is not None
        assert rig.engine.state.plan.cut
        assert [attempt.task.name for attempt in rig.running()] == ["runs"]
        await rig.cancel(tid("long1"))
        assert rig.engine.state.plan.waits.keys() >= {tid("long2")}, "a pass has looked at the next one"
        await rig.cancel(tid("long2"))
        assert [attempt.task.name for attempt in rig.running()] == ["runs", "short"]


# -- disciplines that change while promised starts stand ------------------------------------------


def promised(turn_to: Discipline) -> Cluster:
    """Four GPUs, two of them held until 40 at most; `all`, which needs them, has the promised start of 40."""
    cluster = Cluster([a_node(gpus=4, cpu=1_000)], policy_registry.by_name("fifo"), run_s=lambda task: 25.0)
    cluster.submit(a_task("runs", timeout=40.0, gpus=2), a_task("all", at=1.0, timeout=20.0, gpus=4))
    cluster.run(until=5.0)
    assert set(cluster.reservations) == {tid("all")}
    cluster.settings = replace(cluster.settings, discipline=turn_to)
    return cluster


def test_under_strict_nobody_overtakes_a_task_with_a_stored_place() -> None:
    """What was behind one that was promised its start before went past it."""
    cluster = promised(Discipline.STRICT)
    cluster.submit(*(a_task(name, at=6.0 + i, timeout=20.0, gpus=1) for i, name in enumerate(("b", "c"))))
    cluster.run(until=10.0)
    assert set(cluster.live) == {tid("runs")}
    for name in ("b", "c"):
        wait = last(cluster).waits[tid(name)]
        assert (wait.why, wait.blocker) == (WaitCause.BEHIND, tid("all"))
    assert last(cluster).waits[tid("all")].why is WaitCause.NO_ROOM
    cluster.run()
    assert cluster.starts[tid("all")] == 25.0
    assert cluster.starts[tid("b")] == cluster.starts[tid("c")] == 50.0


def test_under_strict_what_was_not_looked_at_waits_for_the_first() -> None:
    settings = PassSettings(discipline=Discipline.STRICT, reserved=2)
    cluster = Cluster([a_node(gpus=4)], policy_registry.by_name("fifo"), settings)
    cluster.submit(a_task("runs", timeout=40.0, gpus=2), a_task("all", at=1.0, timeout=20.0, gpus=4))
    cluster.submit(*(a_task(f"t{i}", at=2.0 + i, timeout=5.0, gpus=1) for i in range(3)))
    cluster.run(until=10.0)
    assert tid("t2") not in last(cluster).waits
    assert last(cluster).wait_of(cluster.tasks[tid("t2")]) == Wait(WaitCause.BEHIND, None, tid("all"))


def test_under_greedy_a_stored_place_is_not_in_its_own_way() -> None:
    """It waited for its place while others took what it could have used."""
    cluster = promised(Discipline.GREEDY)
    cluster.submit(a_task("b", at=6.0, timeout=5.0, gpus=3))
    cluster.run()
    assert (cluster.starts[tid("all")], cluster.starts[tid("b")]) == (25.0, 50.0)
    assert cluster.missed == []


def test_under_greedy_promises_outlast_a_pass_that_starts_all_that_it_may() -> None:
    """They were forgotten."""
    cluster = promised(Discipline.GREEDY)
    cluster.settings = replace(cluster.settings, starts=1)
    for i in range(2):
        cluster.enqueue(a_task(f"b{i}", timeout=5.0, gpus=0))
    made = cluster.step()
    assert made.more
    assert set(made.promised) == {tid("all")}


def test_a_pass_that_wants_no_more_is_told_apart() -> None:
    cluster = promised(Discipline.STRICT)
    assert not plan_pass(cluster.snapshot()).more


def test_a_lane_is_of_one_account_and_of_timeouts_that_limits_treat_alike() -> None:
    limits = AdmissionLimits(((0, 50.0), (4, 500.0)), running_gpus_per_user=4, short_reserve=ShortTaskReserve(4, 100.0))
    queue = TaskQueue(Fifo(), limits=limits)
    for i, (owner, timeout, gpus) in enumerate(
        (("ann", 50.0, 1), ("ann", 40.0, 1), ("ann", 51.0, 1), ("ann", 100.0, 1), ("ben", 40.0, 1), ("ben", 40.0, 0))
    ):
        queue.add(a_task(f"t{i}", timeout=timeout, gpus=gpus, owner=owner), runnable=True)
    lanes = {lane: len(keys) for lanes in queue.ready_by_shape.values() for lane, keys in lanes.items()}
    assert lanes == {("ann", 0): 2, ("ann", 1): 2, ("ben", 0): 1, ("", 0): 1}
