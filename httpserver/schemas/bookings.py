"""Who holds what: bookings of running tasks, and what that makes of each GPU."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from headway.states import AttemptState

from .base import ApiResponse, Priority
from .jobs import Resources


class GpuState(StrEnum):
    """What a GPU is good for now. What holds it comes first: a faulty GPU may still have a task."""

    FREE = "free"
    BOOKED = "booked"
    SICK = "sick"
    BUSY_OUTSIDE = "busy_outside"
    CLOSED = "closed"
    SHARED = "shared"  # tasks have shares of it, and some of its memory is free


class TaskBooking(ApiResponse):
    """What a running task holds. It holds it from its placement on, whether or not it uses it."""

    job_id: str
    job_name: str
    task: str
    attempt: int
    owner: str
    state: AttemptState
    priority: Priority
    node_id: str
    gpu_uuids: list[str]
    resources: Resources
    timeout_s: float
    since_at: float = Field(description="it was placed")
    started_at: float | None = Field(description="its program; null: not yet")
    deadline_at: float | None = Field(description="its timeout ends it; null: its program has not started")
    ends_by_at: float = Field(
        description="all that it holds is free by then: its timeout, the time to start and stop, a reserve for retries"
    )
    overdue: bool = Field(description="it must have ended by now, but its machine has not said so")


class BookedOnNode(ApiResponse):
    """What running tasks hold of a machine together, by what was booked and not by what is used."""

    cpus: float
    memory_bytes: int
    gpus: int
    tasks: int
    closed: str = Field(description="why it takes no new work now; empty: it does")


class GpuSummary(ApiResponse):
    """The GPUs of all machines that are listed. What needs bookings is null while TaskManager does not answer."""

    total: int
    free: int | None
    booked: int | None
    unusable: int | None = Field(description="neither free nor booked: faulty, used from outside, or closed")
    next_free_at: float | None = Field(description="the next one is free by then; null: none is booked, or not known")
