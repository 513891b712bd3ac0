"""What is told of jobs: one stable word for each kind of job event."""

from __future__ import annotations

from enum import StrEnum


class JobEventWord(StrEnum):
    """What happened to a job, or to one task of it."""

    SUBMITTED = "submitted"
    STARTED = "started"  # the first of its tasks
    TASK_ENDED = "task_ended"  # for good: what is tried again by itself has not ended
    TASK_WARNED = "task_warned"  # it runs, and something about it should be known: such as GPUs that are idle
    ENDED = "ended"
    CANCEL_ASKED = "cancel_asked"
    RETRIED = "retried"
    HELD = "held"
    RELEASED = "released"
    REMOVED = "removed"  # from now on it does not show; its earlier events go, too
    GAP = "gap"  # some events before this one are missing
