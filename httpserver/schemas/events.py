"""What the stream of events tells."""

from __future__ import annotations

from pydantic import Field

from .base import Answer
from .jobs import Attempt, Task


class TaskEvent(Answer):
    job_id: str
    task: Task = Field(description="`attempts` and `place` are empty here")


class AttemptEvent(Answer):
    job_id: str
    task: str
    attempt: Attempt


class NodeGone(Answer):
    id: str


class QueueEvent(Answer):
    """The queue is not as it was; ask for what is on screen."""

    changed: bool = True


class ResetEvent(Answer):
    """Some events were missed (or this is the first connection): load what is on screen anew."""

    reason: str
