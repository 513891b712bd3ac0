"""What is kept of job events, as SQL. Every function works inside a transaction that its caller opened."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select, update

from headway.model.job_events import JobEventWord
from headway.rpc.v1 import http_server_pb2 as hs

from .tables import event_consumers, event_log, event_sources, job_events

# A page looks at no more events than that, however few of them it is asked for.
_LOOKED_AT = 5_000


@dataclass(frozen=True, slots=True)
class StoredJobEvent:
    """An event with the number that it got here."""

    number: int
    event: hs.JobEvent


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events a reader wants; empty: any. Gaps concern everybody and come always."""

    owner: str = ""
    job_id: str = ""
    words: Sequence[str] = ()

    @property
    def all(self) -> bool:
        return not (self.owner or self.job_id or self.words)


@dataclass(frozen=True, slots=True)
class EventPage:
    """Some events in order. ``cursor``: the number to go on behind. ``more``: there are some behind it already."""

    events: Sequence[StoredJobEvent]
    cursor: int
    more: bool


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The highest number that was given, and up to which some events were removed by their age."""

    last_number: int = 0
    gone_to: int = 0


def place(conn: Connection) -> LogPlace:
    row = conn.execute(select(event_log)).first()
    return LogPlace() if row is None else LogPlace(row.last_number, row.gone_to)


def set_place(conn: Connection, at: LogPlace) -> None:
    values = {"last_number": at.last_number, "gone_to": at.gone_to}
    if conn.execute(update(event_log).where(event_log.c.id == 1).values(values)).rowcount == 0:
        conn.execute(insert(event_log), {"id": 1, **values})


def add(conn: Connection, events: Iterable[StoredJobEvent], now: float) -> None:
    rows = [
        {
            "number": one.number,
            "word": one.event.word,
            "job_id": one.event.job_id,
            "owner": one.event.owner,
            "stored_at": now,
            "event": one.event.SerializeToString(),
        }
        for one in events
    ]
    if rows:
        conn.execute(insert(job_events), rows)


# -- how far each sender was heard ----------------------------------------------------------------


def heard(conn: Connection, incarnations: Collection[str]) -> dict[str, int]:
    """The highest ``seq`` that is stored, by incarnation."""
    query = select(event_sources.c.incarnation, event_sources.c.seq)
    rows = conn.execute(query.where(event_sources.c.incarnation.in_(incarnations)))
    return {row.incarnation: row.seq for row in rows}


def set_heard(conn: Connection, seqs: Mapping[str, int], now: float) -> None:
    conn.execute(delete(event_sources).where(event_sources.c.incarnation.in_(seqs)))
    conn.execute(insert(event_sources), [{"incarnation": i, "seq": seq, "heard_at": now} for i, seq in seqs.items()])


def forget_sources(conn: Connection, before: float) -> None:
    """Forgets senders that were not heard for long, but for the last one."""
    last = select(func.max(event_sources.c.heard_at)).scalar_subquery()
    conn.execute(delete(event_sources).where(event_sources.c.heard_at < before, event_sources.c.heard_at < last))


# -- reading --------------------------------------------------------------------------------------


def page(conn: Connection, after: int | None, wanted: EventFilter, limit: int) -> EventPage:
    """The first events behind ``after``; None: from the oldest that is kept."""
    at = place(conn)
    if after is not None and after > at.last_number:
        # Nobody was given that number, or by a database that a copy has replaced: what came since can't be told.
        return EventPage([_made_gap(at.last_number)], at.last_number, more=False)
    begin = 0 if after is None else after
    found: list[StoredJobEvent] = []
    if after is not None and after < at.gone_to:
        found.append(_made_gap(at.gone_to))
        begin = at.gone_to
    end, more = _end_of_look(conn, begin, wanted, at.last_number)
    found += _found(conn, _behind(begin, end, wanted).limit(limit + 1))
    if not wanted.all:
        gaps = EventFilter(words=(JobEventWord.GAP,))
        known = {one.number for one in found}
        gaps_found = _found(conn, _behind(begin, end, gaps).where(job_events.c.owner == "").limit(limit + 1))
        found += [one for one in gaps_found if one.number not in known]
        found.sort(key=lambda one: one.number)
    if len(found) > limit:
        return EventPage(found[:limit], found[limit - 1].number, more=True)
    return EventPage(found, max(begin, end), more)


def owner_of(conn: Connection, job_id: str) -> str | None:
    """The owner of a job of which events are kept."""
    query = select(job_events.c.owner).where(job_events.c.job_id == job_id).limit(1)
    found: str | None = conn.execute(query).scalar()
    return found


def _behind(begin: int, end: int, wanted: EventFilter) -> Select[Any]:
    query = select(job_events.c.number, job_events.c.event).where(
        job_events.c.number > begin, job_events.c.number <= end
    )
    if wanted.owner:
        query = query.where(job_events.c.owner == wanted.owner)
    if wanted.job_id:
        query = query.where(job_events.c.job_id == wanted.job_id)
    if wanted.words:
        query = query.where(job_events.c.word.in_(wanted.words))
    return query.order_by(job_events.c.number)


def _end_of_look(conn: Connection, begin: int, wanted: EventFilter, last: int) -> tuple[int, bool]:
    """Up to which number one page looks, and whether there is anything behind."""
    without_words = EventFilter(wanted.owner, wanted.job_id)
    query = _behind(begin, last, without_words).with_only_columns(job_events.c.number)
    end: int | None = conn.execute(query.offset(_LOOKED_AT - 1).limit(1)).scalar()
    return (last, False) if end is None else (end, True)


def _found(conn: Connection, query: Select[Any]) -> list[StoredJobEvent]:
    return [StoredJobEvent(row.number, hs.JobEvent.FromString(row.event)) for row in conn.execute(query)]


def _made_gap(number: int) -> StoredJobEvent:
    """For a reader whose events were removed, or who comes with a number that this database never gave."""
    return StoredJobEvent(number, hs.JobEvent(word=JobEventWord.GAP, at=number / NUMBERS_A_SECOND))


NUMBERS_A_SECOND = 1_000_000


# -- removal --------------------------------------------------------------------------------------


def remove_older(conn: Connection, before: float, most: int) -> tuple[bool, float | None]:
    """Deletes some events that were stored before an instant, the oldest first. Answers whether there may be more, and
    when the oldest that is left was stored."""
    query = select(job_events.c.number, job_events.c.stored_at).order_by(job_events.c.number).limit(most + 1)
    last: int | None = None
    for count, row in enumerate(conn.execute(query).all()):
        if row.stored_at >= before or count == most:
            _remove_to(conn, last)
            return row.stored_at < before, row.stored_at
        last = row.number
    _remove_to(conn, last)
    return False, None


def _remove_to(conn: Connection, last: int | None) -> None:
    if last is not None:
        conn.execute(delete(job_events).where(job_events.c.number <= last))
        at = place(conn)
        set_place(conn, LogPlace(at.last_number, last))


def remove_of_job(conn: Connection, job_id: str, most: int) -> bool:
    """Deletes some events of a job that is removed, but for the one that says so; whether there may be more."""
    mine = select(job_events.c.number).where(job_events.c.job_id == job_id, job_events.c.word != JobEventWord.REMOVED)
    numbers = list(conn.execute(mine.order_by(job_events.c.number).limit(most)).scalars())
    if numbers:
        conn.execute(delete(job_events).where(job_events.c.number.in_(numbers)))
    return len(numbers) == most


# -- consumers ------------------------------------------------------------------------------------


def position(conn: Connection, name: str) -> int | None:
    """The last number that this consumer has dealt with; None: it is new."""
    query = select(event_consumers.c.position).where(event_consumers.c.name == name)
    found: int | None = conn.execute(query).scalar()
    return found


def add_consumer(conn: Connection, name: str, at: int) -> None:
    conn.execute(insert(event_consumers), {"name": name, "position": at})


def advance(conn: Connection, name: str, before: int, after: int) -> bool:
    """Moves a consumer on; False: it is not where it was thought to be."""
    mine = (event_consumers.c.name == name) & (event_consumers.c.position == before)
    return conn.execute(update(event_consumers).where(mine).values(position=after)).rowcount == 1
