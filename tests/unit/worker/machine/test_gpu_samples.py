"""Quick readings of chosen GPUs, through the real bindings and a stand-in for NVIDIA's library."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.support.nvml import GIB, Gpu, PretendGpus

_SAMPLE = """
import asyncio, dataclasses, json, sys
from worker.machine.gpus import NvmlGpus
async def main():
    gpus = NvmlGpus(outside_memory_bytes=512 << 20)
    for line in sys.stdin:
        found = await gpus.sample(json.loads(line))
        print(json.dumps({uuid: dataclasses.asdict(gpu) for uuid, gpu in found.items()}), flush=True)
    await gpus.close()
asyncio.run(main())
"""


def test_only_the_chosen_gpus_are_read_and_lost_ones_are_left_out(pretend_gpus: PretendGpus) -> None:
    one = Gpu("GPU-1", used_bytes=GIB, utilisation=50, memory_utilisation=25, temperature_c=61, power_w=123.5)
    pretend_gpus.set([one, Gpu("GPU-2"), Gpu("GPU-3")])
    process = subprocess.Popen(
        [sys.executable, "-c", _SAMPLE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **pretend_gpus.environment()},
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def sample(*uuids: str) -> dict[str, dict[str, object]]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(uuids) + "\n")
        process.stdin.flush()
        found: dict[str, dict[str, object]] = json.loads(process.stdout.readline())
        return found

    with process:
        found = sample("GPU-3", "GPU-1", "GPU-none")
        assert sorted(found) == ["GPU-1", "GPU-3"]
        assert {name: found["GPU-1"][name] for name in ("model", "memory_bytes", "memory_used_bytes")} == {
            "model": one.name, "memory_bytes": 40 * GIB, "memory_used_bytes": GIB,
        }  # fmt: skip
        readings = ("utilisation", "memory_utilisation", "temperature_c", "power_w")
        assert [found["GPU-1"][name] for name in readings] == [0.5, 0.25, 61, 123.5]
        pretend_gpus.set([one, Gpu("GPU-2"), Gpu("GPU-3", fails={"*": 15})])
        assert sorted(sample("GPU-3", "GPU-1")) == ["GPU-1"]
        pretend_gpus.set([], init_fails=9)
        assert sample("GPU-3") == {}
        pretend_gpus.set([Gpu("GPU-3")])
        assert sorted(sample("GPU-3")) == ["GPU-3"], "it came back"
        process.stdin.close()
