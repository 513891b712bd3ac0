"""Limits: what is refused, what is held with a reason, and that a cap blocks nobody else."""

from __future__ import annotations

import pytest

from headway.ids import NodeId
from task_manager.limits import AdmissionLimits, ShortTaskReserve
from task_manager.model import Shape
from task_manager.order.policy import AgingSjf
from task_manager.planning.limit_checks import RefusalGround, contradictions, refusals
from task_manager.planning.pass_model import Discipline, PassSettings, WaitCause
from task_manager.planning.placement import CpuTasks
from task_manager.planning.submit_check import SubmitCheck
from tests.support.scheduling import Cluster
from tests.unit.task_manager.rig import GiB, a_node, a_task, tid

RESERVE = AdmissionLimits(short_reserve=ShortTaskReserve(8, 600.0))


@pytest.mark.parametrize(("gpus", "told"), [(0, False), (1, True), (8, True), (9, False)])
def test_a_reserve_that_leaves_no_gpu_for_long_tasks_is_told_once_there_are_gpus(gpus: int, told: bool) -> None:
    found = contradictions(RESERVE, gpus)
    assert len(found) == told
    if told:
        assert f"(8 GPUs) leaves none of the cluster's {gpus} for tasks longer than 10m" in found[0]
    assert contradictions(AdmissionLimits(), gpus) == []


LIMITS = AdmissionLimits(((0, 60.0), (8, 3600.0), (16, 7200.0)), 1.0, 4, ShortTaskReserve(5, 600.0))


@pytest.mark.parametrize(
    ("gpus", "timeout_s", "of", "want"),
    [
        (1, 60.0, 8, []),
        (1, 3700.0, 8, [("/timeout", "8 GPUs allows at most 1h. Such a timeout needs at least 16 GPUs", False)]),
        (1, 61.0, 1, [("/timeout", "of 1 GPU allows at most 1m. Such a timeout needs at least 8 GPUs", False)]),
        (1, 7200.0, 16, []),
        (1, 601.0, 5, [("/timeout", "at most 1m", False), ("/resources/gpus", "1 GPU for 10m1s; tasks longer", False)]),
        (1, 7201.0, 16, [("/timeout", "is 2h1s; the longest is 2h.", True)]),
        (0, 7201.0, 1, [("/timeout", "is 2h1s; the longest is 2h.", True)]),
        (1, 0.5, 8, [("/timeout", "is 0.5s; the shortest is 1s.", True)]),
        (5, 60.0, 8, [("/resources/gpus", "asks for 5 GPUs; one account may hold 4 at a time", True)]),
        (
            4, 1800.0, 8, [
                ("/resources/gpus", "4 GPUs for 30m; tasks longer than 10m may together hold 3 of 8 GPUs", False),
            ],
        ),
        (4, 600.0, 8, []),
        (
            5, 1800.0, 8, [
                ("/resources/gpus", "one account may hold 4", True),
                ("/resources/gpus", "may together hold 3 of 8", False),
            ],
        ),
        # Before any machine has joined only what none could change is refused.
        (1, 3700.0, None, []),
        (4, 1800.0, None, []),
        (5, 7201.0, None, [("/timeout", "the longest is 2h", True), ("/resources/gpus", "may hold 4", True)]),
    ],
)  # fmt: skip
def test_what_is_refused_at_submit(
    gpus: int, timeout_s: float, of: int | None, want: list[tuple[str, str, bool]]
) -> None:
    found = refusals(LIMITS, Shape(100, GiB, gpus), timeout_s, gpus=of)
    assert [(one.field, one.for_ever) for one in found] == [(field, for_ever) for field, _, for_ever in want]
    for one, (_, part, _) in zip(found, want, strict=True):
        assert part in one.sentence


def test_the_gate_tells_the_nodes_reasons_and_those_of_the_limits_together() -> None:
    gate = SubmitCheck([a_node(gpus=2)], AdmissionLimits(((0, 60.0),), running_gpus_per_user=2), CpuTasks.LAST_RESORT)
    assert gate.refusals(Shape(100, GiB, 2), 60.0) == []
    found = gate.refusals(Shape(100, GiB, 3), 61.0)
    assert [one.ground for one in found] == [RefusalGround.NO_NODE, RefusalGround.MAX_TIMEOUT, RefusalGround.USER_GPUS]
    assert not found[0].for_ever
    empty = SubmitCheck([], AdmissionLimits(running_gpus_per_user=2), CpuTasks.LAST_RESORT)
    assert empty.refusals(Shape(100, GiB, 2), 60.0) == []
    assert [one.ground for one in empty.refusals(Shape(100, GiB, 3), 60.0)] == [RefusalGround.USER_GPUS]


def test_few_gpus_admit_no_task_that_takes_days() -> None:
    limits = AdmissionLimits(((0, 86_400.0), (8, 7 * 86_400.0)))
    assert limits.max_timeout_s(2) == 86_400.0
    assert limits.max_timeout_s(9) == 7 * 86_400.0


CAPPED = AdmissionLimits(running_gpus_per_user=2)


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
    assert held.why in (WaitCause.USER_LIMIT, WaitCause.NO_ROOM)
    cluster.cancel(tid("b"))
    made = cluster.step()
    assert made.placements == ()
    assert made.waits[tid("a2")].why is WaitCause.USER_LIMIT
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
    limits = AdmissionLimits(short_reserve=ShortTaskReserve(1, 600.0))
    settings = PassSettings(discipline=discipline, limits=limits)
    cluster = Cluster([a_node(gpus=3, cpu=10_000)], AgingSjf(), settings)
    cluster.submit(*(a_task(f"long{i}", timeout=5000.0, gpus=1) for i in range(4)))
    cluster.submit(a_task("short", at=10.0, timeout=100.0, gpus=1))
    cluster.run(until=11.0)
    assert {task_id.name for task_id in cluster.live} == {"long0", "long1", "short"}
    cluster.run(until=200.0)
    assert cluster.last is not None
    assert cluster.last.waits[tid("long2")].why is WaitCause.SHORT_RESERVE
    cluster.run()
    assert cluster.starts[tid("long2")] == 5000.0


@pytest.mark.parametrize("discipline", list(Discipline))
def test_a_task_that_is_for_a_larger_cluster_waits_for_it_and_blocks_nobody(discipline: Discipline) -> None:
    limits = AdmissionLimits(((0, 1000.0), (4, 9000.0)), short_reserve=ShortTaskReserve(2, 600.0))
    cluster = Cluster([a_node(gpus=2, cpu=10_000)], AgingSjf(), PassSettings(discipline=discipline, limits=limits))
    for task in (
        a_task("long", timeout=5000.0), a_task("kept", timeout=900.0, gpus=1),
        a_task("short", at=1.0, timeout=100.0, gpus=2), a_task("cpu", at=1.0, timeout=900.0),
    ):  # fmt: skip
        cluster.submit(task)
    cluster.run(until=2.0)
    assert {task_id.name for task_id in cluster.live} == {"short", "cpu"}
    assert cluster.last is not None
    for name in ("long", "kept"):
        wait = cluster.last.waits.get(tid(name))
        assert wait is None or wait.why is WaitCause.NOT_ADMITTED  # None: nobody looked at it, as nothing is free
        assert tid(name) not in cluster.last.estimates
    assert cluster.last.waits[tid("long")].why is WaitCause.NOT_ADMITTED
    cluster.nodes[NodeId("n2")] = a_node("n2", gpus=2, cpu=10_000)
    cluster.step()
    assert {task_id.name for task_id in cluster.live} == {"short", "cpu", "long", "kept"}


def test_a_promise_falls_with_a_cause_when_the_cluster_is_too_small_for_the_task() -> None:
    limits = AdmissionLimits(((0, 50.0), (3, 9000.0)))
    cluster = Cluster([a_node(gpus=2), a_node("n2", gpus=1)], AgingSjf(), PassSettings(limits=limits), checked=False)
    cluster.submit(a_task("runs", timeout=40.0, gpus=2), a_task("long", timeout=100.0, gpus=2))
    cluster.run(until=101.0 - 70.0)
    cluster.now = 110.0
    cluster.live.clear()
    cluster.enqueue(a_task("next", at=0.0, timeout=100.0, gpus=2))
    cluster.step()
    (promised,) = cluster.reservations
    del cluster.nodes[NodeId("n2")]
    made = cluster.step()
    assert [(lost.task_id, lost.now_s) for lost in made.dropped] == [(promised, None)]
    assert "a limit allows less" in made.dropped[0].cause


def test_a_timeout_that_was_once_admitted_runs() -> None:
    """A lower maximum than at submit is no reason to keep for ever what was taken."""
    cluster = Cluster([a_node()], AgingSjf(), PassSettings(limits=AdmissionLimits(((0, 60.0),))))
    cluster.submit(a_task("old", timeout=5000.0))
    cluster.run(until=1.0)
    assert tid("old") in cluster.live
