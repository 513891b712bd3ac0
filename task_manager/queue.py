"""The waiting tasks in the order of a policy: insert, remove and position in O(log n)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sortedcontainers import SortedDict, SortedList

from headway.ids import JobId, TaskId

from .model import Shape, Task
from .policy import Key, Policy, View


class TaskQueue:
    """Sorted by a static policy's key.

    ``order`` holds every task that ages (also those in a pause after a fault); the runnable ones are kept by shape
    as well, since a pass may drop a whole shape once one task of it did not fit.
    """

    def __init__(self, policy: Policy, view: View | None = None) -> None:
        if not policy.static:
            raise ValueError(f"{policy.name} re-sorts; this queue keeps an order that never changes")
        self._policy = policy
        self._view = view
        self._keys: dict[TaskId, Key] = {}
        self._order: SortedList[Key] = SortedList()
        self._runnable: dict[Shape, SortedDict[Key, TaskId]] = {}
        self._runnable_shape: dict[TaskId, Shape] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, task_id: TaskId) -> bool:
        return task_id in self._keys

    def add(self, task: Task, *, runnable: bool) -> None:
        """Puts a task in, or moves it to its new place."""
        self.remove(task.id)
        key = self._policy.key(task, task.submitted_at, self._view)
        self._keys[task.id] = key
        self._order.add(key)
        if runnable:
            shelf = self._runnable.get(task.shape)
            if shelf is None:
                shelf = self._runnable[task.shape] = SortedDict()
            shelf[key] = task.id
            self._runnable_shape[task.id] = task.shape

    def remove(self, task_id: TaskId) -> None:
        """Takes a task out; one that is not in is fine."""
        key = self._keys.pop(task_id, None)
        if key is None:
            return
        self._order.remove(key)
        shape = self._runnable_shape.pop(task_id, None)
        if shape is not None:
            shelf = self._runnable[shape]
            del shelf[key]
            if not shelf:
                del self._runnable[shape]

    def is_runnable(self, task_id: TaskId) -> bool:
        return task_id in self._runnable_shape

    def position(self, task_id: TaskId) -> int:
        """From 1; 0 for a task that is not in."""
        key = self._keys.get(task_id)
        return 0 if key is None else self._order.bisect_left(key) + 1

    def page(self, offset: int, limit: int) -> list[TaskId]:
        """Ids in order, from ``offset`` on."""
        return [_id_of(key) for key in self._order.islice(offset, offset + limit)]

    def in_order(self) -> Iterator[TaskId]:
        """All ids in order."""
        return (_id_of(key) for key in self._order)

    @property
    def runnable(self) -> Mapping[Shape, SortedDict[Key, TaskId]]:
        """The runnable tasks of each shape, in order."""
        return self._runnable


def _id_of(key: Key) -> TaskId:
    return TaskId(JobId(key[3]), key[5])
