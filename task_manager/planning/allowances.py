"""What the limits allow over time in one pass: GPUs that an account, or all long tasks together, may still take."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..limits import AdmissionLimits
from ..model import Task
from .bookings import Booking, Reservation
from .pass_model import LimitHold, Wait, WaitCause
from .step_functions import Allowance

# When an attempt that has outlived its booking will end is not known: so much later than now, each time it is asked.
OUTLIVED_S = 60.0


def until_of(booking: Booking, now_s: float) -> float:
    """When what it holds is taken to be free again."""
    return booking.until_s if booking.until_s > now_s else now_s + OUTLIVED_S


class Allowances:
    """Which limits a task's booking counts against, with all live attempts booked."""

    def __init__(self, now_s: float, running: Sequence[Booking], limits: AdmissionLimits, gpus: int) -> None:
        self._now_s = now_s
        self._running = running
        self._limits = limits
        self._gpus = gpus
        self._users: dict[str, Allowance] = {}
        self._none = Allowance(now_s, -1)  # for tasks that wait for a larger cluster
        self._some_wait = limits.waits_for_gpus(max((limit for _, limit in limits.max_timeouts), default=0.0), gpus)
        self._long: Allowance | None = None
        if limits.short_reserve is not None:
            self._long = Allowance(now_s, gpus - limits.short_reserve.gpus)
            for booking in running:
                if limits.is_long(booking.timeout_s):
                    self._long.take(booking.shape.gpus, now_s, until_of(booking, now_s))

    def of(self, task: Task) -> list[Allowance]:
        """All that the task must find room in."""
        if self._some_wait and self._limits.waits_for_gpus(task.timeout_s, self._gpus):
            return [self._none]
        if not task.shape.gpus:
            return []
        found = []
        cap = self._limits.running_gpus_per_user
        if cap is not None:
            allowance = self._users.get(task.owner)
            if allowance is None:
                allowance = self._users[task.owner] = Allowance(self._now_s, cap)
                for booking in self._running:
                    if booking.owner == task.owner:
                        allowance.take(booking.shape.gpus, self._now_s, until_of(booking, self._now_s))
            found.append(allowance)
        if self._long is not None and self._limits.is_long(task.timeout_s):
            found.append(self._long)
        return found

    def limit_on(self, task: Task, duration_s: float, own: Reservation | None = None) -> LimitHold | None:
        """What keeps it from a start now; None: nothing does. ``own``: a place that is kept for it, which is not in its
        own way."""
        gpus, now_s = task.shape.gpus, self._now_s
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
        """Whether limits would let a task start earlier than at the place that is kept for it."""
        return all(a.might_start_earlier(task.shape.gpus, duration_s, reservation.start_s) for a in self.of(task))

    def asked(self, length: Callable[[Task], float]) -> Callable[[Task], LimitHold | None]:
        """What keeps a task without a reservation from a start beside all that is booked by then, and up to when."""

        def limit_on(task: Task) -> LimitHold | None:
            duration_s = length(task)
            limited = self.limit_on(task, duration_s)
            return None if limited is None else replace(limited, first_s=self._first_s(task, duration_s))

        return limit_on

    def start(self, task: Task, duration_s: float) -> None:
        """Books a start now."""
        for allowance in self.of(task):
            allowance.take(task.shape.gpus, self._now_s, self._now_s + duration_s)

    def keep(self, task: Task, reservation: Reservation) -> None:
        """Books a place for a waiting task."""
        self._move(task, reservation, 1)

    def note(self, task: Task, reservation: Reservation) -> None:
        """For whom it is, of a place that is booked already."""
        for allowance in self.of(task):
            allowance.kept[task.id] = (task.shape.gpus, max(reservation.start_s, self._now_s))

    def give_back(self, task: Task, reservation: Reservation) -> None:
        """Takes back what ``keep`` booked."""
        self._move(task, reservation, -1)

    def _move(self, task: Task, reservation: Reservation, sign: int) -> None:
        start_s, end_s = max(reservation.start_s, self._now_s), reservation.start_s + reservation.duration_s
        if end_s <= start_s:
            return
        for allowance in self.of(task):
            allowance.take(sign * task.shape.gpus, start_s, end_s)
            if sign > 0:
                allowance.kept[task.id] = (task.shape.gpus, start_s)
            else:
                allowance.kept.pop(task.id, None)

    def _first_s(self, task: Task, duration_s: float) -> float | None:
        """No start before this is allowed; None: none is as things are."""
        gpus, found_s = task.shape.gpus, self._now_s
        for allowance in self.of(task):
            start_s = allowance.earliest_start(gpus, duration_s, found_s)
            if start_s is None:
                return None
            found_s = start_s
        return found_s
