"""A job's state from its tasks' states.

The first of these that is true decides:

* CANCELLED: a user cancelled the job.
* FAILED: a task failed, timed out or ran out of memory.
* CANCELLED: a user cancelled a single task of it. Nothing failed, but not all of it was run.
* SUCCEEDED: all else, also when tasks were skipped because a ``failure`` branch was not needed.
"""

from __future__ import annotations

from collections.abc import Mapping

from headway.states import TASK_ENDED, TASK_FAILURES, JobEventKind, JobState, TaskState


def end_of(state: JobState, counts: Mapping[TaskState, int]) -> JobEventKind | None:
    """The event that ends the job, once all of its tasks have ended; None before."""
    if any(count for task_state, count in counts.items() if task_state not in TASK_ENDED):
        return None
    if state is JobState.STOPPING:
        return JobEventKind.ALL_ENDED_CANCELLED
    if any(counts.get(failed, 0) for failed in TASK_FAILURES):
        return JobEventKind.ALL_ENDED_SOME_FAILED
    if counts.get(TaskState.CANCELLED, 0):
        return JobEventKind.ALL_ENDED_CANCELLED
    return JobEventKind.ALL_SUCCEEDED
