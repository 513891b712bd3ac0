"""A job's state from its tasks' states.

CANCELLED if a user cancelled the job; else FAILED if any task failed, timed out or ran out of memory; else CANCELLED
if a user cancelled a single task of it, for then not all of it was run though nothing failed; else SUCCEEDED, also
when tasks were skipped because a ``failure`` branch was not needed.
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
