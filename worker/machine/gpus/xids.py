"""What the XID errors of NVIDIA's driver mean: whether the hardware is at fault, or the program. Pure.

The source is NVIDIA's catalogue, "Analyzing Xid Errors with the Xid Catalog"
(docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html), and for cards before Ampere its list "Xid Errors".
Errors that it answers with "restart the application" are the program's. They come from a wrong address or a broken
kernel of the user, and the next program runs well on the same card. Errors that it answers with a reset, a restart or
a replacement are the hardware's. An error that stands in neither list changes nothing, and is logged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headway.model.gpu_faults import GpuFaultWord

OF_PROGRAMS: Final[Mapping[int, str]] = {
    8: "the GPU stopped processing",
    11: "invalid push buffer",
    13: "graphics engine exception, such as an address out of bounds",
    31: "memory page fault",
    32: "invalid push buffer",
    37: "driver firmware error of a channel",
    43: "the program's channel was reset",
    45: "cleanup after a program that ended or failed before",
    68: "video decoder exception",
    69: "graphics engine class error",
    109: "a context switch took too long",
}

_W = GpuFaultWord
OF_HARDWARE: Final[Mapping[int, tuple[GpuFaultWord, str]]] = {
    46: (_W.XID_ERROR, "the GPU stopped processing"),
    48: (_W.ECC_ERRORS, "double-bit memory error"),
    61: (_W.XID_ERROR, "internal micro-controller breakpoint"),
    62: (_W.XID_ERROR, "internal micro-controller halt"),
    63: (_W.ROW_REMAP, "a row of memory is to be replaced"),
    64: (_W.ROW_REMAP_FAILED, "a row of memory could not be replaced"),
    74: (_W.XID_ERROR, "NVLink error"),
    79: (_W.OFF_THE_BUS, "the GPU has fallen off the bus"),
    92: (_W.ECC_ERRORS, "high rate of single-bit memory errors"),
    94: (_W.ECC_ERRORS, "memory error that was contained"),
    95: (_W.ECC_ERRORS, "memory error that was not contained"),
    110: (_W.XID_ERROR, "security fault"),
    119: (_W.XID_ERROR, "the GPU's system processor does not answer"),
    120: (_W.XID_ERROR, "error of the GPU's system processor"),
    121: (_W.XID_ERROR, "error of the chip-to-chip link"),
    136: (_W.XID_ERROR, "link training failed"),
    140: (_W.ECC_ERRORS, "memory error that was not recovered"),
    143: (_W.XID_ERROR, "the GPU could not be initialised"),
}


def hardware_fault(xid: int) -> tuple[GpuFaultWord, str] | None:
    """What the hardware has, as a word and a clause with the number. None: it is not known to be at fault."""
    found = OF_HARDWARE.get(xid)
    return None if found is None else (found[0], f"XID {xid}: {found[1]}")
