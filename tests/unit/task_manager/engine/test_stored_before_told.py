"""Nothing leaves TaskManager before it is on disk; after a commit in doubt the disk decides."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from headway.errors import StoreUnavailable
from headway.ids import AttemptId
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import TaskManagerRig, a_node, a_task, a_task_manager, tid

FIRST = AttemptId(tid("t"), 1)
Write = Callable[[Callable[[Connection], Any]], Any]


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    async with a_task_manager(tmp_path, clock) as made:
        yield made


async def test_no_launch_goes_out_while_its_placement_is_being_stored(
    rig: TaskManagerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.nodes(a_node("n1"))
    real: Write = rig.db.write
    may_commit = asyncio.Event()

    async def slow(work: Callable[[Connection], Any]) -> Any:
        await may_commit.wait()
        return await real(work)

    monkeypatch.setattr(rig.db, "write", slow)
    task = asyncio.create_task(rig.enqueue(a_task()))
    for _ in range(20):
        await asyncio.sleep(0.001)
        await rig.clock.settle()
    assert not task.done()
    assert not rig.workers.launched
    may_commit.set()
    await task
    assert rig.workers.launched == [FIRST]


async def test_a_commit_whose_answer_was_lost_is_found_on_disk(
    rig: TaskManagerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory took the turn back, while the disk has it: the task would have been unknown until a restart."""
    await rig.nodes(a_node("n1"))
    real: Write = rig.db.write

    async def breaks_after_the_commit(work: Callable[[Connection], Any]) -> Any:
        await real(work)
        raise StoreUnavailable("the connection broke")

    monkeypatch.setattr(rig.db, "write", breaks_after_the_commit)
    with pytest.raises(StoreUnavailable):
        await rig.enqueue(a_task())
    monkeypatch.setattr(rig.db, "write", real)
    await rig.beat("n1", live=())
    await rig.settle()
    assert rig.running() == [FIRST]
