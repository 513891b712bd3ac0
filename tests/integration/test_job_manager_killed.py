"""JobManager as a process of its own that is killed again and again while jobs run."""

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

import pytest

from headway.errors import HeadwayError
from headway.lifecycle import Service
from headway.rpc.channel import Peer
from headway.rpc.v1 import job_manager_pb2, task_manager_pb2
from headway.rpc.v1.job_manager_pb2_grpc import JobManagerStub
from tests.support.fake_task_manager import FakeTaskManager
from tests.support.ports import free_ports
from tests.support.running import running
from tests.support.waiting import eventually

from .test_job_manager_flow import TOKEN, a_task

PROGRAM = """
from headway.config import load
from headway.lifecycle import run_service
from job_manager.app import serve
raise SystemExit(run_service(serve(load(None).config)))
"""


class Runner(FakeTaskManager):
    """Runs whatever is enqueued at once, and reports it until somebody listens."""

    def __init__(self, peer: Peer) -> None:
        super().__init__()
        self.runs: Counter[tuple[str, str, int]] = Counter()
        self._stub = JobManagerStub(peer.channel)  # type: ignore[no-untyped-call]
        self._peer = peer
        self._reports: asyncio.Queue[job_manager_pb2.TaskEvent] = asyncio.Queue()

    async def ApplyTaskCommands(
        self, request: task_manager_pb2.ApplyTaskCommandsRequest, context: Any
    ) -> task_manager_pb2.ApplyTaskCommandsReply:
        before = len(self.commands)
        reply = await super().ApplyTaskCommands(request, context)
        for command in self.commands[before:]:
            task = command.enqueue.task
            self.runs[(task.job_id, task.name, command.enqueue.generation)] += 1
            for kind in ("ATTEMPT_STARTED", "SUCCEEDED"):
                self._reports.put_nowait(self.event(task.job_id, task.name, kind))
        return reply

    async def report(self) -> None:
        while True:
            events = [await self._reports.get()]
            await asyncio.sleep(0.02)
            while not self._reports.empty() and len(events) < 5:
                events.append(self._reports.get_nowait())
            request = job_manager_pb2.ReportTaskEventsRequest(events=events)
            while True:
                try:
                    await self._peer.call(self._stub.ReportTaskEvents, request, deadline_s=2)
                    break
                except HeadwayError:
                    await asyncio.sleep(0.05)


async def start(env: dict[str, str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, env={**os.environ, **env}, stderr=asyncio.subprocess.DEVNULL
    )


@pytest.mark.slow
async def test_killed_at_any_moment_it_loses_no_job_and_runs_no_task_twice(tmp_path: Path) -> None:
    chance = random.Random(3)
    port, tm_port = free_ports(2)
    env = {
        "HEADWAY_CLUSTER__TOKEN": TOKEN,
        "HEADWAY_CLUSTER__STATE_DIR": str(tmp_path),
        "HEADWAY_JOB_MANAGER__BIND": f"127.0.0.1:{port}",
        "HEADWAY_PEERS__TASK_MANAGER": f"127.0.0.1:{tm_port}",
    }
    peer = Peer("JobManager", f"127.0.0.1:{port}", token=TOKEN)
    task_manager = Runner(peer)
    service = Service("task-manager")
    await task_manager.serve(service, f"127.0.0.1:{tm_port}", TOKEN)
    stub = JobManagerStub(peer.channel)  # type: ignore[no-untyped-call]
    tasks = [a_task(f"t{n}", *(f"t{m}" for m in {n - 1, n // 2} if 0 <= m < n)) for n in range(60)]

    async def submit(number: int) -> str:
        header = job_manager_pb2.JobHeader(name="j", request_id=f"r{number}", task_count=len(tasks), spec_hash="h")
        header.owner.name = "ann"
        part = job_manager_pb2.SubmitJobPart(header=header, tasks=tasks)
        while True:
            with contextlib.suppress(HeadwayError):
                reply = await peer.upload(stub.SubmitJob, lambda: [part], deadline_s=2)
                return str(reply.job_id)
            await asyncio.sleep(0.05)

    async def list_jobs() -> Any:
        with contextlib.suppress(HeadwayError):
            reply = await peer.call(stub.ListJobs, job_manager_pb2.ListJobsRequest(limit=100), deadline_s=5)
            return list(reply.jobs)
        return None

    async def answers() -> bool:
        return await list_jobs() is not None

    async with running(service):
        reporting = asyncio.create_task(task_manager.report())
        process = await start(env)
        submitting = [asyncio.create_task(submit(number)) for number in range(8)]
        try:
            killed_at_work = 0
            for _ in range(5):
                await eventually(answers, within_s=30)
                await asyncio.sleep(chance.uniform(0, 0.5))
                killed_at_work += len(task_manager.runs) < 8 * 60
                process.send_signal(signal.SIGKILL)
                await process.wait()
                process = await start(env)
            job_ids = await asyncio.gather(*submitting)
            assert len(set(job_ids)) == 8
            assert killed_at_work >= 3

            async def all_ended() -> bool:
                jobs = await list_jobs() or []
                assert not jobs or len(jobs) == 8
                return bool(jobs) and all(job.state == "SUCCEEDED" for job in jobs)

            await eventually(all_ended, within_s=60, every_s=0.2)
            assert set(task_manager.runs.values()) == {1}
            assert len(task_manager.runs) == 8 * 60
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
        finally:
            reporting.cancel()
            for task in submitting:
                task.cancel()
            if process.returncode is None:
                process.kill()
                await process.wait()
            await peer.close()
