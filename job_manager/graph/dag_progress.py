"""What an event means for the other tasks of its job.

Pure: states and one event go in, changes of states come out. Each task carries two counters: how many of its needs have
not ended, and how many ended in a way that rules it out. So a job costs one look at each edge over its whole life, and
nothing here recurses.

A need is met by: ``success`` SUCCEEDED; ``failure`` FAILED, TIMED_OUT or OUT_OF_MEMORY; ``any`` every end, SKIPPED
and CANCELLED too. So a cancelled task meets ``any`` alone: what needs its success or its failure is skipped.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headway.jobfile.spec import NeedOn
from headway.states import TASK, TASK_ENDED, TASK_FAILURES, TaskEventKind, TaskState

_MEETS: dict[NeedOn, frozenset[TaskState]] = {
    NeedOn.SUCCESS: frozenset({TaskState.SUCCEEDED}),
    NeedOn.FAILURE: TASK_FAILURES,
    NeedOn.ANY: TASK_ENDED,
}
RETRYABLE = TASK_FAILURES | {TaskState.CANCELLED, TaskState.SKIPPED}


@dataclass(frozen=True, slots=True)
class TaskStateChange:
    """One task's new state; apply them in order.

    ``cause`` goes with SKIPPED, as two task numbers: the need that ruled the task out, and the task at the root of it.
    They are the same unless that need was itself skipped.
    """

    task: int
    event: TaskEventKind
    state: TaskState
    cause: tuple[int, int] | None = None


Needs = Sequence[Sequence[tuple[int, NeedOn]]]


def dependents_of(needs: Needs) -> list[list[tuple[int, NeedOn]]]:
    """The edges the other way round."""
    below: list[list[tuple[int, NeedOn]]] = [[] for _ in needs]
    for task, of_task in enumerate(needs):
        for need, on in of_task:
            below[need].append((task, on))
    return below


class DagProgress:
    """The task states of one job. Every method applies what it returns."""

    __slots__ = ("_below", "_broken", "_needs", "_open", "_roots", "counts", "states")

    def __init__(self, needs: Needs, states: Sequence[TaskState] | None = None) -> None:
        self._needs = needs
        self._below = dependents_of(needs)
        self.states = list(states) if states is not None else [TaskState.BLOCKED] * len(needs)
        self.counts = Counter(self.states)
        self._open = [0] * len(needs)  # needs that have not ended
        self._broken = [0] * len(needs)  # needs that ended otherwise than needed
        self._roots: dict[int, int] = {}  # skipped task to the task at the root of it
        for task, of_task in enumerate(needs):
            for need, on in of_task:
                state = self.states[need]
                if state not in TASK_ENDED:
                    self._open[task] += 1
                elif state not in _MEETS[on]:
                    self._broken[task] += 1

    @property
    def live(self) -> int:
        """How many tasks have not ended."""
        return len(self.states) - sum(self.counts[state] for state in TASK_ENDED)

    def waits_for(self, task: int) -> list[int]:
        """The needs of a task that have not ended."""
        return [need for need, _ in self._needs[task] if self.states[need] not in TASK_ENDED]

    def decide_waiting(self) -> list[TaskStateChange]:
        """Release and skip whatever the states as they are ask for: at submission, and in doubt."""
        moved: list[TaskStateChange] = []
        skipped: deque[int] = deque()
        for task, state in enumerate(self.states):
            if state is TaskState.BLOCKED:
                self._decide(task, moved, skipped)
        self._propagate(skipped, moved)
        return moved

    def react(self, task: int, event: TaskEventKind) -> list[TaskStateChange]:
        """Apply one event of one task; empty where the table ignores it.

        Raises:
            ImpossibleEvent: the table calls the pair a bug.
        """
        if not TASK.moves_on(self.states[task], event):
            return []
        moved: list[TaskStateChange] = []
        ended = deque([task]) if self._move(task, event, moved) else deque()
        self._propagate(ended, moved)
        return moved

    def cancel_all(self) -> list[TaskStateChange]:
        """A user cancels the job: what waits is cancelled, what is queued or runs is told to end."""
        moved: list[TaskStateChange] = []
        ended: deque[int] = deque()
        for task, state in enumerate(self.states):
            if state in TASK_ENDED or not TASK.moves_on(state, TaskEventKind.CANCEL_REQUESTED):
                continue
            if self._move(task, TaskEventKind.CANCEL_REQUESTED, moved):
                ended.append(task)
        # Only now: a task that needs "any" end must be cancelled with the rest, not released by their ends.
        self._propagate(ended, moved)
        return moved

    def retry(self, task: int | None = None) -> list[TaskStateChange]:
        """A user wants one task, or all, run again: what failed, was cancelled or skipped.

        With one task go the tasks below it that were skipped. A task stays as it is when its needs would rule it
        out at once. So the answer is empty where there is nothing to run again.
        """
        moved: list[TaskStateChange] = []
        again = self.again(task)
        for one in again:
            self._reopen(one, moved)
        for one in again:
            self._decide(one, moved, deque())
        return moved

    def again(self, task: int | None = None) -> list[int]:
        """The tasks that ``retry`` would run again."""
        chosen = self._retryable_with(task) if task is not None else self._retryable()
        self._drop_ruled_out(chosen)
        return sorted(chosen)

    def ruled_out_by(self, task: int) -> int | None:
        """The first need of a task that ended otherwise than needed, if one did."""
        for need, on in self._needs[task]:
            if self.states[need] in TASK_ENDED and self.states[need] not in _MEETS[on]:
                return need
        return None

    # -- one step -------------------------------------------------------------------------------

    def _move(
        self, task: int, event: TaskEventKind, moved: list[TaskStateChange], cause: tuple[int, int] | None = None
    ) -> bool:
        """Apply a move of the table; whether the task has ended by it."""
        before = self.states[task]
        after = TASK.after(before, event)
        self.states[task] = after
        self.counts[before] -= 1
        self.counts[after] += 1
        moved.append(TaskStateChange(task, event, after, cause))
        return after in TASK_ENDED

    def _decide(self, task: int, moved: list[TaskStateChange], skipped: deque[int]) -> None:
        """What becomes of a BLOCKED task with its counters as they are."""
        if self._broken[task]:
            cause = self._cause(task)
            self._roots[task] = cause[1]
            self._move(task, TaskEventKind.NEEDS_FAILED, moved, cause)
            skipped.append(task)
        elif not self._open[task]:
            self._move(task, TaskEventKind.RELEASED, moved)

    def _propagate(self, ended: deque[int], moved: list[TaskStateChange]) -> None:
        while ended:
            task = ended.popleft()
            state = self.states[task]
            for below, on in self._below[task]:
                self._open[below] -= 1
                if state not in _MEETS[on]:
                    self._broken[below] += 1
                if self.states[below] is TaskState.BLOCKED:
                    self._decide(below, moved, ended)

    def _reopen(self, task: int, moved: list[TaskStateChange]) -> None:
        before = self.states[task]
        self._move(task, TaskEventKind.RETRIED, moved)
        self._roots.pop(task, None)
        for below, on in self._below[task]:
            self._open[below] += 1
            if before not in _MEETS[on]:
                self._broken[below] -= 1

    def _cause(self, task: int) -> tuple[int, int]:
        need = self.ruled_out_by(task)
        assert need is not None, "a need was counted as broken"
        root = need
        while self.states[root] is TaskState.SKIPPED:
            known = self._roots.get(root)
            above = known if known is not None else self.ruled_out_by(root)
            if above is None:
                break
            root = above
        return need, root

    # -- what a retry takes along ---------------------------------------------------------------

    def _retryable(self) -> set[int]:
        return {task for task, state in enumerate(self.states) if state in RETRYABLE}

    def _retryable_with(self, task: int) -> set[int]:
        if self.states[task] not in RETRYABLE:
            return set()
        chosen = {task}
        queue = deque([task])
        while queue:
            for below, _ in self._below[queue.popleft()]:
                if below not in chosen and self.states[below] is TaskState.SKIPPED:
                    chosen.add(below)
                    queue.append(below)
        return chosen

    def _drop_ruled_out(self, chosen: set[int]) -> None:
        """Leave out, until nothing changes, each task with a need that ended wrongly and isn't run again."""

        def ruled_out(task: int) -> bool:
            return any(
                need not in chosen and self.states[need] in TASK_ENDED and self.states[need] not in _MEETS[on]
                for need, on in self._needs[task]
            )

        doubtful: Iterable[int] = sorted(chosen)
        while dropped := [task for task in doubtful if task in chosen and ruled_out(task)]:
            chosen.difference_update(dropped)
            doubtful = [below for task in dropped for below, _ in self._below[task]]
