"""Writes the audit log, reads it, checks it and forgets what is old."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection

from headway.clock import Clock
from headway.errors import StoreFull, Unavailable
from headway.logs import get_logger
from headway.model.retention import DAY_S
from headway.store import Batcher, Database, Handler, Timer, Timers, after_commit

from . import store
from .current import Draft, begin, current
from .flood import FloodGate
from .model import BEGUN, DONE, AuditPlace, AuditRow, Broken, Outcome, outcome_of
from .store import AuditFilter, AuditLine

log = get_logger(__name__)

_REMOVED_AT_ONCE = 500
_CHECKED_AT_ONCE = 2_000
_LEAST_PAUSE_S = 60.0
_BY_AGE = "audit-by-age"


class AuditLog:
    """See the module. Call :meth:`open` once the timers are open.

    A line is written in the transaction of the change where that is one of this database: it joins the first write of
    its request. Where others own the change, a line is on disk before they are asked, and its outcome follows. After a
    crash in between, the line says that its outcome is not known.
    """

    def __init__(self, db: Database, clock: Clock, timers: Timers, *, days: int) -> None:
        self._db = db
        self._clock = clock
        self._timers = timers
        self._keep_s = days * DAY_S
        self._flood = FloodGate()
        self._live: set[int] = set()  # rows whose outcome is still to be stored
        self._pending: list[AuditRow] = []  # outcomes that the next transaction takes along
        # Lines that come at once share a commit.
        self._begun: Batcher[Draft, None] = Batcher(self._write_begun, name="audit lines")
        timers.handle(_BY_AGE, Handler(self._remove_by_age, self._give_back))
        db.joins = self._joining

    async def open(self) -> None:
        """Has old lines removed from now on."""
        await self._db.write(lambda conn: self._timers.set(conn, _BY_AGE, "", after_s=0.0))

    # -- writing ----------------------------------------------------------------------------------

    async def begin(self) -> None:
        """The current line is on disk when this returns. Call it before others are asked for a change.

        A full or absent database keeps nobody from acting. What was asked then stands in the service's log. The line
        comes when the database takes it. Who is not signed in and asks very often leaves a line for what was done,
        and none for what was only tried.
        """
        draft = current()
        if draft is None or draft.silent or draft.closed or draft.number:
            return
        if not (draft.who or self._admits(draft)):
            return
        if draft.writing is not None:
            await asyncio.shield(draft.writing)
        else:
            await self._write(draft)

    def begin_early(self) -> None:
        """The current line goes to the disk meanwhile; :meth:`begin` then waits for it."""
        draft = current()
        if draft is not None and not (draft.silent or draft.closed or draft.number or draft.writing):
            draft.writing = asyncio.create_task(self._write(draft), name="audit line")

    async def close(self) -> None:
        """Writes what was handed in."""
        await self._begun.close()

    async def _write(self, draft: Draft) -> None:
        try:
            await self._begun.submit(draft)
        except (StoreFull, Unavailable) as error:
            log.warning("audit.line_late", reason=error.message, **_told(draft))

    async def _write_begun(self, drafts: list[Draft]) -> list[None]:
        begin(None)  # this task was begun inside one of their requests, and its write is nobody's own
        outcomes = [_first(draft) for draft in drafts]
        rows = [self._row(draft, outcome, "", ends=0) for draft, outcome in zip(drafts, outcomes, strict=True)]
        last = await self._db.write(lambda conn: store.append(conn, rows))
        for number, draft, outcome in zip(range(last - len(rows) + 1, last + 1), drafts, outcomes, strict=True):
            self._written(draft, number, outcome)
        return [None] * len(drafts)

    def ended(self, draft: Draft | None, status: int, slug: str = "") -> None:
        """The request has got its answer. ``slug``: of the problem, if it is one."""
        if draft is None or draft.closed:
            return
        draft.closed = True
        if draft.writing is not None and not draft.writing.done():
            draft.writing.add_done_callback(lambda _: self._settle(draft, status, slug))
        else:
            self._settle(draft, status, slug)

    def _settle(self, draft: Draft, status: int, slug: str) -> None:
        outcome = outcome_of(status, slug, outside=draft.route.owner != "own")
        if draft.silent or draft.written == outcome == DONE:
            self._live.discard(draft.number)
            return
        if not (draft.who or draft.number or outcome == DONE or self._admits(draft)):
            return
        row = self._row(draft, outcome, slug or ("client-gone" if status == 0 else ""), ends=draft.number)
        self._pending.append(row)
        if len(self._pending) == 1:
            self._db.defer(self._store_pending)

    def _admits(self, draft: Draft) -> bool:
        """Whether a line that nobody has signed may be written. Each line is counted once."""
        if draft.admitted is None:
            left_out = self._flood.admit(draft.address, self._clock.monotonic())
            draft.admitted = left_out is not None
            if left_out:
                draft.facts["left_out_before"] = left_out
        return draft.admitted

    def _store_pending(self, conn: Connection) -> None:
        rows = list(self._pending)
        store.append(conn, rows)
        after_commit(conn, lambda: self._stored(len(rows)))

    def _stored(self, count: int) -> None:
        self._live.difference_update(row.ends for row in self._pending[:count])
        del self._pending[:count]
        if self._pending:
            self._db.defer(self._store_pending)

    def _joining(self) -> Callable[[Connection], Any] | None:
        """What joins a write of the current request: its line, once."""
        draft = current()
        if draft is None or draft.silent or draft.closed or draft.number or draft.writing:
            return None
        outcome = _first(draft)
        row = self._row(draft, outcome, "", ends=0)

        def work(conn: Connection) -> None:
            number = store.append(conn, [row])
            after_commit(conn, lambda: self._written(draft, number, outcome))

        return work

    def _written(self, draft: Draft, number: int, outcome: Outcome) -> None:
        draft.number, draft.written = number, outcome
        if outcome == BEGUN and not draft.closed:
            self._live.add(number)

    def _row(self, draft: Draft, outcome: Outcome, problem: str, *, ends: int) -> AuditRow:
        return AuditRow(
            number=0,
            at=self._clock.now() if ends else draft.at,
            stored_at=self._timers.now(),
            request_id=draft.request_id,
            who=draft.who,
            way=draft.way,
            address=draft.address,
            word=draft.route.word,
            subject=draft.subject,
            outcome=outcome,
            problem=problem,
            detail=draft.detail,
            ends=ends,
        )

    # -- reading ----------------------------------------------------------------------------------

    async def page(self, wanted: AuditFilter, before: int | None, limit: int) -> list[AuditLine]:
        """The newest lines below the number ``before``, the newest first."""
        return await self._db.read(lambda conn: store.page(conn, wanted, before, limit))

    def is_live(self, number: int) -> bool:
        """Whether the outcome of this row is still to come: its request is dealt with, or the next write takes it."""
        return number in self._live

    async def verify(self) -> tuple[AuditPlace, int, Broken | None]:
        """Goes along the whole chain. Answers where it begins and should end, how many lines hold, and what is
        wrong behind them."""
        at = await self._db.read(store.place)
        number, hash, held = at.gone_number, at.gone_hash, 0
        while True:
            behind, hash_behind, broken, at = await self._db.read(
                lambda conn, number=number, hash=hash: store.check(conn, number, hash, _CHECKED_AT_ONCE)  # type: ignore[misc]
            )
            if at.gone_number > number:
                # Retention removed rows that this had not looked at: it begins anew where they end now.
                number, hash, held = at.gone_number, at.gone_hash, 0
                continue
            held += behind - number
            if broken is None and behind == number:
                return at, held, _short(at, behind, hash_behind)
            if broken is not None:
                return at, held, broken
            number, hash = behind, hash_behind

    # -- removal ----------------------------------------------------------------------------------

    def _remove_by_age(self, conn: Connection, timer: Timer) -> None:
        now = self._timers.now()
        more, oldest = store.remove_older(conn, now - self._keep_s, _REMOVED_AT_ONCE)
        pause_s = 0.0 if more else DAY_S if oldest is None else max(_LEAST_PAUSE_S, oldest + self._keep_s - now)
        self._timers.set(conn, _BY_AGE, "", after_s=min(pause_s, DAY_S))

    async def _give_back(self, timer: Timer) -> None:
        await self._db.give_back()


def _short(at: AuditPlace, number: int, hash: str) -> Broken | None:
    """The newest rows may be gone, which no row behind them shows: the place knows which was the last."""
    if (number, hash) == (at.last_number, at.last_hash):
        return None
    if number < at.last_number:
        return Broken(number + 1, f"The newest lines, from {number + 1} to {at.last_number}, are missing.")
    return Broken(number, "The log ends elsewhere than where it was last written.")


def _first(draft: Draft) -> Outcome:
    """What the row says that is written with the change, or before it."""
    return DONE if draft.route.owner == "own" else BEGUN


def _told(draft: Draft) -> dict[str, Any]:
    return {"who": draft.who, "way": draft.way, "address": draft.address, "word": draft.route.word,
            "subject": draft.subject, "asked_as": draft.request_id}  # fmt: skip
