"""What the hook for growth is told, and when it is told nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from headway.ids import NodeId
from headway.states import Admission, NodeHealth
from task_manager.autoscale.decision import MachineShape, Rules, Waiting, lacks, to_json
from task_manager.model import Shape
from task_manager.planning.pass_model import WaitCause

from ..rig import GiB, a_node, gpus_of

SMALL = Shape(100, GiB)
ONE_GPU = Shape(100, GiB, gpus=1)
MANY_GPUS = Shape(100, GiB, gpus=64)
NODE = a_node("n1", gpus=gpus_of("n1", 2))
RULES = Rules(waits_s=60, idle_s=900, min_nodes=1, max_nodes=4)
BIG = MachineShape("big", 6400, 512 * GiB, 64, "A100", 80 * GiB)


def waits(shape: Shape = ONE_GPU, waited_s: float = 100.0, **more: object) -> Waiting:
    return Waiting(shape, waited_s, **more)  # type: ignore[arg-type]


def test_tasks_of_one_shape_are_told_together() -> None:
    queue = [waits(waited_s=100, promised_at=50.0), waits(waited_s=300, promised_at=40.0), waits(SMALL)]
    ask = lacks(queue, [NODE], {}, RULES)
    assert ask is not None
    assert [(one.shape, one.count, one.oldest_wait_s, one.promised_at) for one in ask.lacks] == [
        (ONE_GPU, 2, 300, 40.0),
        (SMALL, 1, 100, None),
    ]
    assert (ask.nodes, ask.may_add, ask.idle) == (1, 3, ())


@pytest.mark.parametrize(
    "one",
    [
        waits(waited_s=59),
        waits(starts_in_s=60),
        waits(why=WaitCause.USER_LIMIT),
        waits(why=WaitCause.SHORT_RESERVE),
        waits(why=WaitCause.BEHIND),
        waits(Shape(100, GiB, gpus=1, node_id="n1")),
        waits(MANY_GPUS),  # machines like those that there are would not help
    ],
)
def test_what_more_machines_would_not_cure_is_not_asked_for(one: Waiting) -> None:
    assert lacks([one], [NODE], {}, RULES) is None


def test_a_shape_that_the_hook_can_make_is_asked_for_by_name() -> None:
    ask = lacks([waits(MANY_GPUS)], [NODE], {}, replace(RULES, shapes=(BIG,)))
    assert ask is not None
    assert ask.lacks[0].machines == ("big",)
    # Once shapes are named, the hook makes no others.
    only_cpus = MachineShape("cpu", 800, 32 * GiB)
    assert lacks([waits()], [NODE], {}, replace(RULES, shapes=(only_cpus,))) is None


def test_with_no_machine_at_all_the_hook_knows_best() -> None:
    ask = lacks([waits()], [], {}, RULES)
    assert ask is not None
    assert (ask.may_add, ask.lacks[0].machines) == (4, ())


def test_no_more_than_the_most_are_asked_for_and_dead_ones_do_not_count() -> None:
    nodes = [a_node(f"n{i}", gpus=gpus_of(f"n{i}", 2)) for i in range(4)]
    assert lacks([waits()], nodes, {}, RULES) is None
    nodes[3] = replace(nodes[3], health=NodeHealth.DOWN)
    ask = lacks([waits()], nodes, {}, RULES)
    assert ask is not None
    assert ask.may_add == 1
    nodes[3] = replace(nodes[3], health=NodeHealth.READY, admission=Admission.DRAINING)
    assert lacks([waits()], nodes, {}, RULES) is None


def test_the_longest_idle_may_leave_down_to_the_least() -> None:
    nodes = [a_node(f"n{i}") for i in range(3)]
    idle = {NodeId("n0"): 1000.0, NodeId("n1"): 2000.0, NodeId("n2"): 3000.0}
    ask = lacks([], nodes, idle, RULES)
    assert ask is not None
    assert [one.node_id for one in ask.idle] == ["n2", "n1"]
    assert (ask.may_add, ask.may_remove) == (0, 2)
    assert lacks([], nodes, dict.fromkeys(idle, 899.0), RULES) is None
    assert lacks([], nodes[:1], idle, RULES) is None


def test_nothing_leaves_while_something_lacks() -> None:
    nodes = [a_node(f"n{i}", gpus=gpus_of(f"n{i}", 2)) for i in range(4)]
    assert lacks([waits()], nodes, {NodeId("n1"): 5000.0}, RULES) is None


def test_a_closed_machine_is_not_named() -> None:
    nodes = [a_node("n0"), a_node("n1", admission=Admission.CORDONED)]
    assert lacks([], nodes, {NodeId("n1"): 5000.0}, replace(RULES, min_nodes=0)) is None


def test_the_message_is_json_with_all_that_the_page_names() -> None:
    ask = lacks([waits(promised_at=5.0)], [NODE], {}, RULES)
    assert ask is not None
    told = json.loads(json.dumps(to_json(ask, at=7.0, cluster="lab", rules=RULES)))
    assert (told["version"], told["want"], told["cluster"], told["at"]) == (1, "grow", "lab", 7.0)
    assert told["nodes"] == {"now": 1, "min": 1, "max": 4, "may_add": 3, "may_remove": 0}
    assert told["lacks"][0] == {
        "count": 1, "cpus": 1.0, "memory_bytes": GiB, "gpus": 1, "gpu_models": [], "gpu_memory_bytes": 0,
        "architecture": "", "oldest_wait_s": 100.0, "promised_start_at": 5.0, "shapes": [],
    }  # fmt: skip
