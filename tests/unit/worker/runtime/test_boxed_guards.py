"""Boxes that are in use, and tickets that can't be withdrawn."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

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
    box = (await runtime.lay_out(an_order(1))).box
    descriptor = os.open(box.lock, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    await runtime.lay_out(an_order(999))
    os.close(descriptor)
    assert boxes.read_lease(box) == 1


async def test_a_box_whose_ticket_was_taken_is_not_laid_out_anew(runtime: BoxedRuntime) -> None:
    box = (await runtime.lay_out(an_order(1))).box
    box.ticket.rename(box.ticket_taken)
    await runtime.lay_out(an_order(999))
    assert boxes.read_lease(box) == 1


async def test_a_ticket_that_could_not_be_withdrawn_was_not(
    runtime: BoxedRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    await runtime.lay_out(an_order(1))

    def fails(box: Box) -> bool:
        raise OSError(5, "the disk does not answer")

    monkeypatch.setattr(boxes, "withdraw", fails)
    assert not await runtime.withdraw(ATTEMPT)


async def test_the_spec_of_a_container_that_may_exist_stays(runtime: BoxedRuntime) -> None:
    """Its engine was given the digest; a retry came with another place and another first deadline."""
    first = await runtime.lay_out(an_order(1))
    second = await runtime.lay_out(an_order(2))
    assert (second.spec, second.digest) == (first.spec, first.digest)
    assert boxes.read_lease(second.box) == 2, "but the lease moves on"
