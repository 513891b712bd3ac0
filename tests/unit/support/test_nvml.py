"""The stand-in library, through the real bindings in a process of their own (a library is loaded once)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.nvml import GIB, Gpu, PretendGpus

pytestmark = pytest.mark.slow  # the first run compiles

_LOOK = """
import json, pynvml
from pynvml import *
try:
    nvmlInit()
except NVMLError as error:
    print(json.dumps({"init": type(error).__name__}))
    raise SystemExit
seen = {"driver": nvmlSystemGetDriverVersion(), "cuda": nvmlSystemGetCudaDriverVersion(), "gpus": []}
for index in range(nvmlDeviceGetCount()):
    gpu = nvmlDeviceGetHandleByIndex(index)
    one = {"uuid": nvmlDeviceGetUUID(gpu), "name": nvmlDeviceGetName(gpu)}
    try:
        one["free"] = nvmlDeviceGetMemoryInfo(gpu).free
        one["free_v2"] = nvmlDeviceGetMemoryInfo(gpu, version=nvmlMemory_v2).free
        one["reserved"] = nvmlDeviceGetMemoryInfo(gpu, version=nvmlMemory_v2).reserved
        rates = nvmlDeviceGetUtilizationRates(gpu)
        one["rates"] = [rates.gpu, rates.memory]
        one["celsius"] = nvmlDeviceGetTemperature(gpu, NVML_TEMPERATURE_GPU)
        one["milliwatts"] = nvmlDeviceGetPowerUsage(gpu)
        one["compute"] = {p.pid: p.usedGpuMemory for p in nvmlDeviceGetComputeRunningProcesses(gpu)}
        one["graphics"] = {p.pid: p.usedGpuMemory for p in nvmlDeviceGetGraphicsRunningProcesses(gpu)}
        one["bus"] = nvmlDeviceGetPciInfo(gpu).busId
        one["same"] = nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID(one["uuid"])) == index
        nvmlDeviceGetMigMode(gpu)
    except NVMLError as error:
        one["error"] = type(error).__name__
    seen["gpus"].append(one)
try:
    nvmlDeviceGetFanSpeed(nvmlDeviceGetHandleByIndex(0))
except NVMLError as error:
    seen["missing"] = type(error).__name__
nvmlShutdown()
print(json.dumps(seen))
"""


def _look(gpus: PretendGpus) -> dict[str, Any]:
    environment = {**os.environ, **gpus.environment()}
    done = subprocess.run([sys.executable, "-c", _LOOK], env=environment, capture_output=True, text=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_real_bindings_see_what_the_file_says(tmp_path: Path) -> None:
    gpus = PretendGpus(tmp_path)
    busy = Gpu(
        "GPU-1",
        used_bytes=10 * GIB,
        reserved_bytes=GIB,
        utilisation=97,
        memory_utilisation=41,
        temperature_c=71,
        power_w=312.5,
        processes={4242: 6 * GIB, 4243: 4 * GIB},
        graphics={77: 300 * 1024**2},
    )
    gpus.set([busy, Gpu("GPU-2", name="NVIDIA H100 PCIe")], driver="535.1", cuda=12020)
    seen = _look(gpus)
    assert (seen["driver"], seen["cuda"], seen["missing"]) == ("535.1", 12020, "NVMLError_FunctionNotFound")
    first, second = seen["gpus"]
    assert first == {
        "uuid": "GPU-1",
        "name": "NVIDIA A100-SXM4-40GB",
        "free": 29 * GIB,
        "free_v2": 29 * GIB,
        "reserved": GIB,
        "rates": [97, 41],
        "celsius": 71,
        "milliwatts": 312500,
        "compute": {"4242": 6 * GIB, "4243": 4 * GIB},
        "graphics": {"77": 300 * 1024**2},
        "bus": "00000000:01:00.0",
        "same": True,
        "error": "NVMLError_NotSupported",
    }
    assert second["name"] == "NVIDIA H100 PCIe"
    assert second["compute"] == {}


def test_a_lost_gpu_and_a_driver_that_is_not_loaded_are_told_as_the_driver_tells_them(tmp_path: Path) -> None:
    gpus = PretendGpus(tmp_path)
    gpus.set([Gpu("GPU-1", fails={"nvmlDeviceGetMemoryInfo": 15})])
    assert _look(gpus)["gpus"][0]["error"] == "NVMLError_GpuIsLost"
    gpus.set([], init_fails=9)
    assert _look(gpus) == {"init": "NVMLError_DriverNotLoaded"}
