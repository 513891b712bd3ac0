"""A real Worker process with the scripted runtime: launch, reports, logs, stops, restarts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.worker_house import WorkerHouse, a_launch, an_attempt, scripted, worker_house


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[WorkerHouse]:
    async with worker_house(tmp_path) as house:
        yield house


async def test_a_task_runs_is_reported_and_its_log_is_on_the_mount(house: WorkerHouse) -> None:
    incarnation = await house.start()
    attempt = an_attempt()
    launch = a_launch(attempt, incarnation=incarnation, env=scripted(0.3, output="hello\rworld"))
    (verdict,) = await house.launch(launch)
    assert verdict.accepted, verdict
    assert verdict.accepted_at > 0
    end = await house.ended(attempt)
    assert end.kind == "SUCCEEDED"
    assert end.reason.word == "exited"
    assert end.reason.exit_code == 0
    assert end.run_s == pytest.approx(0.3, abs=0.001)
    assert end.stdout_bytes == 11
    assert "PROCESS_STARTED" in house.task_manager.kinds(attempt)
    assert (house.logs(attempt) / "stdout.log").read_bytes() == b"hello\rworld"
    platform = (house.logs(attempt) / "platform.log").read_text()
    assert "scripted" in platform
    assert "exited with code 0" in platform
    assert await house.read(attempt) == b"hello\rworld"
    assert await house.read(attempt, tail=5) == b"world"
    assert (await house.read(attempt, "platform")).decode() == platform
