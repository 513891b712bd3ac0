"""People on a machine ask for GPUs of it, some by name: random queues of such tasks among ordinary ones."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from headway.ids import JobId, NodeId, TaskId
from headway.states import Admission, NodeHealth
from task_manager.model import Gpu, Node, Shape, Task
from task_manager.order.policy import AgingSjf
from task_manager.planning.pass_model import Discipline, PassSettings, PromiseRule
from tests.support.scheduling import Cluster

GIB = 1 << 30


def a_node(name: str, gpus: int) -> Node:
    cards = tuple(Gpu(f"{name}-{i}", "A100" if i % 2 else "H100", 40 * GIB, i) for i in range(gpus))
    return Node(NodeId(name), 1, "", NodeHealth.READY, Admission.OPEN, 6400, 64 * GIB, cards)


def a_task(number: int, rng: random.Random, nodes: list[Node]) -> Task:
    node = rng.choice(nodes)
    shape = Shape(100, GIB, gpus=rng.randint(1, 2))
    kind = rng.random()
    if kind < 0.3:
        shape = Shape(0, 0, gpus=rng.randint(1, 2), node_id=node.id)
    elif kind < 0.6:
        uuids = tuple(sorted(rng.sample([gpu.uuid for gpu in node.gpus], rng.randint(1, 2))))
        shape = Shape(0, 0, gpus=len(uuids), node_id=node.id, gpu_uuids=uuids)
    return Task(
        TaskId(JobId(f"j{number}"), "t"), 1, f"u{number % 3}", "", 0, rng.uniform(0, 400), 0.0, shape,
        rng.choice([5.0, 30.0, 100.0]), 0,
    )  # fmt: skip


@pytest.mark.parametrize("promises", list(PromiseRule))
@pytest.mark.parametrize("discipline", list(Discipline))
def test_named_gpus_are_given_to_those_who_named_them_and_nobody_waits_for_ever(
    discipline: Discipline, promises: PromiseRule
):
    for seed in range(20):
        rng = random.Random(seed)
        nodes = [a_node("a", 4), a_node("b", 2)]
        tasks = [a_task(number, rng, nodes) for number in range(40)]
        settings = replace(PassSettings(), discipline=discipline, promises=promises)
        cluster = Cluster(nodes, AgingSjf(), settings, run_s=lambda task, rng=rng: task.timeout_s * rng.uniform(0.2, 1))  # type: ignore[misc]
        given: dict[TaskId, tuple[str, ...]] = {}
        start = cluster._start

        def noted(task_id: TaskId, node_id: NodeId, uuids: tuple[str, ...], start=start, given=given) -> None:  # type: ignore[no-untyped-def]
            given[task_id] = uuids
            start(task_id, node_id, uuids)

        cluster._start = noted  # type: ignore[method-assign]
        cluster.submit(*tasks)
        cluster.run()
        assert set(given) == {task.id for task in tasks}, f"seed {seed}"
        for task in tasks:
            assert all(uuid.startswith(task.shape.node_id) for uuid in given[task.id])
            if task.shape.gpu_uuids:
                assert set(given[task.id]) == set(task.shape.gpu_uuids)
        assert not cluster.missed, f"seed {seed}"
