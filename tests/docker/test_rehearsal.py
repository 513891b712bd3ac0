"""`headway up --simulated-gpus` with real containers, as a person uses it on a machine without a GPU."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.dockerd import Engine
from tests.support.up import Up
from tests.support.waiting import soon

_SCRIPT = """
driver: "550.54.15"
steps:
- {do: process, gpu: 2, owner: ann, command: python train.py, memory: 20GiB}
- {do: fault, gpu: 3, xid: 48}
"""

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture
def up(tmp_path: Path, docker_engine: Engine) -> Iterator[Up]:
    script = tmp_path / "gpus.yaml"
    script.write_text(_SCRIPT)
    up = Up(tmp_path, DOCKER_HOST=docker_engine.url, HEADWAY_WORKER__SIMULATED_GPU_SCRIPT=str(script))
    yield up
    up.close()
    docker_engine.remove_containers()


def test_tasks_with_simulated_gpus_run_in_real_containers_and_say_so(up: Up, docker_engine: Engine) -> None:
    """I11: each failed after all its retries, and the node was fit."""
    before = docker_engine.gpu_calls.read_bytes() if docker_engine.gpu_calls.exists() else b""
    up.start("--port", str(up.port), "--simulated-gpus", "4xA100")
    assert "Its 4 A100 GPUs are only simulated: no task gets a device." in up.said
    nodes = up.headway("nodes")
    assert "4 x A100 (simulated)" in nodes
    assert "are only simulated (4)" in nodes
    (node,) = json.loads(up.headway("nodes", "-o", "json"))
    assert "A100 (simulated)" in up.headway("nodes", "show", node["id"])
    shown = up.headway("nodes", "show", node["id"])
    assert "ann's python train.py" in shown
    assert "XID 48" in shown
    assert [gpu["sick"] for gpu in node["gpus"]] == [False, False, False, True]
    assert (node["driver_version"], node["gpu_passing"]) == ("550.54.15", "")
    script = "echo $HEADWAY_GPUS $HEADWAY_GPU_UUIDS $NVIDIA_VISIBLE_DEVICES; sleep 8"
    said = up.headway(
        "run", "--image", "headway-test/busybox:1", "--gpus", "2", "--gpu-model", "A100", "--timeout", "1m", "--",
        "sh", "-c", script,
    )  # fmt: skip
    assert node["gpus"][0]["temperature_c"] < 38

    def warm() -> bool:
        return bool(json.loads(up.headway("nodes", "-o", "json"))[0]["gpus"][0]["temperature_c"] > 38)

    soon(warm, within_s=15, what="it has just worked")
    want = f"2 GPU-simulated-{node['id']}-0,GPU-simulated-{node['id']}-1 void"
    assert want in said
    (job,) = json.loads(up.headway("ps", "-o", "json"))
    assert "Its GPUs are only simulated" in up.headway("show", job["id"])
    task = next(iter(json.loads(up.headway("show", job["id"], "-o", "json"))["tasks"]))
    assert task["attempts"][0]["gpus_simulated"] is True
    assert "(only simulated)" in up.headway("show", f"{job['id']}/{task['name']}")
    assert "Its GPUs are only simulated" in up.headway("logs", job["id"], "--stream", "platform")
    assert (docker_engine.gpu_calls.read_bytes() if docker_engine.gpu_calls.exists() else b"") == before
    up.stop()
