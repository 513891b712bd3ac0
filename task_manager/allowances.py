"""What the limits allow over time in one pass: GPUs that an account, or all long tasks together, may still take."""

from __future__ import annotations

from collections.abc import Sequence

from .admission import Limits
from .model import Task
from .passes import Why
from .places import Booking
from .steps import Allowance

# When an attempt that has outlived its booking will end is not known: so much later than now, each time it is asked.
OUTLIVED_S = 60.0


def until_of(booking: Booking, now_s: float) -> float:
    """When what it holds is taken to be free again."""
    return booking.until_s if booking.until_s > now_s else now_s + OUTLIVED_S


class Allowances:
    """Which limits a task's booking counts against, with all live attempts booked."""

    def __init__(self, now_s: float, running: Sequence[Booking], limits: Limits, gpus: int) -> None:
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

    def why_not_now(self, task: Task, duration_s: float) -> Why | None:
        """The limit that keeps it from a start now; None: none does."""
        for allowance in self.of(task):
            start_s = allowance.earliest(task.shape.gpus, duration_s, self._now_s)
            if start_s is None:
                return Why.NOT_ADMITTED
            if start_s != self._now_s:
                return Why.SHORT_RESERVE if allowance is self._long else Why.USER_LIMIT
        return None
