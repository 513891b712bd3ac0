"""Which cards are shared, and when no shares of them are given out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from worker.machine.gpu_sharing import GpuSharing, shared_cards
from worker.machine.outside_use import OutsideUse
from worker.ports import GpuProcess, GpuReading

MIB = 1 << 20
CARDS = tuple(GpuReading(uuid, "A100", 40 << 30, i) for i, uuid in enumerate(("GPU-3f1", "GPU-3f2", "GPU-a01")))
SLICE = GpuReading("MIG-1", "A100 MIG 1g.5gb", 5 << 30, 2, parent_uuid="GPU-a01")


def test_cards_are_named_by_unique_beginnings_of_their_uuids() -> None:
    def found(*names: str) -> tuple[set[str], tuple[str, ...]]:
        cards = shared_cards(names, (*CARDS, SLICE))
        return set(cards.uuids), cards.problems

    assert found("GPU-3f1", "gpu-A") == ({"GPU-3f1", "GPU-a01"}, ())
    assert found("all") == ({"GPU-3f1", "GPU-3f2", "GPU-a01"}, ())
    assert found("GPU-3f") == (set(), ("2 of its GPUs begin with GPU-3f",))
    assert found("GPU-9", "GPU-a") == ({"GPU-a01"}, ("it has no GPU GPU-9",))
    assert found("MIG-1") == (set(), ("it has no GPU MIG-1",))
    assert found() == (set(), ())


def test_a_name_that_fits_no_card_is_told_and_stops_nothing() -> None:
    told: dict[str, str] = {}
    sharing = GpuSharing(("GPU-3f1", "GPU-9"), "gpu-1", told.__setitem__)
    assert [gpu.shared for gpu in sharing.mark(CARDS)] == [True, False, False]
    assert not any(gpu.sick for gpu in sharing.mark(CARDS))
    assert told == {
        "gpu_shared_unknown": "`worker.gpu_shared` of gpu-1 names GPUs that it does not have: it has no GPU GPU-9. "
        "`headway nodes show` lists its UUIDs.",
        "gpu_shares_off": "",
    }
    # Without its driver a machine has no cards that anybody could miss.
    sharing.mark(())
    assert told["gpu_shared_unknown"] == ""
    assert GpuSharing((), "gpu-1", told.__setitem__).mark(CARDS) == CARDS


def test_a_card_whose_driver_tells_no_memory_of_processes_gives_out_no_shares() -> None:
    """Nobody could see who takes more than a share."""
    told: dict[str, str] = {}
    sharing = GpuSharing(("GPU-3f1", "GPU-3f2"), "gpu-1", told.__setitem__)
    mute = replace(CARDS[0], processes=(GpuProcess(7, memory_used_bytes=None),))
    silent, other = replace(CARDS[1], tells_processes=False), replace(CARDS[2], tells_processes=False)
    marked = sharing.mark((mute, silent, other))
    assert [(gpu.shared, gpu.sick) for gpu in marked] == [(True, True), (True, True), (False, False)]
    assert marked[0].note == "no shares of it are given out: its driver tells no memory of processes"
    assert told["gpu_shares_off"].startswith("gpu-1 gives out no shares of GPU 0, GPU 1: its driver does not tell")
    assert not any(gpu.sick for gpu in sharing.mark(CARDS))
    assert told["gpu_shares_off"] == ""


def test_where_mps_is_wanted_its_daemon_has_to_run(tmp_path: Path) -> None:
    told: dict[str, str] = {}
    sharing = GpuSharing(("GPU-3f1",), "gpu-1", told.__setitem__, mps_pipe=tmp_path)
    assert [gpu.sick for gpu in sharing.mark(CARDS)] == [True, False, False]
    assert "the control daemon of NVIDIA MPS does not run there" in told["gpu_shares_off"]
    (tmp_path / "control").touch()
    assert not any(gpu.sick for gpu in sharing.mark(CARDS))
    assert told["gpu_shares_off"] == ""


def test_what_others_hold_of_a_shared_card_makes_it_busy_for_new_shares() -> None:
    card = replace(CARDS[0], shared=True, memory_used_bytes=20 << 30)
    anns = GpuProcess(4711, "ann", "python train.py", 3072 * MIB)
    use = OutsideUse(512 * MIB, free_for_s=10)
    # Most of its memory is that of tasks with shares.
    assert not use.judge(card, [], ours=True, now=0).busy_outside
    assert use.judge(card, [anns], ours=True, now=1).busy_outside
    assert use.judge(card, [], ours=True, now=10).busy_outside
    assert not use.judge(card, [], ours=True, now=11).busy_outside
