"""Messages of the event stream."""

from __future__ import annotations

from pydantic import Field

from .base import ApiResponse
from .jobs import Attempt, Task


class TaskEvent(ApiResponse):
    job_id: str
    task: Task = Field(description="`attempts` and `place` are empty here")


class AttemptEvent(ApiResponse):
    job_id: str
    task: str
    attempt: Attempt


class JobGone(ApiResponse):
    """The job was deleted, or its time is over."""

    id: str


class NodeGone(ApiResponse):
    id: str


class QueueEvent(ApiResponse):
    """The queue is not as it was; ask for what is on screen."""

    changed: bool = True


class ResetEvent(ApiResponse):
    """Some events were missed (or this is the first connection): load what is on screen anew."""

    reason: str
