"""Boxes that are in use, and tickets that can't be withdrawn."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.unit.worker.runtime.test_boxed import ATTEMPT, an_order
from worker import box as boxes
from worker.box import Box
from worker.runtime.boxed import BoxedRuntime


@pytest.fixture
def runtime(tmp_path: Path) -> BoxedRuntime:
    launcher = tmp_path / "launcher"
    launcher.write_bytes(b"\x7fELF")
    return BoxedRuntime(tmp_path / "attempts", launcher)


async def test_a_box_whose_launcher_lives_is_not_laid_out_anew(runtime: BoxedRuntime) -> None:
    box = await runtime.lay_out(an_order(1))
    descriptor = os.open(box.lock, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    box.spec.unlink()
    await runtime.lay_out(an_order(999))
    os.close(descriptor)
    assert boxes.read_lease(box) == 1
    assert not box.spec.exists(), "nothing of it is written"


async def test_a_box_whose_ticket_was_taken_is_not_laid_out_anew(runtime: BoxedRuntime) -> None:
    box = await runtime.lay_out(an_order(1))
    box.ticket.rename(box.ticket_taken)
    box.spec.unlink()
    await runtime.lay_out(an_order(999))
    assert boxes.read_lease(box) == 1
    assert not box.spec.exists(), "nothing of it is written"


async def test_a_ticket_that_could_not_be_withdrawn_was_not(
    runtime: BoxedRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    await runtime.lay_out(an_order(1))

    def fails(box: Box) -> bool:
        raise OSError(5, "the disk does not answer")

    monkeypatch.setattr(boxes, "withdraw", fails)
    assert not await runtime.withdraw(ATTEMPT)


async def test_a_start_that_is_tried_again_keeps_the_lease_that_was_renewed(runtime: BoxedRuntime) -> None:
    """An engine was silent, and heartbeats went on. The first lease was written over, and the task lost with it."""
    box = await runtime.lay_out(an_order(1))
    await runtime.renew({ATTEMPT: 5})
    await runtime.lay_out(an_order(1))
    assert boxes.read_lease(box) == 5


@pytest.mark.parametrize("step", ["create", "write_ticket"])
async def test_a_renewal_while_the_box_is_made_counts(
    runtime: BoxedRuntime, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Its lease said `none` for the launcher, while TaskManager was told that it has a limit."""
    begun, go_on = threading.Event(), threading.Event()
    real = getattr(boxes, step)

    def slow(*arguments: Any, **named: Any) -> Any:
        begun.set()
        assert go_on.wait(10)
        return real(*arguments, **named)

    monkeypatch.setattr(boxes, step, slow)
    laying_out = asyncio.create_task(runtime.lay_out(an_order(None)))
    await asyncio.to_thread(begun.wait, 10)
    await runtime.renew({ATTEMPT: 7})
    go_on.set()
    assert boxes.read_lease(await laying_out) == 7


async def test_a_new_box_that_could_not_be_finished_is_gone_again(
    runtime: BoxedRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk: without a ticket the box would prove nothing, and the end would not tell of the disk."""

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(boxes, "write_lease", full)
    with pytest.raises(OSError, match="No space left"):
        await runtime.lay_out(an_order(1))
    assert await runtime.standing(ATTEMPT) is boxes.BoxStanding.UNUSED
    assert await runtime.withdraw(ATTEMPT)


async def test_a_box_of_an_earlier_try_stays_where_the_next_one_fails(
    runtime: BoxedRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A launcher of the earlier try may read it at this moment."""
    box = await runtime.lay_out(an_order(1))

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(boxes, "write_spec", full)
    with pytest.raises(OSError, match="No space left"):
        await runtime.lay_out(an_order(1))
    assert box.ticket.exists()
