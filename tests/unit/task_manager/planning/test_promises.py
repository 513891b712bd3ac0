"""Places that are stored: when a start is promised, what moves it, and what may break it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from headway.states import Admission, NodeHealth, TaskState
from task_manager.limits import AdmissionLimits
from task_manager.model import Task
from task_manager.order import policy_registry
from task_manager.order.policy import AgingSjf
from task_manager.planning.pass_model import Discipline, PassSettings, WaitCause
from task_manager.planning.placement import CpuTasks
from tests.support.scheduling import Cluster
from tests.unit.task_manager.rig import GiB, a_node, a_task, gpus_of, tid

LIMITS = AdmissionLimits(min_timeout_s=10.0)


def _cluster(*, gpus: int = 1, nodes: int = 1, **more: Any) -> Cluster:
    settings = more.pop("settings", PassSettings(limits=LIMITS))
    return Cluster([a_node(f"n{i}", gpus=gpus) for i in range(1, nodes + 1)], AgingSjf(), settings, **more)


def _promise(cluster: Cluster, name: str) -> float | None:
    place = cluster.reservations.get(tid(name))
    return place.promised_s if place is not None else None


def test_a_start_is_promised_once_nobody_new_can_sort_ahead() -> None:
    cluster = _cluster()
    cluster.submit(a_task("runs", timeout=500.0, gpus=1), a_task("waits", at=1.0, timeout=60.0, gpus=1))
    cluster.run(until=50.9)
    assert _promise(cluster, "waits") is None
    assert cluster.last is not None
    assert cluster.last.estimates[tid("waits")].start_s == 500.0
    assert cluster.last.next_wake_s == 51.0  # t + T - Tmin
    cluster.run(until=51.0)
    assert _promise(cluster, "waits") == 500.0


def test_who_has_waited_as_long_as_their_own_timeout_has_a_promise() -> None:
    cluster = _cluster()
    cluster.submit(a_task("runs", timeout=5000.0, gpus=1))
    cluster.submit(*(a_task(f"t{i}", at=1.0 + i, timeout=60.0 + 20 * i, gpus=1) for i in range(10)))
    cluster.run(until=300.0)
    assert {task_id.name for task_id in cluster.reservations} == {f"t{i}" for i in range(10)}


def test_there_are_at_most_as_many_promises_as_the_setting_says() -> None:
    cluster = _cluster(settings=PassSettings(limits=LIMITS, promised=3))
    cluster.submit(a_task("runs", timeout=5000.0, gpus=1))
    cluster.submit(*(a_task(f"t{i}", at=1.0 + i, timeout=60.0, gpus=1) for i in range(10)))
    cluster.run(until=300.0)
    assert sorted(cluster.reservations) == [tid("t0"), tid("t1"), tid("t2")]


def test_late_comers_with_smaller_keys_go_around_and_are_told_for_whom() -> None:
    cluster = _cluster()
    cluster.submit(a_task("runs", timeout=500.0, gpus=1), a_task("waits", at=1.0, timeout=60.0, gpus=1))
    child, urgent = a_task("child", at=0.0, timeout=10.0, gpus=1), a_task("urgent", at=70.0, gpus=1, priority=1)
    cluster.at(100.0, lambda: cluster.enqueue(child))
    cluster.at(100.0, lambda: cluster.enqueue(urgent))
    cluster.run(until=100.0)
    assert cluster.queue.page(0, 3) == [urgent.id, child.id, tid("waits")]
    assert _promise(cluster, "waits") == 500.0
    cluster.run()
    assert cluster.starts[tid("waits")] == 500.0
    assert cluster.starts[urgent.id] == 560.0


def test_an_early_end_moves_the_place_and_the_promise_falls_with_it() -> None:
    cluster = _cluster(gpus=2, run_s=lambda task: 100.0 if task.id.name == "runs" else task.timeout_s)
    cluster.submit(
        a_task("runs", timeout=500.0, gpus=2),
        a_task("first", at=1.0, timeout=30.0, gpus=2),
        a_task("second", at=2.0, timeout=40.0, gpus=1),
    )
    cluster.run(until=99.0)
    assert (_promise(cluster, "first"), _promise(cluster, "second")) == (500.0, 530.0)
    cluster.run(until=100.0)
    assert cluster.starts[tid("first")] == 100.0
    assert _promise(cluster, "second") == 130.0
    cluster.run()
    assert cluster.missed == []


def test_a_task_that_fails_early_finds_its_way_back_and_delays_no_promise() -> None:
    def again(task: Task) -> Task | None:
        if task.id.name == "flaky" and task.user_failures < 1:
            return replace(task, state=TaskState.QUEUED, user_failures=task.user_failures + 1)
        return None

    def run_s(task: Task) -> float:
        return 30.0 if task.id.name == "flaky" and not task.user_failures else task.timeout_s

    settings = PassSettings(limits=LIMITS)
    cluster = Cluster([a_node(gpus=1)], policy_registry.by_name("fifo"), settings, run_s=run_s, on_end=again)
    cluster.submit(a_task("flaky", timeout=500.0, gpus=1, retries=1), a_task("waits", at=1.0, timeout=20.0, gpus=1))
    cluster.run(until=20.0)
    assert _promise(cluster, "waits") == 560.0  # 500 and the 60 that are booked for retries
    cluster.run(until=30.0)
    assert tid("flaky") in cluster.live  # its own place had room for it
    cluster.run()
    assert cluster.starts[tid("waits")] == 530.0
    assert cluster.missed == []


def test_policies_that_re_sort_promise_nothing() -> None:
    for name in ("adaptive", "fair", "hrrn", "sjf"):
        cluster = Cluster([a_node(gpus=1)], policy_registry.by_name(name), PassSettings(limits=LIMITS))
        cluster.submit(a_task("runs", timeout=500.0, gpus=1), a_task("waits", at=1.0, timeout=60.0, gpus=1))
        cluster.run(until=400.0)
        assert cluster.reservations == {}
        assert cluster.last is not None
        assert cluster.last.estimates[tid("waits")].start_s == 500.0


Change = Callable[[Cluster], None]


def _node(name: str, **facts: Any) -> Change:
    def change(cluster: Cluster) -> None:
        node = next(node for node in cluster.nodes.values() if node.id == name)
        cluster.nodes[node.id] = replace(node, **facts)

    return change


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (lambda cluster: cluster.lose("n1"), "has left the cluster"),
        (_node("n1", health=NodeHealth.DOWN), "n1 was DOWN"),
        (_node("n1", admission=Admission.CORDONED), "n1 was CORDONED"),
        (_node("n1", gpus=(replace(gpus_of("n1", 1)[0], sick=True),)), "can't run it any more"),
        (_node("n1", cpu_centi=50), "can't run it any more"),
        (_node("n1", cpu_centi=650), "offers less"),
    ],
    ids=["vanishes", "down", "cordoned", "sick", "shrinks", "shrinks a little"],
)
def test_a_promise_rises_with_a_cause_when_its_machine_changes(change: Change, cause: str) -> None:
    cluster = Cluster(
        [a_node("n1", gpus=1), a_node("n2", gpus=1)], AgingSjf(), PassSettings(limits=LIMITS),
    )  # fmt: skip
    cluster.submit(
        a_task("one", timeout=500.0, gpus=1, cpu=100),
        a_task("two", timeout=900.0, gpus=1, cpu=100),
        a_task("bystander", timeout=2000.0, cpu=100),
        a_task("waits", at=1.0, timeout=60.0, gpus=1, cpu=600),
    )
    cluster.run(until=200.0)
    assert cluster.reservations[tid("waits")].node_id == "n1"
    assert _promise(cluster, "waits") == 500.0
    cluster.at(210.0, lambda: change(cluster))
    cluster.run(until=211.0)
    assert cluster.missed == []
    assert any(cause in told for told in cluster.causes), cluster.causes
    assert cluster.reservations[tid("waits")].node_id == "n2"
    cluster.run()
    assert cluster.missed == []


def test_only_the_places_that_no_longer_fit_are_dropped() -> None:
    cluster = _cluster(gpus=2)
    cluster.submit(
        a_task("runs", timeout=500.0, gpus=2),
        a_task("first", at=1.0, timeout=60.0, gpus=1),
        a_task("second", at=2.0, timeout=61.0, gpus=1),
    )
    cluster.run(until=200.0)
    assert (_promise(cluster, "first"), _promise(cluster, "second")) == (500.0, 500.0)
    cards = gpus_of("n1", 2)
    cluster.at(210.0, lambda: _node("n1", gpus=(replace(cards[0], sick=True), cards[1]))(cluster))
    cluster.run(until=211.0)
    assert cluster.causes == ["a GPU of n1 can't be used now"]
    assert (_promise(cluster, "first"), _promise(cluster, "second")) == (500.0, 560.0)


def test_a_machine_that_is_silent_for_a_while_keeps_its_places() -> None:
    cluster = _cluster(nodes=2)
    cluster.submit(
        a_task("one", timeout=500.0, gpus=1), a_task("two", timeout=900.0, gpus=1),
        a_task("waits", at=1.0, timeout=60.0, gpus=1),
    )  # fmt: skip
    cluster.run(until=200.0)
    node_id = cluster.reservations[tid("waits")].node_id
    cluster.at(210.0, lambda: cluster.closed.update({node_id: f"{node_id} does not answer"}))
    cluster.at(400.0, lambda: cluster.closed.clear())
    cluster.run(until=300.0)
    assert _promise(cluster, "waits") == 500.0
    cluster.run()
    assert cluster.starts[tid("waits")] == 500.0
    assert cluster.causes == cluster.missed == []


def test_one_that_is_silent_when_the_start_is_due_lets_the_promise_go_with_a_cause() -> None:
    cluster = _cluster(nodes=2)
    cluster.submit(
        a_task("one", timeout=500.0, gpus=1), a_task("two", timeout=900.0, gpus=1),
        a_task("waits", at=1.0, timeout=60.0, gpus=1),
    )  # fmt: skip
    cluster.run(until=200.0)
    node_id = cluster.reservations[tid("waits")].node_id
    cluster.at(210.0, lambda: cluster.closed.update({node_id: f"{node_id} does not answer"}))
    cluster.run()
    assert cluster.causes == [f"{node_id} does not answer"]
    assert cluster.starts[tid("waits")] == 900.0


def test_an_attempt_that_outlives_its_booking_is_the_cause_and_nothing_is_promised_on_a_guess() -> None:
    cluster = _cluster(run_s=lambda task: 700.0 if task.id.name == "runs" else task.timeout_s)
    cluster.submit(
        a_task("runs", timeout=500.0, gpus=1),
        a_task("waits", at=1.0, timeout=60.0, gpus=1),
    )
    cluster.run(until=650.0)
    assert cluster.causes == [f"{tid('runs')} on n1 runs longer than was booked for it"]
    assert cluster.reservations == {}
    assert cluster.missed == []
    cluster.run()
    assert cluster.starts[tid("waits")] == 700.0


def test_a_place_that_went_to_disk_and_back_is_off_by_a_hair_and_still_stands() -> None:
    cluster = _cluster()
    cluster.submit(
        a_task("runs", timeout=500.0, gpus=1),
        a_task("first", at=1.0, timeout=60.0, gpus=1),
        a_task("second", at=2.0, timeout=61.0, gpus=1),
    )
    cluster.run(until=200.0)
    cluster.reservations = {
        task_id: replace(place, start_s=place.start_s - 3e-7, promised_s=place.start_s - 3e-7)
        for task_id, place in cluster.reservations.items()
    }
    cluster.step()
    assert cluster.causes == []
    assert len(cluster.reservations) == 2
    cluster.run()
    assert cluster.starts[tid("second")] == pytest.approx(560.0)
    assert cluster.missed == []


def test_a_longer_timeout_that_no_longer_fits_gives_the_place_up_and_a_shorter_one_keeps_it() -> None:
    cluster = _cluster()
    cluster.submit(
        a_task("runs", timeout=500.0, gpus=1),
        a_task("first", at=1.0, timeout=60.0, gpus=1),
        a_task("second", at=2.0, timeout=61.0, gpus=1),
    )
    cluster.run(until=200.0)
    cluster.enqueue(replace(cluster.tasks[tid("first")], timeout_s=50.0))
    cluster.step()
    assert cluster.causes == []
    assert _promise(cluster, "second") == 550.0
    cluster.enqueue(replace(cluster.tasks[tid("first")], timeout_s=90.0))
    cluster.step()
    assert len(cluster.causes) == 1
    assert (_promise(cluster, "second"), _promise(cluster, "first")) == (500.0, 561.0)


def test_a_held_or_cancelled_task_gives_its_place_to_the_others() -> None:
    cluster = _cluster()
    cluster.submit(
        a_task("runs", timeout=500.0, gpus=1),
        a_task("first", at=1.0, timeout=60.0, gpus=1),
        a_task("second", at=2.0, timeout=61.0, gpus=1),
        a_task("third", at=3.0, timeout=62.0, gpus=1),
    )
    cluster.run(until=200.0)
    held = replace(cluster.tasks[tid("first")], held=True)
    cluster.queue.remove(held.id)
    cluster.tasks[held.id] = held
    made = cluster.step()
    assert [(d.task_id, d.cause) for d in made.dropped] == [(held.id, "it was put on hold")]
    cluster.cancel(tid("second"))
    assert cluster.step().dropped == ()
    assert _promise(cluster, "third") == 500.0


def test_the_wall_clock_may_step_by_hours_and_harms_no_place() -> None:
    for step_s in (-7200.0, 7200.0):
        cluster = _cluster(wall_offset_s=1.7e9)
        cluster.submit(
            a_task("runs", at=1.7e9, timeout=500.0, gpus=1),
            a_task("first", at=1.7e9 + 1, timeout=60.0, gpus=1),
            a_task("second", at=1.7e9 + 2, timeout=61.0, gpus=1),
        )
        cluster.run(until=200.0)
        cluster.wall_offset_s += step_s
        cluster.run()
        assert (cluster.starts[tid("first")], cluster.starts[tid("second")]) == (500.0, 560.0)
        assert cluster.causes == cluster.missed == []


def test_room_that_a_promised_task_leaves_is_used_in_the_same_pass() -> None:
    # `big` leaves its place on n1 for an earlier one; `child`, looked at before it, could then start at once.
    cluster = Cluster(
        [a_node("n1", gpus=1), a_node("n2", gpus=2)], AgingSjf(), PassSettings(limits=LIMITS),
        run_s=lambda task: 100.0 if task.id.name == "two" else task.timeout_s,
    )  # fmt: skip
    cluster.submit(
        a_task("one", timeout=150.0, gpus=1),
        a_task("two", timeout=500.0, gpus=2),
        a_task("promised", at=1.0, timeout=60.0, gpus=1),
    )
    cluster.run(until=90.0)
    assert cluster.reservations[tid("promised")].node_id == "n1"
    cluster.run()
    assert cluster.starts[tid("promised")] == 100.0
    assert cluster.missed == []


@pytest.mark.parametrize("discipline", [Discipline.GREEDY, Discipline.STRICT])
def test_disciplines_without_places_promise_nothing(discipline: Discipline) -> None:
    cluster = _cluster(settings=PassSettings(discipline=discipline, limits=LIMITS))
    cluster.submit(a_task("runs", timeout=500.0, gpus=1), a_task("waits", at=1.0, timeout=60.0, gpus=1))
    cluster.run(until=300.0)
    assert cluster.reservations == {}
    assert cluster.last is not None
    assert cluster.last.estimates[tid("waits")].rough is (discipline is Discipline.GREEDY)


def test_behind_the_first_there_is_a_rough_figure() -> None:
    cluster = _cluster(settings=PassSettings(limits=LIMITS, reserved=2))
    cluster.submit(a_task("runs", timeout=500.0, gpus=1))
    cluster.submit(*(a_task(f"t{i}", at=1.0 + i, timeout=60.0, gpus=1) for i in range(6)))
    cluster.run(until=20.0)
    made = cluster.last
    assert made is not None
    assert set(made.estimates) == {tid("t0"), tid("t1")}
    assert made.rough is not None
    sixth = made.rough.at(6, a_task(gpus=1).shape)
    assert sixth is not None
    assert sixth.rough
    assert sixth.start_s == pytest.approx(500.0 + 5 * 60.0)
    assert made.waits[tid("t5")].why is WaitCause.NO_ROOM if tid("t5") in made.waits else True


def test_a_rough_figure_is_of_what_the_task_takes() -> None:
    """Tasks without GPUs wait for CPUs and memory: the GPUs are no measure of the work ahead of them."""
    settings = PassSettings(reserved=2, cpu_tasks=CpuTasks.ALWAYS)
    cluster = Cluster([a_node(cpu=800, memory=64 * GiB, gpus=4)], AgingSjf(), settings)
    cluster.submit(a_task("runs", timeout=400.0, cpu=800))
    cluster.submit(*(a_task(f"t{i}", at=1.0 + i, timeout=60.0, cpu=400) for i in range(9)))
    cluster.submit(*(a_task(f"m{i}", at=1.0 + i, timeout=6.0, cpu=1, memory=64 * GiB) for i in range(10)))
    cluster.run(until=20.0)
    made = cluster.last
    assert made is not None
    assert made.rough is not None
    assert len(cluster.queue) == 19
    cpu_s, memory_s = (9 * 60 * 400 + 10 * 6 * 1) / 800, (9 * 60 * 1 + 10 * 6 * 64) / 64
    assert cpu_s > memory_s
    late = made.rough.at(11, a_task(cpu=100).shape)
    assert late is not None
    assert late.start_s == pytest.approx(400.0 + 10 * cpu_s / 19)
    gpu = made.rough.at(11, a_task(gpus=1).shape)
    assert gpu is not None
    assert gpu.start_s < 20.0, "no GPU is in use, and none is waited for"


def test_without_gpus_in_the_cluster_the_rough_figure_is_of_cpus() -> None:
    cluster = Cluster([a_node(cpu=100)], AgingSjf(), PassSettings(reserved=1))
    cluster.submit(a_task("runs", timeout=500.0))
    cluster.submit(*(a_task(f"t{i}", at=1.0 + i, timeout=60.0) for i in range(6)))
    cluster.run(until=20.0)
    made = cluster.last
    assert made is not None
    assert made.rough is not None
    sixth = made.rough.at(6, a_task().shape)
    assert sixth is not None
    assert sixth.start_s == pytest.approx(500.0 + 5 * 60.0)
    assert made.rough.at(6, a_task(gpus=1).shape) is None


@pytest.mark.parametrize(
    ("cards", "runs", "waits"),
    [
        (2, {"gpus": 1, "models": ("A100",)}, {"gpus": 2}),
        # With one card the place of the task ahead lies right behind the room that comes free.
        (1, {"cpu": 400}, {"gpus": 1, "cpu": 600}),
    ],
)
def test_a_task_ahead_starts_in_the_room_that_a_promised_one_leaves_in_the_same_pass(
    cards: int, runs: dict[str, Any], waits: dict[str, Any]
) -> None:
    nodes = [a_node("n1", gpus=gpus_of("n1", cards, "A100")), a_node("n2", gpus=gpus_of("n2", 2, "H100"))]
    ends = {"runs": 500.0, "other": 70.0}
    cluster = Cluster(nodes, AgingSjf(), run_s=lambda task: ends.get(task.id.name, task.timeout_s))
    cluster.submit(
        a_task("runs", timeout=500.0, **runs),
        a_task("other", timeout=900.0, gpus=2, models=("H100",)),
        a_task("waits", at=1.0, timeout=50.0, **waits),
    )
    urgent = a_task("urgent", at=60.0, timeout=1_000.0, gpus=1, models=("A100",), priority=1)
    cluster.submit(urgent)
    cluster.run(until=60.0)
    assert _promise(cluster, "waits") == 500.0
    assert cluster.last is not None
    assert cluster.last.reservations[urgent.id].start_s == 550.0  # what is free is kept for the promised one
    cluster.run(until=70.0)
    # It is looked at before the promised one, which leaves its place for the machine that has come free.
    assert (cluster.starts[tid("waits")], cluster.starts[urgent.id]) == (70.0, 70.0)


@pytest.mark.parametrize(("late_s", "told"), [(1.0, True), (11.0, False)], ids=["more time", "outlived"])
def test_a_delay_of_seconds_costs_those_who_are_promised_seconds_and_not_a_day(late_s: float, told: bool) -> None:
    """The head of the queue asks for both GPUs, and those behind it have them for a day each."""
    late = tid("one")
    cluster = Cluster(
        [a_node("n1", gpus=2)], policy_registry.by_name("fifo"), PassSettings(limits=LIMITS),
        run_s=lambda task: task.timeout_s + (late_s if task.id == late else 0.0),
    )  # fmt: skip
    cluster.submit(
        a_task("one", timeout=3600.0, gpus=1),
        a_task("another", timeout=1800.0, gpus=1),
        a_task("two", at=1.0, timeout=600.0, gpus=2),
        a_task("day", at=2.0, timeout=86_400.0, gpus=1),
        a_task("day after", at=3.0, timeout=86_400.0, gpus=1),
    )
    waits = ("two", "day", "day after")
    cluster.run(until=100.0)
    assert [_promise(cluster, name) for name in waits] == [3600.0, 4200.0, 4200.0]
    if told:
        live = cluster.live[late]
        live.booking = replace(
            live.booking, until_s=live.booking.until_s + late_s, timeout_s=live.booking.timeout_s + late_s
        )
        cluster.tasks[late] = replace(live.task, state=TaskState.RUNNING)
        cluster.step()
        assert [_promise(cluster, name) for name in waits] == [3601.0, 4201.0, 4201.0]
        assert cluster.causes == [f"{late} on n1 was given more time"] * 3
    cluster.run()
    assert cluster.missed == []
    assert [cluster.starts[tid(name)] for name in waits] == [3600.0 + late_s, 4200.0 + late_s, 4200.0 + late_s]
    if not told:
        assert cluster.causes == [f"{late} on n1 runs longer than was booked for it"] * 3
