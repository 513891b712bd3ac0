"""Compares a task as JobManager holds it with the task here, and mends what differs.

Each service's database may have lost its last commits. Then one of them knows more, or waits for an event that was
sent long ago. This module says which of the two has to tell the other, and tells JobManager what it has missed.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from headway.ids import NodeId, TaskId
from headway.logs import get_logger
from headway.states import TaskEventKind, TaskState

from ...model import Task
from .. import commands
from ..events import HeldTask, MendTasks
from ..turn import Turn

log = get_logger(__name__)


class Difference(StrEnum):
    """How a task differs. The first group is mended here, the second by JobManager."""

    AHEAD = "ahead"  # TaskManager is further: JobManager is told again
    BEHIND = "behind"  # TaskManager has lost events that JobManager has: its numbers go on behind them
    OLD_RUN = "old_run"  # TaskManager has lost a retry, and still has the run before: that is cancelled
    UNKNOWN = "unknown"  # TaskManager does not have it: it is queued again
    NEW_RUN = "new_run"  # JobManager has lost a retry
    CANCEL_UNTOLD = "cancel_untold"  # JobManager has cancelled it, TaskManager does not know
    HOLD_UNTOLD = "hold_untold"  # likewise a hold, or the end of one
    EXTRA = "extra"  # JobManager does not have it, or holds it as ended


MENDED_HERE = frozenset({Difference.AHEAD, Difference.BEHIND, Difference.OLD_RUN})


def difference(held: HeldTask, task: Task | None) -> Difference | None:
    """How the task here differs from what JobManager holds; None: they agree."""
    if task is None or (task.ended and task.generation < held.generation):
        return Difference.UNKNOWN
    if task.generation != held.generation:
        return Difference.OLD_RUN if task.generation < held.generation else Difference.NEW_RUN
    if held.event_seq > task.event_seq or held.attempt > task.attempt:
        return Difference.BEHIND
    if task.ended or task.attempt > held.attempt or _contradicts(held.state, task):
        return Difference.AHEAD
    if held.state == TaskState.STOPPING and task.cancel_by is None:
        return Difference.CANCEL_UNTOLD
    if held.held != task.held and task.waiting:
        return Difference.HOLD_UNTOLD
    return None


def _contradicts(state: str, task: Task) -> bool:
    return state == (TaskState.RUNNING if task.waiting else TaskState.QUEUED)


def on_mend(turn: Turn, event: MendTasks) -> list[TaskId]:
    """Mends what still differs; returns those tasks."""
    mended = []
    for held in event.tasks:
        task = turn.task(held.id)
        found = difference(held, task)
        if task is None or found not in MENDED_HERE:
            continue
        log.warning(
            "task.mended", task=str(held.id), difference=found.value, state=task.state.value, job_manager=held.state
        )
        if found is Difference.OLD_RUN:
            commands.cancel(turn, task, "Headway, since a later run was asked for")
        else:
            _tell_again(turn, held, task)
        mended.append(held.id)
    return mended


def _tell_again(turn: Turn, held: HeldTask, task: Task) -> None:
    """Moves the task's numbers up to those that JobManager knows, and tells the task's present state once more."""
    state = turn.state
    if held.attempt > task.attempt and not task.ended:
        # Attempts that are not known here may run.
        state.gates.close(task.id, state.started_s, NodeId(held.node_id) if held.node_id else None)
    task = replace(
        task, event_seq=max(task.event_seq, held.event_seq), attempt=max(task.attempt, held.attempt)
    )  # fmt: skip
    if task.ended:
        state.put_task(turn.emit(task, TaskEventKind(task.state.value), task.reason))
    elif task.waiting:
        state.put_task(turn.emit(task, TaskEventKind.REQUEUED, task.reason))
    else:
        attempt = state.attempts[task.id]
        state.put_task(turn.emit(task, TaskEventKind.ATTEMPT_STARTED, of=attempt))
