"""JobManager's commands: enqueue, cancel, hold, release. Each may arrive again; none may take effect twice."""

from __future__ import annotations

from headway.frozen import replace
from headway.logs import get_logger
from headway.model.reasons import EndReason, EndWord
from headway.states import TaskState

from ..model import Task
from .events import CancelTask, EnqueueTask, HoldTask, ReleaseTask, TaskCommand
from .turn import Turn

log = get_logger(__name__)


def on_command(turn: Turn, command: TaskCommand) -> None:
    """Applies one command."""
    if isinstance(command, EnqueueTask):
        _enqueue(turn, command)
        return
    task = turn.state.tasks.get(command.task_id)
    # A task that has ended needs nothing: the event of its end is on its way to JobManager.
    if task is None or command.generation != task.generation or _seen(task, command.seq):
        return
    task = replace(task, command_seq=max(task.command_seq, command.seq))
    match command:
        case CancelTask():
            cancel(turn, task, command.by)
        case HoldTask():
            turn.state.put_task(replace(task, held=True))
        case ReleaseTask():
            queued_at = turn.now if task.held and task.waiting else task.queued_at
            turn.state.put_task(replace(task, held=False, submitted_at=command.submitted_at, queued_at=queued_at))


def _seen(task: Task, seq: int) -> bool:
    return 0 < seq <= task.command_seq


def _enqueue(turn: Turn, command: EnqueueTask) -> None:
    task = command.task
    known = turn.task(task.id)
    if known is not None:
        if task.generation <= known.generation:
            return  # the same command was delivered again
        if not known.ended:
            log.error("task.enqueued_while_live", task=str(task.id), generation=task.generation, state=known.state)
            return
        # A manual retry. The numbers go on, so that fences and JobManager's filter hold. The counters start at zero.
        task = replace(
            task,
            attempt=max(task.attempt, known.attempt),
            event_seq=max(task.event_seq, known.event_seq),
            disowned=known.disowned,
        )
    if command.lost:
        # An attempt of it may run that nobody knows here.
        turn.state.gates.close(task.id, turn.state.started_s, command.suspect)
    elif known is None:
        turn.state.gates.came(task.id)
    turn.specs[task.id] = command.spec
    mean_timeout_s = turn.state.note_arrival(task.timeout_s)
    turn.state.put_task(replace(task, queued_at=turn.now, mean_timeout_s=mean_timeout_s))
    log.info("task.queued", task=str(task.id), generation=task.generation, gpus=task.shape.gpus)


def cancel(turn: Turn, task: Task, by: str) -> None:
    """Ends a task: at once if it waits, else once its attempt has ended."""
    if task.cancel_by is not None:
        turn.state.put_task(task)
        return
    log.info("task.cancel", task=str(task.id), by=by, state=task.state.value)
    if task.waiting:
        turn.end_task(replace(task, cancel_by=by), TaskState.CANCELLED, EndReason(EndWord.CANCELLED))
        return
    turn.state.put_task(replace(task, state=TaskState.STOPPING, cancel_by=by))
    turn.request_stop(turn.state.attempts[task.id], "cancelled")
