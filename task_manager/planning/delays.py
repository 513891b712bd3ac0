"""What becomes of stored reservations that no longer all fit: who is delayed, by how much, and for which cause.

Several ways are tried for each event, and for each of them the pass itself is run. So what is compared is what the pass
will do:

* **Shift.** All move on, in the order of their starts, by as little as makes them fit. If an attempt ends later by some
  time, nobody moves by more than that: at that distance everything lies as it lay before.
* **Drop.** Those that fit stay, in the order of their promises. The others are booked anew.

Dropping is chosen only if it delays less in all and nobody by more than the shift does. Where promises have slack, both
are needed only if no way of moving the places within their promises is found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from headway.ids import TaskId

from . import changes, promises
from .bookings import Reservation
from .node_timelines import EarliestStart, NodeTimelines
from .pass_model import PassInput, Plan
from .promises import LostReservation, StoredRow

Lost = dict[TaskId, LostReservation]
Run = Callable[[PassInput, Lost], Plan]
_MOST_STEPS = 20  # each is a pass or two; what comes at once beyond that counts as one event
_LONGER = "it is booked for longer than when its start was promised"


@dataclass(slots=True)
class _Way:
    """One way to make the reservations fit: how they are then, and who loses which for what cause."""

    places: dict[TaskId, Reservation]
    lost: Lost = field(default_factory=dict)


def mended(snapshot: PassInput, run: Run) -> tuple[dict[TaskId, Reservation], Lost]:
    """The stored reservations such that all fit, and those that were delayed or dropped for that.

    The events since the last pass count one after the other, so that each delay has its own cause. The last step is for
    attempts without a known end, and for what no event explains, as after a restart. ``run`` runs a pass with
    reservations that fit, and with those that were lost so far.
    """
    way = _Way(dict(snapshot.reservations))
    known = [change for change in snapshot.changes if not change.is_guess][:_MOST_STEPS]
    others = [change for change in snapshot.changes if change not in known]
    for number, change in enumerate([*known, None]):
        later = [] if change is None else [*known[number + 1 :], *others]
        there = changes.undone(snapshot, later)
        step = _Step(replace(there, reservations=way.places, changes=()), change)
        found = step.way(run, way.lost)
        for task_id, lost in found.lost.items():
            first = way.lost.get(task_id, lost).reservation
            way.lost[task_id] = LostReservation(first, lost.cause)
        way.places = found.places
    return way.places, way.lost


class _Step:
    """One event; None: it is not known, and each reservation that does not fit says what is in its way."""

    def __init__(self, snapshot: PassInput, change: changes.Change | None) -> None:
        self._snapshot = snapshot
        self._cause = "" if change is None else change.cause
        self._is_guess = change is None  # it may be an attempt of which nobody knows when it ends
        self._slack_s = snapshot.settings.slack_s
        self._all = snapshot.settings.promises_all
        first = promises.timelines_of(snapshot)
        there = [row for row in promises.rows(snapshot, first) if not row.cause]
        self._open = [row for row in there if row.reservation.node_id in first.nodes]
        self._rows = [row for row in self._open if not row.longer]
        self._longer = [row for row in self._open if row.longer]
        self._fits = promises.put_all(first, self._open, self._slack_s) is not None

    def way(self, run: Run, lost: Lost) -> _Way:
        """The way that delays promised starts least."""
        if self._fits:
            return _Way(dict(self._snapshot.reservations))
        if self._all:
            for way in self._within():
                return way
        best: tuple[float, float, _Way] | None = None
        for way in filter(None, (self._shifted(), self._dropped())):
            plan = run(replace(self._snapshot, reservations=way.places), lost | way.lost)
            total_s, most_s = self._delays(plan)
            if best is None or (total_s < best[0] - self._slack_s and most_s <= best[1] + self._slack_s):
                best = total_s, most_s, way
        assert best is not None
        return best[2]

    def _delays(self, plan: Plan) -> tuple[float, float]:
        """By how much promised starts get later under this plan: the sum and the most."""
        now_s, delays = self._snapshot.now_s, [0.0]
        started = {placement.task_id for placement in plan.placements}
        for row in self._open:
            promised_s = _promised_s(row)
            place = plan.promised.get(row.task.id)
            estimate = plan.reservations.get(row.task.id)
            if row.task.id in started:
                start_s = now_s
            elif place is not None and place.promised_s is not None:
                start_s = place.promised_s
            else:
                start_s = math.inf if estimate is None else estimate.start_s
            delays.append(start_s - promised_s if start_s > promised_s + self._slack_s else 0.0)
        return sum(delays), max(delays)

    # -- ways -------------------------------------------------------------------------------------

    def _shifted(self) -> _Way | None:
        timelines = promises.timelines_of(self._snapshot)
        later = promises.put_later(timelines, self._rows, math.inf)
        if later is None:
            return None  # cards are gone: no moment is late enough
        way = self._with(later)
        for row in self._rows:
            place = later[row.task.id]
            if place.start_s <= row.reservation.start_s + self._slack_s:
                continue
            if row.before.promised_s is not None and place.start_s <= row.before.promised_s:
                continue
            is_unknown = self._is_guess and not timelines.nodes[place.node_id].is_sure
            if row.before.promised_s is None or is_unknown:
                # Nothing is promised on a guess. But the place stays, in the order in which all of them were.
                way.places[row.task.id] = replace(place, promised_s=None)
                way.lost[row.task.id] = LostReservation(row.before, self._why(row, timelines))
            else:
                way.places[row.task.id] = replace(place, promised_s=place.start_s)
                way.lost[row.task.id] = LostReservation(row.before, self._why(row, timelines))
        self._put_longer(way, timelines)
        return way

    def _dropped(self) -> _Way:
        timelines, way = promises.timelines_of(self._snapshot), self._with({})
        for row in self._by_promise():
            if promises.fits(self._snapshot, timelines, row):
                timelines.add(row.task, row.reservation)
            else:
                self._lose(way, row, timelines)
        self._put_longer(way, timelines)
        return way

    def _within(self) -> Iterator[_Way]:
        """Ways to move the places so that all promises hold."""
        timelines = promises.timelines_of(self._snapshot)
        later = promises.put_later(timelines, self._rows, math.inf)
        if later is not None and all(later[row.task.id].start_s <= _promised_s(row) for row in self._rows):
            yield self._finished(self._with(later), timelines)
        for anew in (False, True):
            timelines = promises.timelines_of(self._snapshot)
            found = self._moved_within(timelines, anew=anew)
            if found is not None:
                yield self._finished(self._with(found), timelines)

    def _moved_within(self, timelines: NodeTimelines, *, anew: bool) -> dict[TaskId, Reservation] | None:
        """The places in the order of their promises, elsewhere and earlier where they don't fit; all with ``anew``."""
        found: dict[TaskId, Reservation] = {}
        homeless = []
        for row in self._by_promise():
            if not anew and promises.fits(self._snapshot, timelines, row):
                timelines.add(row.task, row.reservation)
            else:
                homeless.append(row)
        for row in homeless:
            duration_s = row.reservation.duration_s
            earliest = timelines.earliest_start(row.task, duration_s, after_s=self._snapshot.now_s)
            if earliest is None or earliest.start_s > _promised_s(row) or not earliest.node.is_sure:
                return None
            found[row.task.id] = self._booked(timelines, row, earliest)
        return found

    # -- inside -----------------------------------------------------------------------------------

    def _booked(self, timelines: NodeTimelines, row: StoredRow, earliest: EarliestStart) -> Reservation:
        made = timelines.book(row.task, earliest, row.reservation.duration_s)
        return replace(row.reservation, node_id=made.node_id, gpus=made.gpus, start_s=made.start_s)

    def _with(self, moved: Mapping[TaskId, Reservation]) -> _Way:
        return _Way({**self._snapshot.reservations, **moved})

    def _finished(self, way: _Way, timelines: NodeTimelines) -> _Way:
        self._put_longer(way, timelines)
        return way

    def _put_longer(self, way: _Way, timelines: NodeTimelines) -> None:
        """A task whose own time was raised moves nobody: it keeps its place only if that fits."""
        for row in self._longer:
            if promises.fits(self._snapshot, timelines, row):
                timelines.add(row.task, row.reservation)
            else:
                way.places.pop(row.task.id)
                way.lost[row.task.id] = LostReservation(row.before, _LONGER)

    def _lose(self, way: _Way, row: StoredRow, timelines: NodeTimelines) -> None:
        way.places.pop(row.task.id)
        way.lost[row.task.id] = LostReservation(row.before, self._why(row, timelines))

    def _why(self, row: StoredRow, timelines: NodeTimelines) -> str:
        return self._cause or promises.why_unfit(timelines, row)

    def _by_promise(self) -> list[StoredRow]:
        return sorted(self._rows, key=_promised_s)  # equal ones in the order of the queue


def _promised_s(row: StoredRow) -> float:
    return row.reservation.start_s if row.before.promised_s is None else row.before.promised_s
