"""Where tasks fit, and what a pass starts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.ids import NodeId
from task_manager.model import Gpu, Shape, Task
from task_manager.order.policy import AgingSjf
from task_manager.order.queue import TaskQueue
from task_manager.planning.placement import CpuTasks, FreeResources, choose, fits, full_capacity, shortages
from tests.support.scheduling import greedy
from tests.support.steps import counted
from tests.unit.task_manager.rig import GiB, a_node, a_task, gpus_of, tid

CPU_ONLY = Shape(100, GiB)


def rooms(*nodes: Any) -> list[FreeResources]:
    return [full_capacity(node, order) for order, node in enumerate(nodes)]


def queue_of(*tasks: Task) -> TaskQueue:
    queue = TaskQueue(AgingSjf())
    for task in tasks:
        queue.add(task, runnable=True)
    return queue


def test_gpu_tasks_go_where_the_fewest_suitable_cards_are_left() -> None:
    nodes = rooms(a_node("big", gpus=8), a_node("small", gpus=2), a_node("none"))
    choice = choose(Shape(100, GiB, 1), nodes)
    assert choice is not None
    assert choice.node_id == "small"
    choice = choose(Shape(100, GiB, 4), nodes)
    assert choice is not None
    assert choice.node_id == "big"


@pytest.mark.parametrize(
    ("cpu_tasks", "free_cpu_node", "want"),
    [
        (CpuTasks.LAST_RESORT, True, "cpu"),
        (CpuTasks.LAST_RESORT, False, "gpu"),
        (CpuTasks.ALWAYS, True, "gpu"),
        (CpuTasks.NEVER, True, "cpu"),
        (CpuTasks.NEVER, False, None),
    ],
)
def test_tasks_without_gpus_and_nodes_with_some(cpu_tasks: CpuTasks, free_cpu_node: bool, want: str | None) -> None:
    there = rooms(a_node("gpu", gpus=2), a_node("cpu", cpu=400 if free_cpu_node else 50))
    choice = choose(CPU_ONLY, there, cpu_tasks=cpu_tasks)
    assert (choice.node_id if choice else None) == want


def test_cards_smallest_first_then_least_recently_used() -> None:
    cards = (
        Gpu("big", "A100", 80 * GiB, 0),
        Gpu("used", "A100", 40 * GiB, 1),
        Gpu("rested", "A100", 40 * GiB, 2),
    )
    last = {"used": 7.0, "rested": 3.0, "big": 0.0}
    choice = choose(Shape(100, GiB, 2), rooms(a_node(gpus=cards)), last_used=lambda uuid: last[uuid])
    assert choice is not None
    assert choice.gpu_uuids == ("rested", "used")


def test_model_and_memory_are_exact_and_sick_or_borrowed_cards_are_not_given() -> None:
    cards = (
        Gpu("sick", "A100", 80 * GiB, 0, sick=True),
        Gpu("busy", "A100", 80 * GiB, 1, busy_outside=True),
        Gpu("other", "H100", 80 * GiB, 2),
        Gpu("small", "A100", 40 * GiB, 3),
        Gpu("right", "A100", 80 * GiB, 4),
    )
    shape = Shape(100, GiB, 1, ("A100",), 80 * GiB)
    choice = choose(shape, rooms(a_node(gpus=cards)))
    assert choice is not None
    assert choice.gpu_uuids == ("right",)
    assert choose(Shape(100, GiB, 2, ("A100",), 80 * GiB), rooms(a_node(gpus=cards))) is None


def test_nodes_where_it_went_wrong_come_last_but_are_not_excluded() -> None:
    there = rooms(a_node("n1"), a_node("n2"))
    choice = choose(CPU_ONLY, there, avoid=[NodeId("n1")])
    assert choice is not None
    assert choice.node_id == "n2"
    choice = choose(CPU_ONLY, there[:1], avoid=[NodeId("n1")])
    assert choice is not None
    # Once it went wrong on all, the one where it did so least often is preferred.
    choice = choose(CPU_ONLY, there, avoid=[NodeId("n1"), NodeId("n2"), NodeId("n2")])
    assert choice is not None
    assert choice.node_id == "n1"


def test_a_short_task_is_not_bound_to_the_busy_machine() -> None:
    there = rooms(a_node("n1", cpu=100), a_node("n2", cpu=100))
    plan = greedy(queue_of(a_task("long", timeout=9e4), a_task("short", at=1.0, timeout=5)), there)
    assert sorted(p.node_id for p in plan.placements) == ["n1", "n2"]


def test_a_task_without_gpus_starts_behind_waiting_gpu_tasks() -> None:
    waiting = [a_task(f"g{i}", gpus=1) for i in range(3)]
    there = rooms(a_node(gpus=1, cpu=1000))
    there[0].gpus = []
    plan = greedy(queue_of(*waiting, a_task("cpu", at=999.0)), there)
    assert [p.task_id.name for p in plan.placements] == ["cpu"]
    assert plan.no_room == {waiting[0].shape}


def test_a_gpu_task_behind_two_thousand_that_do_not_fit_starts_in_the_next_pass() -> None:
    heavy = [a_task(f"c{i:04d}", cpu=10_000 + i, at=float(i)) for i in range(2000)]
    plan = greedy(queue_of(*heavy, a_task("gpu", gpus=1, at=1e6)), rooms(a_node(gpus=1)))
    assert [p.task_id.name for p in plan.placements] == ["gpu"]


@pytest.mark.slow
@pytest.mark.parametrize("shapes", [1, 10_000])
def test_a_pass_over_ten_thousand_waiting_tasks_is_short(shapes: int) -> None:
    queue = queue_of(*(a_task(f"t{i:05d}", gpus=1, memory=GiB + i % shapes, at=float(i)) for i in range(10_000)))
    there = rooms(*(a_node(f"n{i}", gpus=8) for i in range(32)))
    for room in there[1:]:
        room.gpus = []
    with counted() as steps:
        plan = greedy(queue, there)
    assert len(plan.placements) == 8
    assert steps.taken < 200 * 10_000


_shapes = st.builds(
    Shape,
    st.integers(1, 400),
    st.integers(1, 4).map(lambda n: n * GiB),
    st.integers(0, 3),
    st.sampled_from([(), ("A100",), ("H100",), ("A100", "H100")]),
)
_nodes = st.lists(
    st.tuples(st.integers(50, 800), st.integers(1, 16), st.integers(0, 3), st.sampled_from(["A100", "H100"])),
    min_size=1,
    max_size=4,
)


@given(st.lists(_shapes, max_size=20), _nodes)
def test_a_pass_books_nothing_twice_and_leaves_nothing_that_fits(
    shapes: list[Shape], nodes: list[tuple[int, int, int, str]]
) -> None:
    tasks = {tid(f"t{i:02d}"): a_task(f"t{i:02d}", at=float(i)) for i in range(len(shapes))}
    queue = TaskQueue(AgingSjf())
    shape_of = {}
    for (task_id, task), shape in zip(tasks.items(), shapes, strict=True):
        made = a_task(task_id.name, at=task.submitted_at, cpu=shape.cpu_centi, memory=shape.memory_bytes,
                      gpus=shape.gpus, models=shape.gpu_models)  # fmt: skip
        queue.add(made, runnable=True)
        shape_of[task_id] = made.shape
    made_nodes = [
        a_node(f"n{i}", cpu=cpu, memory=mem * GiB, gpus=gpus_of(f"n{i}", gpus, model))
        for i, (cpu, mem, gpus, model) in enumerate(nodes)
    ]
    there = rooms(*made_nodes)
    plan = greedy(queue, there)
    started = [p.task_id for p in plan.placements]
    cards = [uuid for p in plan.placements for uuid in p.gpu_uuids]
    assert len(started) == len(set(started))
    assert len(cards) == len(set(cards))
    for room in there:
        here = [shape_of[p.task_id] for p in plan.placements if p.node_id == room.node.id]
        assert sum(s.cpu_centi for s in here) <= room.node.cpu_centi
        assert sum(s.memory_bytes for s in here) <= room.node.memory_bytes
    for placement in plan.placements:
        assert len(placement.gpu_uuids) == shape_of[placement.task_id].gpus
    for task_id in shape_of.keys() - set(started):
        assert not any(fits(shape_of[task_id], room) for room in there)


@given(_shapes, _nodes)
def test_what_explains_is_what_decides(shape: Shape, nodes: list[tuple[int, int, int, str]]) -> None:
    for cpu_tasks in CpuTasks:
        for room in rooms(
            *(
                a_node(f"n{i}", cpu=c, memory=m * GiB, gpus=gpus_of(f"n{i}", g, k))
                for i, (c, m, g, k) in enumerate(nodes)
            )
        ):
            assert (choose(shape, [room], cpu_tasks=cpu_tasks) is None) == bool(shortages(shape, room, cpu_tasks))
