"""Who holds each GPU, since when and until when at the latest, from TaskManager's memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from headway.rpc.v1 import task_manager_pb2 as pb
from headway.states import Admission
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import SETTINGS, GiB, TaskManagerRig, a_node, a_task, a_task_manager, tid


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    settings = replace(SETTINGS, start_limit_s=100.0, booked_start_s=30.0, stop_limit_s=100.0, booked_stop_s=20.0)
    async with a_task_manager(tmp_path, clock, settings=settings) as made:
        yield made


async def listed(rig: TaskManagerRig, **asked: bool) -> pb.ListBookingsReply:
    whole = pb.ListBookingsReply()
    async for part in rig.queries.bookings(pb.ListBookingsRequest(**asked)):
        whole.MergeFrom(part)
    return whole


async def test_each_gpu_has_its_holder_and_when_it_is_free_at_the_latest(rig: TaskManagerRig, clock: FakeClock) -> None:
    await rig.nodes(a_node(gpus=3), a_node("n2"))
    placed_at = clock.now()
    await rig.enqueue(
        a_task("long", gpus=2, timeout=600, cpu=150), a_task("short", gpus=1, timeout=60, owner="bob"), a_task("plain")
    )
    found = await listed(rig)
    assert [(b.attempt.task.name, b.owner, len(b.gpu_uuids)) for b in found.bookings if b.gpu_uuids] == [
        ("short", "bob", 1), ("long", "ann", 2),
    ]  # fmt: skip
    uuids = [uuid for one in found.bookings for uuid in one.gpu_uuids]
    assert sorted(uuids) == ["GPU-n1-0", "GPU-n1-1", "GPU-n1-2"]
    short = next(b for b in found.bookings if b.owner == "bob")
    assert (short.since, short.ends_by) == (placed_at, placed_at + 30 + 60 + 20)
    assert not short.HasField("deadline")
    sums = {node.node_id: (node.gpus, node.cpu_centi, node.memory_bytes, node.tasks) for node in found.nodes}
    assert sums["n1"][0] == 3
    assert sum(cpu for _, cpu, _, _ in sums.values()) == 350
    assert sum(memory for _, _, memory, _ in sums.values()) == 3 * GiB
    assert [b.attempt.task.name for b in (await listed(rig, gpus_only=True)).bookings] == ["short", "long"]


async def test_once_it_runs_the_end_counts_from_its_start(rig: TaskManagerRig, clock: FakeClock) -> None:
    await rig.nodes(a_node(gpus=1))
    await rig.enqueue(a_task("a", gpus=1, timeout=60))
    await clock.advance(5)
    started_at = clock.now()
    await rig.report(rig.only_attempt(tid("a")), "PROCESS_STARTED", process_started_at=started_at)
    (one,) = (await listed(rig)).bookings
    assert (one.state, one.started, one.deadline) == ("RUNNING", started_at, started_at + 60)
    assert one.ends_by == pytest.approx(started_at + 60 + 20, abs=0.01)
    assert not one.overdue


async def test_what_outlived_its_booking_is_overdue_and_not_free_in_the_past(
    rig: TaskManagerRig, clock: FakeClock
) -> None:
    await rig.nodes(a_node(gpus=1))
    await rig.enqueue(a_task("a", gpus=1, timeout=60))
    await rig.report(rig.only_attempt(tid("a")), "PROCESS_STARTED", process_started_at=clock.now())
    await rig.advance(100, beats=["n1"])
    (one,) = (await listed(rig)).bookings
    assert one.overdue
    assert one.ends_by >= clock.now()


async def test_a_closed_node_and_a_forgotten_one_say_why_they_take_nothing(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node("n1", gpus=1), a_node("n2", gpus=1, admission=Admission.CORDONED))
    await rig.enqueue(a_task("a", gpus=1))
    await rig.nodes(a_node("n2", gpus=1, admission=Admission.CORDONED))
    nodes = {node.node_id: node for node in (await listed(rig)).nodes}
    assert nodes["n2"].closed
    assert (nodes["n1"].gpus, nodes["n1"].closed) == (1, "n1 is no longer on the list of machines")


async def test_the_queue_tells_what_runs_of_a_job_or_an_account(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node(gpus=2))
    await rig.enqueue(a_task("a", gpus=1), a_task("b", gpus=1, owner="bob"), a_task("c", gpus=1))
    none = await rig.queries.queue(pb.GetQueueRequest())
    assert (len(none.running), none.total_running) == (0, 2)
    both = await rig.queries.queue(pb.GetQueueRequest(running_limit=5))
    assert {(one.attempt.task.name, one.owner) for one in both.running} == {("a", "ann"), ("b", "bob")}
    bobs = await rig.queries.queue(pb.GetQueueRequest(running_limit=5, owner="bob"))
    assert ([one.owner for one in bobs.running], bobs.running_matching, bobs.total_running) == (["bob"], 1, 2)
    one = await rig.queries.queue(pb.GetQueueRequest(running_limit=1))
    assert (len(one.running), one.running_matching) == (1, 2)


async def test_many_bookings_come_in_parts_of_one_moment(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node(cpu=60_000, memory=1000 * GiB))
    await rig.enqueue(*(a_task(f"t{i}") for i in range(600)))
    parts = [part async for part in rig.queries.bookings(pb.ListBookingsRequest())]
    assert [len(part.bookings) for part in parts] == [500, 100]
    assert [len(part.nodes) for part in parts] == [1, 0]
