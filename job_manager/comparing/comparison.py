"""Compares what JobManager and TaskManager hold, at every start of one of them and from time to time.

Either database may lose its last commits: it is restored from a copy, or its log is cut. Then jobs would wait for ever
for events that were sent long ago. Both lists are as of a moment, and messages are on their way between the two. So a
difference counts once it was seen twice in a row, and only if no message about that task is on its way.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping

from headway.backoff import Backoff
from headway.clock import Clock
from headway.errors import HeadwayError
from headway.logs import get_logger
from headway.rpc.v1 import task_manager_pb2
from headway.store import Database

from ..job_writer import JobWriter
from ..ports import TaskManagerPort
from . import comparison_store

log = get_logger(__name__)

BETWEEN_S = 2.0  # two comparisons in a row
_ROUNDS = 5
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 2.0
_LOGGED = 20
_TOLD_OF_A_JOB = 5
_TOLD = {
    "unknown": "the scheduler does not have it",
    "new_run": "the scheduler knows a later run of it",
    "cancel_untold": "the scheduler does not know that it was cancelled",
    "hold_untold": "the scheduler does not know whether it is on hold",
    "extra": "the scheduler has it, though its job does not wait for it",
}

Difference = task_manager_pb2.CompareTasksReply.Difference
Key = tuple[str, str]


class Comparison:
    """See the module."""

    def __init__(
        self, db: Database, jobs: JobWriter, task_manager: TaskManagerPort, clock: Clock, *, every_s: float
    ) -> None:
        self._db = db
        self._jobs = jobs
        self._task_manager = task_manager
        self._clock = clock
        self._every_s = every_s
        self._notices: dict[str, list[str]] = {}

    def notices(self, job_id: str) -> list[str]:
        """Sentences about tasks of this job that could not be mended yet."""
        return list(self._notices.get(job_id, ()))

    async def run(self) -> None:
        """Compares as long as the service runs; a side task."""
        pauses = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        told = False
        while True:
            try:
                await self.compare()
                pauses.reset()
                told = False
                await self._until_due()
                continue
            except HeadwayError as error:
                if not told:
                    log.info("comparison.waits", reason=str(error))
                told = True
            except Exception as error:
                log.error("comparison.failed", exc=error)
            await self._clock.sleep(pauses.next_s())

    async def compare(self) -> None:
        """Compares until no difference is left that was seen twice.

        Raises:
            HeadwayError: TaskManager does not answer, or the database.
        """
        seen: dict[Key, str] = {}
        for number in range(1, _ROUNDS + 1):
            found = await self._round(seen)
            left = {key: one for key, one in found.items() if seen.get(key) == one.word}
            if not found or (number > 1 and not left):
                self._notices = {}
                return
            seen = {key: one.word for key, one in found.items()}
            if number < _ROUNDS:
                await self._clock.sleep(BETWEEN_S)
        self._notices = _sentences(left)
        for (job_id, task), one in list(left.items())[:_LOGGED]:
            log.error(
                "task.differs", job=job_id, task=task, difference=one.word,
                reason="JobManager and TaskManager hold this task differently, and could not mend it yet.",
            )  # fmt: skip

    async def _round(self, seen: dict[Key, str]) -> dict[Key, Difference]:
        """One comparison: what differs, but for what is on its way. What was seen before is mended."""
        held = await self._db.read(comparison_store.load_held_tasks)
        for one in held.tasks:
            key = one.task.job_id, one.task.name
            if key in seen and key not in held.under_way:
                one.seen = seen[key]
        reply = await self._task_manager.compare(held.tasks)
        if reply.command_seq > held.last_seq:
            log.warning("commands.numbered_anew", after=reply.command_seq, before=held.last_seq)
            await self._jobs.go_on_after(reply.command_seq)
        found = {}
        for difference in reply.differences:
            key = difference.task.job_id, difference.task.name
            if key not in held.under_way:
                found[key] = difference
        confirmed = [one for key, one in found.items() if seen.get(key) == one.word and not one.mended]
        await self._jobs.mend(confirmed)
        return found

    async def _until_due(self) -> None:
        """Until the next comparison is due, or TaskManager was stopped."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._task_manager.confirm(), self._every_s)


def _sentences(left: Mapping[Key, Difference]) -> dict[str, list[str]]:
    """What is left, for people, by job."""
    told: dict[str, list[str]] = {}
    for (job_id, task), one in left.items():
        sentences = told.setdefault(job_id, [])
        if len(sentences) < _TOLD_OF_A_JOB:
            what = _TOLD.get(one.word, "they hold different states of it")
            sentences.append(
                f"Headway's services do not agree about the task {task}: {what}. "
                "Headway goes on trying to mend this. If it stays, tell an admin."
            )
    return told
