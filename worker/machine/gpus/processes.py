"""The processes on a GPU, as its driver lists them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pynvml

from ...ports import GpuProcess

# Windows drivers say this of memory that they can't tell.
_UNKNOWN = (1 << 64) - 1


def processes_on(gpu: Any) -> tuple[GpuProcess, ...]:
    """Compute and graphics processes, with this machine's pids. One that is both stands there once, with all it holds.

    A driver that can't list them lists none: then the card's memory alone says that it is in use.
    """
    return listed_on(gpu)[0]


def listed_on(gpu: Any) -> tuple[tuple[GpuProcess, ...], bool]:
    """The same, and whether the driver lists compute processes at all."""
    held: dict[int, int | None] = {}
    compute = _listed(pynvml.nvmlDeviceGetComputeRunningProcesses, gpu)
    graphics = _listed(pynvml.nvmlDeviceGetGraphicsRunningProcesses, gpu)
    for listed in (compute, graphics):
        for pid, used in listed or ():
            before = held.get(pid)
            # Both lists tell all that a process holds.
            held[pid] = max(used, before) if used is not None and before is not None else used or before
    return tuple(GpuProcess(pid, memory_used_bytes=used) for pid, used in sorted(held.items())), compute is not None


def _listed(listing: Callable[[Any], Any], gpu: Any) -> list[tuple[int, int | None]] | None:
    try:
        found = listing(gpu)
    except pynvml.NVMLError:
        return None
    return [(int(one.pid), None if one.usedGpuMemory in (None, _UNKNOWN) else int(one.usedGpuMemory)) for one in found]
