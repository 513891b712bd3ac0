"""Removes jobs in small steps: what they left at TaskManager, on the shared mount, and last what JobManager has.

A job is marked as being removed in one transaction. From then on it does not show, and can't be retried. This mark is
all that a removal needs: whatever is killed meanwhile, the next start goes on. The others are asked again and again
until they have nothing of the job any more. Only then its rows go. A Worker that was cut off may bring a log
late. So a removed job is looked at again: after ten minutes, a day and two weeks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headway.backoff import Backoff, grown_s
from headway.clock import Clock
from headway.errors import HeadwayError
from headway.logs import get_logger
from headway.model.retention import AgeLimit, EndedJob, RoomToMake
from headway.store import Database
from headway.units import counted
from headway.waiting import wait

from .. import removal_store
from ..job_writer import JobWriter
from ..ports import JobFoldersPort, TaskManagerPort
from ..removal_store import Removal
from . import log_sizes

log = get_logger(__name__)

SWEPT_EVERY_S = 600.0
_LOOKED_EVERY_S = 3_600.0  # where no rule asks for more
_AT_ONCE = 200
_TASKS_AT_ONCE = 2_000
_PAUSE_S = 0.01
_LONGEST_PAUSE_S = 1.0
_FIRST_RETRY_S = 0.5
_LONGEST_RETRY_S = 30.0
_COMMANDS_DUE_S = 0.2
_COMMANDS_LATE_S = 10.0
_NOT_YET_S = 5.0
_STAYS_S = 600.0
_WORKED_S = 4.0  # a step that took longer had no time for all folders
_WAITS_S = 60.0
_NO_ROOM = "by the rules of retention, to make room for logs"


class Sweeper:
    """See the module."""

    def __init__(
        self, db: Database, jobs: JobWriter, task_manager: TaskManagerPort, folders: JobFoldersPort, clock: Clock
    ) -> None:
        self._db = db
        self._jobs = jobs
        self._task_manager = task_manager
        self._folders = folders
        self._clock = clock
        self._rules = jobs.rules
        self._aging = jobs.aging
        self._first_undelivered: int | None = None
        self._commands_due = Backoff(_COMMANDS_DUE_S, _COMMANDS_LATE_S)
        self._stuck: dict[str, int] = {}  # how often the folder of a job could not be removed

    async def run(self) -> None:
        """Sweeps as long as the service runs; a side task. It never ends by an error: a full disk or a service that is
        away is waited for."""
        retries = Backoff(_FIRST_RETRY_S, _LONGEST_RETRY_S)
        swept_s: float | None = None
        told = ""
        while True:
            self._jobs.removal_asked.clear()
            try:
                due = swept_s is None or self._clock.monotonic() >= swept_s + SWEPT_EVERY_S
                if due and (self._rules.by_age or self._rules.by_bytes):
                    await self.choose()
                    swept_s = self._clock.monotonic()
                while await self.remove_some():
                    pass
                await self._give_room_back()
            except HeadwayError as error:
                if told != error.slug:
                    log.warning("removal.waits", reason=error.message)
                told = error.slug
                await self._clock.sleep(retries.next_s())
                continue
            except Exception as error:
                log.error("removal.failed", exc=error)
                await self._clock.sleep(_LONGEST_RETRY_S)
                continue
            if told:
                log.info("removal.goes_on")
            told = ""
            retries.reset()
            await wait(self._jobs.removal_asked, await self._until_due_s(), self._clock)

    # -- which jobs -------------------------------------------------------------------------------

    async def choose(self) -> None:
        """Marks the jobs that the rules let go.

        Raises:
            HeadwayError: the database does not answer.
        """
        now = self._aging.now()
        for limit in self._rules.age_limits(now):
            place = removal_store.FIRST
            days = counted(self._rules.days_of(limit.owner) or 0, "day")
            why = f"by the rules of retention, {days} after its end"
            while old := await self._old(limit, place):
                place = old[-1].ages_from, old[-1].id
                await self._jobs.remove([job for job in old if self._rules.too_old(job, now)], why)
                await self._clock.sleep(_PAUSE_S)
        if self._rules.by_bytes:
            try:
                await log_sizes.measure_all(self._db, self._task_manager, self._clock, _PAUSE_S)
            except HeadwayError as error:
                log.info("removal.not_measured", reason=error.message)
            await self._make_room()

    async def _old(self, limit: AgeLimit, place: removal_store.Place) -> list[EndedJob]:
        return await self._db.read(lambda conn: removal_store.too_old(conn, limit, place, _AT_ONCE))

    async def _make_room(self) -> None:
        room = RoomToMake(self._rules, await self._db.read(removal_store.log_totals))
        place = removal_store.FIRST
        while room.needed:
            page = await self._db.read(lambda conn, place=place: removal_store.ended_after(conn, place, _AT_ONCE))  # type: ignore[misc]
            if not page:
                return  # the rest is of pinned jobs
            place = page[-1].ages_from, page[-1].id
            await self._jobs.remove([job for job in page if room.goes(job)], _NO_ROOM)
            await self._clock.sleep(_PAUSE_S)

    # -- their removal ----------------------------------------------------------------------------

    async def remove_some(self) -> bool:
        """One step; whether there was anything to do now.

        Raises:
            HeadwayError: somebody does not answer, or a disk is full. What was done until then stands.
        """
        began_s = self._clock.monotonic()
        due = await self._db.read(lambda conn: removal_store.due(conn, self._aging.now(), _AT_ONCE, _TASKS_AT_ONCE))
        if not due:
            return False
        # A command that is repeated after the removal would run a task of a job that nobody knows.
        first = await self._db.read(removal_store.first_undelivered)
        early = [one.job_id for one in due if first is not None and first <= one.after_seq]
        if first != self._first_undelivered:
            self._first_undelivered = first
            self._commands_due.reset()  # TaskManager takes some
        if early:
            await self._put_off(early, self._commands_due.next_s())
        ready = [one for one in due if one.job_id not in set(early)]
        if ready:
            await self._remove(ready)
        took_s = self._clock.monotonic() - began_s
        # As long as it worked it lets others work.
        await self._clock.sleep(min(max(_PAUSE_S, took_s), _LONGEST_PAUSE_S))
        return True

    async def _remove(self, ready: Sequence[Removal]) -> None:
        reply = await self._task_manager.remove([one.job_id for one in ready])
        for job_id, sentence in reply.waits.items():
            log.info("removal.waits_for_job", job=job_id, reason=sentence)
        await self._put_off(list(reply.waits), _WAITS_S)
        if not reply.gone:
            return
        began_s = self._clock.monotonic()
        gone = set(await self._folders.remove(list(reply.gone)))
        await self._put_off_stuck(set(reply.gone), gone, self._clock.monotonic() - began_s)
        await self._drop([one.job_id for one in ready if one.rows_here and one.job_id in gone])
        again = [one.job_id for one in ready if not one.rows_here and one.job_id in gone]
        if again:
            await self._db.write(lambda conn: removal_store.looked(conn, again, self._aging.now()))

    async def _drop(self, job_ids: list[str]) -> None:
        left = job_ids
        while left:
            dropped = await self._db.write(
                lambda conn, left=left: removal_store.drop_some(conn, left, self._aging.now())  # type: ignore[misc]
            )
            left = left[len(dropped) :]
            if left:
                await self._clock.sleep(_PAUSE_S)
        if job_ids:
            log.info("jobs.gone", jobs=len(job_ids), first=job_ids[0])

    async def _put_off_stuck(self, asked: set[str], gone: set[str], took_s: float) -> None:
        """Folders that could not be removed are tried again with growing pauses. Large ones are gone on with soon."""
        for job_id in gone:
            self._stuck.pop(job_id, None)
        by_pause: dict[float, list[str]] = {}
        for job_id in sorted(asked - gone):
            times = self._stuck.get(job_id, 0)
            if took_s < _WORKED_S:
                self._stuck[job_id] = times + 1
            by_pause.setdefault(grown_s(times, first_s=_NOT_YET_S, most_s=_STAYS_S), []).append(job_id)
        for pause_s, job_ids in by_pause.items():
            await self._put_off(job_ids, pause_s)

    async def _put_off(self, job_ids: Collection[str], seconds: float) -> None:
        if job_ids:
            until = self._aging.now() + seconds
            await self._db.write(lambda conn: removal_store.put_off(conn, job_ids, until))

    async def _give_room_back(self) -> None:
        while await self._db.give_back():
            await self._clock.sleep(_PAUSE_S)

    async def _until_due_s(self) -> float:
        most_s = SWEPT_EVERY_S if self._rules.by_age or self._rules.by_bytes else _LOOKED_EVERY_S
        next_at = await self._db.read(removal_store.next_due)
        return most_s if next_at is None else min(most_s, max(_PAUSE_S, next_at - self._aging.now()))
