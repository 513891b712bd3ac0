"""What the logs of ended jobs take: asked of TaskManager once for each end, and kept."""

from __future__ import annotations

from collections.abc import Sequence

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


async def measure_some(db: Database, task_manager: TaskManagerPort) -> bool:
    """Asks for some ended jobs that are not measured; whether there were any.

    Raises:
        HeadwayError: as for ``measure``.
    """
    found = await db.read(lambda conn: removal_store.unmeasured(conn, MOST_AT_ONCE))
    return bool(await measure(db, task_manager, found))
