"""The order of the queue, and start times against the fixture."""

from __future__ import annotations

import csv
import heapq
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from task_manager.model import Task
from task_manager.order import policy, policy_registry
from task_manager.order.policy_registry import by_name
from task_manager.order.queue import TaskQueue
from task_manager.order.recent_timeouts import RecentTimeouts
from task_manager.planning.placement import FreeResources, full_capacity
from tests.support.scheduling import greedy
from tests.unit.task_manager.rig import a_node, a_task, tid

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"


def _starts(order: policy.Policy) -> dict[int, float]:
    """Start times of the fixture's tasks on two GPUs under the greedy discipline."""
    with (FIXTURES / "table2_like.csv").open() as file:
        rows = [{key: float(value) for key, value in row.items()} for row in csv.DictReader(file)]
    tasks = {
        tid(f"t{i:02d}"): a_task(
            f"t{i:02d}", at=row["submit_s"], timeout=row["timeout_s"], gpus=int(row["gpus"]), cpu=1
        )
        for i, row in enumerate(rows)
    }
    run_s = {tid(f"t{i:02d}"): row["runtime_s"] for i, row in enumerate(rows)}
    queue = TaskQueue(order)
    node = a_node(gpus=2, cpu=10_000)
    busy: dict[str, float] = {}
    starts: dict[int, float] = {}
    instants = [task.submitted_at for task in tasks.values()]
    heapq.heapify(instants)
    waiting = sorted(tasks.values(), key=lambda task: task.submitted_at)
    while instants:
        now = heapq.heappop(instants)
        busy = {uuid: end for uuid, end in busy.items() if end > now}
        while waiting and waiting[0].submitted_at <= now:
            queue.add(waiting.pop(0), runnable=True)
        room = full_capacity(node)
        room.gpus = [gpu for gpu in room.gpus if gpu.uuid not in busy]
        for placement in greedy(queue, [room]).placements:
            queue.remove(placement.task_id)
            starts[int(placement.task_id.name[1:])] = now
            for uuid in placement.gpu_uuids:
                busy[uuid] = now + run_s[placement.task_id]
                heapq.heappush(instants, busy[uuid])
    return starts


@pytest.mark.parametrize(
    ("name", "want_wait_s", "want_finished_s"),
    [("fifo", 562.1, 769.7), ("sjf", 253.2, 460.9), ("aging_sjf", 286.4, 494.0)],
)
def test_starts_of_twenty_tasks_on_two_gpus(name: str, want_wait_s: float, want_finished_s: float) -> None:
    starts = _starts(policy_registry.by_name(name))
    with (FIXTURES / "table2_like_starts.csv").open() as file:
        want = {int(row["id"]): float(row[name]) for row in csv.DictReader(file)}
    assert starts == pytest.approx(want, abs=0.002)
    with (FIXTURES / "table2_like.csv").open() as file:
        rows = [(float(row["submit_s"]), float(row["runtime_s"])) for row in csv.DictReader(file)]
    waits = [starts[i] - submit for i, (submit, _) in enumerate(rows)]
    assert sum(waits) / 20 == pytest.approx(want_wait_s, abs=0.1)
    finished = [wait + run for wait, (_, run) in zip(waits, rows, strict=True)]
    assert sum(finished) / 20 == pytest.approx(want_finished_s, abs=0.1)


def test_one_second_of_timeout_costs_one_second_of_seniority() -> None:
    order = policy.AgingSjf()
    early = a_task("a", at=100.0, timeout=60.0)
    late = a_task("b", at=130.0, timeout=30.0)
    sooner = a_task("c", at=130.0, timeout=29.0)
    assert sorted([late, early, sooner], key=lambda t: policy.sort_key(t, order.key(t, 0, None))) == [
        sooner,
        early,
        late,
    ]


def test_priority_comes_before_all_age() -> None:
    order = policy.AgingSjf()
    old = a_task("a", at=0.0, timeout=1.0)
    high = a_task("b", at=1e9, timeout=1e6, priority=1)
    assert policy.sort_key(high, order.key(high, 0, None)) < policy.sort_key(old, order.key(old, 0, None))


def test_ties_go_to_the_earlier_then_inside_a_job_to_the_longer_path_then_to_the_id() -> None:
    order = policy.AgingSjf()
    tasks = [
        a_task("b", job="j1", at=10.0, timeout=50.0, tail_timeout_s=5.0),
        a_task("a", job="j1", at=10.0, timeout=50.0),
        a_task("c", job="j1", at=10.0, timeout=50.0),
        a_task("a", job="j0", at=10.0, timeout=50.0),
        a_task("z", job="j9", at=5.0, timeout=55.0),
    ]
    got = [(t.id.job_id, t.id.name) for t in sorted(tasks, key=lambda t: policy.sort_key(t, order.key(t, 0, None)))]
    assert got == [("j9", "z"), ("j0", "a"), ("j1", "b"), ("j1", "a"), ("j1", "c")]


def test_an_unknown_policy_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match="adaptive, aging_sjf, fair, fifo, hrrn, ljf, log_aging, sjf"):
        policy_registry.by_name("lottery")


_tasks = st.builds(
    lambda name, at, timeout, p: a_task(f"t{name}", at=at, timeout=timeout, priority=p),
    st.integers(0, 40),
    st.floats(0, 1e6),
    st.floats(1, 1e5),
    st.integers(-1, 1),
)


@given(
    st.lists(st.tuples(_tasks, st.booleans()), max_size=60),
    st.floats(0, 1e7),
    st.sampled_from(["aging_sjf", "fifo", "sjf"]),
)
def test_the_queue_is_in_the_order_of_a_full_sort_at_any_later_moment(
    steps: list[tuple[Task, bool]], now: float, name: str
) -> None:
    order = policy_registry.by_name(name)
    queue = TaskQueue(order)
    there: dict[str, Task] = {}
    for task, add in steps:
        if add:
            queue.add(task, runnable=True)
            there[task.id.name] = task
        else:
            queue.remove(task.id)
            there.pop(task.id.name, None)
    want = [t.id for t in sorted(there.values(), key=lambda t: policy.sort_key(t, order.key(t, now, None)))]
    assert list(queue.in_order()) == want
    assert [queue.position(task_id) for task_id in want] == list(range(1, len(want) + 1))
    room = FreeResources(a_node(), 0, 10**9, 10**18, [])
    assert [p.task_id for p in greedy(queue, [room]).placements] == want


def test_the_mean_of_the_last_timeouts_is_exact_and_can_be_taken_back() -> None:
    recent = RecentTimeouts([9.0, *[0.1, 0.2, 0.3] * 8], most=25)
    assert recent.mean_s == 13.8 / 25
    fallen = recent.add(0.2)
    assert recent.mean_s == 0.2
    other = recent.copy()
    other.add(1e6)
    recent.take_back(fallen)
    assert recent.mean_s == 13.8 / 25
    assert RecentTimeouts([9.0, *[0.1, 0.2, 0.3] * 8, 0.2], most=25).mean_s == 0.2  # the last ones
    assert RecentTimeouts([0.2] * 24).mean_s == 0.0  # too few


def test_log_aging_takes_its_constant_from_the_timeouts_at_the_tasks_arrival() -> None:
    policy = by_name("log_aging")
    short, long = (replace(a_task(at=100.0, timeout=t), mean_timeout_s=500.0) for t in (10.0, 1_000.0))
    assert [policy.key(task, 0.0, None) for task in (short, long)] == [100.0 + 6_000.0, 100.0 + 18_000.0]
    assert policy.terms(long, 200.0)["c"] == 6_000.0
    assert by_name("log_aging:means=2").key(short, 0.0, None) == 1_100.0
    assert by_name("log_aging:c=800").key(short, 0.0, None) == 900.0
    assert by_name("log_aging:c=800,means=2").key(short, 0.0, None) == 900.0
    # Of the first ones nothing is known.
    assert policy.key(replace(short, mean_timeout_s=0.0), 0.0, None) == 900.0


def test_nobody_who_comes_later_sorts_ahead_of_a_task_whose_order_is_settled_whatever_the_mean_becomes() -> None:
    policy = by_name("log_aging")
    task = replace(a_task(at=100.0, timeout=1_000.0), mean_timeout_s=500.0)
    closes_at = policy.closes_at(task, 60.0)
    assert closes_at == policy.key(task, 0.0, None)
    for mean_s in (0.1, 500.0, 1e6):
        other = replace(a_task(at=closes_at, timeout=60.0), mean_timeout_s=mean_s)
        assert policy.key(other, 0.0, None) >= policy.key(task, 0.0, None)
    # With a constant that never changes it is settled earlier.
    assert by_name("log_aging:c=6000").closes_at(task, 60.0) < closes_at
