"""Reports come at least once and may be late: which of them count for a task of a job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.errors import Conflict
from headway.ids import JobId
from headway.jobfile.spec import Priority
from headway.states import JobState, TaskEventKind, TaskState
from job_manager.job import JobRecord, LiveJob, TaskRecord, TaskReport

STARTED = TaskReport("a", 1, 1, TaskEventKind.ATTEMPT_STARTED, attempt=1, at=10.0)
REQUEUED = TaskReport("a", 1, 2, TaskEventKind.REQUEUED, attempt=1, at=20.0)
FAILED = TaskReport("a", 1, 3, TaskEventKind.FAILED, attempt=1, at=30.0)


@pytest.fixture
def job() -> LiveJob:
    record = JobRecord(JobId("j0"), "ann", b"", "j", Priority.NORMAL, "h", 0.0, 1)
    live = LiveJob(record, ["a"], [()], [0.0], [TaskRecord(ages_from=0.0)])
    live.decide_waiting(0.0)
    return live


def state(job: LiveJob) -> TaskState:
    return job.states[0]


def test_a_report_that_comes_twice_counts_once(job: LiveJob) -> None:
    """With a looser fence the second delivery of a batch moved a queued task back to running."""
    assert job.on_event(STARTED, 10.0)
    assert not job.on_event(STARTED, 11.0)
    assert job.on_event(REQUEUED, 20.0)
    assert not job.on_event(STARTED, 21.0)
    assert not job.on_event(REQUEUED, 21.0)
    assert not job.on_event(replace(STARTED, seq=2), 21.0), "the number of the last one is that one"
    assert state(job) is TaskState.QUEUED


def test_a_report_of_an_earlier_run_does_not_end_a_manual_retry(job: LiveJob) -> None:
    job.on_event(STARTED, 10.0)
    job.on_event(FAILED, 30.0)
    assert job.retry("", 40.0, 40.0) == 1
    assert job.tasks[0].generation == 2
    late = replace(FAILED, seq=9)
    assert not job.on_event(late, 41.0)
    assert state(job) is TaskState.QUEUED
    assert job.on_event(replace(STARTED, generation=2, seq=10), 42.0)


def test_a_task_that_has_ended_stays_ended(job: LiveJob) -> None:
    job.on_event(STARTED, 10.0)
    assert job.on_event(replace(FAILED, kind=TaskEventKind.SUCCEEDED), 30.0)
    assert not job.on_event(replace(FAILED, seq=9), 31.0)
    assert state(job) is TaskState.SUCCEEDED
    assert job.record.state is JobState.SUCCEEDED


def test_a_job_that_is_being_cancelled_is_not_retried_beside_what_runs(job: LiveJob) -> None:
    job.on_event(STARTED, 10.0)
    job.cancel("", "ann", 20.0)
    with pytest.raises(Conflict):
        job.retry("", 21.0, 21.0)
