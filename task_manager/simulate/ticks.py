"""The time of a simulation in whole ticks of a microsecond.

Sums of seconds as floats lose exact fits: 0.2 + 0.1 is more than 0.3. Whole numbers lose nothing. To the pass the unit
of its times is all one. To a policy it is not, so it is shown seconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from headway.frozen import replace
from headway.ids import TaskId

from ..model import Task
from ..order.guard import finite_number
from ..order.policy import Policy, View

PER_SECOND = 1_000_000
# Below a tick, so that keys which are equal in exact arithmetic are equal: the tie then goes by the submission.
_KEY_DIGITS = 9


def ticks(span_s: float) -> int:
    """A duration in seconds as ticks."""
    return round(span_s * PER_SECOND)


def seconds(span: float) -> float:
    """A duration in ticks as seconds."""
    return span / PER_SECOND


class TickClock:
    """Counts ticks from the first submission, so that few digits are needed even for dates."""

    def __init__(self, first_s: float) -> None:
        self._first = ticks(first_s)

    def at(self, instant_s: float) -> int:
        """A moment of the trace in ticks."""
        return ticks(instant_s) - self._first

    def instant_s(self, at: int) -> float:
        """A moment in ticks as seconds of the trace."""
        return seconds(at + self._first)

    def in_ticks(self, task: Task) -> Task:
        """The task as the pass sees it."""
        return replace(
            task,
            submitted_at=self.at(task.submitted_at),
            queued_at=self.at(task.queued_at),
            timeout_s=ticks(task.timeout_s),
            tail_timeout_s=ticks(task.tail_timeout_s),
        )


def in_seconds(task: Task) -> Task:
    """A task in ticks as a policy sees it: in seconds since the first submission."""
    return replace(
        task,
        submitted_at=seconds(task.submitted_at),
        queued_at=seconds(task.queued_at),
        timeout_s=seconds(task.timeout_s),
        tail_timeout_s=seconds(task.tail_timeout_s),
    )


class PolicyInSeconds(Policy):
    """A policy that the pass asks in ticks and that counts in seconds. ``tasks`` holds each task in seconds."""

    # They are constants of a class, and here those of the policy inside.
    name: str  # type: ignore[misc]
    static: bool  # type: ignore[misc]

    def __init__(self, inner: Policy, tasks: Mapping[TaskId, Task]) -> None:
        self.name, self.static = inner.name, inner.static
        self._inner = inner
        self._tasks = tasks
        self._closes: dict[TaskId, int | None] = {}  # a task's moment never changes, and each pass asks for it

    def key(self, task: Task, now: float, view: View | None) -> float:
        value = self._inner.key(self._tasks[task.id], seconds(now), view)
        return round(value, _KEY_DIGITS) if type(value) is float else value

    def closes_at(self, task: Task, min_timeout_s: float) -> float | None:
        try:
            return self._closes[task.id]
        except KeyError:
            value = self._inner.closes_at(self._tasks[task.id], min_timeout_s)
            found = self._closes[task.id] = None if value is None else ticks(finite_number(value))
            return found

    def arrived(self, task: Task, view: View) -> None:
        self._inner.arrived(self._tasks[task.id], view)

    def ended(self, task: Task, ran_s: float, view: View) -> None:
        self._inner.ended(self._tasks[task.id], seconds(ran_s), view)
