"""What is booked on the nodes, and until when: reservations of waiting tasks, bookings of live attempts.

All times are in seconds by the pass's clock (`PassInput.now_s`), which is the boot clock when live. That clock starts
anew with the machine, so whoever stores a reservation converts its times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from headway.ids import NodeId, TaskId

from ..model import Gpu, Shape

# Nobody knows when an attempt that runs beyond its booking will end. It is taken to end so many seconds from now.
OUTLIVED_S = 60.0


@dataclass(frozen=True, slots=True)
class Reservation:
    """Resources of a node that are kept for a waiting task from ``start_s`` on.

    The task's shape says how much CPU and memory.
    """

    node_id: NodeId
    gpus: tuple[tuple[str, int], ...]  # how many of each kind (`kind_of`), sorted; of a shared card: units
    start_s: float
    duration_s: float  # timeout, the platform's limits for start and stop, and a reserve for retries
    promised_s: float | None = None  # the task is promised to start no later; None: it is only an estimate
    first_promised_at: float | None = None  # when a start was first promised, in epoch seconds by the wall clock
    # Of a promise with slack (`late_places`): what was promised first, and how far ahead that was.
    first_promised_s: float | None = None
    first_wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MovedPromise:
    """A promised start of a waiting task that no longer holds. ``cause`` says why, as a clause for people."""

    promised_s: float
    cause: str


@dataclass(frozen=True, slots=True)
class Booking:
    """What a live attempt holds, and until when."""

    task_id: TaskId
    owner: str
    node_id: NodeId
    shape: Shape
    gpu_uuids: tuple[str, ...]
    timeout_s: float
    until_s: float  # it has surely ended by then
    end_unconfirmed: bool = False  # it must have ended by now, but its Worker has not confirmed that yet


def until_of(booking: Booking, now_s: float) -> float:
    """When the resources of a live attempt are taken to be free again."""
    return booking.until_s if booking.until_s > now_s else now_s + OUTLIVED_S


def kind_of(gpu: Gpu) -> str:
    """A card's kind: its model and memory. Cards of one kind on a node are interchangeable.

    A shared card is a kind of its own, since a share is on one card. There are as many of it as it has units of memory.
    """
    if gpu.shared:
        return f"share of {gpu.uuid}/{gpu.memory_bytes}"
    return _kind(gpu.model, gpu.memory_bytes)


@lru_cache(maxsize=4096)
def _kind(model: str, memory_bytes: int) -> str:
    return f"{model}/{memory_bytes}"
