"""When a card counts as in use by people outside Headway."""

from __future__ import annotations

from dataclasses import replace

from worker.machine.gpu_processes import roundly, whose
from worker.machine.outside_use import OutsideUse
from worker.ports import GpuProcess, GpuReading

MIB = 1 << 20
CARD = GpuReading("GPU-1", "A100", 40 << 30, 0, memory_used_bytes=0)
ANNS = GpuProcess(4711, "ann", "python train.py", 3072 * MIB)


def test_a_card_is_given_out_only_when_it_was_free_for_the_set_time() -> None:
    use = OutsideUse(512 * MIB, free_for_s=10)
    busy = use.judge(replace(CARD, memory_used_bytes=3072 * MIB), [ANNS], ours=False, now=0)
    assert busy.busy_outside
    assert busy.note == "in use by ann's python train.py, 3GiB"
    assert busy.processes == (ANNS,)
    # Between two runs of a program that somebody tries out.
    assert use.judge(CARD, [], ours=False, now=9).busy_outside
    assert not use.judge(CARD, [], ours=False, now=10).busy_outside
    assert not use.judge(CARD, [], ours=False, now=11).busy_outside


def test_a_small_use_counts_as_none_and_is_shown() -> None:
    """GPU-15: a card counted as free only when nothing at all ran on it."""
    desktop = GpuProcess(900, "gdm", "Xorg", 300 * MIB)
    seen = OutsideUse(512 * MIB, 10).judge(replace(CARD, memory_used_bytes=300 * MIB), [desktop], ours=False, now=0)
    assert not seen.busy_outside
    assert seen.note == ""
    assert seen.processes == (desktop,)


def test_a_process_of_others_on_a_booked_card_is_shown_and_has_no_effect() -> None:
    use = OutsideUse(512 * MIB, 10)
    seen = use.judge(replace(CARD, memory_used_bytes=3072 * MIB), [ANNS], ours=True, now=0)
    assert not seen.busy_outside
    assert seen.processes == (ANNS,)
    # The task ended, and what it held is no use from outside.
    assert not use.judge(CARD, [], ours=False, now=1).busy_outside


def test_memory_of_nobody_is_named_all_the_same() -> None:
    """GPU-12: an unkillable process of an earlier task still held memory."""
    seen = OutsideUse(512 * MIB, 10).judge(replace(CARD, memory_used_bytes=20 << 30), [], ours=False, now=0)
    assert seen.note == "in use by a process outside Headway, 20GiB"


def test_whose_it_is() -> None:
    assert whose([ANNS, replace(ANNS, pid=1, memory_used_bytes=5)]).endswith("3GiB, and 1 more process")
    assert whose([GpuProcess(12, "", "", None)], 700 * MIB) == "process 12, 700MiB"
    assert [roundly(size * MIB) for size in (7, 305, 5120)] == ["7MiB", "300MiB", "5GiB"]
