"""Limits: what is refused, what is held with a reason, and that a cap blocks nobody else."""

from __future__ import annotations

import pytest

from task_manager.admission import Limits, ShortReserve, contradictions, refusals
from task_manager.cycle import Discipline, PassSettings, Why
from task_manager.model import Shape
from task_manager.policy import AgingSjf
from tests.support.scheduling import Cluster
from tests.unit.task_manager.house import GiB, a_node, a_task, tid


@pytest.mark.parametrize(
    ("limits", "gpus", "want"),
    [
        (Limits(), 8, []),
        (Limits(max_timeouts=((0, 60.0), (8, 600.0)), min_timeout_s=90.0), None, ["shortest timeout (1m30s)"]),
        (Limits(running_gpus_per_user=0), None, ["at least 1: no task with GPUs"]),
        (Limits(queued_tasks_per_user=0), None, ["at least 1: no task could be submitted"]),
        (Limits(short_reserve=ShortReserve(0, 600.0)), None, ["at least 1 GPU; leave it out"]),
        (Limits(short_reserve=ShortReserve(8, 600.0)), 8, ["leaves none of the cluster's 8"]),
        (Limits(short_reserve=ShortReserve(8, 600.0)), None, []),
        (Limits(short_reserve=ShortReserve(7, 600.0)), 8, []),
    ],
)
def test_settings_that_contradict_each_other_are_told(limits: Limits, gpus: int | None, want: list[str]) -> None:
    found = contradictions(limits, gpus)
    assert len(found) == len(want)
    for sentence, part in zip(found, want, strict=True):
        assert part in sentence


@pytest.mark.parametrize(
    ("gpus", "timeout_s", "queued", "want"),
    [
        (1, 60.0, 0, []),
        (1, 7200.0, 0, ["this cluster of 8 GPUs admits up to 1h"]),
        (1, 0.5, 0, ["the shortest is 1 s"]),
        (5, 60.0, 0, ["one account may hold 4 at a time"]),
        (1, 60.0, 100, ["100 tasks of this account wait already; at most 100 may"]),
        (4, 1800.0, 0, ["may hold 3 of 8 together"]),
        (4, 600.0, 0, []),
    ],
)
def test_what_is_refused_at_submit(gpus: int, timeout_s: float, queued: int, want: list[str]) -> None:
    limits = Limits(((0, 60.0), (8, 3600.0)), 1.0, 4, 100, ShortReserve(5, 600.0))
    found = refusals(limits, Shape(100, GiB, gpus), timeout_s, gpus=8, queued=queued)
    assert len(found) == len(want)
    for sentence, part in zip(found, want, strict=True):
        assert part in sentence


def test_few_gpus_admit_no_task_that_takes_days() -> None:
    limits = Limits(((0, 86_400.0), (8, 7 * 86_400.0)))
    assert limits.max_timeout_s(2) == 86_400.0
    assert limits.max_timeout_s(9) == 7 * 86_400.0


CAPPED = Limits(running_gpus_per_user=2)


@pytest.mark.parametrize("discipline", list(Discipline))
def test_a_cap_on_running_gpus_holds_tasks_with_a_reason_and_blocks_nobody(discipline: Discipline) -> None:
    cluster = Cluster(
        [a_node(gpus=4, cpu=10_000)], AgingSjf(), PassSettings(discipline=discipline, limits=CAPPED, reserved=5)
    )
    cluster.submit(*(a_task(f"a{i}", at=0.0, timeout=50.0 + i, gpus=1, owner="ann") for i in range(9)))
    cluster.submit(a_task("b", at=1.0, timeout=900.0, gpus=2, owner="ben"))
    cluster.run(until=2.0)
    assert {task_id.name for task_id in cluster.live} == {"a0", "a1", "b"}
    assert cluster.last is not None
    held = cluster.last.waits[tid("a2")]
    assert held.why in (Why.USER_LIMIT, Why.NO_ROOM)
    cluster.cancel(tid("b"))
    made = cluster.step()
    assert made.placements == ()
    assert made.waits[tid("a2")].why is Why.USER_LIMIT
    while cluster.tasks:
        cluster.run(until=cluster.now + 25.0)
        assert sum(live.task.shape.gpus for live in cluster.live.values()) <= 2
    assert cluster.missed == []


@pytest.mark.parametrize("discipline", [Discipline.CONSERVATIVE, Discipline.EASY, Discipline.GREEDY])
def test_ten_thousand_capped_tasks_do_not_hide_the_task_of_another(discipline: Discipline) -> None:
    settings = PassSettings(discipline=discipline, limits=CAPPED)
    cluster = Cluster([a_node(gpus=4, cpu=10_000)], AgingSjf(), settings, checked=False)
    for i in range(3_000):
        cluster.enqueue(a_task(f"a{i:04d}", at=0.0, timeout=50.0 + i / 8, gpus=1, owner="ann"))
    cluster.enqueue(a_task("b", at=1e6, timeout=40.0, gpus=2, owner="ben"))
    assert [p.task_id.name for p in cluster.step().placements] == ["a0000", "a0001", "b"]


def test_capped_tasks_have_places_and_promises_that_hold() -> None:
    cluster = Cluster([a_node(gpus=4, cpu=10_000)], AgingSjf(), PassSettings(limits=CAPPED))
    cluster.submit(*(a_task(f"a{i}", at=0.0, timeout=50.0 + i, gpus=1, owner="ann") for i in range(6)))
    cluster.run(until=49.0)
    assert cluster.last is not None
    starts = [cluster.last.estimates[tid(f"a{i}")].start_s for i in range(2, 6)]
    assert starts == [50.0, 51.0, 102.0, 104.0]
    cluster.run()
    assert [cluster.starts[tid(f"a{i}")] for i in range(2, 6)] == starts
    assert cluster.missed == []


@pytest.mark.parametrize("discipline", list(Discipline))
def test_long_tasks_leave_the_reserve_to_short_ones(discipline: Discipline) -> None:
    limits = Limits(short_reserve=ShortReserve(1, 600.0))
    settings = PassSettings(discipline=discipline, limits=limits)
    cluster = Cluster([a_node(gpus=3, cpu=10_000)], AgingSjf(), settings)
    cluster.submit(*(a_task(f"long{i}", timeout=5000.0, gpus=1) for i in range(4)))
    cluster.submit(a_task("short", at=10.0, timeout=100.0, gpus=1))
    cluster.run(until=11.0)
    assert {task_id.name for task_id in cluster.live} == {"long0", "long1", "short"}
    cluster.run(until=200.0)
    assert cluster.last is not None
    assert cluster.last.waits[tid("long2")].why is Why.SHORT_RESERVE
    cluster.run()
    assert cluster.starts[tid("long2")] == 5000.0
