"""The waiting tasks in the order of a policy: insert, remove and position in O(log n)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass

from sortedcontainers import SortedList

from headway.ids import JobId, TaskId

from .model import Shape, Task
from .policy import AgingSjf, ClusterView, Key, Policy, View, rank

_MICRO = 1_000_000


@dataclass(slots=True)
class _Entry:
    task: Task
    key: Key
    shelf: SortedList[Key] | None  # where the task lies if it is runnable
    gpu_us: int  # its share of the GPU-seconds that wait, in whole microseconds so that sums stay exact


class TaskQueue:
    """Sorted by a policy's numbers.

    The order holds every task that ages (also those in a pause after a fault); the runnable ones are kept by shape
    as well, since a pass may drop a whole shape once one task of it did not fit; with ``by_owner`` inside a shape by
    account, for the same reason: one that holds as many GPUs as it may.

    Rules that are not static are sorted again by ``sort``, which each pass calls. A policy that raises, or gives a
    number that is not finite, is set aside for `aging_sjf` (``failure`` says why) until it works for all tasks again.
    """

    def __init__(self, policy: Policy, *, by_owner: bool = False) -> None:
        self.policy = policy
        self.by_owner = by_owner
        self.failure = ""
        self._stand_in = AgingSjf()
        self._culprit: TaskId | None = None
        self._view: View = ClusterView(0)
        self._sorted_at = -math.inf
        self._entries: dict[TaskId, _Entry] = {}
        self._order: SortedList[Key] = SortedList()
        self._ready: SortedList[Key] = SortedList()
        self._shelves: dict[Shape, dict[str, SortedList[Key]]] = {}
        self._gpu_us = 0
        self._arrivals: dict[TaskId, None] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, task_id: TaskId) -> bool:
        return task_id in self._entries

    def copy(self) -> TaskQueue:
        """The same tasks in the same order, for what-ifs: changes of one are not seen in the other. A rule that learns
        is copied with what it has learnt."""
        made = TaskQueue(self.policy if self.policy.static else deepcopy(self.policy), by_owner=self.by_owner)
        made.failure, made._culprit = self.failure, self._culprit
        made._view, made._sorted_at = self._view, self._sorted_at
        made._order, made._ready = self._order.copy(), self._ready.copy()
        made._gpu_us, made._arrivals = self._gpu_us, dict(self._arrivals)
        shelves: dict[int, SortedList[Key]] = {}
        for shape, lanes in self._shelves.items():
            made._shelves[shape] = {}
            for lane, shelf in lanes.items():
                made._shelves[shape][lane] = shelves[id(shelf)] = shelf.copy()
        for task_id, entry in self._entries.items():
            lies_in = None if entry.shelf is None else shelves[id(entry.shelf)]
            made._entries[task_id] = _Entry(entry.task, entry.key, lies_in, entry.gpu_us)
        return made

    # -- changes ----------------------------------------------------------------------------------

    def add(self, task: Task, *, runnable: bool) -> None:
        """Puts a task in, or moves it to its new place."""
        known = task.id in self._entries
        self.remove(task.id)
        gpu_us = task.shape.gpus * round(task.timeout_s * _MICRO)
        entry = self._entries[task.id] = _Entry(task, rank(task, 0.0), None, gpu_us)
        if not self.policy.static and not known:
            self._arrivals[task.id] = None
        self._gpu_us += gpu_us
        try:
            entry.key = self._key(self.acting, task)
        except Exception as error:
            self._insert(entry, runnable)
            self._fail(task, error)
        else:
            self._insert(entry, runnable)

    def remove(self, task_id: TaskId) -> None:
        """Takes a task out; one that is not in is fine."""
        entry = self._entries.pop(task_id, None)
        if entry is None:
            return
        self._order.remove(entry.key)
        self._gpu_us -= entry.gpu_us
        if entry.shelf is not None:
            self._ready.remove(entry.key)
            entry.shelf.remove(entry.key)
            if not entry.shelf:
                self._drop_shelf(entry.task)
        if task_id == self._culprit:
            self._culprit = None  # the next pass tries the policy again

    def ended(self, task: Task, ran_s: float) -> None:
        """Tells the policy that a task has ended for good after a run of ``ran_s`` (0: it never ran)."""
        try:
            self.policy.ended(task, ran_s, self._view)
        except Exception as error:
            self._fail(task, error)

    def change(self, policy: Policy) -> None:
        """Another policy from now on; the tasks stay."""
        self.policy = policy
        self.failure, self._culprit = "", None
        by_age = sorted(self._entries.values(), key=lambda entry: (entry.task.submitted_at, entry.task.id))
        self._arrivals = {} if policy.static else dict.fromkeys(entry.task.id for entry in by_age)
        self._sort(self._sorted_at if math.isfinite(self._sorted_at) else 0.0)

    def sort(self, now: float, view: View) -> None:
        """Brings the order to this moment; for static rules there is nothing to do."""
        self._view, self._sorted_at = view, now
        if not self.policy.static or (self.failure and self._culprit is None):
            self._sort(now)

    # -- reading ----------------------------------------------------------------------------------

    @property
    def acting(self) -> Policy:
        """The policy that orders now: its stand-in while it fails."""
        return self._stand_in if self.failure else self.policy

    @property
    def waiting_gpu_s(self) -> float:
        """GPUs times timeout of all tasks in the queue, in seconds."""
        return self._gpu_us / _MICRO

    def is_runnable(self, task_id: TaskId) -> bool:
        entry = self._entries.get(task_id)
        return entry is not None and entry.shelf is not None

    def key_of(self, task_id: TaskId) -> Key | None:
        """Its key in the present order; None for a task that is not in."""
        entry = self._entries.get(task_id)
        return None if entry is None else entry.key

    def position(self, task_id: TaskId) -> int:
        """From 1; 0 for a task that is not in."""
        entry = self._entries.get(task_id)
        return 0 if entry is None else self._order.bisect_left(entry.key) + 1

    def page(self, offset: int, limit: int) -> list[TaskId]:
        """Ids in order, from ``offset`` on."""
        return [id_of(key) for key in self._order.islice(offset, offset + limit)]

    def in_order(self) -> Iterator[TaskId]:
        """All ids in order."""
        return (id_of(key) for key in self._order)

    def ready_keys(self) -> Iterator[Key]:
        """The keys of the runnable tasks, in order (`id_of`)."""
        return iter(self._ready)

    @property
    def ready(self) -> int:
        """How many are runnable."""
        return len(self._ready)

    @property
    def shelves(self) -> Mapping[Shape, Mapping[str, SortedList[Key]]]:
        """The keys of the runnable tasks of each shape (and account, where they are apart), in order."""
        return self._shelves

    # -- inside -----------------------------------------------------------------------------------

    def _lane(self, task: Task) -> str:
        return task.owner if self.by_owner else ""

    def _key(self, policy: Policy, task: Task, now: float | None = None) -> Key:
        if now is None:
            now = max(self._sorted_at, task.submitted_at)
        number = float(policy.key(task, now, None if policy.static else self._view))
        if not math.isfinite(number):
            raise ValueError(f"its key is {number}")
        return rank(task, number)

    def _insert(self, entry: _Entry, runnable: bool) -> None:
        self._order.add(entry.key)
        if runnable:
            self._ready.add(entry.key)
            lanes = self._shelves.setdefault(entry.task.shape, {})
            lane = self._lane(entry.task)
            shelf = lanes.get(lane)
            if shelf is None:
                shelf = lanes[lane] = SortedList()
            shelf.add(entry.key)
            entry.shelf = shelf

    def _drop_shelf(self, task: Task) -> None:
        lanes = self._shelves[task.shape]
        del lanes[self._lane(task)]
        if not lanes:
            del self._shelves[task.shape]

    def _fail(self, task: Task, error: Exception) -> None:
        self.failure = f"{self.policy.name or type(self.policy).__name__} failed for {task.id}: {error or repr(error)}"
        self._culprit = task.id if task.id in self._entries else None
        self._rebuild([self._key(self._stand_in, entry.task) for entry in self._entries.values()])

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
        except Exception as error:
            assert culprit is not None
            self._fail(culprit, error)
            return
        self._arrivals.clear()
        self.failure = ""
        self._rebuild(keys)

    def _rebuild(self, keys: list[Key]) -> None:
        """Puts everything into the order of these keys, one for each entry."""
        entries = list(self._entries.values())
        runnable = [entry.shelf is not None for entry in entries]
        self._order = SortedList(keys)
        self._ready = SortedList(key for key, is_ready in zip(keys, runnable, strict=True) if is_ready)
        contents: dict[Shape, dict[str, list[_Entry]]] = {}
        for entry, key, is_ready in zip(entries, keys, runnable, strict=True):
            entry.key = key
            if is_ready:
                contents.setdefault(entry.task.shape, {}).setdefault(self._lane(entry.task), []).append(entry)
        self._shelves = {}
        for shape, lanes in contents.items():
            self._shelves[shape] = {}
            for lane, there in lanes.items():
                shelf = SortedList(entry.key for entry in there)
                self._shelves[shape][lane] = shelf
                for entry in there:
                    entry.shelf = shelf


def id_of(key: Key) -> TaskId:
    """The task of a key."""
    return TaskId(JobId(key[3]), key[5])
