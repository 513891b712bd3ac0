"""Nodes that are emptied by a deadline, and open by themselves again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.errors import InvalidInput
from headway.rpc.v1 import resource_manager_pb2 as pb
from resource_manager.drain import DrainWish
from resource_manager.node_admission import AdmissionEvent
from tests.support.clock import FakeClock
from tests.support.waiting import eventually

from .test_nodes import Rig, a_rig, a_status


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path, clock) as rig:
        yield rig


async def drain(rig: Rig, by: str = "anna", note: str = "", **wish: float | bool) -> pb.SetAdmissionReply:
    return await rig.nodes.set_admission("a", AdmissionEvent.DRAIN, note, by, DrainWish(**wish))  # type: ignore[arg-type]


async def say(rig: Rig, event: AdmissionEvent) -> pb.SetAdmissionReply:
    return await rig.nodes.set_admission("a", event, "", "bob")


async def register(rig: Rig, incarnation: int, boot_id: str) -> None:
    status = a_status("a", incarnation)
    status.boot_id, status.worker_uuid = boot_id, "folder-of-a"
    rig.workers.statuses["a:7004"] = status
    await rig.nodes.register(
        pb.RegisterNodeRequest(node_id="a", incarnation=incarnation, address="a:7004", status=status)
    )


def events(rig: Rig) -> list[str]:
    return [event.word for event in rig.node("a").events]


async def test_a_deadline_is_kept_over_a_restart_and_goes_with_the_drain(tmp_path: Path, clock: FakeClock) -> None:
    async with a_rig(tmp_path, clock) as rig:
        await rig.register("a", live=3)
        until = clock.now() + 7200
        await drain(rig, note="new disk", until_at=until)
    async with a_rig(tmp_path, clock) as rig:
        kept = rig.node("a").drain
        assert (kept.until_at, kept.by, kept.attempts_at_start) == (until, "anna", 3)
        assert events(rig) == ["drain"]
        await say(rig, AdmissionEvent.UNCORDON)
        assert not rig.node("a").HasField("drain")
        assert events(rig) == ["drain", "opened"]


async def test_a_second_drain_keeps_what_it_does_not_name_and_is_told_what_it_changed(rig: Rig) -> None:
    await rig.register("a", live=3)
    until = rig.clock.now() + 7200
    assert (await drain(rig, note="new disk", until_at=until, return_when_back=True)).changed == ""
    again = await drain(rig, by="bob")
    assert (again.node.drain.until_at, again.node.drain.return_when_back, again.changed) == (until, True, "")
    sooner = await drain(rig, by="bob", until_at=until - 3600)
    assert sooner.node.drain.until_at == until - 3600
    assert "DRAINING" in sooner.changed
    assert "bob" in sooner.changed
    assert "(new disk)" in sooner.changed
    without = await drain(rig, by="carl", until_at=0.0)
    assert without.node.drain.until_at == 0
    opened = await say(rig, AdmissionEvent.UNCORDON)
    assert "carl" in opened.changed
    assert (await say(rig, AdmissionEvent.UNCORDON)).changed == ""


async def test_watchers_hear_of_a_new_deadline(rig: Rig) -> None:
    await rig.register("a")
    await drain(rig)
    with rig.hub.watch(rig.nodes.view()) as watch:
        list(watch.first())
        until = rig.clock.now() + 60
        await drain(rig, until_at=until)
        (message,) = await watch.next()
        assert message.nodes[0].drain.until_at == until


@pytest.mark.parametrize(
    "wish",
    [
        {"until_at": -5.0},
        {"until_at": 1.0},
        {"until_at": float("nan")},
        {"until_at": float("inf")},
        {"return_at": 1.0},
        {"until_at": 3600.0, "return_at": 1800.0},
    ],
)
async def test_a_time_that_can_not_be_is_refused_before_anything_changes(rig: Rig, wish: dict[str, float]) -> None:
    await rig.register("a")
    now = rig.clock.now()
    ahead = {name: at + now if at > 1 else at for name, at in wish.items()}
    with pytest.raises(InvalidInput):
        await drain(rig, **ahead)
    assert rig.node("a").admission == "OPEN"
    assert not rig.node("a").events


async def test_a_later_return_before_an_earlier_deadline_is_refused(rig: Rig) -> None:
    await rig.register("a")
    now = rig.clock.now()
    await drain(rig, until_at=now + 7200)
    with pytest.raises(InvalidInput, match="return_at"):
        await drain(rig, return_at=now + 3600)
    assert rig.node("a").drain.return_at == 0


async def test_a_cordon_has_no_deadline(rig: Rig) -> None:
    await rig.register("a")
    wish = DrainWish(until_at=rig.clock.now() + 60)
    with pytest.raises(InvalidInput):
        await rig.nodes.set_admission("a", AdmissionEvent.CORDON, "", "root", wish)
    assert rig.node("a").admission == "OPEN"


async def test_it_opens_once_its_machine_was_restarted_and_not_when_only_its_worker_was(
    tmp_path: Path, clock: FakeClock
) -> None:
    async with a_rig(tmp_path, clock) as rig:
        await register(rig, 1, "boot-1")
        await drain(rig, note="kernel", return_when_back=True)
        await register(rig, 2, "boot-1")
        assert rig.node("a").admission != "OPEN"
    async with a_rig(tmp_path, clock) as rig:  # ResourceManager was restarted meanwhile
        await register(rig, 3, "boot-2")
        node = rig.node("a")
        assert (node.admission, node.note, node.HasField("drain")) == ("OPEN", "", False)
        assert events(rig) == ["drain", "rebooted", "returned"]


async def test_without_such_a_word_it_stays_closed_with_its_note(rig: Rig) -> None:
    await register(rig, 1, "boot-1")
    await drain(rig, note="kernel")
    await register(rig, 2, "boot-2")
    assert (rig.node("a").admission, rig.node("a").note) == ("DRAINING", "kernel")


async def test_it_opens_at_its_time_or_once_it_is_back_after_it(rig: Rig) -> None:
    await rig.register("a")
    await drain(rig, note="fans", return_at=rig.clock.now() + 60)
    await rig.clock.advance(30)
    await eventually(lambda: rig.node("a").admission == "DRAINED")
    await rig.clock.advance(35)
    await eventually(lambda: rig.node("a").admission == "OPEN")
    assert events(rig)[-1] == "returned"
    await drain(rig, return_at=rig.clock.now() + 200)
    await rig.clock.advance(15)
    await eventually(lambda: rig.node("a").admission == "DRAINED")
    rig.workers.away.add("a:7004")
    await rig.clock.advance(250)
    assert (rig.node("a").health, rig.node("a").admission) == ("DOWN", "DRAINED")
    rig.workers.away.clear()
    await rig.clock.advance(30)
    await eventually(lambda: rig.node("a").admission == "OPEN")
