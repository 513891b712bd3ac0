"""Why a task waits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.model.reasons import EndReason, EndWord
from headway.states import Admission
from task_manager.limits import AdmissionLimits
from task_manager.model import Condition, Gpu
from task_manager.planning.limit_checks import GpuHoldings
from task_manager.planning.placement import FreeResources, full_capacity
from task_manager.planning.reasons.explain import ClusterSnapshot, wait_reasons
from tests.unit.task_manager.rig import GiB, a_node, a_task, blocked, gpus_of


def _taken(room: FreeResources, **left: Any) -> FreeResources:
    for name, value in left.items():
        setattr(room, name, value)
    return room


@pytest.mark.parametrize(
    ("task", "room", "want"),
    [
        ({}, _taken(full_capacity(a_node()), cpu_centi=50), ["waiting_for_cpu_or_memory", "behind_higher_priority"]),
        ({"gpus": 1}, _taken(full_capacity(a_node(gpus=2)), gpus=[]), ["waiting_for_gpu", "behind_higher_priority"]),
        (
            {"gpus": 1, "models": ("H100",)},
            _taken(full_capacity(a_node(gpus=(*gpus_of("n1", 2), Gpu("h", "H100", GiB)))), gpus=list(gpus_of("n1", 2))),
            ["waiting_for_gpu_model", "behind_higher_priority"],
        ),
        (
            {"gpus": 1},
            full_capacity(a_node(gpus=(Gpu("x", "A100", GiB, busy_outside=True),))),
            ["waiting_for_gpu", "behind_higher_priority", "gpu_busy_outside"],
        ),
        ({"gpus": 1}, full_capacity(a_node(gpus=(Gpu("x", "A100", GiB, sick=True),))), ["gpu_unavailable"]),
        (
            {"gpus": 1},
            full_capacity(a_node(gpus=(Gpu("x", "A100", GiB, sick=True), Gpu("y", "A100", GiB, busy_outside=True)))),
            ["waiting_for_gpu", "behind_higher_priority", "gpu_busy_outside", "gpu_unavailable"],
        ),
        ({}, full_capacity(a_node(conditions=(blocked("mount_unavailable"),))), ["mount_unavailable"]),
        ({"held": True}, full_capacity(a_node()), ["held"]),
        ({}, full_capacity(a_node()), []),
    ],
)
def test_reasons_of_waiting(task: dict[str, Any], room: FreeResources, want: list[str]) -> None:
    assert [reason.word for reason in wait_reasons(a_task(**task), ClusterSnapshot([room]), ahead=2)] == want


def test_who_waits_for_gpus_that_can_not_be_given_is_told_why_and_not_of_a_queue() -> None:
    """I11: a node without NVIDIA's toolkit seemed to be busy, or to have no GPU."""
    why = Condition("gpu_unavailable", "The toolkit is not installed.", blocks_work=False)
    broken = a_node("n1", gpus=(Gpu("x", "A100", GiB, sick=True),), conditions=(why,))
    snapshot = ClusterSnapshot([full_capacity(broken)])
    (only,) = wait_reasons(a_task(gpus=1), snapshot, ahead=2)
    assert only.sentence == "n1 gives out no GPU now. The toolkit is not installed."
    assert wait_reasons(a_task(), snapshot, ahead=0) == []
    busy = _taken(full_capacity(a_node("n2", gpus=1), order=1), gpus=[])
    first = wait_reasons(a_task(gpus=1), ClusterSnapshot([full_capacity(broken), busy]), ahead=0)[0]
    assert (first.word, "n2" in first.sentence) == ("waiting_for_gpu", True)


def test_whose_process_is_on_a_card_is_told() -> None:
    """GPU-15: the waiting program never got the card, and no reason was given."""
    ann = Gpu("x", "A100", GiB, 2, busy_outside=True, note="in use by ann's python train.py, 300MiB")
    (*_, reason) = wait_reasons(a_task(gpus=1), ClusterSnapshot([full_capacity(a_node("vm", gpus=(ann,)))]), ahead=0)
    assert (reason.word, reason.sentence) == (
        "gpu_busy_outside",
        "GPU 2 of vm is in use by ann's python train.py, 300MiB.",
    )


def test_a_named_card_that_somebody_uses_is_told_with_who_it_is() -> None:
    ann = Gpu("x", "A100", GiB, 2, busy_outside=True, note="in use by ann's python train.py, 300MiB")
    task = a_task(gpus=1)
    task = replace(task, shape=replace(task.shape, node_id="vm", gpu_uuids=("x",)))
    for other in (Gpu("y", "A100", GiB, 3), Gpu("y", "A100", GiB, 3, sick=True)):
        assert _sentences(task, full_capacity(a_node("vm", gpus=(ann, other)))) == [
            "It names GPU 2 (x) of vm, which is in use by ann's python train.py, 300MiB."
        ]


def test_a_pause_is_told_by_what_is_left_of_it_whatever_the_wall_clock_says() -> None:
    task = a_task(not_before=9.0, reason=EndReason(EndWord.START_FAILED, detail="No room."))
    (only,) = wait_reasons(task, ClusterSnapshot([full_capacity(a_node())]), ahead=2, pause_s=18.6)
    assert (only.word, only.sentence[:40]) == ("retry_pause", "It is tried again in 19 s. No room. The ")
    assert wait_reasons(task, ClusterSnapshot([full_capacity(a_node())]), ahead=2) == []


def test_what_rules_a_task_out_is_told_before_what_passes() -> None:
    limits = AdmissionLimits(max_timeouts=((0, 3_600.0), (4, 86_400.0)), running_gpus_per_user=2)
    busy, holdings = _taken(full_capacity(a_node(gpus=2)), gpus=[]), GpuHoldings({"ann": 2})
    found = wait_reasons(
        a_task(gpus=2, timeout=7_200.0), ClusterSnapshot([busy], limits=limits, holdings=holdings), ahead=1
    )
    assert [reason.word for reason in found] == [
        "no_such_node_yet", "user_limit", "waiting_for_gpu", "behind_higher_priority",
    ]  # fmt: skip
    assert "allows at most 1h" in found[0].sentence
    found = wait_reasons(a_task(gpus=3, held=True), ClusterSnapshot([busy], holdings=GpuHoldings({"ann": 2})), ahead=1)
    assert [reason.word for reason in found] == ["no_such_node_yet", "held"]


def _sentences(task: Any, *free_resources: FreeResources) -> list[str]:
    return [reason.sentence for reason in wait_reasons(task, ClusterSnapshot(free_resources), ahead=0)]


def test_a_closed_machine_is_named_with_what_would_be_otherwise() -> None:
    drained = full_capacity(a_node("n1", gpus=2, admission=Admission.DRAINED))
    assert _sentences(a_task(gpus=2), drained) == ["n1 is DRAINED. If n1 took work, this task could start there now."]
    full = _taken(full_capacity(a_node("n1", gpus=2, admission=Admission.DRAINED)), gpus=[])
    assert _sentences(a_task(gpus=2), full) == [
        "n1 is DRAINED. If n1 took work, this task could start there once others have ended."
    ]
    busy = _taken(full_capacity(a_node("n3", gpus=2), order=2), gpus=[])
    small = full_capacity(a_node("n2", gpus=1, admission=Admission.DRAINED), order=1)
    assert _sentences(a_task(gpus=2), drained, small, busy) == [
        "It asks for 2 GPUs. The closest machine, n3, has no free GPU.",
        "n1 is DRAINED. If n1 took work, this task could start there now.",
    ]
    other = full_capacity(a_node("n2", gpus=2, admission=Admission.DRAINED), order=1)
    assert _sentences(a_task(gpus=2), full, other)[0] == (
        "n1 is DRAINED; n2 is DRAINED. If n2 took work, this task could start there now."
    )


def test_broken_gpus_are_named_with_their_faults() -> None:
    """G3: waiting for sick cards looked like waiting for busy ones."""
    hot, lost = Gpu("GPU-x", "A40", GiB, 0, sick=True, fault="too_hot"), Gpu("GPU-y", "A40", GiB, 1, sick=True)
    why = "2 GPUs of n1 do not work: GPU 0 (GPU-x), it is too hot; `headway nodes show n1` says why."
    assert _sentences(a_task(gpus=2), full_capacity(a_node("n1", gpus=(hot, lost)))) == [
        f"{why} If they worked, this task could start there now."
    ]
    newer = Gpu("GPU-z", "A40", GiB, 7, sick=True, fault="rusty")
    (only,) = _sentences(a_task(gpus=1), full_capacity(a_node("n1", gpus=(newer,))))
    assert only.startswith("1 GPU of n1 does not work: GPU 7 (GPU-z), it has a fault (rusty). ")


def test_a_broken_gpu_is_named_with_what_would_be_otherwise() -> None:
    cards = (Gpu("x", "A40", GiB, sick=True), Gpu("y", "A40", GiB))
    broken = full_capacity(a_node("n1", gpus=cards))
    why = "1 GPU of n1 does not work: `headway nodes show n1` says why."
    assert _sentences(a_task(gpus=2), broken) == [f"{why} If it worked, this task could start there now."]
    held = _taken(full_capacity(a_node("n1", gpus=cards)), gpus=[])
    assert _sentences(a_task(gpus=2), held) == [
        f"{why} If it worked, this task could start there once others have ended."
    ]
    assert _sentences(a_task(gpus=1), held) == [
        "It asks for 1 GPU. The closest machine, n1, has no free GPU.",
        f"{why} If it worked, this task could start there now.",
    ]
    # Another machine is only busy: both are told.
    busy = _taken(full_capacity(a_node("n2", gpus=2), order=1), gpus=[])
    assert _sentences(a_task(gpus=2), broken, busy) == [
        "It asks for 2 GPUs. The closest machine, n2, has no free GPU.",
        f"{why} If it worked, this task could start there now.",
    ]


def test_a_broken_gpu_that_a_task_still_has_would_not_be_free_if_it_worked() -> None:
    """It said "this task could start there now", while another task had that very card."""
    cards = (Gpu("x", "A40", GiB, sick=True), Gpu("y", "A40", GiB))
    kept = _taken(full_capacity(a_node("n1", gpus=cards)), held_unusable=frozenset({"x"}))
    why = "1 GPU of n1 does not work: `headway nodes show n1` says why."
    assert _sentences(a_task(gpus=2), kept) == [
        f"{why} If it worked, this task could start there once others have ended."
    ]
    full = _taken(full_capacity(a_node("n1", gpus=cards)), gpus=[], held_unusable=frozenset({"x"}))
    assert _sentences(a_task(gpus=1), full) == ["It asks for 1 GPU. The closest machine, n1, has no free GPU."]


def test_a_gpu_that_outsiders_and_a_task_have_is_not_told_as_in_the_way() -> None:
    shared = Gpu("x", "A40", GiB, busy_outside=True, note="in use by ann's python")
    room = _taken(full_capacity(a_node("n1", gpus=(shared,))), gpus=[], held_unusable=frozenset({"x"}))
    assert _sentences(a_task(gpus=1), room) == ["It asks for 1 GPU. The closest machine, n1, has no free GPU."]
