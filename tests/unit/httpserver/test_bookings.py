"""What a GPU is good for now, and when the next one is free: decided from bookings and readings together."""

from __future__ import annotations

from typing import Any

from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import resource_manager_pb2 as rm
from headway.rpc.v1 import task_manager_pb2 as tm
from httpserver import bookings, wire
from httpserver import schemas as s
from httpserver.bookings import Bookings

AWAY = Bookings({}, {}, (s.Missing(service="TaskManager", sentence="It is away."),))


def a_node(node_id: str = "n1", *, gpus: int = 2, **status: Any) -> rm.Node:
    cards = [rm.Gpu(uuid=f"{node_id}-{i}", model="A100", memory_bytes=40 << 30, index=i) for i in range(gpus)]
    capacity = rm.Capacity(cpu_centi=800, memory_bytes=32 << 30, gpus=cards, runtime="docker")
    return rm.Node(id=node_id, health="READY", admission="OPEN", status=rm.NodeStatus(capacity=capacity, **status))


def a_booking(*uuids: str, job: str = "j0000000000000001", ends_by: float = 100.0, **more: Any) -> s.TaskBooking:
    return wire.booking(
        tm.Booking(
            attempt=common.Attempt(task=common.Task(job_id=job, name="train"), number=1), job_name="digits",
            owner="ann", priority=common.PRIORITY_NORMAL, node_id=uuids[0][:2], gpu_uuids=uuids, state="RUNNING",
            since=1.0, ends_by=ends_by, timeout_s=60, **more,
        )
    )  # fmt: skip


def of(*held: s.TaskBooking, closed: str = "", nodes: tuple[str, ...] = ("n1", "n2")) -> Bookings:
    return Bookings(
        {uuid: one for one in held for uuid in one.gpu_uuids},
        {name: s.BookedOnNode(cpus=1, memory_bytes=1, gpus=0, tasks=0, closed=closed) for name in nodes},
    )


def states(node: s.Node) -> list[s.GpuState | None]:
    return [gpu.state for gpu in node.gpus]


def told(*nodes: rm.Node, held: Bookings) -> s.GpuSummary:
    shown = [bookings.with_bookings(wire.node(node), held) for node in nodes]
    return bookings.summary(shown, known=held.known)


def test_a_gpu_is_booked_though_nothing_uses_it_and_in_use_though_nobody_booked_it() -> None:
    node = a_node(gpus=4)
    node.status.capacity.gpus[1].utilisation = 0.97
    node.status.capacity.gpus[2].sick = True
    node.status.capacity.gpus[3].busy_outside = True
    shown = bookings.with_bookings(wire.node(node), of(a_booking("n1-0")))
    assert [state and state.value for state in states(shown)] == ["booked", "free", "sick", "busy_outside"]
    assert shown.gpus[0].booking is not None
    assert shown.gpus[0].booking.owner == "ann"


def test_a_faulty_gpu_still_shows_who_has_it_and_is_no_next_free_one() -> None:
    node = a_node()
    node.status.capacity.gpus[0].sick = True
    held = of(a_booking("n1-0", ends_by=50), a_booking("n1-1", ends_by=70))
    assert states(bookings.with_bookings(wire.node(node), held)) == [s.GpuState.BOOKED, s.GpuState.BOOKED]
    assert told(node, held=held) == s.GpuSummary(total=2, free=0, booked=2, unusable=0, next_free_at=70)


def test_the_next_free_gpu_is_the_earliest_that_can_be_given_out_again() -> None:
    late, soon = a_booking("n1-0", ends_by=500), a_booking("n2-0", ends_by=300)
    assert told(a_node(), a_node("n2"), held=of(late, soon)).next_free_at == 300
    overdue = a_booking("n2-0", ends_by=300, overdue=True)
    assert told(a_node(), a_node("n2"), held=of(late, overdue)).next_free_at == 500
    assert told(a_node(), held=of()).next_free_at is None


def test_a_closed_machine_has_no_free_gpu() -> None:
    held = of(a_booking("n1-0"), closed="n1 does not answer")
    assert told(a_node(), held=held) == s.GpuSummary(total=2, free=0, booked=1, unusable=1, next_free_at=None)


def test_what_one_service_knows_first_closes_the_machine() -> None:
    cordoned = a_node()
    cordoned.admission = "CORDONED"
    shown = bookings.with_bookings(wire.node(cordoned), of())
    assert states(shown) == [s.GpuState.CLOSED] * 2
    assert shown.booked is not None
    assert shown.booked.closed == "n1 takes no new work"
    joined = bookings.with_bookings(wire.node(a_node("n9")), of())
    assert states(joined) == [s.GpuState.CLOSED] * 2
    assert joined.booked is not None
    assert "just joined" in joined.booked.closed


def test_without_bookings_only_what_is_measured_is_told() -> None:
    node = a_node()
    node.status.capacity.gpus[1].sick = True
    shown = bookings.with_bookings(wire.node(node), AWAY)
    assert states(shown) == [None, s.GpuState.SICK]
    assert shown.booked is None
    assert told(node, held=AWAY) == s.GpuSummary(total=2, free=None, booked=None, unusable=None, next_free_at=None)
    assert bookings.of_jobs(AWAY, ["j"]) is None


def test_a_cluster_without_gpus_and_one_without_machines_have_none() -> None:
    nothing = s.GpuSummary(total=0, free=0, booked=0, unusable=0, next_free_at=None)
    assert told(a_node(gpus=0), held=of()) == told(held=of()) == nothing


def test_gpus_are_counted_by_job() -> None:
    held = of(a_booking("n1-0", "n1-1"), a_booking("n2-0"), a_booking("n2-1", job="j0000000000000002"))
    assert bookings.of_jobs(held, ["j0000000000000001", "j0000000000000003"]) == {"j0000000000000001": 3}
