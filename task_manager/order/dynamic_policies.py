"""Policies whose order changes with time or with the load. The queue is sorted again at each pass.

Nobody knows what will sort ahead tomorrow. So `settled` promises no starts under them; `late` does, since its promises
need no order. docs/scheduling.md explains the formulas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from headway.ids import TaskId

from ..model import Task
from .policy import Policy, View, common_terms, log_timeout, require


@dataclass(frozen=True, slots=True)
class Hrrn(Policy):
    """Highest response ratio next (Brinch Hansen, 1971): (wait + floor) / max(T, floor), the highest first.

    All times are in seconds. ``floor`` keeps the ratio of very short tasks from changing with every second.
    """

    name: ClassVar[str] = "hrrn"
    floor: float = 60.0

    def __post_init__(self) -> None:
        require(self.floor > 0, "floor must be above 0")

    def key(self, task: Task, now: float, view: View | None) -> float:
        return -self._ratio(task, now)

    def terms(self, task: Task, now: float) -> dict[str, float]:
        return {**common_terms(task, now), "response_ratio": self._ratio(task, now)}

    def _ratio(self, task: Task, now: float) -> float:
        return (max(0.0, now - task.submitted_at) + self.floor) / max(task.timeout_s, self.floor)


@dataclass(slots=True)
class Adaptive(Policy):
    """`log_aging` with a weight that follows the load: c = max(c_min, rho * GPU-seconds that wait / GPUs).

    The longer the queue, the more a short timeout is worth. rho is the share of their booked GPU-seconds that ended
    tasks really used. Both sums are multiplied by ``decay`` at each end, so recent tasks count most. ``c`` and
    ``c_min`` are in seconds.
    """

    name: ClassVar[str] = "adaptive"
    c_min: float = 60.0
    decay: float = 0.98
    _actual_s: float = field(default=0.0, init=False)
    _booked_s: float = field(default=0.0, init=False)
    _c: float = field(default=0.0, init=False)  # the last weight, to show to people

    def __post_init__(self) -> None:
        require(self.c_min >= 0, "c_min must be at least 0")
        require(0 < self.decay <= 1, "decay must be above 0 and at most 1")

    @property
    def rho(self) -> float:
        return min(1.0, self._actual_s / self._booked_s) if self._booked_s > 0 else 1.0

    def weight(self, view: View | None) -> float:
        """c now, in seconds. Without a view: the last one that was worked out."""
        if view is None:
            return max(self.c_min, self._c)
        self._c = max(self.c_min, self.rho * view.waiting_gpu_s / max(1, view.gpus))
        return self._c

    def key(self, task: Task, now: float, view: View | None) -> float:
        return self.since(task) + self.weight(view) * log_timeout(task.timeout_s)

    def since(self, task: Task) -> float:
        """The moment from which the task ages, in seconds by the steady clock."""
        return task.submitted_at

    def terms(self, task: Task, now: float) -> dict[str, float]:
        c = self.weight(None)
        return {**common_terms(task, now), "c": c, "log_timeout_s": -c * log_timeout(task.timeout_s)}

    def ended(self, task: Task, ran_s: float, view: View) -> None:
        if task.shape.gpus and ran_s > 0:
            self._actual_s = self._actual_s * self.decay + task.shape.gpus * ran_s
            self._booked_s = self._booked_s * self.decay + task.shape.gpus * task.timeout_s

    def state(self) -> dict[str, Any]:
        return {"actual_s": self._actual_s, "booked_s": self._booked_s}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._actual_s, self._booked_s = float(state["actual_s"]), float(state["booked_s"])


@dataclass(slots=True)
class Fair(Adaptive):
    """`adaptive` with fair shares: many tasks of one user age as if they had been submitted spread out over time.

    Each task has a tag, the moment from which it ages: max(t, last tag + spread * booked GPU-seconds / GPUs). ``t``
    is its submission; the last tag and the booked GPU-seconds are those of the user's task before it.

    A task that ends without ever having run gives back what it booked. Later tasks of its user then age as if it had
    never been there. Tags of tasks that have run are no longer known; they count as if nothing had been given back.

    Without ``restore`` the tags are worked out anew from the tasks in the queue, in the order of submission.
    """

    name: ClassVar[str] = "fair"
    spread: float = 4.0
    _tags: dict[TaskId, float] = field(default_factory=dict, init=False)
    # The tag and the booked GPU-seconds of each user's last task.
    _last: dict[str, tuple[float, float]] = field(default_factory=dict, init=False)
    # The tasks of each user that have not ended, in the order of arrival: t, and booked GPU-seconds.
    _lines: dict[str, dict[TaskId, tuple[float, float]]] = field(default_factory=dict, init=False)
    # By user, the tasks that ended without a run, and by how many seconds each delayed the next one. They are taken
    # out together at the next sort, since each removal goes through the user's whole line.
    _refunds: dict[str, dict[TaskId, float]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        Adaptive.__post_init__(self)
        require(self.spread >= 0, "spread must be at least 0")

    def arrived(self, task: Task, view: View) -> None:
        self._give_back()
        if task.id in self._tags:
            return
        last, booked_s = self._last.get(task.owner, (task.submitted_at, 0.0))
        tag = max(task.submitted_at, last + self.spread * booked_s / max(1, view.gpus))
        booked_s = task.shape.gpus * task.timeout_s
        self._tags[task.id] = tag
        self._last[task.owner] = (tag, booked_s)
        self._lines.setdefault(task.owner, {})[task.id] = (task.submitted_at, booked_s)

    def since(self, task: Task) -> float:
        self._give_back()
        # A task does not age while it is on hold: a release brings a later t.
        return max(task.submitted_at, self._tags.get(task.id, task.submitted_at))

    def terms(self, task: Task, now: float) -> dict[str, float]:
        later_s = self.since(task) - task.submitted_at
        return {**Adaptive.terms(self, task, now), "spread_s": -later_s}

    def ended(self, task: Task, ran_s: float, view: View) -> None:
        Adaptive.ended(self, task, ran_s, view)
        has_run = ran_s > 0 or task.user_failures or task.losses
        entry = self._lines.get(task.owner, {}).get(task.id)
        if entry is not None and not has_run:
            self._refunds.setdefault(task.owner, {})[task.id] = self.spread * entry[1] / max(1, view.gpus)
        else:
            self._forget(task.owner, task.id)

    def _forget(self, user: str, task_id: TaskId) -> None:
        self._tags.pop(task_id, None)
        line = self._lines.get(user, {})
        line.pop(task_id, None)
        if not line:
            self._lines.pop(user, None)

    def _give_back(self) -> None:
        """Takes tasks that ended without a run out of their users' lines.

        Each tag behind such a task becomes earlier by as much as the task had delayed it, but never earlier than t.
        """
        if not self._refunds:
            return
        for user, costs in self._refunds.items():
            earlier_s, last, last_booked_s = 0.0, *self._last[user]
            final = next(reversed(self._lines[user]))
            for task_id, (t, booked_s) in list(self._lines[user].items()):
                tag = self._tags[task_id]
                is_last = task_id == final and (tag, booked_s) == (last, last_booked_s)
                self._tags[task_id] = max(t, tag - earlier_s)
                earlier_s = tag - self._tags[task_id]
                if is_last:
                    self._last[user] = (self._tags[task_id], 0.0 if task_id in costs else booked_s)
                earlier_s += costs.get(task_id, 0.0)
                if task_id == final and not is_last:  # the user's last task has run and left the line
                    self._last[user] = (max(self._tags[task_id], last - earlier_s), last_booked_s)
            for task_id in costs:
                self._forget(user, task_id)
        self._refunds.clear()

    def state(self) -> dict[str, Any]:
        self._give_back()
        users = {user: list(last) for user, last in self._last.items()}
        lines = [
            [user, task_id.job_id, task_id.name, self._tags[task_id], t, booked_s]
            for user, line in self._lines.items()
            for task_id, (t, booked_s) in line.items()
        ]
        return {**Adaptive.state(self), "lines": lines, "users": users}

    def restore(self, state: Mapping[str, Any]) -> None:
        Adaptive.restore(self, state)
        self._tags, self._lines, self._refunds = {}, {}, {}
        for user, job_id, name, tag, t, booked_s in state.get("lines", ()):
            self._tags[TaskId(job_id, name)] = float(tag)
            self._lines.setdefault(str(user), {})[TaskId(job_id, name)] = (float(t), float(booked_s))
        for job_id, name, tag in state.get("tags", ()):  # written by a version without lines
            self._tags[TaskId(job_id, name)] = float(tag)
        self._last = {str(user): (float(tag), float(booked_s)) for user, (tag, booked_s) in state["users"].items()}
