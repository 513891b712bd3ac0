"""What JobManager does about tasks that TaskManager holds differently. Commands leave with the transaction."""

from __future__ import annotations

from collections.abc import Sequence

from headway.logs import get_logger
from headway.rpc.v1 import task_manager_pb2
from headway.states import TASK_ENDED, TaskEventKind, TaskState

from .job import AT_TASK_MANAGER, CancelCommand, HoldCommand, LiveJob, LostTask, ReleaseCommand
from .tables import TASK_MANAGER, outbox
from .transaction import JobTransaction

log = get_logger(__name__)


def mend(tx: JobTransaction, differences: Sequence[task_manager_pb2.CompareTasksReply.Difference]) -> None:
    """Do JobManager's part about each; those that have gone meanwhile are left alone."""
    for one in differences:
        job_id, task = one.task.job_id, one.task.name
        live = tx.job(job_id)
        if live is None:
            log.error(
                "task.of_unknown_job", job=job_id, task=task,
                reason="TaskManager has this task, but JobManager does not know its job. JobManager's database has "
                "lost it: the task is cancelled.",
            )  # fmt: skip
            _cancel_unknown(tx, job_id, task, one.generation)
        elif _mend(live, live.numbers.get(task), one.word, one.generation, tx.now):
            log.warning("task.mended", job=job_id, task=task, difference=one.word)


def _mend(live: LiveJob, number: int | None, word: str, generation: int, now: float) -> bool:
    if number is None:
        return False
    if word == "extra":
        return _cancel_there(live, number, generation)
    if live.states[number] not in AT_TASK_MANAGER:
        return False
    match word:
        case "unknown":
            _queue_again(live, number, now)
        case "cancel_untold" | "hold_untold":
            _tell_again(live, number)
        case "new_run" if generation > live.tasks[number].generation:
            # A retry was lost here: its events count from now on.
            live.tasks[number].generation, live.tasks[number].seq = generation, 0
            live.dirty.add(number)
        case _:
            return False
    return True


def _queue_again(live: LiveJob, number: int, now: float) -> None:
    """TaskManager has lost the task: hand it over once more, in the same generation."""
    record = live.tasks[number]
    lost = LostTask(record.seq, record.attempt, record.node_id)
    live.commands.append(live.enqueue_command(number, lost))
    if live.states[number] is TaskState.STOPPING:
        live.commands.append(CancelCommand(number, record.generation, ""))
    record.node_id, record.started_at, record.queued_at = "", None, now
    live.dirty.add(number)
    live.apply(live.progress.react(number, TaskEventKind.REQUEUED), now)


def _tell_again(live: LiveJob, number: int) -> None:
    """TaskManager has lost a cancel, a hold or its end."""
    record = live.tasks[number]
    if live.states[number] is TaskState.STOPPING:
        live.commands.append(CancelCommand(number, record.generation, ""))
    elif record.held_at is not None:
        live.commands.append(HoldCommand(number, record.generation))
    else:
        live.commands.append(ReleaseCommand(number, record.generation, record.ages_from))


def _cancel_there(live: LiveJob, number: int, generation: int) -> bool:
    """TaskManager has a task that has ended here: end it there, too. False: it has not ended."""
    if live.states[number] not in TASK_ENDED:
        return False
    live.commands.append(CancelCommand(number, generation, "Headway, since its job knows another end"))
    return True


def _cancel_unknown(tx: JobTransaction, job_id: str, name: str, generation: int) -> None:
    message = task_manager_pb2.TaskCommand()
    message.cancel.task.job_id, message.cancel.task.name = job_id, name
    message.cancel.generation = generation
    message.cancel.by = "Headway, since its job is not known any more"
    outbox.add(tx.conn, TASK_MANAGER, "", message.SerializeToString(), tx.now)
