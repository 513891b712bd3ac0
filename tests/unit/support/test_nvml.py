"""The stand-in library, through the real bindings in a process of their own (a library is loaded once)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.nvml import GIB, Gpu, PretendGpus, Slice

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


_FAULTS = """
import json, pynvml, sys
from pynvml import *
nvmlInit()
one, other = nvmlDeviceGetHandleByIndex(0), nvmlDeviceGetHandleByIndex(1)
events = nvmlEventSetCreate()
nvmlDeviceRegisterEvents(one, nvmlEventTypeXidCriticalError, events)
print("ready", flush=True)
sys.stdin.readline()
told = nvmlEventSetWait_v2(events, 2000)
seen = {"event": [told.eventType, told.eventData, nvmlDeviceGetUUID(told.device)], "missing": [], "slices": []}
try:
    nvmlEventSetWait_v2(events, 0)
except NVMLError as error:
    seen["then"] = type(error).__name__
seen["slowdown"] = nvmlDeviceGetTemperatureThreshold(one, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN)
seen["ecc"] = [nvmlDeviceGetTotalEccErrors(one, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, c) for c in (0, 1)]
seen["rows"] = nvmlDeviceGetRemappedRows(one)
seen["pages"] = [len(nvmlDeviceGetRetiredPages(one, 1)), nvmlDeviceGetRetiredPagesPendingStatus(one)]
seen["joules"] = nvmlDeviceGetTotalEnergyConsumption(one) / 1000
seen["linked"] = [nvmlDeviceGetP2PStatus(one, other, 2), nvmlDeviceGetNvLinkState(one, 0)]
seen["remote"] = nvmlDeviceGetNvLinkRemotePciInfo(one, 0).busId
for call in (nvmlDeviceGetRemappedRows, nvmlDeviceGetTotalEnergyConsumption):
    try:
        call(other)
    except NVMLError as error:
        seen["missing"].append(type(error).__name__)
seen["mig"] = nvmlDeviceGetMigMode(other)
for index in range(nvmlDeviceGetMaxMigDeviceCount(other)):
    try:
        slice = nvmlDeviceGetMigDeviceHandleByIndex(other, index)
    except NVMLError_NotFound:
        break
    parent = nvmlDeviceGetUUID(nvmlDeviceGetDeviceHandleFromMigDeviceHandle(slice))
    seen["slices"].append([nvmlDeviceGetUUID(slice), nvmlDeviceGetName(slice), nvmlDeviceGetMemoryInfo(slice).total,
                           nvmlDeviceGetGpuInstanceId(slice), parent, nvmlDeviceGetAttributes(slice).memorySizeMB])
try:
    nvmlDeviceGetTemperature(slice, 0)
except NVMLError as error:
    seen["slice_celsius"] = type(error).__name__
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


def test_faults_slices_and_links_are_told_as_the_driver_tells_them(tmp_path: Path) -> None:
    gpus = PretendGpus(tmp_path)
    sick = Gpu(
        "GPU-1", energy_j=12.5, linked=["GPU-2"], slowdown_c=90, ecc=(3, 1), ecc_total=(7, 2), remapped=(1, 2, 1, 0),
        retired=(4, 2, 1),
    )  # fmt: skip
    sliced = Gpu("GPU-2", slices=[Slice("MIG-1", instance=7), Slice("MIG-2", "A MIG 2g.10gb", 10 * GIB, slices=2)])
    gpus.set([Gpu("GPU-0", gone=True), sick, sliced], missing=["nvmlDeviceGetTotalEnergyConsumption"])
    gpus.tell("GPU-1", 13)  # before the set is made
    process = subprocess.Popen(
        [sys.executable, "-c", _FAULTS],
        env={**os.environ, **gpus.environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    gpus.set([Gpu("GPU-0", gone=True), sick, sliced])
    gpus.tell("GPU-2", 48)  # not asked for
    gpus.tell("GPU-1", 79)
    told, _ = process.communicate("\n", timeout=20)
    assert json.loads(told) == {
        "event": [8, 79, "GPU-1"],
        "then": "NVMLError_Timeout",
        "slowdown": 90,
        "ecc": [1, 2],
        "rows": [1, 2, 1, 0],
        "pages": [2, 1],
        "joules": 12.5,
        "linked": [0, 1],
        "remote": "00000000:03:00.0",
        "missing": ["NVMLError_NotSupported", "NVMLError_NotSupported"],
        "mig": [1, 1],
        "slices": [
            ["MIG-1", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 5 * GIB, 7, "GPU-2", 5 * 1024],
            ["MIG-2", "A MIG 2g.10gb", 10 * GIB, 0, "GPU-2", 10 * 1024],
        ],
        "slice_celsius": "NVMLError_NotSupported",
    }


def test_functions_that_an_old_driver_lacks(tmp_path: Path) -> None:
    gpus = PretendGpus(tmp_path)
    gpus.set([Gpu("GPU-1", slices=[Slice("MIG-1")])], missing=["nvmlDeviceGetMigMode"])
    assert _look(gpus)["gpus"][0]["error"] == "NVMLError_FunctionNotFound"
    gpus.set([Gpu("GPU-1")], build=2)
    assert _look(gpus) == {"init": "NVMLError_LibRmVersionMismatch"}
