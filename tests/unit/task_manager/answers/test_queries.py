"""Answers on the queue: pages of it, and nobody is held up by somebody else's question."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headway.errors import InvalidInput
from headway.rpc.v1 import common_pb2
from headway.rpc.v1 import task_manager_pb2 as pb
from task_manager.engine.events import HoldTask, TaskCommands
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import TaskManagerRig, a_node, a_task, a_task_manager

ANNS, BOBS = "j0000000000000001", "j0000000000000002"


async def page(rig: TaskManagerRig, **asked: Any) -> list[tuple[str, str, int]]:
    """Job, task and position of each entry."""
    reply = await rig.queries.queue(pb.GetQueueRequest(**asked))
    return [(entry.task.job_id[-1], entry.task.name, entry.position) for entry in reply.entries]


async def test_a_page_of_a_job_has_its_tasks_alone_with_their_positions_in_the_whole_queue(
    tmp_path: Path, clock: FakeClock
) -> None:
    async with a_task_manager(tmp_path, clock) as rig:
        for number in range(4):
            await rig.enqueue(a_task(f"a{number}", job=ANNS, timeout=100 + 2 * number))
            await rig.enqueue(a_task(f"b{number}", job=BOBS, timeout=101 + 2 * number))
        held = a_task("a1", job=ANNS)
        await rig.engine.submit(TaskCommands((HoldTask(held.id, 1, 0),)))
        mine = [("1", "a0", 1), ("1", "a2", 4), ("1", "a3", 6), ("1", "a1", 0)]
        assert await page(rig, job_id=ANNS) == mine
        for size in (1, 2, 3):
            parts = [await page(rig, job_id=ANNS, offset=offset, limit=size) for offset in range(0, 6, size)]
            assert [entry for part in parts for entry in part] == mine
        assert await page(rig, job_id="j0000000000000003") == []
        assert [name for _, name, _ in await page(rig, offset=5)] == ["a3", "b3", "a1"]
        assert [position for *_, position in await page(rig)] == [1, 2, 3, 4, 5, 6, 7, 0]


async def test_a_page_of_an_account_has_its_tasks_alone_with_their_positions_in_the_whole_queue(
    tmp_path: Path, clock: FakeClock
) -> None:
    async with a_task_manager(tmp_path, clock) as rig:
        for number in range(4):
            await rig.enqueue(a_task(f"a{number}", job=ANNS, timeout=100 + 2 * number))
            await rig.enqueue(a_task(f"b{number}", job=BOBS, timeout=101 + 2 * number, owner="bob"))
        await rig.enqueue(a_task("c", job="j0000000000000003", timeout=200, owner="bob"))
        await rig.engine.submit(TaskCommands((HoldTask(a_task("b1", job=BOBS).id, 1, 0),)))
        bobs = [("2", "b0", 2), ("2", "b2", 5), ("2", "b3", 7), ("3", "c", 8), ("2", "b1", 0)]
        assert await page(rig, owner="bob") == bobs
        for size in (1, 2, 3):
            parts = [await page(rig, owner="bob", offset=offset, limit=size) for offset in range(0, 6, size)]
            assert [entry for part in parts for entry in part] == bobs
        assert await page(rig, owner="bob", job_id=BOBS) == [one for one in bobs if one[0] == "2"]
        assert await page(rig, owner="bob", job_id=ANNS) == await page(rig, owner="nobody") == []
        matching = {
            (owner, job): (await rig.queries.queue(pb.GetQueueRequest(owner=owner, job_id=job, limit=1))).total_matching
            for owner in ("", "bob", "ann", "nobody")
            for job in ("", BOBS)
        }
        assert matching == {
            ("", ""): 9, ("", BOBS): 4, ("bob", ""): 5, ("bob", BOBS): 4, ("ann", ""): 4, ("ann", BOBS): 0,
            ("nobody", ""): 0, ("nobody", BOBS): 0,
        }  # fmt: skip


async def test_named_tasks_of_a_job_are_told_with_their_positions(tmp_path: Path, clock: FakeClock) -> None:
    async with a_task_manager(tmp_path, clock) as rig:
        for number in range(4):
            await rig.enqueue(a_task(f"a{number}", job=ANNS, timeout=100 + 2 * number))
            await rig.enqueue(a_task(f"b{number}", job=BOBS, timeout=101 + 2 * number))
        await rig.engine.submit(TaskCommands((HoldTask(a_task("a1", job=ANNS).id, 1, 0),)))
        await rig.cancel(a_task("a2", job=ANNS).id)
        named = ["a3", "a1", "a2", "b0", "never"]
        assert await page(rig, job_id=ANNS, tasks=named) == [("1", "a3", 5), ("1", "a1", 0)]
        assert await page(rig, job_id=ANNS, tasks=named, limit=1, offset=1) == [("1", "a3", 5), ("1", "a1", 0)]
        with pytest.raises(InvalidInput, match="at most 1000"):
            await page(rig, job_id=ANNS, tasks=["a0"] * 1_001)


async def test_others_get_their_turn_while_a_long_page_is_made(tmp_path: Path, clock: FakeClock) -> None:
    async with a_task_manager(tmp_path, clock) as rig:
        await rig.nodes(a_node(gpus=1))
        await rig.enqueue(*(a_task(f"t{number}", gpus=1) for number in range(1_001)))
        asked = asyncio.ensure_future(rig.queries.queue(pb.GetQueueRequest(limit=1_000)))
        turns = 0
        while not asked.done():
            turns += 1
            await asyncio.sleep(0)
        entries = (await asked).entries
        assert len({entry.task.name for entry in entries}) == 1_000
        assert turns >= 10
        first = {(reason.word, reason.sentence) for reason in entries[0].reasons}
        assert ("waiting_for_gpu", "It asks for 1 GPU. The closest machine, n1, has no free GPU.") in first
        assert first < {(reason.word, reason.sentence) for reason in entries[999].reasons}, "and others are ahead"


async def test_resources_are_checked_while_a_turn_is_on_its_way_to_disk(tmp_path: Path, clock: FakeClock) -> None:
    async with a_task_manager(tmp_path, clock) as rig:
        await rig.nodes(a_node(gpus=1))
        writes, gate, write = asyncio.Event(), asyncio.Event(), rig.db.write

        async def slow(work: Any) -> Any:
            writes.set()
            await gate.wait()
            return await write(work)

        rig.db.write = slow  # type: ignore[method-assign]
        under_way = asyncio.ensure_future(rig.enqueue(a_task()))
        try:
            await asyncio.wait_for(writes.wait(), 5)
            request = pb.CheckResourcesRequest()
            request.shapes.add(resources=common_pb2.Resources(cpu_centi=100, gpus=1), timeout_s=60)
            reply = await asyncio.wait_for(rig.queries.check(request), 5)
            assert reply.nodes_known == 1
        finally:
            gate.set()
        await under_way
