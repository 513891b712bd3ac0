"""What the logs of ended jobs take: asked of TaskManager once for each end, and kept."""

from __future__ import annotations

from collections.abc import Sequence

from headway.clock import Clock
from headway.model.retention import EndedJob
from headway.store import Database

from .. import removal_store
from ..ports import TaskManagerPort

MOST_AT_ONCE = 200


async def measure(db: Database, task_manager: TaskManagerPort, job_ids: Sequence[str]) -> dict[str, int]:
    """Asks for these jobs, and keeps the answer.

    Raises:
        HeadwayError: TaskManager does not answer, or the database.
    """
    if not job_ids:
        return {}
    sizes = dict(zip(job_ids, await task_manager.measure_logs(job_ids), strict=True))
    await db.write(lambda conn: removal_store.measured(conn, sizes))
    return sizes


async def measure_all(db: Database, task_manager: TaskManagerPort, clock: Clock, pause_s: float) -> None:
    """Asks for all ended jobs that are not measured, some at a time.

    Raises:
        HeadwayError: as for ``measure``.
    """
    place = removal_store.FIRST
    while found := await _unmeasured(db, place):
        place = found[-1].ages_from, found[-1].id
        await measure(db, task_manager, [job.id for job in found])
        await clock.sleep(pause_s)


async def _unmeasured(db: Database, place: removal_store.Place) -> list[EndedJob]:
    return await db.read(lambda conn: removal_store.unmeasured(conn, place, MOST_AT_ONCE))
