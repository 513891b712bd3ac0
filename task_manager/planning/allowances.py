"""What the limits allow over time in one pass: how many GPUs an account, or all long tasks together, may still take.

All times are in seconds by the pass's clock.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from headway.ids import TaskId

from ..limits import AdmissionLimits
from ..model import Task
from .bookings import Booking, Reservation, until_of
from .pass_model import LimitHold, Wait, WaitCause
from .step_functions import StartBounds, Window, cut, spans


class Allowance:
    """How many GPUs an account, or all long tasks together, may still take, as a step function of time."""

    __slots__ = ("_free", "_never_before", "_times", "_until", "kept", "limit")

    def __init__(self, now_s: float, limit: int) -> None:
        self.limit = limit
        self.kept: dict[TaskId, tuple[int, float]] = {}  # for waiting tasks: how many GPUs, and from when
        self._times = [now_s]
        self._free = [limit]
        self._until: dict[int, float] = {}
        self._never_before: dict[int, StartBounds] = {}

    def take(self, gpus: int, start_s: float, end_s: float) -> None:
        """Books GPUs from ``start_s`` to ``end_s``; a negative number gives back."""
        first, last = cut(self._times, (self._free,), start_s), cut(self._times, (self._free,), end_s)
        for i in range(first, last):
            self._free[i] -= gpus
        self._until.clear()
        if gpus < 0:
            self._never_before.clear()

    def with_all(self, bookings: Iterable[tuple[int, float, float]]) -> Allowance | None:
        """This allowance with all these (GPUs, from, to) taken as well; None: that is too much at some moment."""
        made = Allowance(0.0, self.limit)
        made._times, made._free = self._times.copy(), self._free.copy()
        for gpus, start_s, end_s in bookings:
            made.take(gpus, start_s, end_s)
        return made if min(made._free) >= 0 else None

    def become(self, other: Allowance) -> None:
        """Replaces the steps by those of what ``with_all`` returned."""
        self._times, self._free = other._times, other._free
        self._until.clear()
        self._never_before.clear()

    def until(self, gpus: int, own: tuple[float, float] | None = None) -> float:
        """Until when so many GPUs are left without a break from the first moment on.

        ``own`` is the span for which as many are booked for the asking task itself.
        """
        found = self._until.get(gpus)
        if found is None:
            found = self._until[gpus] = self._first_lack(gpus, 0)
        if own is not None and own[0] <= found < own[1]:
            found = self._first_lack(gpus, bisect_left(self._times, own[1]))
        return found

    def blocker(self, gpus: int, at_s: float) -> TaskId | None:
        """The waiting task for which GPUs are kept from ``at_s`` on; None: running tasks hold them."""
        if at_s > self._times[0]:
            return next((task_id for task_id, (_, start_s) in self.kept.items() if start_s == at_s), None)
        due = {task_id: held for task_id, (held, start_s) in self.kept.items() if start_s <= at_s}
        return next(iter(due), None) if self._free[0] + sum(due.values()) >= gpus else None

    def earliest_start(self, gpus: int, duration_s: float, after_s: float) -> float | None:
        """The first start from ``after_s`` on with so many GPUs for so long; None: there is none."""
        start_s = self._first_start(gpus, duration_s, after_s, math.inf)
        return start_s if start_s < math.inf else None

    def spans_with(self, gpus: int, until_s: float) -> list[Window]:
        """The longest spans that begin by ``until_s`` in which so many GPUs are left, in order."""
        return spans(self._times, [(self._free, gpus)], until_s)

    def might_start_earlier(self, gpus: int, duration_s: float, start_s: float) -> bool:
        """Whether what is booked from ``start_s`` on could start earlier without its own booking."""
        if start_s <= self._times[0]:
            return False
        if self._free[bisect_left(self._times, start_s) - 1] >= gpus:
            return True
        return self._first_start(gpus, duration_s, self._times[0], start_s) < start_s

    def _first_lack(self, gpus: int, first: int) -> float:
        steps = zip(self._times[first:], self._free[first:], strict=True)
        return next((time for time, free in steps if free < gpus), math.inf)

    def _first_start(self, gpus: int, duration_s: float, after_s: float, until_s: float) -> float:
        """The first start from ``after_s`` on; ``until_s`` or later: there is none before."""
        bounds = self._never_before.get(gpus)
        if bounds is None:
            bounds = self._never_before[gpus] = StartBounds()
        known_s = bounds.of(duration_s)
        if known_s >= until_s:
            return known_s
        found_s = self._scan(gpus, duration_s, max(after_s, known_s), until_s)
        if after_s <= self._times[0] or known_s >= after_s:
            bounds.add(duration_s, min(found_s, until_s))
        return found_s

    def _scan(self, gpus: int, duration_s: float, from_s: float, until_s: float) -> float:
        times, frees = self._times, self._free
        begin: float | None = None
        for i in range(max(0, bisect_right(times, from_s) - 1), len(times)):
            time = times[i]
            if begin is not None and begin + duration_s <= time:
                return begin
            if frees[i] >= gpus:
                if begin is None:
                    if time >= until_s:
                        return until_s
                    begin = max(time, from_s)
            else:
                begin = None
                if time >= until_s:
                    return until_s
        return math.inf if begin is None else begin


class Allowances:
    """The allowances against which bookings of tasks count, with all live attempts booked."""

    def __init__(self, now_s: float, running: Sequence[Booking], limits: AdmissionLimits, gpus: int) -> None:
        self._now_s = now_s
        self._running = running
        self._limits = limits
        self._gpus = gpus
        self._users: dict[str, Allowance] = {}
        self._none = Allowance(now_s, -1)  # of tasks that wait for a larger cluster
        self._some_wait = limits.waits_for_gpus(max((limit for _, limit in limits.max_timeouts), default=0.0), gpus)
        self._long: Allowance | None = None
        if limits.short_reserve is not None:
            self._long = Allowance(now_s, gpus - limits.short_reserve.gpus)
            for booking in running:
                if limits.is_long(booking.timeout_s):
                    self._long.take(booking.shape.gpus, now_s, until_of(booking, now_s))

    def of(self, task: Task) -> list[Allowance]:
        """All allowances that the task counts against."""
        if self._some_wait and self._limits.waits_for_gpus(task.timeout_s, self._gpus):
            return [self._none]
        if not task.shape.uses_gpus:
            return []
        found = []
        cap = self._limits.running_gpus_per_user
        if cap is not None:
            allowance = self._users.get(task.owner)
            if allowance is None:
                allowance = self._users[task.owner] = Allowance(self._now_s, cap)
                for booking in self._running:
                    if booking.owner == task.owner:
                        allowance.take(booking.shape.held_gpus, self._now_s, until_of(booking, self._now_s))
            found.append(allowance)
        if self._long is not None and task.shape.gpus and self._limits.is_long(task.timeout_s):
            found.append(self._long)
        return found

    def limit_on(self, task: Task, duration_s: float, own: Reservation | None = None) -> LimitHold | None:
        """The limit that keeps the task from a start now; None: none does. ``own`` is its own reservation, if any."""
        gpus, now_s = task.shape.held_gpus, self._now_s
        kept = None if own is None else (max(own.start_s, now_s), own.start_s + own.duration_s)
        for allowance in self.of(task):
            until_s = allowance.until(gpus, kept)
            if now_s + duration_s > until_s:
                if allowance.limit < gpus:
                    return LimitHold(Wait(WaitCause.NOT_ADMITTED), -math.inf)
                why = WaitCause.SHORT_RESERVE if allowance is self._long else WaitCause.USER_LIMIT
                return LimitHold(Wait(why, None, allowance.blocker(gpus, until_s)), until_s - now_s)
        return None

    def might_start_earlier(self, task: Task, reservation: Reservation, duration_s: float) -> bool:
        """Whether limits would let a task start earlier than its reservation."""
        return all(a.might_start_earlier(task.shape.held_gpus, duration_s, reservation.start_s) for a in self.of(task))

    def limit_beside_bookings(self, duration_s: Callable[[Task], float]) -> Callable[[Task], LimitHold | None]:
        """A function that tells which limit keeps a task without a reservation from a start, and until when."""

        def limit_on(task: Task) -> LimitHold | None:
            limited = self.limit_on(task, duration_s(task))
            return None if limited is None else replace(limited, first_s=self._first_s(task, duration_s(task)))

        return limit_on

    def start(self, task: Task, duration_s: float) -> None:
        """Books a start now."""
        for allowance in self.of(task):
            allowance.take(task.shape.held_gpus, self._now_s, self._now_s + duration_s)

    def keep(self, task: Task, reservation: Reservation) -> None:
        """Books a waiting task's reservation."""
        self._move(task, reservation, 1)

    def note(self, task: Task, reservation: Reservation) -> None:
        """Notes whose reservation it is; its GPUs are booked already."""
        for allowance in self.of(task):
            allowance.kept[task.id] = (task.shape.held_gpus, max(reservation.start_s, self._now_s))

    def give_back(self, task: Task, reservation: Reservation) -> None:
        """Gives back what ``keep`` booked."""
        self._move(task, reservation, -1)

    def _move(self, task: Task, reservation: Reservation, sign: int) -> None:
        start_s, end_s = max(reservation.start_s, self._now_s), reservation.start_s + reservation.duration_s
        if end_s <= start_s:
            return
        for allowance in self.of(task):
            allowance.take(sign * task.shape.held_gpus, start_s, end_s)
            if sign > 0:
                allowance.kept[task.id] = (task.shape.held_gpus, start_s)
            else:
                allowance.kept.pop(task.id, None)

    def _first_s(self, task: Task, duration_s: float) -> float | None:
        """No start before this moment is allowed; None: with these limits and GPUs none is."""
        gpus, found_s = task.shape.held_gpus, self._now_s
        for allowance in self.of(task):
            start_s = allowance.earliest_start(gpus, duration_s, found_s)
            if start_s is None:
                return None
            found_s = start_s
        return found_s
