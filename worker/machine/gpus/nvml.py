"""The machine's GPUs, as NVIDIA's management library (NVML) reports them.

A GPU is known by its UUID. Its index and PCI id are only shown. A machine without driver or library has no GPUs, which
is no problem.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pynvml

from headway.logs import get_logger
from headway.units import format_size

from ...ports import GpuInventory, GpuReading
from .processes import processes_on

log = get_logger(__name__)

_LIMIT_S = 5.0
_SILENT = "NVIDIA's driver does not answer, so no GPU is offered."
_ROUGHLY = 1 << 20


_NOT_GIVEN = "its machine can't give GPUs to containers"


async def _always() -> str:
    return ""


def _none(uuids: Sequence[str]) -> Mapping[str, str]:
    return {}


class NvmlGpus:
    """``ports.Gpus`` by NVML.

    ``cannot_pass`` says why the container engine can't give GPUs to containers. Empty: it can. It is asked only on a
    machine with GPUs. ``unfit`` says the same of single cards, by their UUIDs. What can't be given is sick: tasks that
    ask for it wait, and are told why.
    """

    def __init__(
        self,
        *,
        outside_memory_bytes: int,
        cannot_pass: Callable[[], Awaitable[str]] = _always,
        unfit: Callable[[Sequence[str]], Mapping[str, str]] = _none,
    ) -> None:
        self._outside_memory_bytes = outside_memory_bytes
        self._cannot_pass = cannot_pass
        self._unfit = unfit
        # The library has state of its own, so one thread makes all calls. A call that hangs blocks no other thread.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gpu")
        self._library = _Library()
        self._call: Future[GpuInventory] | None = None
        self._last = GpuInventory()

    async def read(self, ours: Collection[str]) -> GpuInventory:
        if self._call is None or self._call.done():
            try:
                self._call = self._thread.submit(self._library.read)
            except RuntimeError:  # closed
                return self._last
        waiting = asyncio.wrap_future(self._call)
        waiting.add_done_callback(_ignore_error)
        done, _ = await asyncio.wait({waiting}, timeout=_LIMIT_S)
        if not done:
            return replace(self._last, gpus=_sick(self._last.gpus, "its driver does not answer"), problem=_SILENT)
        found = waiting.result()
        if found.problem:
            return replace(found, gpus=_sick(self._last.gpus, "its driver can't be read"))
        if found.gpus:
            unfit = self._unfit([gpu.uuid for gpu in found.gpus])
            problem = await self._cannot_pass()
            if problem:
                return replace(found, gpus=_sick(found.gpus, _NOT_GIVEN), problem=problem)
            found = replace(found, gpus=tuple(_with_note(gpu, unfit.get(gpu.uuid, "")) for gpu in found.gpus))
        held = frozenset(ours)
        gpus = tuple(with_outside_use(gpu, gpu.uuid in held, self._outside_memory_bytes) for gpu in found.gpus)
        self._last = replace(found, gpus=gpus)
        return self._last

    async def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)


def with_outside_use(gpu: GpuReading, ours: bool, threshold_bytes: int) -> GpuReading:
    """Mark a GPU on which processes outside Headway hold more memory than is allowed. Pure."""
    used = gpu.memory_used_bytes
    if ours or gpu.sick or used is None or used <= threshold_bytes:
        return gpu
    size = format_size(used // _ROUGHLY * _ROUGHLY)
    return replace(gpu, busy_outside=True, note=f"in use by a process outside Headway, {size}")


def _sick(gpus: Sequence[GpuReading], note: str) -> tuple[GpuReading, ...]:
    return tuple(_with_note(gpu, note) for gpu in gpus)


def _with_note(gpu: GpuReading, note: str) -> GpuReading:
    """Sick for this reason, if there is one. What the driver itself says of it counts more."""
    return gpu if gpu.sick or not note else replace(gpu, sick=True, note=note)


def cuda_version(number: int) -> str:
    """12040 is 12.4."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _ignore_error(call: asyncio.Future[GpuInventory]) -> None:
    if not call.cancelled():
        call.exception()


@dataclass(slots=True)
class _Library:
    """NVML in the one thread that uses it."""

    ready: bool = False
    logged: str = ""
    known: dict[int, GpuReading] | None = None

    def read(self) -> GpuInventory:
        """All GPUs. Never raises."""
        try:
            if not self.ready:
                pynvml.nvmlInit()
                self.ready = True
            inventory = self._read()
        except pynvml.NVMLError as error:
            return self._without(error)
        self._log_change("")
        return inventory

    def _read(self) -> GpuInventory:
        known = self.known or {}
        readings = {}
        for index in range(pynvml.nvmlDeviceGetCount()):
            try:
                readings[index] = _reading(index)
            except pynvml.NVMLError as error:
                if index in known:
                    # It was there a moment ago: it fell off the bus, or its driver failed.
                    note = f"the driver can't read it any more: {error}"
                    readings[index] = replace(_bare(known[index]), sick=True, note=note)
                else:
                    log.warning("gpu.unreadable", index=index, reason=str(error))
        self.known = readings
        return GpuInventory(
            tuple(readings.values()),
            driver_version=_text(_or_none(pynvml.nvmlSystemGetDriverVersion)),
            cuda_version=cuda_version(_or_none(pynvml.nvmlSystemGetCudaDriverVersion) or 0),
        )

    def _without(self, error: pynvml.NVMLError) -> GpuInventory:
        """No GPUs, and why. A machine that seems to have none is no problem."""
        if self.ready:
            with contextlib.suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
            self.ready = False
        missing = isinstance(error, pynvml.NVMLError_LibraryNotFound)
        what = "NVIDIA's library is not installed" if missing else f"NVIDIA's driver says: {error}"
        if isinstance(error, pynvml.NVMLError_LibRmVersionMismatch):
            # It was updated while its old modules are loaded.
            what += ". An admin has to restart the machine, or load the driver's modules anew"
        self._log_change(what)
        if missing or (isinstance(error, pynvml.NVMLError_DriverNotLoaded) and not self.known):
            return GpuInventory()
        return GpuInventory(problem=f"The GPUs of this machine can't be read. {what}.")

    def _log_change(self, why: str) -> None:
        """Log a line for a change, not one every few seconds."""
        if why and why != self.logged:
            log.info("gpu.none", reason=why)
        self.logged = why


def _reading(index: int) -> GpuReading:
    """Raises NVMLError if even its identity or memory can't be read."""
    gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
    total, used = _memory(gpu)
    rates = _or_none(pynvml.nvmlDeviceGetUtilizationRates, gpu)
    power = _or_none(pynvml.nvmlDeviceGetPowerUsage, gpu)
    reading = GpuReading(
        uuid=_text(pynvml.nvmlDeviceGetUUID(gpu)),
        model=_text(pynvml.nvmlDeviceGetName(gpu)),
        memory_bytes=total,
        index=index,
        pci_bus_id=_text(getattr(_or_none(pynvml.nvmlDeviceGetPciInfo, gpu), "busId", "")),
        utilisation=None if rates is None else rates.gpu / 100,
        memory_utilisation=None if rates is None else rates.memory / 100,
        memory_used_bytes=used,
        temperature_c=_or_none(pynvml.nvmlDeviceGetTemperature, gpu, pynvml.NVML_TEMPERATURE_GPU),
        power_w=None if power is None else power / 1000,
        processes=processes_on(gpu),
    )
    mode = _or_none(pynvml.nvmlDeviceGetMigMode, gpu)
    if mode and mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE:
        return replace(reading, sick=True, note="MIG is on; Headway gives out whole GPUs")
    return reading


def _memory(gpu: Any) -> tuple[int, int]:
    """Total and used bytes, without the driver's own part if it reports that."""
    with contextlib.suppress(pynvml.NVMLError):
        info = pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2)
        return int(info.total), int(info.used)
    info = pynvml.nvmlDeviceGetMemoryInfo(gpu)
    return int(info.total), int(info.used)


def _bare(gpu: GpuReading) -> GpuReading:
    """Its identity without readings."""
    return GpuReading(gpu.uuid, gpu.model, gpu.memory_bytes, gpu.index, gpu.pci_bus_id)


def _or_none(function: Callable[..., Any], *arguments: Any) -> Any:
    """A reading that this card or this driver may not have."""
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")
