"""The decision log as SQL. Every function works inside a transaction of its caller."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, or_, select

from headway.logs import get_logger

from ..decisions import frame_codec
from ..decisions.frames import Frame
from ..decisions.recorder import FrameRecord
from .tables import decisions

log = get_logger(__name__)

_PRUNED_AT_ONCE = 2_000


def write(conn: Connection, record: FrameRecord) -> None:
    """Stores one frame."""
    frame = frame_codec.encode(record.frame, record.before)
    conn.execute(insert(decisions), {"id": record.id, "base": record.base, "at": record.at, "frame": frame})


def last_id(conn: Connection) -> int:
    """The id of the latest frame; 0: there is none."""
    return conn.execute(select(func.max(decisions.c.id))).scalar() or 0


def prune(conn: Connection, before_at: float) -> int:
    """Deletes frames older than that, except those that younger ones build upon. Returns how many; if there are very
    many, it stops early."""
    younger = select(func.min(decisions.c.base)).where(decisions.c.at >= before_at)
    first_needed = conn.execute(younger).scalar()
    old = select(decisions.c.id).where(decisions.c.at < before_at).order_by(decisions.c.id).limit(_PRUNED_AT_ONCE)
    if first_needed is not None:
        old = old.where(decisions.c.id < first_needed)
    return conn.execute(delete(decisions).where(decisions.c.id.in_(old.scalar_subquery()))).rowcount


def ids(conn: Connection, windows: Sequence[tuple[float, float]], *, before: int, limit: int) -> list[int]:
    """The ids of the latest frames of these windows (from, up to; both included) below ``before`` (0: all).

    Times are by the wall clock. If it was set back meanwhile, a window ends before it begins. A window without an end
    has all frames after its first one.
    """
    if not windows:
        return []
    there = or_(*(_within(min(window), max(window)) for window in windows))
    query = select(decisions.c.id).where(there).order_by(decisions.c.id.desc()).limit(limit)
    if before:
        query = query.where(decisions.c.id < before)
    return list(conn.execute(query).scalars())


def _within(start: float, end: float) -> ColumnElement[bool]:
    if math.isfinite(end):
        return and_(decisions.c.at >= start, decisions.c.at <= end)
    first = select(func.min(decisions.c.id)).where(decisions.c.at >= start)
    return decisions.c.id >= first.scalar_subquery()


def frames(conn: Connection, first: int, last: int) -> Iterator[tuple[int, float, Frame]]:
    """Id, wall-clock time and frame from ``first`` to ``last``, oldest first. Frames that this version can't read are
    left out."""
    base = conn.execute(select(func.min(decisions.c.base)).where(decisions.c.id.between(first, last))).scalar()
    if base is None:
        return
    rows = conn.execute(select(decisions).where(decisions.c.id.between(base, last)).order_by(decisions.c.id))
    before: Frame | None = None
    while part := list(islice(rows, 50)):
        for row in part:
            try:
                before = frame_codec.decode(row.frame, None if row.base == row.id else before)
            except (ValueError, KeyError, TypeError, zlib.error) as error:
                log.warning("decisions.unreadable", id=row.id, reason=str(error) or repr(error))
                before = None  # the frames after it are unreadable too, up to the next whole one
                continue
            if row.id >= first:
                yield row.id, row.at, before
