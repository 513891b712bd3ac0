"""TaskManager as a process of its own that is killed again and again while tasks flow through it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import pytest

from headway.rpc.v1 import task_manager_pb2 as pb
from tests.support.ports import free_port
from tests.support.task_manager_neighbours import Neighbours, enqueue_message
from tests.support.waiting import eventually

TOKEN = "a token for tests, nothing else"
METADATA = (("x-headway-token", TOKEN),)
JOB = "j0000000000000001"
TASKS = 400
PROGRAM = """
from headway.config import load
from headway.lifecycle import run_service
from task_manager.app import serve
raise SystemExit(run_service(serve(load(None).config)))
"""


async def start(env: dict[str, str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, env={**os.environ, **env}, stderr=asyncio.subprocess.DEVNULL
    )


async def hand_over(stub: Any) -> None:
    """As JobManager's outbox: in order, again until it is answered."""
    for first in range(0, TASKS, 20):
        commands = [
            enqueue_message(JOB, f"t{i:03d}", i + 1, cpu_centi=100, gpus=i % 3 % 2) for i in range(first, first + 20)
        ]
        while True:
            try:
                await stub.ApplyTaskCommands(
                    pb.ApplyTaskCommandsRequest(commands=commands), metadata=METADATA, timeout=5
                )
                break
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.05)
        await asyncio.sleep(0.05)


async def until_it_answers(stub: Any) -> None:
    request = pb.ApplyTaskCommandsRequest()
    await asyncio.wait_for(stub.ApplyTaskCommands(request, metadata=METADATA, wait_for_ready=True), 60)


async def agree(stub: Any) -> None:
    """As JobManager: it compares after every start of TaskManager, and finds no difference."""
    while True:
        try:
            async for _ in stub.ConfirmTasks(pb.ConfirmTasksRequest(), metadata=METADATA):
                pass
        except grpc.aio.AioRpcError:
            await asyncio.sleep(0.05)


async def beat(neighbours: Neighbours) -> None:
    """As the Worker: after each start TaskManager waits until its node has told what it runs."""
    while True:
        with contextlib.suppress(grpc.aio.AioRpcError):
            await neighbours.machine.beat(neighbours.address)
        await asyncio.sleep(0.3)


@pytest.mark.slow
async def test_killed_while_tasks_flow_nothing_is_lost_and_nothing_runs_twice(tmp_path: Path) -> None:
    neighbours = Neighbours()
    await neighbours.start(TOKEN, cpu_centi=1600, gpus=2)
    port = free_port()
    env = {
        "HEADWAY_CLUSTER__TOKEN": TOKEN,
        "HEADWAY_CLUSTER__STATE_DIR": str(tmp_path),
        "HEADWAY_TASK_MANAGER__BIND": f"127.0.0.1:{port}",
        "HEADWAY_PEERS__JOB_MANAGER": neighbours.address,
        "HEADWAY_PEERS__RESOURCE_MANAGER": neighbours.address,
    }
    stub = await neighbours.meet(f"127.0.0.1:{port}")
    chance = random.Random(7)
    process = await start(env)
    sender = asyncio.create_task(hand_over(stub))
    agreeing, beating = asyncio.create_task(agree(stub)), asyncio.create_task(beat(neighbours))
    try:
        for _ in range(4):
            await asyncio.sleep(chance.uniform(1.0, 2.0))
            process.send_signal(signal.SIGKILL)
            await process.wait()
            process = await start(env)
        await asyncio.wait_for(sender, 60)
        await eventually(lambda: len(neighbours.jobs.ended) == TASKS, within_s=60, what="every task ends")
        await until_it_answers(stub)  # on a quick machine all may have ended before its last start
    finally:
        sender.cancel()
        agreeing.cancel()
        beating.cancel()
        if process.returncode is None:
            process.terminate()
        code = await process.wait()
        await neighbours.stop()
    assert code == 0
    assert set(neighbours.jobs.ended.values()) == {"SUCCEEDED"}
    assert set(neighbours.machine.runs.values()) == {1}
    attempts = Counter(name for _, name, _ in neighbours.machine.runs)
    assert set(attempts.values()) == {1}
    assert len(attempts) == TASKS
