"""The waiting tasks in the order of a policy: insert, remove and position in O(log n)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from sortedcontainers import SortedList

from headway.ids import JobId, TaskId

from ..limits import AdmissionLimits
from ..model import Shape, Task
from .guard import finite_number, message_of, reraise_ctrl_c
from .policy import AgingSjf, ClusterView, Key, Policy, View, policy_copy, sort_key

_MICRO = 1_000_000

# Limits treat tasks of one shape and one group alike, except for their durations. A group is an account, if accounts
# are limited, and the number of a band of timeouts (`AdmissionLimits.timeout_bands`).
LimitGroup = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Entry:
    task: Task
    key: Key
    runnable: bool


class TaskQueue:
    """The waiting tasks, sorted by a policy's numbers.

    The order holds every task that ages, also those in a pause after a fault. The runnable ones are kept by shape as
    well, since a pass may skip a whole shape once one of its tasks does not fit. Inside a shape they are kept by
    `LimitGroup`, since a limit that stops one task stops its group.

    ``sort``, which each pass calls, sorts again by a policy that is not static. A policy that raises, or whose number
    is not finite, is replaced by `aging_sjf` until it works for all tasks again; ``failure`` says why.
    """

    def __init__(self, policy: Policy, *, limits: AdmissionLimits | None = None) -> None:
        self.policy = policy
        self.limits = limits or AdmissionLimits()
        self.failure = ""
        self._fallback = AgingSjf()
        self._culprit: TaskId | None = None
        self._view: View = ClusterView(0)
        self._sorted_at = -math.inf
        self._entries: dict[TaskId, _Entry] = {}
        self._order: SortedList[Key] = SortedList()
        self._ready: SortedList[Key] = SortedList()
        self._ready_by_shape: dict[Shape, dict[LimitGroup, SortedList[Key]]] = {}
        self._by_owner = self.limits.running_gpus_per_user is not None
        self._bands = self.limits.timeout_bands()
        self._duration_s: Callable[[Task], float] = _timeout_of
        self._duration_id: Hashable = None
        # The keys of a group by duration, once `shorter_than` was asked for it.
        self._by_duration: dict[tuple[Shape, LimitGroup], SortedList[tuple[float, Key]]] = {}
        self._work = (0, 0, 0)  # of `waiting_work`, in whole microseconds so that sums stay exact
        self._arrivals: dict[TaskId, None] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, task_id: TaskId) -> bool:
        return task_id in self._entries

    def copier(self) -> Callable[[], TaskQueue]:
        """A function that makes a copy of the queue as it is at this moment, for what-if questions.

        This call is quick. The returned function does the slow part and may run in another thread.

        Raises:
            BaseException: whatever a third party's policy raises when it is copied.
        """
        made = TaskQueue(policy_copy(self.policy), limits=self.limits)
        made.failure, made._culprit = self.failure, self._culprit
        made._view, made._sorted_at = self._view, self._sorted_at
        made._entries, made._work, made._arrivals = dict(self._entries), self._work, dict(self._arrivals)
        made._duration_s, made._duration_id = self._duration_s, self._duration_id
        order, ready = list(self._order), list(self._ready)
        ready_by_shape = [
            (shape, [(group, list(keys)) for group, keys in groups.items()])
            for shape, groups in self._ready_by_shape.items()
        ]
        lengths = [(where, list(row)) for where, row in self._by_duration.items()]

        def make() -> TaskQueue:
            made._order, made._ready = SortedList(order), SortedList(ready)
            made._ready_by_shape = {
                shape: {group: SortedList(keys) for group, keys in groups} for shape, groups in ready_by_shape
            }
            made._by_duration = {where: SortedList(row) for where, row in lengths}
            return made

        return make

    # -- changes ----------------------------------------------------------------------------------

    def add(self, task: Task, *, runnable: bool) -> None:
        """Puts a task in, or moves it to its new position."""
        known = task.id in self._entries
        self.remove(task.id)
        if not self.policy.static and not known:
            self._arrivals[task.id] = None
        self._count(task, 1)
        try:
            key = self._key(self.effective_policy, task)
        except BaseException as error:
            reraise_ctrl_c(error)
            self._insert(_Entry(task, sort_key(task, 0.0), runnable))
            self._fail(task, error)
        else:
            self._insert(_Entry(task, key, runnable))

    def remove(self, task_id: TaskId) -> None:
        """Takes a task out. Does nothing if the task is not in."""
        entry = self._entries.pop(task_id, None)
        if entry is None:
            return
        self._order.remove(entry.key)
        self._count(entry.task, -1)
        if entry.runnable:
            self._ready.remove(entry.key)
            groups, group = self._ready_by_shape[entry.task.shape], self._group_of(entry.task)
            groups[group].remove(entry.key)
            if self._by_duration and (entry.task.shape, group) in self._by_duration:
                self._by_duration[entry.task.shape, group].remove((self._duration_s(entry.task), entry.key))
            if not groups[group]:
                del groups[group]
                self._by_duration.pop((entry.task.shape, group), None)
                if not groups:
                    del self._ready_by_shape[entry.task.shape]
        if task_id == self._culprit:
            self._culprit = None  # so the next pass tries the policy again

    def ended(self, task: Task, ran_s: float) -> None:
        """Tells the policy that a task has ended for good after a run of ``ran_s`` seconds (0: it never ran)."""
        try:
            self.policy.ended(task, ran_s, self._view)
        except BaseException as error:
            reraise_ctrl_c(error)
            self._fail(task, error)

    def change_policy(self, policy: Policy) -> None:
        """Orders the same tasks by another policy from now on."""
        self.policy = policy
        self.failure, self._culprit = "", None
        by_age = sorted(self._entries.values(), key=lambda entry: (entry.task.submitted_at, entry.task.id))
        self._arrivals = {} if policy.static else dict.fromkeys(entry.task.id for entry in by_age)
        self._sort(self._sorted_at if math.isfinite(self._sorted_at) else 0.0)

    def sort(self, now: float, view: View) -> None:
        """Brings the order up to this moment, in seconds by the steady clock. Static policies need no sort."""
        self._view, self._sorted_at = view, now
        if not self.policy.static or self.retry_due:
            self._sort(now)

    # -- reading ----------------------------------------------------------------------------------

    @property
    def effective_policy(self) -> Policy:
        """The policy that orders the queue now: `aging_sjf` while the chosen one fails."""
        return self._fallback if self.failure else self.policy

    @property
    def retry_due(self) -> bool:
        """Whether the next ``sort`` tries a failed policy again, since the task at which it failed has left."""
        return bool(self.failure) and self._culprit is None

    @property
    def waiting_gpu_s(self) -> float:
        """The sum of GPUs times timeout over all tasks in the queue, in GPU-seconds."""
        return self._work[0] / _MICRO

    @property
    def waiting_work(self) -> tuple[float, float, float]:
        """Sums over all tasks in the queue, each times its timeout in seconds.

        They are of GPUs, of hundredths of a CPU and of bytes of memory.
        """
        gpus, cpus, memory = self._work
        return gpus / _MICRO, cpus / _MICRO, memory / _MICRO

    def is_runnable(self, task_id: TaskId) -> bool:
        """Whether the task is in and may start."""
        entry = self._entries.get(task_id)
        return entry is not None and entry.runnable

    def key_of(self, task_id: TaskId) -> Key | None:
        """The task's key in the present order; None if it is not in."""
        entry = self._entries.get(task_id)
        return None if entry is None else entry.key

    def position(self, task_id: TaskId) -> int:
        """The task's position, from 1; 0 if it is not in."""
        entry = self._entries.get(task_id)
        return 0 if entry is None else self._order.bisect_left(entry.key) + 1

    def page(self, offset: int, limit: int) -> list[TaskId]:
        """At most ``limit`` ids in order, from ``offset`` on."""
        return [task_id_of(key) for key in self._order.islice(offset, offset + limit)]

    def page_of_job(self, job_id: JobId, offset: int, limit: int) -> list[TaskId]:
        """As ``page``, of one job's tasks alone."""
        return [
            task_id_of(key) for key in islice((key for key in self._order if key[3] == job_id), offset, offset + limit)
        ]

    def count_of_job(self, job_id: JobId) -> int:
        """How many tasks of this job are in."""
        return sum(1 for key in self._order if key[3] == job_id)

    def in_order(self) -> Iterator[TaskId]:
        """All ids in order."""
        return (task_id_of(key) for key in self._order)

    def ready_keys(self) -> Iterator[Key]:
        """The keys of the runnable tasks, in order (`task_id_of`)."""
        return iter(self._ready)

    def ready_behind(self, key: Key) -> Iterator[TaskId]:
        """The ids of the runnable tasks behind this key, in order."""
        return (task_id_of(one) for one in self._ready.irange(key, inclusive=(False, True)))

    @property
    def ready_count(self) -> int:
        """How many tasks are runnable."""
        return len(self._ready)

    @property
    def ready_by_shape(self) -> Mapping[Shape, Mapping[LimitGroup, SortedList[Key]]]:
        """The keys of the runnable tasks by shape and group, each group in order."""
        return self._ready_by_shape

    def set_duration(self, duration_s: Callable[[Task], float], function_id: Hashable) -> None:
        """Sets how many seconds a task takes, for ``shorter_than``. Equal ids mean that the function is the same."""
        if function_id != self._duration_id:
            self._duration_s, self._duration_id = duration_s, function_id
            self._by_duration.clear()

    def shorter_than(self, shape: Shape, group: LimitGroup, most_s: float, after: Key) -> Iterator[Key]:
        """The keys behind ``after``, in order, of a group's tasks that take at most ``most_s`` seconds.

        A thousand of them cost a few milliseconds, however long the group is. If few tasks are that short, they are
        sorted by key; if many are, they are picked out of the group in order.
        """
        keys, row = self._ready_by_shape[shape][group], self._by_duration.get((shape, group))
        if row is None:
            tasks = ((self._entries[task_id_of(key)].task, key) for key in keys)
            row = self._by_duration[shape, group] = SortedList((self._duration_s(task), key) for task, key in tasks)
        count = row.bisect_left((math.nextafter(most_s, math.inf),))
        if count * count.bit_length() < len(keys):
            return iter(sorted(key for _, key in row.islice(0, count) if key > after))
        behind = keys.irange(after, inclusive=(False, True))
        return (key for key in behind if self._duration_s(self._entries[task_id_of(key)].task) <= most_s)

    # -- inside -----------------------------------------------------------------------------------

    def _count(self, task: Task, sign: int) -> None:
        micros, shape, (gpus, cpus, memory) = sign * round(task.timeout_s * _MICRO), task.shape, self._work
        self._work = (gpus + shape.gpus * micros, cpus + shape.cpu_centi * micros, memory + shape.memory_bytes * micros)

    def _group_of(self, task: Task) -> LimitGroup:
        owner = task.owner if self._by_owner and task.shape.uses_gpus else ""
        return owner, bisect_left(self._bands, task.timeout_s) if self._bands else 0

    def _key(self, policy: Policy, task: Task, now: float | None = None) -> Key:
        if now is None:
            now = max(self._sorted_at, task.submitted_at)
        return sort_key(task, finite_number(policy.key(task, now, None if policy.static else self._view)))

    def _insert(self, entry: _Entry) -> None:
        self._entries[entry.task.id] = entry
        self._order.add(entry.key)
        if entry.runnable:
            self._ready.add(entry.key)
            groups = self._ready_by_shape.setdefault(entry.task.shape, {})
            group = self._group_of(entry.task)
            keys = groups.get(group)
            if keys is None:
                keys = groups[group] = SortedList()
            keys.add(entry.key)
            if self._by_duration and (entry.task.shape, group) in self._by_duration:
                self._by_duration[entry.task.shape, group].add((self._duration_s(entry.task), entry.key))

    def _fail(self, task: Task, error: BaseException) -> None:
        self.failure = f"{self.policy.name or type(self.policy).__name__} failed for {task.id}: {message_of(error)}"
        self._culprit = task.id if task.id in self._entries else None
        self._rebuild([self._key(self._fallback, entry.task) for entry in self._entries.values()])

    def _sort(self, now: float) -> None:
        culprit: Task | None = None
        try:
            for task_id in self._arrivals:
                entry = self._entries.get(task_id)
                if entry is not None:
                    culprit = entry.task
                    self.policy.arrived(culprit, self._view)
            keys = []
            for entry in self._entries.values():
                culprit = entry.task
                keys.append(self._key(self.policy, culprit, now))
        except BaseException as error:
            reraise_ctrl_c(error)
            assert culprit is not None
            self._fail(culprit, error)
            return
        self._arrivals.clear()
        self.failure = ""
        self._rebuild(keys)

    def _rebuild(self, keys: list[Key]) -> None:
        """Puts everything into the order of these keys, one for each entry."""
        contents: dict[Shape, dict[LimitGroup, list[Key]]] = {}
        self._by_duration.clear()
        ready: list[Key] = []
        for (task_id, entry), key in zip(list(self._entries.items()), keys, strict=True):
            self._entries[task_id] = _Entry(entry.task, key, entry.runnable)
            if entry.runnable:
                ready.append(key)
                contents.setdefault(entry.task.shape, {}).setdefault(self._group_of(entry.task), []).append(key)
        self._order, self._ready = SortedList(keys), SortedList(ready)
        self._ready_by_shape = {
            shape: {group: SortedList(there) for group, there in groups.items()} for shape, groups in contents.items()
        }


def task_id_of(key: Key) -> TaskId:
    """The id of the task to which a key belongs."""
    return TaskId(JobId(key[3]), key[5])


def _timeout_of(task: Task) -> float:
    return task.timeout_s
