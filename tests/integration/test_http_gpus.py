"""Who has what: bookings of GPUs, CPUs and memory over HTTP, and at a terminal."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import task_manager_pb2 as tm
from tests.integration.http_rig import Rig, a_rig, submit


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path) as made:
        yield made


def book(rig: Rig, job_id: str, task: str, *gpus: int, owner: str = "ann", **more: Any) -> tm.Booking:
    """A running task on node-1 with these GPUs."""
    one = tm.Booking(
        attempt=common.Attempt(task=common.Task(job_id=job_id, name=task), number=2), job_name="digits", owner=owner,
        priority=common.PRIORITY_NORMAL, node_id="node-1", gpu_uuids=[f"GPU-node-1-{i}" for i in gpus],
        resources=common.Resources(cpu_centi=200, memory_bytes=4 << 30, gpus=len(gpus)), state="RUNNING",
        since=1_800_000_000.0, started=1_800_000_002.0, deadline=1_800_003_602.0, ends_by=time.time() + 3600,
        timeout_s=3600, **more,
    )  # fmt: skip
    rig.tasks.bookings.bookings.append(one)
    del rig.tasks.bookings.nodes[:]
    held = rig.tasks.bookings.bookings
    rig.tasks.bookings.nodes.add(
        node_id="node-1", cpu_centi=200 * len(held), memory_bytes=len(held) * (4 << 30), tasks=len(held),
        gpus=sum(len(b.gpu_uuids) for b in held),
    )  # fmt: skip
    return one


async def test_everybody_sees_who_holds_each_gpu_and_since_when_and_until_when(rig: Rig) -> None:
    node = rig.nodes.put()
    node.status.capacity.gpus[0].utilisation = 0.0
    ann, bob = await rig.client("ann"), await rig.client("bob")
    job_id = await submit(ann, "train")
    held = book(rig, job_id, "train", 0)
    answer = (await bob.get("/nodes")).json()
    mine, other = answer["nodes"][0]["gpus"]
    assert (mine["state"], mine["utilisation"], other["state"], other["booking"]) == ("booked", 0.0, "free", None)
    booking = mine["booking"]
    assert (booking["job_id"], booking["task"], booking["owner"], booking["attempt"]) == (job_id, "train", "ann", 2)
    assert (booking["since_at"], booking["ends_by_at"]) == (held.since, held.ends_by)
    assert answer["nodes"][0]["booked"] == {
        "cpus": 2.0, "memory_bytes": 4 << 30, "gpus": 1, "tasks": 1, "closed": "",
    }  # fmt: skip
    assert answer["gpus"] == {"total": 2, "free": 1, "booked": 1, "unusable": 0, "next_free_at": held.ends_by}
    assert answer["missing"] == []
    assert (await bob.get("/nodes/node-1")).json()["gpus"][0]["booking"] == booking
    assert (await bob.get("/jobs")).json()["gpus_booked"] == {job_id: 1}
    queue = (await bob.get("/queue")).json()
    assert (queue["running"], queue["running_matching"]) == ([booking], 1)
    assert (await bob.get("/queue", params={"running": 0})).json()["running"] == []


async def test_while_the_queue_is_away_machines_are_listed_and_say_what_is_not_known(rig: Rig) -> None:
    rig.nodes.put()
    ann = await rig.client("ann")
    book(rig, await submit(ann, "train"), "train", 0)
    rig.tasks.away = True
    answer = (await ann.get("/nodes")).json()
    assert [(gpu["state"], gpu["booking"]) for gpu in answer["nodes"][0]["gpus"]] == [(None, None)] * 2
    assert answer["nodes"][0]["booked"] is None
    assert answer["gpus"] == {"total": 2, "free": None, "booked": None, "unusable": None, "next_free_at": None}
    (missing,) = answer["missing"]
    assert missing["service"] == "TaskManager"
    assert missing["sentence"].startswith("Who holds the GPUs, CPUs and memory can't be shown now: ")
    assert (await ann.get("/nodes/node-1")).json()["missing"] == [missing]
    jobs = (await ann.get("/jobs")).json()
    assert (len(jobs["jobs"]), jobs["gpus_booked"]) == (1, None)


async def test_a_cluster_without_machines_has_no_gpus(rig: Rig) -> None:
    answer = (await (await rig.client("ann")).get("/nodes")).json()
    assert (answer["nodes"], answer["gpus"]["total"], answer["gpus"]["free"]) == ([], 0, 0)
