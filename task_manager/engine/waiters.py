"""Requests for GPUs by people's own processes, which wait in the queue while their process lives.

The Worker of their machine says which live. A request whose process is gone leaves the queue: at its turn its
cards would wait for nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headway.ids import TaskId
from headway.logs import get_logger
from headway.model.reasons import EndReason, EndWord
from headway.states import TaskState

from ..model import Task
from ..order.queue import task_id_of
from .events import HeartbeatReceived
from .turn import Turn

log = get_logger(__name__)

# A process comes back to a restarted Worker within a second, and learns of its job within that, too.
SILENT_S: Final = 10.0
_GONE = "The process that waited for these GPUs has ended, or was silent for too long."


def left_alone(tasks: Iterable[Task], heartbeat: HeartbeatReceived, now: float) -> list[TaskId]:
    """Which of these requests nobody waits for any more, by a heartbeat that knows all who wait."""
    return [
        task.id for task in tasks if task.id.job_id not in heartbeat.waiting_jobs and now - task.queued_at >= SILENT_S
    ]


def on_heartbeat(turn: Turn, heartbeat: HeartbeatReceived) -> None:
    """End the requests of this node whose processes are gone."""
    if heartbeat.waiting_known_s < SILENT_S:  # it has just started, or can't hear all of them
        return
    queue, tasks = turn.state.queue, turn.state.tasks
    keys = [
        key
        for shape, groups in queue.ready_by_shape.items()
        if shape.node_id == heartbeat.node_id
        for group in groups.values()
        for key in group
    ]
    for task_id in left_alone([tasks[task_id_of(key)] for key in keys], heartbeat, turn.now):
        log.info("task.nobody_waits", task=str(task_id), node=heartbeat.node_id)
        turn.end_task(tasks[task_id], TaskState.CANCELLED, EndReason(EndWord.CANCELLED, detail=_GONE))
