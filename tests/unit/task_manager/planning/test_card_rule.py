"""Which cards of a node are taken: the smallest that suit, and of these the one that rested longest."""

from __future__ import annotations

from headway.states import Admission
from task_manager.planning.placement import choose, full_capacity
from tests.unit.task_manager.rig import GiB, a_node, a_task, gpus_of


def cards(last_used: dict[str, float], *, gpus: int = 1) -> tuple[str, ...]:
    node = a_node("n1", gpus=(*gpus_of("n1", 3), *gpus_of("big", 1, memory=160 * GiB)))
    chosen = choose(a_task(gpus=gpus).shape, [full_capacity(node)], last_used=lambda uuid: last_used.get(uuid, 0.0))
    assert chosen is not None
    return chosen.gpu_uuids


def test_of_equal_cards_the_least_recently_used_is_taken() -> None:
    """The rule could go without a test that failed: then one broken card gets every task."""
    assert cards({"GPU-n1-0": 3.0, "GPU-n1-1": 1.0, "GPU-n1-2": 2.0}) == ("GPU-n1-1",)
    assert cards({"GPU-n1-0": 3.0, "GPU-n1-1": 1.0, "GPU-n1-2": 2.0}, gpus=2) == ("GPU-n1-1", "GPU-n1-2")


def test_a_larger_card_is_left_to_those_who_need_it_however_long_it_rested() -> None:
    assert cards({"GPU-n1-0": 3.0, "GPU-n1-1": 1.0, "GPU-n1-2": 2.0, "GPU-big-0": 0.5}) == ("GPU-n1-1",)


def test_a_closed_node_is_not_chosen() -> None:
    node = a_node("n1", gpus=2, admission=Admission.CORDONED)
    assert choose(a_task(gpus=1).shape, [full_capacity(node)]) is None
