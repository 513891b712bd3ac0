"""`headway up` as a person uses it: one command, a job, a kill, a second start."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.up import Up
from tests.support.waiting import soon

pytestmark = pytest.mark.slow

JOB = """
version: 1
name: try
defaults: {image: any, timeout: 1m}
tasks:
  - {name: a, command: "true"}
  - {name: b, command: "true", needs: [a]}
"""


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    up = Up(tmp_path)
    yield up
    up.close()


def test_one_command_a_job_and_a_second_start(up: Up, tmp_path: Path) -> None:
    up.start("--port", str(up.port), "--runtime", "scripted", "--simulated-gpus", "2")
    first_admin = up.state / "first-admin"
    assert first_admin.stat().st_mode & 0o777 == 0o600
    assert len(first_admin.read_text().splitlines()) == 2
    assert first_admin.read_text().splitlines()[1] not in up.said
    assert len(up.services()) == 5

    (tmp_path / "job.yaml").write_text(JOB)
    assert "SUCCEEDED" in up.headway("submit", "--wait", str(tmp_path / "job.yaml"))

    twice = up.headway("up", "--state", str(up.state), status=2)
    assert f"Headway already runs on {up.state} (process {up.process.pid}, http://127.0.0.1:{up.port})" in twice  # type: ignore[union-attr]
    other = up.headway("up", "--state", str(tmp_path / "other"), "--port", str(up.port), status=2)
    assert f"Port {up.port} at 127.0.0.1 is taken by another program" in other

    killed = up.services()["job_manager"]
    os.kill(killed, signal.SIGKILL)
    soon(lambda: up.services().get("job_manager", killed) != killed, within_s=30)
    assert "job_manager was killed by SIGKILL" in up.said
    soon(lambda: "SUCCEEDED" in up.headway("ps", "-a"), within_s=30)

    up.stop()
    assert up.services() == {}
    up.start()
    jobs = json.loads(up.headway("ps", "-a", "-o", "json"))
    assert "SUCCEEDED" in json.dumps(jobs)


def test_services_of_a_killed_up_stop_by_themselves_and_a_new_one_waits(up: Up) -> None:
    up.start("--port", str(up.port), "--runtime", "scripted")
    before = up.services()
    assert up.process is not None
    up.process.kill()
    up.process.wait()
    up.start()
    after = up.services()
    assert set(after) == set(before)
    assert not set(after.values()) & set(before.values())
