"""Reads one card, its MIG slices and its links from NVML. It runs in the one thread that uses the library."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pynvml

from ...ports import GpuReading
from .health import CardFacts
from .processes import listed_on, processes_on

WITHOUT_SLICES = (
    "MIG is on and the card has no slice: an admin has to make some (`nvidia-smi mig -cgi … -C`) or to turn MIG off"
)


def identity(gpu: Any, index: int) -> GpuReading:
    """What does not change of a card. Raises NVMLError."""
    return GpuReading(
        uuid=text(pynvml.nvmlDeviceGetUUID(gpu)),
        model=text(pynvml.nvmlDeviceGetName(gpu)),
        memory_bytes=_memory(gpu)[0],
        index=index,
        pci_bus_id=pci_bus_id(gpu),
    )


def reading(gpu: Any, index: int) -> GpuReading:
    """A card now. Raises NVMLError if even its identity or memory can't be read."""
    processes, told = listed_on(gpu)
    return replace(readings(gpu, identity(gpu, index)), processes=processes, tells_processes=told)


def readings(gpu: Any, bare: GpuReading) -> GpuReading:
    """The same with its identity known, and without processes. Raises NVMLError if its memory can't be read."""
    rates = or_none(pynvml.nvmlDeviceGetUtilizationRates, gpu)
    power = or_none(pynvml.nvmlDeviceGetPowerUsage, gpu)
    return replace(
        bare,
        utilisation=None if rates is None else rates.gpu / 100,
        memory_utilisation=None if rates is None else rates.memory / 100,
        memory_used_bytes=_memory(gpu)[1],
        temperature_c=or_none(pynvml.nvmlDeviceGetTemperature, gpu, pynvml.NVML_TEMPERATURE_GPU),
        power_w=None if power is None else power / 1000,
    )


def facts(gpu: Any, temperature_c: float | None) -> CardFacts:
    """What tells whether a card is well. What it can't tell counts as well."""
    kind, since = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    rows = or_none(pynvml.nvmlDeviceGetRemappedRows, gpu) or (0, 0, 0, 0)
    # Cards before Ampere give up whole pages in the place of rows.
    pages_pending = or_none(pynvml.nvmlDeviceGetRetiredPagesPendingStatus, gpu)
    return CardFacts(
        temperature_c=temperature_c,
        limit_c=_limit(gpu),
        uncorrected=or_none(pynvml.nvmlDeviceGetTotalEccErrors, gpu, kind, since),
        rows_pending=bool(rows[2] or pages_pending),
        rows_failed=bool(rows[3]),
    )


def is_sliced(gpu: Any) -> bool:
    """Whether MIG is on: the card is given out in slices only."""
    mode = or_none(pynvml.nvmlDeviceGetMigMode, gpu)
    return bool(mode) and mode[0] == pynvml.NVML_DEVICE_MIG_ENABLE


def slices(gpu: Any, card: GpuReading) -> list[tuple[GpuReading, CardFacts]]:
    """The MIG slices of a card, each a GPU of its own model. Utilisation and power are known of the card only."""
    found = []
    for number in range(or_none(pynvml.nvmlDeviceGetMaxMigDeviceCount, gpu) or 0):
        handle = or_none(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, gpu, number)
        uuid = text(or_none(pynvml.nvmlDeviceGetUUID, handle)) if handle is not None else ""
        if not uuid:
            continue  # numbers have gaps
        bare = GpuReading(uuid, card.model, 0, card.index, card.pci_bus_id, parent_uuid=card.uuid)
        try:
            total, used = _memory(handle)
        except pynvml.NVMLError as error:
            found.append((replace(bare, model=_model(handle, card, 0)), unreadable(error)))
            continue
        whole = replace(bare, model=_model(handle, card, total), memory_bytes=total, memory_used_bytes=used)
        processes = processes_on(handle)
        found.append((replace(whole, temperature_c=card.temperature_c, processes=processes), CardFacts()))
    return found


def links(handles: Sequence[tuple[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Which cards each one reaches over NVLink, directly or by a switch. Not told: none."""
    found = {}
    for uuid, gpu in handles:
        reached = []
        for other, other_gpu in handles:
            if other == uuid:
                continue
            said = or_none(pynvml.nvmlDeviceGetP2PStatus, gpu, other_gpu, pynvml.NVML_P2P_CAPS_INDEX_NVLINK)
            if said == pynvml.NVML_P2P_STATUS_OK:
                reached.append(other)
        found[uuid] = tuple(reached)
    return found


def unreadable(error: pynvml.NVMLError) -> CardFacts:
    """The facts of a card that can't be read."""
    return CardFacts(unreadable=str(error), lost=isinstance(error, pynvml.NVMLError_GpuIsLost))


def pci_bus_id(gpu: Any) -> str:
    """Empty: not known."""
    return text(getattr(or_none(pynvml.nvmlDeviceGetPciInfo, gpu), "busId", ""))


def or_none(function: Callable[..., Any], *arguments: Any) -> Any:
    """A reading that this card or this driver may not have."""
    try:
        return function(*arguments)
    except pynvml.NVMLError:
        return None


def text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def _model(handle: Any, card: GpuReading, memory_bytes: int) -> str:
    """A slice's own model, `NVIDIA A100-SXM4-40GB MIG 1g.5gb`. Old drivers name the card alone."""
    name = text(or_none(pynvml.nvmlDeviceGetName, handle))
    if "MIG" in name.split():
        return name
    attributes = or_none(pynvml.nvmlDeviceGetAttributes, handle)
    if attributes is None:
        return f"{card.model} MIG"
    gigabytes = -(-(int(attributes.memorySizeMB) or memory_bytes >> 20) // 1024)
    return f"{card.model} MIG {attributes.gpuInstanceSliceCount}g.{gigabytes}gb"


def _limit(gpu: Any) -> float | None:
    """From which temperature on the card protects itself."""
    for kind in (pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, pynvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN):
        limit = or_none(pynvml.nvmlDeviceGetTemperatureThreshold, gpu, kind)
        if limit:
            return float(limit)
    return None


def _memory(gpu: Any) -> tuple[int, int]:
    """Total and used bytes, without the driver's own part if it reports that."""
    with contextlib.suppress(pynvml.NVMLError):
        info = pynvml.nvmlDeviceGetMemoryInfo(gpu, version=pynvml.nvmlMemory_v2)
        return int(info.total), int(info.used)
    info = pynvml.nvmlDeviceGetMemoryInfo(gpu)
    return int(info.total), int(info.used)
