"""What nodes used over time: readings wait in memory, are written once a minute, and are rolled up every ten.

Which readings are rolled up follows from what is stored. So a restart loses what waited and nothing else.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from sqlalchemy import Connection

from headway.clock import Clock
from headway.store import Database

from . import history, usage_store
from .history import HOURS, MINUTES, SECONDS, Level, Point

# Readings of one node that wait for the database; when it is full or away, the oldest go.
_UNWRITTEN_AT_MOST = 2_000
_FINER = {MINUTES: SECONDS, HOURS: MINUTES}


class UsageHistory:
    """The readings of all nodes. Belongs to the event loop."""

    def __init__(self, db: Database, clock: Clock, *, usage_days: int) -> None:
        self._db = db
        self._clock = clock
        self._usage_s = usage_days * history.DAY_S
        self._unwritten: dict[str, deque[Point]] = {}

    def add(self, node_id: str, point: Point) -> None:
        """One reading, to be written with the next ones."""
        self._unwritten.setdefault(node_id, deque(maxlen=_UNWRITTEN_AT_MOST)).append(point)

    def forget(self, node_id: str) -> None:
        """Nothing of this node is to be written any more."""
        self._unwritten.pop(node_id, None)

    def waiting(self) -> dict[str, list[Point]]:
        """What is to be written, by node."""
        return {node_id: list(points) for node_id, points in self._unwritten.items() if points}

    def written(self, waiting: dict[str, list[Point]]) -> None:
        """These need not wait any more."""
        for node_id, points in waiting.items():
            unwritten = self._unwritten.get(node_id)
            while unwritten and points and unwritten[0] is points[0]:
                unwritten.popleft()
                points.pop(0)

    async def points(self, node_id: str, since: float, until: float, max_points: int) -> tuple[list[Point], Level]:
        """At most so many points of a node between two instants, and the roll-up that they are of.

        It is the finest that reaches back far enough. A node that has not been there for so long is shown finer.
        """
        # Before the await, so that what is flushed meanwhile may come twice but never not at all.
        fresh = [point for point in self._unwritten.get(node_id, ()) if since <= point.at <= until]
        now = self._clock.now()

        def find(conn: Connection) -> tuple[list[Point], Level]:
            first = usage_store.first_at(conn, node_id)
            level = history.level_for(max(since, first if first is not None else now), now)
            old = _load_old(conn, node_id, level, since, until)
            points = history.merged(old, _load(conn, node_id, level, since, until, fresh))
            return history.downsampled(points, max_points), level

        return await self._db.read(find)

    async def roll_up(self, node_ids: Iterable[str]) -> None:
        """Finer readings of spans that are over become coarser ones; what is too old goes."""
        now = self._clock.now()
        for node_id in node_ids:
            await self._db.write(lambda conn, node_id=node_id: _roll_up(conn, node_id, now))  # type: ignore[misc]
        await self._db.write(lambda conn: usage_store.delete_before(conn, now, self._usage_s))


def write(conn: Connection, node_id: str, points: list[Point]) -> None:
    """Stores readings of a node, as one row."""
    # In order: the clock may have been set back meanwhile.
    ordered = history.merged((), points)
    usage_store.save_block(conn, node_id, SECONDS, ordered[0].at, ordered)


def _roll_up(conn: Connection, node_id: str, now: float) -> None:
    # A row of minutes is written once, when all of it is over. One of hours grows by a point an hour.
    for level, over_s in ((MINUTES, MINUTES.block_s), (HOURS, HOURS.span_s)):
        end = math.floor(now / over_s) * over_s
        finer = usage_store.load_points(conn, node_id, _FINER[level], _rolled_up_to(conn, node_id, level, end), end)
        points = history.rolled_up((point for point in finer if point.at < end), level.span_s)
        usage_store.merge_into_blocks(conn, node_id, level, points)


def _rolled_up_to(conn: Connection, node_id: str, level: Level, until: float) -> float:
    """The end of the last span before an instant that is stored as a point; 0: there is none."""
    last = usage_store.last_at(conn, node_id, level, until)
    return last + level.span_s / 2 if last else 0.0


def _load(conn: Connection, node_id: str, level: Level, since: float, until: float, fresh: list[Point]) -> list[Point]:
    """The points of a roll-up, its youngest ones made of finer ones; ``fresh`` are not stored yet."""
    stored = usage_store.load_points(conn, node_id, level, since, until)
    if level is SECONDS:
        return history.merged(fresh, stored)
    begin = max(since, _rolled_up_to(conn, node_id, level, until))
    young = history.rolled_up(_load(conn, node_id, _FINER[level], begin, until, fresh), level.span_s)
    for point in young:
        point.at = min(point.at, until)  # the last span is not over yet
    return history.merged(young, stored)


def _load_old(conn: Connection, node_id: str, level: Level, since: float, until: float) -> list[Point]:
    """What an earlier version stored, no finer than the rest."""
    points = usage_store.load_old(conn, node_id, since, until)
    return history.rolled_up(points, level.span_s) if level is HOURS else points
