"""What live attempts hold: who has each GPU, since when, and until when at the latest. Read from memory alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from headway.ids import JobId, NodeId
from headway.rpc import convert
from headway.rpc.v1 import task_manager_pb2 as pb

from .. import wire
from ..clocks import ClockReading
from ..engine import pass_input
from ..engine.state import EngineState
from ..model import Attempt, Task
from ..settings import TaskManagerSettings
from .queue_entries import PRIORITIES

_LOOKED_AT_ONCE = 2_000  # so many take a few milliseconds; then other calls get their turn
_PART = 500  # bookings in one message: well under 1 MB


@dataclass(frozen=True, slots=True)
class HeldBooking:
    """A live attempt with its task. ``ends_by`` is by the wall clock."""

    attempt: Attempt
    task: Task
    ends_by: float
    overdue: bool  # it must have ended by now, but its node has not said so

    def message(self) -> pb.Booking:
        """As pages show it."""
        attempt, task = self.attempt, self.task
        return pb.Booking(
            attempt=convert.attempt_to_pb(attempt.id),
            job_name=task.job_name,
            owner=task.owner,
            priority=PRIORITIES[task.priority],
            node_id=attempt.node_id,
            gpu_uuids=attempt.gpu_uuids,
            resources=wire.resources(attempt.shape),
            state=attempt.state.value,
            since=attempt.placed_at,
            started=attempt.started_at,
            deadline=wire.deadline(attempt),
            ends_by=self.ends_by,
            overdue=self.overdue,
            timeout_s=attempt.timeout_s,
        )


async def held(
    state: EngineState,
    settings: TaskManagerSettings,
    reading: ClockReading,
    *,
    job_id: JobId | None = None,
    owner: str = "",
    gpus_only: bool = False,
) -> list[HeldBooking]:
    """The bookings, the one that ends first at the front. The state must not change meanwhile.

    Their ends are those by which the scheduling pass plans, so that no estimate on a page contradicts them.
    """
    wanted = pass_input.pass_settings(settings)
    found: list[HeldBooking] = []
    for number, (key, attempt) in enumerate(state.attempts.items(), start=1):
        if number % _LOOKED_AT_ONCE == 0:
            await asyncio.sleep(0)
        task = state.tasks[key]
        if (
            (job_id and key.job_id != job_id)
            or (owner and task.owner != owner)
            or (gpus_only and not attempt.gpu_uuids)
        ):
            continue
        one = pass_input.booking(
            attempt, state.tracking[key], task, wanted, reading.mono, settings.leases.missing_grace_s
        )
        overdue = one.end_unconfirmed or one.until_s <= reading.mono
        ends_by = reading.now + max(0.0, one.until_s - reading.mono)
        found.append(HeldBooking(attempt, task, ends_by, overdue))
    found.sort(key=lambda one: (one.ends_by, one.task.id.job_id, one.task.id.name))
    return found


def on_nodes(
    state: EngineState, settings: TaskManagerSettings, reading: ClockReading
) -> list[pb.ListBookingsReply.Node]:
    """What is booked on each known node, and why some take no work now. A node that was forgotten while something
    runs there is listed, too."""
    sums: dict[NodeId, pb.ListBookingsReply.Node] = {}
    held: dict[NodeId, set[str]] = {}  # a shared card counts once
    for room in pass_input.free_resources(state, settings, reading.mono):
        sums[room.node.id] = pb.ListBookingsReply.Node(node_id=room.node.id, closed=room.closed)
    wanted = pass_input.pass_settings(settings)
    patience_s = settings.leases.missing_grace_s
    for key, attempt in state.attempts.items():
        node = sums.get(attempt.node_id)
        if node is None:
            gone = f"{attempt.node_id} is no longer on the list of machines"
            node = sums[attempt.node_id] = pb.ListBookingsReply.Node(node_id=attempt.node_id, closed=gone)
        node.cpu_centi += attempt.shape.cpu_centi
        node.memory_bytes += attempt.shape.memory_bytes
        held.setdefault(attempt.node_id, set()).update(attempt.gpu_uuids)
        node.gpus = len(held[attempt.node_id])
        node.tasks += 1
        one = pass_input.booking(attempt, state.tracking[key], state.tasks[key], wanted, reading.mono, patience_s)
        node.last_ends_by = max(node.last_ends_by, reading.now + max(0.0, one.until_s - reading.mono))
    return list(sums.values())


def parts(bookings: Sequence[HeldBooking]) -> list[Sequence[HeldBooking]]:
    """The bookings as they fit into messages; at least one part."""
    return [bookings[start : start + _PART] for start in range(0, max(1, len(bookings)), _PART)]
