"""Workers that come back: restarted, rebooted, rebuilt, renamed, moved, or copied."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.errors import Conflict, Fenced, NotFound
from headway.rpc.v1 import resource_manager_pb2 as pb
from resource_manager.identity import hardware_change
from tests.support.clock import FakeClock
from tests.support.waiting import eventually

from .test_nodes import Rig, a_rig, a_status


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path, clock) as rig:
        yield rig


async def come(
    rig: Rig,
    name: str = "a",
    *,
    at: str = "10.0.0.1:7004",
    start: int = 1,
    folder: str = "folder-1",
    boot: str = "boot-1",
    gpus: tuple[str, ...] = ("GPU-1",),
    answers: bool = True,
) -> None:
    """A Worker registers; one that is taken answers polls at its address."""
    status = a_status(name, start)
    status.worker_uuid, status.boot_id = folder, boot
    del status.capacity.gpus[:]
    status.capacity.gpus.extend(pb.Gpu(uuid=uuid, model="A100") for uuid in gpus)
    await rig.nodes.register(pb.RegisterNodeRequest(node_id=name, incarnation=start, address=at, status=status))
    if answers:
        rig.workers.statuses[at] = status


def events(rig: Rig, name: str = "a") -> list[str]:
    return [event.word for event in rig.node(name).events]


async def test_a_restart_and_a_reboot_are_taken(rig: Rig) -> None:
    await come(rig)
    await come(rig, start=2)
    assert (rig.node("a").incarnation, events(rig)) == (2, [])
    await come(rig, start=3, boot="boot-2")
    assert (rig.node("a").incarnation, events(rig)) == (3, ["rebooted"])


async def test_a_copied_folder_is_refused_with_both_addresses_and_the_first_is_untouched(rig: Rig) -> None:
    await come(rig)
    with pytest.raises(Fenced) as refused:
        await come(rig, at="10.0.0.2:7004", start=9, boot="boot-of-the-clone", answers=False)
    for words in ("10.0.0.1:7004", "10.0.0.2:7004", "was copied", "worker.folder"):
        assert words in refused.value.message
    node = rig.node("a")
    assert (node.address, node.incarnation, node.health) == ("10.0.0.1:7004", 1, "READY")
    assert events(rig) == ["refused"]
    await rig.clock.advance(30)
    assert rig.node("a").health == "READY"


async def test_a_copied_folder_under_another_name_is_refused_too(rig: Rig) -> None:
    await come(rig)
    with pytest.raises(Fenced, match="was copied"):
        await come(rig, "b", at="10.0.0.2:7004", start=9, answers=False)
    assert rig.nodes.ids() == ["a"]


async def test_a_machine_that_got_another_address_is_taken_since_nobody_answers_at_the_old_one(rig: Rig) -> None:
    await come(rig)
    rig.workers.away.add("10.0.0.1:7004")
    await come(rig, at="10.0.0.7:7004", start=2, boot="boot-2")
    assert (rig.node("a").address, events(rig)) == ("10.0.0.7:7004", ["moved", "rebooted"])


async def test_an_address_that_another_node_has_by_now_proves_nothing(rig: Rig) -> None:
    await come(rig)
    rig.workers.statuses["10.0.0.1:7004"] = a_status("z", 1)
    await come(rig, at="10.0.0.7:7004", start=2)
    assert rig.node("a").address == "10.0.0.7:7004"


async def test_a_machine_that_was_set_up_anew_waits_until_the_old_one_is_down(rig: Rig) -> None:
    await come(rig)
    with pytest.raises(Conflict, match="headway nodes replace a"):
        await come(rig, start=5, folder="folder-2", answers=False)
    # What answers polls there is the new one. It must not keep the old one alive.
    rig.workers.statuses["10.0.0.1:7004"] = a_status("a", 5)
    rig.workers.statuses["10.0.0.1:7004"].worker_uuid = "folder-2"
    await rig.clock.advance(100)
    assert (rig.node("a").health, rig.node("a").incarnation) == ("DOWN", 1)
    await come(rig, start=5, folder="folder-2")
    assert (rig.node("a").health, rig.node("a").incarnation, events(rig)[-1]) == ("READY", 5, "replaced")


async def test_an_admin_lets_a_machine_be_replaced_at_once_and_only_once(rig: Rig) -> None:
    await come(rig)
    with pytest.raises(NotFound):
        await rig.nodes.allow_replacement("x", "root")
    await rig.nodes.allow_replacement("a", "root")
    await come(rig, start=5, folder="folder-2")
    assert events(rig) == ["replaced"]
    with pytest.raises(Conflict):
        await come(rig, start=6, folder="folder-3", answers=False)


async def test_two_machines_of_one_name_are_told_apart_though_replacing_was_allowed(rig: Rig) -> None:
    await come(rig)
    await rig.nodes.allow_replacement("a", "root")
    with pytest.raises(Fenced, match=r"another `worker\.node_id`"):
        await come(rig, at="10.0.0.2:7004", start=5, folder="folder-2", answers=False)
    assert rig.node("a").incarnation == 1


async def test_a_replacement_whose_clock_is_behind_is_refused(rig: Rig) -> None:
    await come(rig, start=50)
    await rig.nodes.allow_replacement("a", "root")
    with pytest.raises(Fenced, match="clock"):
        await come(rig, start=5, folder="folder-2", answers=False)


async def test_a_renamed_machine_takes_its_new_name_and_leaves_no_ghost(tmp_path: Path, clock: FakeClock) -> None:
    async with a_rig(tmp_path, clock) as rig:
        await come(rig)
        await come(rig, "b", start=2)
        assert (rig.nodes.ids(), events(rig, "b")) == (["b"], ["renamed"])
    async with a_rig(tmp_path, clock) as rig:
        assert rig.nodes.ids() == ["b"]


async def test_a_renamed_machine_at_another_address_waits_until_the_old_name_is_down(rig: Rig) -> None:
    await come(rig)
    rig.workers.away.add("10.0.0.1:7004")
    with pytest.raises(Conflict, match="not DOWN yet"):
        await come(rig, "b", at="10.0.0.7:7004", start=2, answers=False)
    assert rig.nodes.ids() == ["a"]
    await rig.clock.advance(100)
    await come(rig, "b", at="10.0.0.7:7004", start=2)
    assert rig.nodes.ids() == ["b"]


async def test_other_cards_than_before_are_told(rig: Rig) -> None:
    await come(rig, gpus=("GPU-1", "GPU-2"))
    await come(rig, start=2, gpus=("GPU-2", "GPU-9"))
    (event,) = rig.node("a").events
    assert event.word == "hardware"
    assert "1 GPU gone: GPU-1 (A100)" in event.sentence
    assert "1 GPU new: GPU-9 (A100)" in event.sentence
    await come(rig, start=3, gpus=("GPU-2", "GPU-9"))
    assert events(rig) == ["hardware"]


def test_a_card_that_vanished_counts_as_gone_and_little_memory_does_not() -> None:
    had = pb.Capacity(cpu_centi=800, memory_bytes=100 << 30, gpus=[pb.Gpu(uuid="G", model="A100")])
    has = pb.Capacity(cpu_centi=800, memory_bytes=(100 << 30) - 4096, gpus=[pb.Gpu(uuid="G", fault="vanished")])
    assert hardware_change(had, has) == "It came back changed. 1 GPU gone: G (A100)."
    assert hardware_change(had, had) == ""
    has = pb.Capacity(cpu_centi=400, memory_bytes=50 << 30, gpus=had.gpus)
    assert "CPUs 8 before, 4 now" in hardware_change(had, has)


async def test_while_the_old_address_is_asked_others_register(rig: Rig) -> None:
    await come(rig)
    rig.workers.hanging["10.0.0.1:7004"] = held = asyncio.Event()

    moved = asyncio.create_task(come(rig, at="10.0.0.7:7004", start=2, answers=False))
    await eventually(lambda: rig.workers.open >= 1)
    await come(rig, "b", at="10.0.0.8:7004", folder="folder-b")
    assert rig.nodes.ids() == ["a", "b"]
    held.set()
    with pytest.raises(Fenced):
        await moved
