"""Forgets jobs that JobManager removes, in small steps between turns.

JobManager asks only about jobs that have ended, when no command about them is on its way any more. Two things can still
be in the way. A task may not have ended here, and is then cancelled by the comparison of both. And an attempt that was
declared lost may still run. Its row says so after a restart (``confirmation``), so it stays until its node has told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sqlalchemy import Connection

from headway.clock import Clock
from headway.errors import HeadwayError, InvalidInput
from headway.logs import get_logger
from headway.rpc.v1 import task_manager_pb2 as pb
from headway.store import Database

from ..store import removal_store
from .engine import Engine

log = get_logger(__name__)

MOST_JOBS = 500
_STEPS_A_CALL = 10
_PAUSE_S = 0.01
_AGAIN_S = 60.0


class JobRemoval:
    """See the module."""

    def __init__(self, engine: Engine, db: Database, clock: Clock) -> None:
        self._engine = engine
        self._db = db
        self._clock = clock
        self._removed = asyncio.Event()

    async def remove(self, job_ids: Sequence[str]) -> pb.RemoveJobsReply:
        """Removes some of what is known of these jobs; see RemoveJobs.

        Raises:
            InvalidInput: too many jobs at once.
        """
        _check(job_ids)
        async with self._engine.consistent_state() as state:
            closed = sorted(node for node in state.unconfirmed if node in state.nodes)
        # Asked once: what has ended stays so, since no command about these jobs is on its way.
        waits = await self._db.read(lambda conn: _waits(conn, job_ids, closed))
        free = [job_id for job_id in job_ids if job_id not in waits]
        for step in range(_STEPS_A_CALL if free else 0):
            if step:
                await self._clock.sleep(_PAUSE_S)
            # Between turns: no turn has read one of these tasks and is about to write it.
            async with self._engine.consistent_state():
                more = await self._db.write(lambda conn: removal_store.remove_some(conn, free))
            if not more:
                break
        still = await self._db.read(lambda conn: removal_store.left(conn, free))
        self._removed.set()
        return pb.RemoveJobsReply(gone=[job_id for job_id in free if job_id not in still], waits=waits)

    async def measure(self, job_ids: Sequence[str]) -> pb.MeasureLogsReply:
        """What the logs of these jobs take.

        Raises:
            InvalidInput: too many jobs at once.
        """
        _check(job_ids)
        found = await self._db.read(lambda conn: removal_store.log_bytes(conn, job_ids))
        return pb.MeasureLogsReply(log_bytes=[found.get(job_id, 0) for job_id in job_ids])

    async def run(self) -> None:
        """Gives the room of what was removed back to the disk; a side task."""
        while True:
            await self._removed.wait()
            self._removed.clear()
            try:
                while await self._db.give_back():
                    await self._clock.sleep(_PAUSE_S)
            except HeadwayError as error:
                log.info("removal.room_not_given_back", reason=error.message)
                await self._clock.sleep(_AGAIN_S)
                self._removed.set()


def _check(job_ids: Sequence[str]) -> None:
    if len(job_ids) > MOST_JOBS:
        raise InvalidInput(f"At most {MOST_JOBS} jobs can be asked about at a time; {len(job_ids)} were.")


def _waits(conn: Connection, job_ids: Sequence[str], closed: Sequence[str]) -> dict[str, str]:
    """Why some of the jobs have to wait."""
    live, lost = removal_store.live_tasks(conn, job_ids), removal_store.lost_on(conn, job_ids, closed)
    waits = {job_id: f"The scheduler has not noted the end of its task {name} yet." for job_id, name in live.items()}
    for job_id, node in lost.items():
        waits.setdefault(job_id, f"An attempt of it was declared lost on {node}, which has not told that it ended.")
    return waits
