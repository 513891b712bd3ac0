"""Shares of GPUs among whole ones: whatever is asked for, no card is ever given out beyond its memory."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headway.ids import JobId, NodeId, TaskId
from headway.model.gpu_shares import UNIT_BYTES
from headway.states import Admission, NodeHealth
from task_manager.model import Gpu, Node, Shape, Task
from task_manager.order.policy import AgingSjf
from task_manager.planning.bookings import kind_of, until_of
from task_manager.planning.pass_model import Discipline, PassSettings, Plan, PromiseRule
from tests.support.scheduling import Cluster

GIB = 1 << 30
SIZES = (UNIT_BYTES, 3 * GIB // 2, 4 * GIB, 6 * GIB + 1, 12 * GIB, 20 * GIB, 24 * GIB)


def a_node(name: str, rng: random.Random, least: int = 0) -> Node:
    cards = tuple(
        Gpu(
            f"{name}-{i}",
            rng.choice(["A100", "H100"]),
            rng.choice([16, 24]) * GIB,
            i,
            shared=i < least or rng.random() < 0.5,
        )
        for i in range(rng.randint(max(least, 1), 4))
    )
    return Node(NodeId(name), 1, "", NodeHealth.READY, Admission.OPEN, 1600, 64 * GIB, cards)


def a_task(number: int, rng: random.Random) -> Task:
    models = rng.choice([(), (), ("A100",)])
    kind = rng.random()
    shape = Shape(rng.choice([100, 400]), GIB, gpu_models=models, gpu_share_bytes=rng.choice(SIZES))
    if kind < 0.3:
        shape = Shape(100, GIB, gpus=rng.randint(1, 2), gpu_models=models)
    elif kind < 0.4:
        shape = Shape(100, GIB)
    return Task(
        TaskId(JobId(f"j{number}"), "t"), 1, f"u{number % 3}", "", rng.choice([0, 0, 1]), rng.uniform(0, 300), 0.0,
        shape, rng.choice([5.0, 30.0, 100.0]), 1,
    )  # fmt: skip


class SharingCluster(Cluster):
    """Looks at each plan: at no moment is more of a card booked than it has."""

    def step(self) -> Plan:
        tasks, plan = dict(self.tasks), super().step()
        spans = [
            (b.gpu_uuids, b.shape, self.now, until_of(b, self.now)) for b in (x.booking for x in self.live.values())
        ]
        for node in self.nodes.values():
            kinds = {kind_of(gpu): gpu for gpu in node.gpus if gpu.shared}
            for gpu in node.gpus:
                whole = [span for span in spans if gpu.uuid in span[0] and span[1].gpus]
                assert not (gpu.shared and whole), "a shared card was given out whole"
                if not gpu.shared:
                    assert not any(gpu.uuid in span[0] and span[1].gpu_share_bytes for span in spans)
            booked: dict[str, list[tuple[float, float, int]]] = {gpu.uuid: [] for gpu in kinds.values()}
            for uuids, shape, start_s, end_s in spans:
                for uuid in set(uuids) & set(booked):
                    booked[uuid].append((start_s, end_s, shape.share_units))
            for task_id, place in plan.reservations.items():
                shape = tasks[task_id].shape
                if place.node_id != node.id:
                    continue
                shared = [(kinds[kind].uuid, units) for kind, units in place.gpus if kind in kinds]
                assert len(shared) == bool(shape.gpu_share_bytes), (
                    "a share is on one shared card, and whole tasks on none"
                )
                for uuid, units in shared:
                    assert units == shape.share_units
                    booked[uuid].append((place.start_s, place.start_s + place.duration_s, units))
            for gpu in kinds.values():
                for at_s, _, _ in booked[gpu.uuid]:
                    there = sum(units for start, end, units in booked[gpu.uuid] if start <= at_s < end)
                    assert there <= gpu.units, f"{gpu.uuid} has {gpu.units} units, and {there} are booked at {at_s}"
        return plan


def life(seed: int, discipline: Discipline, promises: PromiseRule) -> SharingCluster:
    rng = random.Random(seed)
    nodes = [a_node("a", rng, 1), a_node("b", rng)]
    rules = replace(PassSettings(), discipline=discipline, promises=promises, stop_limit_s=rng.choice([0.0, 5.0]))
    cluster = SharingCluster(nodes, AgingSjf(), rules, run_s=lambda task: task.timeout_s * rng.uniform(0.1, 1))
    tasks = [task for task in (a_task(number, rng) for number in range(30)) if fits_somewhere(task.shape, nodes)]
    cluster.submit(*tasks)
    cluster.run()
    assert set(cluster.starts) == {task.id for task in tasks}, f"seed {seed}: some never start"
    return cluster


def fits_somewhere(shape: Shape, nodes: list[Node]) -> bool:
    def good(gpu: Gpu) -> bool:
        return not shape.gpu_models or gpu.model in shape.gpu_models

    if shape.gpu_share_bytes:
        return any(g.shared and good(g) and g.units >= shape.share_units for node in nodes for g in node.gpus)
    return any(sum(not g.shared and good(g) for g in node.gpus) >= shape.gpus for node in nodes)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from(list(Discipline)), st.sampled_from(list(PromiseRule)))
def test_no_card_is_given_out_beyond_its_memory(seed: int, discipline: Discipline, promises: PromiseRule) -> None:
    cluster = life(seed, discipline, promises)
    assert not cluster.missed


@pytest.mark.parametrize("promises", list(PromiseRule))
def test_whole_cards_are_scheduled_as_if_nobody_shared(promises: PromiseRule) -> None:
    """A promise for whole cards never depends on shares: CPUs and memory aside, they meet nowhere."""
    for seed in range(20):
        rng = random.Random(seed)
        whole = [Gpu(f"n-{i}", "A100", 24 * GIB, i) for i in range(3)]
        shared = Gpu("n-9", "A100", 24 * GIB, 9, shared=True)
        plenty = Node(NodeId("n"), 1, "", NodeHealth.READY, Admission.OPEN, 10**6, 10**15, (*whole, shared))
        tasks = [a_task(number, rng) for number in range(40)]
        tasks = [replace(task, shape=replace(task.shape, gpu_models=())) for task in tasks]
        starts = []
        for these, node in ((tasks, plenty), ([t for t in tasks if t.shape.gpus], replace(plenty, gpus=tuple(whole)))):
            # As late places are pushed for 200 tasks at most, both are far below.
            rules = replace(PassSettings(), promises=promises)
            cluster = Cluster([node], AgingSjf(), rules, run_s=lambda task: task.timeout_s / 2)
            cluster.submit(*these)
            cluster.run()
            starts.append({t.id: cluster.starts[t.id] for t in these if t.shape.gpus})
        assert starts[0] == starts[1], f"seed {seed}"
