"""Jobs with a real database, and nobody behind them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import select

from headway.errors import Unavailable
from headway.ids import JobId
from headway.rpc.v1 import common_pb2, job_manager_pb2, task_manager_pb2
from headway.states import TaskEventKind
from headway.store import Database
from job_manager.hub import Hub
from job_manager.job import TaskEvent
from job_manager.jobs import Jobs, Submitted
from job_manager.ports import Shape, Verdicts
from job_manager.tables import outbox
from tests.support.clock import FakeClock


class AnyTaskManager:
    """Says yes to every shape."""

    def __init__(self) -> None:
        self.asked: list[Sequence[Shape]] = []

    async def apply(
        self, commands: Sequence[task_manager_pb2.TaskCommand], steady: tuple[str, float] | None = None
    ) -> None:
        raise Unavailable("nobody delivers here")

    async def check(self, shapes: Sequence[Shape]) -> Verdicts:
        self.asked.append(shapes)
        return Verdicts(tuple(() for _ in shapes), nodes_known=1)


class House:
    def __init__(self, db: Database, clock: FakeClock, **options: Any) -> None:
        self.db = db
        self.clock = clock
        self.hub = Hub()
        self.task_manager = AnyTaskManager()
        self.jobs = Jobs(db, clock, self.hub, self.task_manager, **options)
        self._seq = 0

    async def submit(
        self, needs: dict[str, str], request_id: str = "", *, owner: str = "ann", dry_run: bool = False
    ) -> Submitted:
        specs = [
            common_pb2.TaskSpec(name=name, timeout_s=60, needs=[common_pb2.Need(task=n) for n in of.split()])
            for name, of in needs.items()
        ]
        header = job_manager_pb2.JobHeader(
            owner=common_pb2.Account(name=owner), name="j", request_id=request_id, task_count=len(specs),
            spec_hash="h", dry_run=dry_run,
        )  # fmt: skip
        return await self.jobs.submit(header, specs)

    def event(self, job_id: str, task: str, kind: TaskEventKind, generation: int = 1) -> tuple[JobId, TaskEvent]:
        self._seq += 1
        return JobId(job_id), TaskEvent(task, generation, self._seq, kind, attempt=1, at=self.clock.now())

    async def commands(self, job_id: str = "") -> list[tuple[str, str, int]]:
        """What waits for TaskManager, of one job or all: kind, task, generation."""
        rows = await self.db.read(lambda conn: conn.execute(select(outbox.table).order_by(outbox.table.c.seq)).all())
        found = []
        for row in rows:
            command = task_manager_pb2.TaskCommand.FromString(row.payload)
            kind = command.WhichOneof("command")
            assert kind is not None
            inner = getattr(command, kind)
            if job_id in ("", inner.task.job_id):
                found.append((kind, inner.task.name, inner.generation))
        return found


@asynccontextmanager
async def a_house(folder: Path, clock: FakeClock, **options: Any) -> AsyncIterator[House]:
    db = await Database.open(str(folder / "jobs.db"), room="job_manager")
    house = House(db, clock, **options)
    try:
        await house.jobs.settle()
        yield house
    finally:
        await house.jobs.close()
        await db.close()
