"""What follows the end of an attempt: another attempt, or the end of the task.

There are three separate budgets. The user's own retries are for failures of the user's process. A small budget is for
faults of the platform. A larger one is for attempts that were lost with their node, or never begun since its engine was
away. That is nobody's fault, but a task that brings down every node must end some day. An end that was one too many
says so, with its number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headway.backoff import grown_s
from headway.frozen import replace
from headway.ids import NodeId
from headway.model.reasons import EndReason, EndWord
from headway.states import TaskState

from ..model import Task

_LOSS_PAUSE_S = 5.0
_REFUSAL_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
_REMEMBERED_FAILURES = 32
_REMEMBERED_NUMBERS = 32


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """The platform's own budgets. The pause before the first retry, in seconds, doubles each time."""

    platform_retries: int = 3
    platform_retry_delay_s: float = 5.0
    loss_retries: int = 10


@dataclass(frozen=True, slots=True)
class RequeueTask:
    """The task goes back into the queue and keeps its age. ``task`` already has the new counters and the pause."""

    task: Task


@dataclass(frozen=True, slots=True)
class EndTask:
    """The task has ended."""

    state: TaskState
    reason: EndReason


def after_end(
    task: Task,
    reason: EndReason,
    *,
    node_id: NodeId,
    now: float,
    elsewhere: bool = False,
    engine_away: bool = False,
    settings: RetrySettings = RetrySettings(),  # frozen
) -> RequeueTask | EndTask:
    """Decides after an attempt of ``task`` on ``node_id`` ended with ``reason``.

    ``elsewhere``: the Worker says that it can't run this task, but another node may. ``engine_away``: it was never
    begun, since the node's engine did not answer, or was known to give no GPUs to containers.
    """
    if reason.succeeded:
        return EndTask(TaskState.SUCCEEDED, reason)
    if task.cancel_by is not None:
        return EndTask(TaskState.CANCELLED, _cancelled(reason))
    if task.shape.node_id:
        return EndTask(reason.task_state, reason)  # the person's process has ended with it: nobody would take another
    if reason.word is EndWord.DRAINED:
        return _again(task, now, 0.0, None, refusals=0)  # an admin's wish: it costs the task nothing
    if reason.word is EndWord.NODE_LOST or (engine_away and reason.platform_retry):
        if task.losses >= settings.loss_retries:
            return EndTask(reason.task_state, _last_loss(reason, task.losses + 1))
        # A node that gives no GPUs to containers tells so meanwhile, so that no launch to it is refused.
        first_s = _REFUSAL_PAUSE_S if reason.word is EndWord.GPU_FAILED else 0.0
        pause_s = _grown(_LOSS_PAUSE_S, task.losses - 1) if task.losses else first_s
        return _again(task, now, pause_s, node_id, losses=task.losses + 1, refusals=0)
    if reason.platform_retry:
        if task.platform_failures >= settings.platform_retries:
            return EndTask(reason.task_state, _last_platform_failure(reason, task.platform_failures + 1))
        pause_s = _grown(settings.platform_retry_delay_s, task.platform_failures)
        return _again(task, now, pause_s, node_id, platform_failures=task.platform_failures + 1, refusals=0)
    if reason.user_retry and task.user_failures < task.retries:
        avoid = node_id if elsewhere else None
        return _again(task, now, 0.0, avoid, user_failures=task.user_failures + 1, refusals=0)
    return EndTask(reason.task_state, reason)


def after_refusal(task: Task, *, node_id: NodeId, now: float, others: bool) -> RequeueTask | EndTask:
    """Decides after a Worker refused a launch, which costs no retry.

    ``others``: other nodes may take it, so the first refusal needs no pause.
    """
    if task.cancel_by is not None:
        return EndTask(TaskState.CANCELLED, EndReason(EndWord.CANCELLED))
    pause_s = 0.0 if others and task.refusals == 0 else _grown(_REFUSAL_PAUSE_S, task.refusals)
    return _again(task, now, pause_s, node_id, refusals=task.refusals + 1)


def disown(task: Task, number: int) -> Task:
    """Remembers that an attempt was declared lost here while a Worker may still have it."""
    return replace(task, disowned=(*task.disowned, number)[-_REMEMBERED_NUMBERS:])


def _again(task: Task, now: float, pause_s: float, avoid: NodeId | None, **counters: int) -> RequeueTask:
    nodes = task.avoid
    if avoid is not None:
        nodes = (*nodes, avoid)[-_REMEMBERED_FAILURES:]
    not_before = now + pause_s if pause_s else 0.0
    changed: dict[str, Any] = dict(counters)
    return RequeueTask(
        replace(task, state=TaskState.QUEUED, not_before=not_before, queued_at=now + pause_s, avoid=nodes, **changed)
    )


def longest_pause_s(settings: RetrySettings) -> float:
    """No pause of a task is longer, in seconds."""
    return max(_LONGEST_PAUSE_S, settings.platform_retry_delay_s)


def _last_loss(reason: EndReason, times: int) -> EndReason:
    if times == 1:
        return _counted(reason, "It is not run again: `task_manager.loss_retries` is 0.")
    machine = "its machine" if reason.word is EndWord.NODE_LOST else "its machine, or the engine there,"
    return _counted(reason, f"It was lost with {machine} {times} times, which is the limit (`loss_retries`).")


def _last_platform_failure(reason: EndReason, times: int) -> EndReason:
    if times == 1:
        return _counted(reason, "It is not run again: `task_manager.platform_retries` is 0.")
    return _counted(reason, f"Headway failed to run it {times} times, which is the limit (`platform_retries`).")


def _counted(reason: EndReason, sentence: str) -> EndReason:
    return replace(reason, detail=f"{reason.detail} {sentence}".strip())


def _grown(first_s: float, times: int) -> float:
    return grown_s(times, first_s=first_s, most_s=max(_LONGEST_PAUSE_S, first_s))


def _cancelled(seen: EndReason) -> EndReason:
    if seen.word is EndWord.CANCELLED:
        return seen
    return EndReason(
        EndWord.CANCELLED, seen.exit_code, seen.signal, f"It was cancelled; its attempt ended: {seen.sentence}"
    )
