"""One executor with everything around it, for tests of an attempt's life."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headway.ids import AttemptId
from headway.rpc.v1 import task_manager_pb2 as tm
from tests.support.clock import FakeClock
from tests.unit.worker.builders import a_launch, an_attempt
from tests.unit.worker.fakes import NS, Rig, a_rig
from worker.attempt.leases import Lease
from worker.attempt.task_executor import TaskExecutor
from worker.box import BoxEnd, EndRecord
from worker.model import AttemptRecord, AttemptStage, AttemptTimes

DONE = EndRecord(BoxEnd.EXITED, exit_code=0, run_ns=5 * NS, stdout_bytes=3)


class One:
    """One executor and its world."""

    def __init__(self, rig: Rig, attempt: AttemptId) -> None:
        self.rig = rig
        self.attempt = attempt
        self.record = AttemptRecord(
            attempt,
            AttemptStage.LIVE,
            b"launch",
            AttemptTimes(accepted_at=rig.clock.now()),
            arrived_s=rig.clock.monotonic(),
            arrived_boot_id=rig.context.boot_id,
        )
        self.executor: TaskExecutor
        self.life: asyncio.Task[None]

    def begin(self, *, adopted: bool = False, **launch: Any) -> One:
        self.executor = TaskExecutor(self.record, a_launch(self.attempt, **launch), self.rig.context, adopted=adopted)
        self.rig.runtime.on_change = lambda attempt: self.executor.nudge()
        self.life = asyncio.get_running_loop().create_task(self.executor.run())
        return self

    async def running(self) -> None:
        """Until the user's process runs."""
        await self.settle()
        self.rig.runtime.run(self.attempt)
        await self.rig.clock.advance(0.1)

    async def settle(self) -> None:
        await self.rig.clock.settle()

    async def end(self) -> tm.AttemptReport:
        """The report of its end, letting time pass by little."""
        for _ in range(200):
            await self.rig.clock.advance(0.05)
            await asyncio.sleep(0.001)  # copies work in threads
            found = self.rig.told.end_of(self.attempt)
            if found is not None:
                return found
        raise AssertionError(f"no end; told: {self.rig.told.kinds(self.attempt)}")


@pytest.fixture
async def one(clock: FakeClock, tmp_path: Path) -> AsyncIterator[One]:
    def acked(attempts: object) -> None:
        one.executor.acked()

    rig = a_rig(clock, tmp_path, on_acked=acked)
    one = One(rig, an_attempt())
    yield one
    one.life.cancel()
    await asyncio.gather(one.life, return_exceptions=True)
    await rig.close()


def answer(one: One, lease: Lease) -> None:
    """A heartbeat was answered, as the controller passes it on."""
    one.rig.context.lease = lease
    one.executor.lease_answered()
