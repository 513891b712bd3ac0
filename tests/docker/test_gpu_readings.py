"""``NvmlGpus`` through the real bindings and a stand-in for the library, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.support.nvml import GIB, Gpu, PretendGpus
from worker.machine.gpus import cuda_version, with_outside_use
from worker.ports import GpuReading

_READ = """
import asyncio, dataclasses, json, sys
from worker.machine.gpus import NvmlGpus
async def main():
    async def cannot_pass():
        return sys.argv[1]
    gpus = NvmlGpus(outside_memory_bytes=512 << 20, cannot_pass=cannot_pass)
    out = []
    for line in sys.stdin:
        found = await gpus.read(json.loads(line))
        out.append(dataclasses.asdict(found))
        print(json.dumps(out[-1]), flush=True)
    await gpus.close()
asyncio.run(main())
"""


class Reader:
    """A process that reads GPUs whenever it is asked."""

    def __init__(self, environment: dict[str, str], problem: str = "") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _READ, problem],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )

    def read(self, *ours: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(list(ours)) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> str:
        _, said = self._process.communicate(timeout=10)
        return said


def test_a_machine_without_library_has_no_gpus_and_no_problem() -> None:
    """GPU-02: the whole service refused to start."""
    reader = Reader({})
    found = reader.read()
    assert (found["gpus"], found["problem"]) == ([], "")
    assert reader.read() == found
    reader.close()


def test_a_driver_that_is_not_loaded(pretend_gpus: PretendGpus) -> None:
    pretend_gpus.set([], init_fails=9)
    reader = Reader(pretend_gpus.environment())
    found = reader.read()
    assert (found["gpus"], found["problem"]) == ([], "")
    pretend_gpus.set([Gpu("GPU-1")])
    assert [gpu["uuid"] for gpu in reader.read()["gpus"]] == ["GPU-1"], "loaded later"
    reader.close()


def test_readings(pretend_gpus: PretendGpus) -> None:
    card = Gpu(
        "GPU-1", used_bytes=GIB, reserved_bytes=2 * GIB, utilisation=50, memory_utilisation=25, temperature_c=61,
        power_w=123.5,
    )  # fmt: skip
    pretend_gpus.set([card, Gpu("GPU-2", fails={"nvmlDeviceGetPowerUsage": 3})], driver="535.1", cuda=12020)
    reader = Reader(pretend_gpus.environment())
    found = reader.read("GPU-1")
    first, second = found["gpus"]
    assert (found["driver_version"], found["cuda_version"], found["problem"]) == ("535.1", "12.2", "")
    assert (first["utilisation"], first["memory_utilisation"], first["temperature_c"], first["power_w"]) == (
        0.5, 0.25, 61, 123.5,
    )  # fmt: skip
    assert (first["memory_bytes"], first["memory_used_bytes"], first["index"]) == (40 * GIB, GIB, 0)
    assert first["pci_bus_id"]
    assert (first["busy_outside"], second["busy_outside"], second["power_w"]) == (False, False, None)
    assert reader.read()["gpus"][0]["busy_outside"], "what nobody of ours holds is held from outside"
    reader.close()


def test_a_card_that_falls_off_the_bus_is_sick(pretend_gpus: PretendGpus) -> None:
    pretend_gpus.set([Gpu("GPU-1"), Gpu("GPU-2")])
    reader = Reader(pretend_gpus.environment())
    reader.read()
    pretend_gpus.set([Gpu("GPU-1", fails={"*": 15}), Gpu("GPU-2")])
    first, second = reader.read()["gpus"]
    assert (first["uuid"], first["sick"], second["sick"]) == ("GPU-1", True, False)
    pretend_gpus.set([Gpu("GPU-1"), Gpu("GPU-2")])
    assert not reader.read()["gpus"][0]["sick"]
    reader.close()


def test_a_driver_that_was_updated_under_its_modules_says_what_to_do(pretend_gpus: PretendGpus) -> None:
    """I11: cards that no task can be given seemed to be gone, and jobs for them were refused."""
    pretend_gpus.set([Gpu("GPU-1")])
    reader = Reader(pretend_gpus.environment())
    reader.read()
    pretend_gpus.set([Gpu("GPU-1")], init_fails=18)
    found = reader.read()
    assert [(gpu["uuid"], gpu["sick"]) for gpu in found["gpus"]] == [("GPU-1", True)]
    assert "An admin has to restart the machine" in found["problem"]
    pretend_gpus.set([Gpu("GPU-1")])
    assert not reader.read()["gpus"][0]["sick"]
    reader.close()


def test_an_engine_that_cannot_hand_them_in(pretend_gpus: PretendGpus) -> None:
    pretend_gpus.set([Gpu("GPU-1")])
    reader = Reader(pretend_gpus.environment(), "no toolkit")
    found = reader.read()
    assert [(gpu["sick"], gpu["note"]) for gpu in found["gpus"]] == [
        (True, "its machine can't give GPUs to containers")
    ]
    assert found["problem"] == "no toolkit"
    reader.close()


def test_small_use_from_outside_is_allowed() -> None:
    gpu = GpuReading("GPU-1", "A100", 40 * GIB, 0, memory_used_bytes=300 << 20)
    assert with_outside_use(gpu, False, 512 << 20) == gpu
    busy = with_outside_use(gpu, False, 100 << 20)
    assert (busy.busy_outside, busy.note) == (True, "in use by a process outside Headway, 300MiB")
    assert with_outside_use(gpu, True, 0) == gpu
    assert cuda_version(12040) == "12.4"
