"""What is booked on the nodes, and until when: places of waiting tasks, bookings of live attempts.

All times are by the pass's clock (`PassInput.now_s`: the boot clock when live), in seconds; whoever stores a place
converts it, since that clock starts anew with the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from headway.ids import NodeId, TaskId

from ..model import Gpu, Shape


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room of a node kept for a waiting task from ``start_s`` on; the task's shape says how much CPU and memory."""

    node_id: NodeId
    gpus: tuple[tuple[str, int], ...]  # how many of each kind (`kind_of`), sorted
    start_s: float
    duration_s: float  # timeout, the platform's limits for start and stop, and what retries may use
    promised_s: float | None = None  # it starts no later than this; None: only an estimate
    first_promised_at: float | None = None  # when that was first promised, by the wall clock in epoch seconds


@dataclass(frozen=True, slots=True)
class MovedPromise:
    """A start that a waiting task was promised once, by the pass's clock, and why it no longer holds, in words."""

    promised_s: float
    cause: str


@dataclass(frozen=True, slots=True)
class Booking:
    """A live attempt."""

    task_id: TaskId
    owner: str
    node_id: NodeId
    shape: Shape
    gpu_uuids: tuple[str, ...]
    timeout_s: float
    until_s: float  # an exact upper bound of its end
    end_unconfirmed: bool = False  # it must be over by now, and its Worker, not heard yet, has yet to say so


def kind_of(gpu: Gpu) -> str:
    """What of model and memory tells the cards of a node apart; cards of one kind stand for each other."""
    return _kind(gpu.model, gpu.memory_bytes)


@lru_cache(maxsize=4096)
def _kind(model: str, memory_bytes: int) -> str:
    return f"{model}/{memory_bytes}"
