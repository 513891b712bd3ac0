"""Job events for people: who sees which, page by page or as they come."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence

from headway.clock import Clock
from headway.errors import InvalidInput, NotAllowed, Problem
from headway.ids import is_job_id
from headway.model.job_events import JobEventWord

from .. import wire
from ..auth.model import Account
from ..text.server_sent import one_line
from .event_log import JobEventLog
from .schemas import JobEvent, JobEventList
from .store import EventFilter, StoredJobEvent

_AT_ONCE = 100
_KEEP_ALIVE_S = 15.0
_RETRY_MS = 2_000


class EventReading:
    """Accounts read the events of their own jobs, admins those of all. They come in the order in which they were
    stored, which for each job is the order in which they happened."""

    def __init__(self, events: JobEventLog, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        self.streams = 0

    async def page(
        self, account: Account, *, after: str, owner: str, job: str, kinds: Sequence[JobEventWord], limit: int
    ) -> JobEventList:
        """Some events behind the cursor ``after``; empty: from the oldest that is kept.

        Raises:
            InvalidInput: ``after`` is no cursor, or ``job`` no whole id.
            NotAllowed: somebody else's events.
        """
        wanted = await self._wanted(account, owner, job, kinds)
        page = await self._events.page(_number(after) if after else None, wanted, limit)
        return JobEventList(events=[_shown(one) for one in page.events], cursor=str(page.cursor), more=page.more)

    async def stream(
        self,
        account: Account,
        *,
        after: str,
        owner: str,
        job: str,
        kinds: Sequence[JobEventWord],
        still_allowed: Callable[[], bool],
    ) -> AsyncIterator[str]:
        """Server-sent events behind the cursor ``after`` (empty: from now on), until the service stops.

        Raises:
            InvalidInput, NotAllowed: as for ``page``, before anything is sent.
        """
        at = _number(after) if after else self._events.last_number
        return self._follow(at, await self._wanted(account, owner, job, kinds), still_allowed)

    async def _follow(self, at: int, wanted: EventFilter, still_allowed: Callable[[], bool]) -> AsyncIterator[str]:
        self.streams += 1
        try:
            # The id of the beginning, so that a line that breaks before the first event is taken up here.
            yield f"retry: {_RETRY_MS}\n: from here on\nid: {at}\n\n"
            page = await self._events.page(at, wanted, _AT_ONCE)
            while not self._events.closed:
                if page.events:
                    yield "".join(_event_text(one) for one in page.events)
                at = page.cursor
                if not page.more and not await self._events.wait(at, wanted.owner, _KEEP_ALIVE_S):
                    if self._events.closed or not still_allowed():
                        return
                    yield f": still here\nid: {at}\n\n"
                page = await self._events.page(at, wanted, _AT_ONCE)
        finally:
            self.streams -= 1

    async def _wanted(self, account: Account, owner: str, job: str, kinds: Sequence[JobEventWord]) -> EventFilter:
        owner = account.name if owner == "me" else owner
        job = job.lower()  # as each address takes an id
        if job and not is_job_id(job):
            raise _wrong("job", job, "is no whole id of a job")
        if not owner.isprintable():
            raise _wrong("owner", owner, "is no name of an account")
        if not account.admin:
            if owner not in ("", account.name):
                raise NotAllowed("Only an admin may read the events of others' jobs; leave `owner` out for your own.")
            owner = account.name
            if job and await self._events.owner_of(job) not in (None, owner):
                raise NotAllowed(f"The job {job} belongs to somebody else; only its owner or an admin may do that.")
        return EventFilter(owner, job, [kind.value for kind in kinds])


def _number(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= 18):
        raise _wrong("after", cursor, "is no cursor: send one that an answer gave, or none to begin anew")
    return int(cursor)


def _wrong(name: str, value: str, what: str) -> InvalidInput:
    sentence = f"`{value[:40]}` {what}."
    return InvalidInput(f"{name}: {sentence}", problems=[Problem(f"/{name}", sentence, word=value[:40])])


def _event_text(one: StoredJobEvent) -> str:
    return f"event: {one.event.word}\nid: {one.number}\ndata: {one_line(_shown(one).model_dump_json())}\n\n"


def _shown(one: StoredJobEvent) -> JobEvent:
    event = one.event
    return JobEvent(
        cursor=str(one.number),
        kind=event.word,
        at=event.at if math.isfinite(event.at) else 0.0,
        job_id=event.job_id,
        owner=event.owner,
        job_name=event.job_name,
        task=event.task,
        generation=event.generation,
        attempt=event.attempt,
        state=event.state,
        reason=wire.reason(event.reason) if event.HasField("reason") and event.reason.word else None,
        by=event.by,
        tasks=event.tasks,
        sentence=event.sentence,
    )
