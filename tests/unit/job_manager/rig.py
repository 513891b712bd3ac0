"""JobManager with a real database, and nobody behind them."""

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
from job_manager.hub import JobEventHub
from job_manager.job import TaskReport
from job_manager.job_writer import JobWriter, SubmitResult
from job_manager.ports import ShapeVerdicts, TaskShape
from job_manager.removal.prune import Pruning
from job_manager.tables import outbox
from tests.support.clock import FakeClock


class AnyTaskManager:
    """Says yes to every shape."""

    def __init__(self) -> None:
        self.asked: list[Sequence[TaskShape]] = []
        self.away = False
        self.log_bytes: dict[str, int] = {}
        self.removed: list[list[str]] = []  # asked for, call by call
        self.waits: set[str] = set()  # jobs that can't be removed yet

    async def apply(
        self, commands: Sequence[task_manager_pb2.TaskCommand], steady: tuple[str, float] | None = None
    ) -> None:
        raise Unavailable("nobody delivers here")

    async def check(self, shapes: Sequence[TaskShape]) -> ShapeVerdicts:
        self.asked.append(shapes)
        return ShapeVerdicts(tuple(() for _ in shapes), nodes_known=1)

    async def measure_logs(self, job_ids: Sequence[str]) -> Sequence[int]:
        self._answers()
        return [self.log_bytes.get(job_id, 0) for job_id in job_ids]

    async def remove(self, job_ids: Sequence[str]) -> task_manager_pb2.RemoveJobsReply:
        self._answers()
        self.removed.append(list(job_ids))
        gone = [job_id for job_id in job_ids if job_id not in self.waits]
        return task_manager_pb2.RemoveJobsReply(gone=gone, waits=dict.fromkeys(self.waits, "not yet"))

    def _answers(self) -> None:
        if self.away:
            raise Unavailable("gone fishing")


class JobManagerRig:
    def __init__(self, db: Database, clock: FakeClock, **options: Any) -> None:
        self.db = db
        self.clock = clock
        self.hub = JobEventHub()
        self.task_manager = AnyTaskManager()
        self.jobs = JobWriter(db, clock, self.hub, self.task_manager, **options)
        self.pruning = Pruning(db, self.jobs, self.task_manager)
        self._seq = 0

    async def submit(
        self, needs: dict[str, str], request_id: str = "", *, owner: str = "ann", dry_run: bool = False
    ) -> SubmitResult:
        specs = [
            common_pb2.TaskSpec(name=name, timeout_s=60, needs=[common_pb2.Need(task=n) for n in of.split()])
            for name, of in needs.items()
        ]
        header = job_manager_pb2.JobHeader(
            owner=common_pb2.Account(name=owner), name="j", request_id=request_id, task_count=len(specs),
            spec_hash="h", dry_run=dry_run,
        )  # fmt: skip
        return await self.jobs.submit(header, specs)

    def event(self, job_id: str, task: str, kind: TaskEventKind, generation: int = 1) -> tuple[JobId, TaskReport]:
        self._seq += 1
        return JobId(job_id), TaskReport(task, generation, self._seq, kind, attempt=1, at=self.clock.now())

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
async def a_rig(folder: Path, clock: FakeClock, *, url: str = "", **options: Any) -> AsyncIterator[JobManagerRig]:
    db = await Database.open(url or str(folder / "jobs.db"), room="job_manager")
    rig = JobManagerRig(db, clock, **options)
    try:
        await rig.jobs.recheck_waiting()
        yield rig
    finally:
        await rig.jobs.close()
        await db.close()
