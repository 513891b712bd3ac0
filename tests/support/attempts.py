"""Attempts of the past, put into TaskManager's database as if they had been."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headway.ids import AttemptId, NodeId
from headway.states import AttemptState, TaskState
from headway.store import Database
from task_manager.clocks import ClockReading
from task_manager.model import Attempt, Task
from task_manager.store import queue_store


def an_attempt(task: Task, number: int = 1, *, at: float, to: float | None = None, **facts: Any) -> Attempt:
    """Placed at ``at``; it ended at ``to`` having run all the time, or lives. ``facts`` are other fields; ``node``."""
    made = Attempt(
        id=AttemptId(task.id, number),
        generation=1,
        state=AttemptState.RUNNING if to is None else AttemptState.SUCCEEDED,
        node_id=NodeId(facts.pop("node", "n1")),
        incarnation=1,
        shape=task.shape,
        gpu_uuids=tuple(f"GPU-{i}" for i in range(task.shape.gpus)),
        timeout_s=task.timeout_s,
        of_runs=1,
        queued_at=at - 60,
        placed_at=at,
        started_at=at,
        ended_at=to,
        run_s=None if to is None else to - at,
        owner=task.owner,
        freed_at=to,
    )
    return replace(made, **facts)


async def keep(db: Database, tasks: Sequence[Task], attempts: Sequence[Attempt]) -> None:
    """Stores them; the tasks as ended ones."""
    ended = [replace(task, state=TaskState.SUCCEEDED) for task in tasks]
    changes = queue_store.TurnChanges(
        tasks=ended,
        new_tasks=frozenset(task.id for task in tasks),
        specs=[(task.id, b"") for task in tasks],
        attempts=attempts,
        new_attempts=frozenset(attempt.id for attempt in attempts),
        nodes=[],
        leases=[],
        reservations=[],
        events=[],
        reading=ClockReading(0.0, 0.0),
    )
    await db.write(lambda conn: queue_store.write(conn, changes))
