"""What has taken room since the last pass, and in whose words it is told when a promise moves for it.

A pass compares what it sees with what the last pass saw. So a cause is known, never guessed from where a place is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headway.ids import NodeId, TaskId

from ..model import Node
from .bookings import Booking, until_of
from .placement import FreeResources, full_capacity

if TYPE_CHECKING:
    from .pass_model import PassInput, Plan

_SAME_S = 0.001  # sums of the same seconds differ by less


@dataclass(frozen=True, slots=True)
class Change:
    """One event that leaves less room than the last pass saw.

    It is either a live attempt that is booked for longer (``task_id``), or a node that offers less (``node``).
    """

    cause: str  # a clause for people
    node_id: NodeId
    task_id: TaskId | None = None
    until_s: float = -math.inf  # the end that the last pass had booked for the attempt; minus infinity: it had none
    node: Node | None = None  # the node as the last pass saw it
    is_guess: bool = False  # nobody knows when the attempt ends


@dataclass(frozen=True, slots=True)
class Seen:
    """What a pass saw and booked: the nodes, and each live attempt with its timeout and the end of its booking."""

    nodes: Mapping[NodeId, Node]
    ends: Mapping[TaskId, tuple[float, float]]

    @staticmethod
    def of(snapshot: PassInput, plan: Plan) -> Seen:
        """What this pass leaves behind."""
        now_s = snapshot.now_s
        ends = {booking.task_id: (booking.timeout_s, until_of(booking, now_s)) for booking in snapshot.running}
        for placement in plan.placements:
            task = snapshot.tasks[placement.task_id]
            ends[task.id] = (task.timeout_s, now_s + snapshot.settings.duration_s(task))
        return Seen({free.node.id: free.node for free in snapshot.free_resources}, ends)

    def changes(self, running: Sequence[Booking], nodes: Mapping[NodeId, Node], now_s: float) -> tuple[Change, ...]:
        """What leaves less room now."""
        found = [*_of_nodes(self.nodes, nodes), *_of_attempts(self.ends, running, now_s)]
        return tuple(
            sorted(found, key=lambda change: (change.task_id is not None, change.node_id, change.task_id or ()))
        )


def _of_nodes(before: Mapping[NodeId, Node], nodes: Mapping[NodeId, Node]) -> Iterator[Change]:
    for node_id, was in before.items():
        node = nodes.get(node_id)
        if node is None or node is was:
            continue  # of a node that is gone, each place says so itself
        usable = {gpu.uuid: gpu.shared for gpu in node.gpus if gpu.usable}
        lost = [gpu.uuid for gpu in was.gpus if gpu.usable and gpu.uuid not in usable]
        if any(gpu.usable and usable.get(gpu.uuid, gpu.shared) != gpu.shared for gpu in was.gpus):
            yield Change(f"the GPUs of {node_id} are shared in another way than before", node_id, node=was)
            continue
        if lost and {gpu.uuid for gpu in node.gpus}.issuperset(lost):
            yield Change(f"a GPU of {node_id} can't be used now", node_id, node=was)
        elif lost or node.cpu_centi < was.cpu_centi or node.memory_bytes < was.memory_bytes:
            yield Change(f"{node_id} offers less than before", node_id, node=was)


def _of_attempts(
    before: Mapping[TaskId, tuple[float, float]], running: Sequence[Booking], now_s: float
) -> Iterator[Change]:
    for booking in running:
        timeout_s, until_s = before.get(booking.task_id, (0.0, -math.inf))
        if until_of(booking, now_s) <= until_s + _SAME_S:
            continue
        is_guess = booking.end_unconfirmed or booking.until_s <= now_s
        if until_s == -math.inf:
            cause = f"{booking.task_id} was found running on {booking.node_id}"
        elif booking.end_unconfirmed:
            cause = unconfirmed(booking.task_id, booking.node_id)
        elif booking.until_s <= now_s:
            cause = outlived(booking.task_id, booking.node_id)
        elif booking.timeout_s > timeout_s + _SAME_S:
            cause = f"{booking.task_id} on {booking.node_id} was given more time"
        else:
            cause = f"{booking.task_id} on {booking.node_id} is booked for longer than before"
        yield Change(cause, booking.node_id, booking.task_id, until_s, is_guess=is_guess)


def outlived(task_id: TaskId, node_id: NodeId) -> str:
    """The clause for an attempt that runs beyond its booking."""
    return f"{task_id} on {node_id} runs longer than was booked for it"


def unconfirmed(task_id: TaskId, node_id: NodeId) -> str:
    """The clause for an attempt that must be over, though its Worker has not said so."""
    return (
        f"{task_id} must have ended, but {node_id} has not confirmed it since Headway's scheduler started or lost "
        "contact with it"
    )


def undone(snapshot: PassInput, changes: Sequence[Change]) -> PassInput:
    """The snapshot as it would be if these changes had not happened yet."""
    if not changes:
        return snapshot
    ends = {change.task_id: change.until_s for change in changes if change.task_id is not None}
    running = [
        replace(booking, until_s=ends[booking.task_id]) if booking.task_id in ends else booking
        for booking in snapshot.running
        if ends.get(booking.task_id, 0.0) > -math.inf
    ]
    nodes = {change.node_id: change.node for change in changes}
    free_resources = [
        _with(free, nodes[free.node.id] or free.node, running) if free.node.id in nodes else free
        for free in snapshot.free_resources
    ]
    return replace(snapshot, running=running, free_resources=free_resources)


def _with(free: FreeResources, node: Node, running: Sequence[Booking]) -> FreeResources:
    made = full_capacity(node, free.order)
    made.closed = free.closed
    for booking in running:
        if booking.node_id == node.id:
            made.take(booking.shape, booking.gpu_uuids)
    return made
