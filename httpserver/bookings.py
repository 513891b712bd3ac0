"""Who holds each GPU and what is free: TaskManager's bookings beside what ResourceManager measures.

The two are told apart. A booked GPU may be idle, and a GPU in use may be nobody's booking.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from headway.errors import HeadwayError
from headway.model.gpu_shares import UNIT_BYTES, units_of_card, units_of_share
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.states import Admission, NodeHealth

from . import schemas as s
from . import wire
from .peers.clients import ServiceClients

# If TaskManager hangs or is busy, machines are shown without bookings before people give up.
_PATIENCE_S = 3.0
# The list of jobs does not wait so long for a column.
JOBS_PATIENCE_S = 1.0


@dataclass(frozen=True, slots=True)
class Bookings:
    """What TaskManager booked at one moment. ``missing``: why that is not known; then the rest is empty."""

    of_gpus: Mapping[str, s.TaskBooking]
    on_nodes: Mapping[str, s.BookedOnNode]
    missing: Sequence[s.Missing] = ()
    last_ends_by: Mapping[str, float] = field(default_factory=dict)  # of nodes where something runs
    shares: Mapping[str, Sequence[s.TaskBooking]] = field(default_factory=dict)  # of cards that several tasks have

    @property
    def known(self) -> bool:
        return not self.missing


async def ask(services: ServiceClients, *, patience_s: float = _PATIENCE_S) -> Bookings:
    """The bookings with GPUs and the sums of all, in one call. Never raises: what is not known is told."""
    of_gpus: dict[str, s.TaskBooking] = {}
    shares: dict[str, list[s.TaskBooking]] = {}
    on_nodes: dict[str, s.BookedOnNode] = {}
    last: dict[str, float] = {}
    request = tm.ListBookingsRequest(gpus_only=True)
    try:
        async with aclosing(services.tasks.parts("ListBookings", request, deadline_s=patience_s)) as parts:
            async for part in parts:
                on_nodes |= {node.node_id: _on_node(node) for node in part.nodes}
                last |= {node.node_id: node.last_ends_by for node in part.nodes if node.last_ends_by}
                for message in part.bookings:
                    booking = wire.booking(message)
                    if booking.resources.gpu_share_bytes:
                        for uuid in booking.gpu_uuids:
                            shares.setdefault(uuid, []).append(booking)
                    else:
                        of_gpus |= dict.fromkeys(booking.gpu_uuids, booking)
    except HeadwayError as error:
        sentence = f"Who holds the GPUs, CPUs and memory can't be shown now: {error.message}"
        return Bookings({}, {}, (s.Missing(service=services.tasks.name, sentence=sentence),))
    return Bookings(of_gpus, on_nodes, last_ends_by=last, shares=shares)


def _on_node(message: tm.ListBookingsReply.Node) -> s.BookedOnNode:
    return s.BookedOnNode(
        cpus=message.cpu_centi / 100,
        memory_bytes=message.memory_bytes,
        gpus=message.gpus,
        tasks=message.tasks,
        closed=message.closed,
    )


def with_bookings(node: s.Node, bookings: Bookings) -> s.Node:
    """The machine with what is booked on it."""
    if not bookings.known:
        return node.model_copy(update={"gpus": [_with_state(gpu, None, (), None, known=False) for gpu in node.gpus]})
    booked = bookings.on_nodes.get(node.id)
    if booked is None:
        joins = f"{node.id} has just joined; the scheduler has not heard of it yet"
        booked = s.BookedOnNode(cpus=0, memory_bytes=0, gpus=0, tasks=0, closed=joins)
    elif not booked.closed and (node.health is not NodeHealth.READY or node.admission is not Admission.OPEN):
        # ResourceManager knew first: TaskManager hears of it in a moment.
        booked = booked.model_copy(update={"closed": node.health_sentence or f"{node.id} takes no new work"})
    gpus = [
        _with_state(gpu, bookings.of_gpus.get(gpu.uuid), bookings.shares.get(gpu.uuid, ()), booked, known=True)
        for gpu in node.gpus
    ]
    drain = node.drain
    if drain is not None:
        # TaskManager knows of what is on its way there, too.
        left, last = booked.tasks, bookings.last_ends_by.get(node.id)
        drain = drain.model_copy(update={"attempts_left": left, "last_ends_by_at": last})
    return node.model_copy(update={"gpus": gpus, "booked": booked, "drain": drain})


def _with_state(
    gpu: s.NodeGpu,
    booking: s.TaskBooking | None,
    shares: Sequence[s.TaskBooking],
    node: s.BookedOnNode | None,
    *,
    known: bool,
) -> s.NodeGpu:
    closed = node is not None and bool(node.closed)
    units = units_of_card(gpu.memory_bytes) if gpu.shared and booking is None else 0
    units -= sum(units_of_share(one.resources.gpu_share_bytes or 0) for one in shares)
    booked = booking is not None or (bool(shares) and units <= 0)
    state = _state_of(gpu, booked=booked, closed=closed, known=known)
    free = max(0, units) * UNIT_BYTES if gpu.shared and known else None
    shown: s.NodeGpu = gpu.model_copy(
        update={
            "booking": booking,
            "shares": list(shares),
            "free_share_bytes": free,
            "state": s.GpuState.SHARED if shares and state is s.GpuState.FREE else state,
        }
    )
    return shown


def _state_of(gpu: s.Gpu, *, booked: bool, closed: bool, known: bool) -> s.GpuState | None:
    if booked:
        return s.GpuState.BOOKED
    if gpu.sick:
        return s.GpuState.SICK
    if gpu.busy_outside:
        return s.GpuState.BUSY_OUTSIDE
    if not known:
        return None
    return s.GpuState.CLOSED if closed else s.GpuState.FREE


def summary(nodes: Iterable[s.Node], *, known: bool) -> s.GpuSummary:
    """How many GPUs there are and what of them is free, of machines that were given their bookings."""
    pairs = [(node, gpu) for node in nodes for gpu in node.gpus]
    if not known:
        return s.GpuSummary(total=len(pairs), free=None, booked=None, unusable=None, next_free_at=None)
    free = sum(gpu.state is s.GpuState.FREE for _, gpu in pairs)
    booked = sum(gpu.state in (s.GpuState.BOOKED, s.GpuState.SHARED) for _, gpu in pairs)
    return s.GpuSummary(
        total=len(pairs),
        free=free,
        booked=booked,
        unusable=len(pairs) - free - booked,
        next_free_at=min((at for node, gpu in pairs if (at := _free_by(node, gpu)) is not None), default=None),
    )


def _free_by(node: s.Node, gpu: s.NodeGpu) -> float | None:
    """By when this booked GPU can be given out again. None: nobody can say, or it will not be given out."""
    booking = gpu.booking
    if booking is None or booking.overdue or gpu.sick or gpu.busy_outside or (node.booked and node.booked.closed):
        return None
    return booking.ends_by_at


def of_jobs(bookings: Bookings, job_ids: Iterable[str]) -> dict[str, int] | None:
    """How many GPUs each of these jobs holds, a share as one; jobs that hold none are left out. None: not known now."""
    if not bookings.known:
        return None
    asked = set(job_ids)
    held: dict[str, int] = {}
    for booking in (*bookings.of_gpus.values(), *(one for those in bookings.shares.values() for one in those)):
        if booking.job_id in asked:
            held[booking.job_id] = held.get(booking.job_id, 0) + 1
    return held
