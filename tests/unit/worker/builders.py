"""Launches and records that say only what matters."""

from __future__ import annotations

from typing import Any

from headway.ids import AttemptId, JobId, TaskId
from headway.jobfile.spec import ResourceSpec, TaskSpec
from worker.model import LaunchAttempt, Owner

JOB = JobId("j0123456789abcdef")


def an_attempt(task: str = "train", number: int = 1) -> AttemptId:
    return AttemptId(TaskId(JOB, task), number)


def a_launch(attempt: AttemptId | None = None, **more: Any) -> LaunchAttempt:
    """Keys of the launch go there, all others into its spec."""
    attempt = attempt or an_attempt()
    own = {key: more.pop(key) for key in list(more) if key in LaunchAttempt.__slots__}
    spec = {
        "name": attempt.task.name,
        "image": "team/torch:2.4",
        "command": "python3 train.py",
        "timeout_s": 600.0,
        "resources": ResourceSpec(cpus_centi=150, memory_bytes=4 << 30),
        **more,
    }
    if not isinstance(spec["command"], str):
        spec.setdefault("shell", None)
    values = {"owner": Owner("ann", 20_001, 20_001), "job_name": "digits", "incarnation": 7, **own}
    return LaunchAttempt(attempt=attempt, spec=TaskSpec(**spec), **values)
