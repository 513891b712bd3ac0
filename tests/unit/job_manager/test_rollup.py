"""A job's end from its tasks' ends."""

from __future__ import annotations

import pytest

from headway.states import JobEventKind, JobState, TaskState
from job_manager.graph.rollup import end_of

S = TaskState
ALL_GOOD, FAILED, CANCELLED = (
    JobEventKind.ALL_SUCCEEDED,
    JobEventKind.ALL_ENDED_SOME_FAILED,
    JobEventKind.ALL_ENDED_CANCELLED,
)


@pytest.mark.parametrize(
    ("state", "counts", "want"),
    [
        (JobState.RUNNING, {S.SUCCEEDED: 3}, ALL_GOOD),
        (JobState.RUNNING, {S.SUCCEEDED: 3, S.SKIPPED: 1}, ALL_GOOD),
        (JobState.RUNNING, {S.SUCCEEDED: 3, S.FAILED: 1}, FAILED),
        (JobState.PENDING, {S.TIMED_OUT: 1, S.SKIPPED: 9}, FAILED),
        (JobState.RUNNING, {S.OUT_OF_MEMORY: 1, S.CANCELLED: 1}, FAILED),
        (JobState.RUNNING, {S.SUCCEEDED: 3, S.CANCELLED: 1, S.SKIPPED: 2}, CANCELLED),
        (JobState.STOPPING, {S.SUCCEEDED: 3}, CANCELLED),
        (JobState.STOPPING, {S.FAILED: 3, S.CANCELLED: 1}, CANCELLED),
        (JobState.RUNNING, {S.SUCCEEDED: 3, S.QUEUED: 1}, None),
        (JobState.RUNNING, {S.FAILED: 3, S.BLOCKED: 1}, None),
        (JobState.STOPPING, {S.CANCELLED: 3, S.STOPPING: 1}, None),
        (JobState.RUNNING, {S.SUCCEEDED: 1, S.RUNNING: 0}, ALL_GOOD),
    ],
)
def test_the_end_of_a_job(state: JobState, counts: dict[TaskState, int], want: JobEventKind | None) -> None:
    assert end_of(state, counts) is want
