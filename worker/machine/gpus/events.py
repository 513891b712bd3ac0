"""Collects the XID errors that the driver tells. It runs in the one thread that uses the library."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import pynvml

from headway.logs import get_logger

from .cards import or_none
from .xids import OF_PROGRAMS, hardware_fault

log = get_logger(__name__)

_AT_MOST = 200  # in one look
_WAIT_MS = 1


class XidEvents:
    """What happened to cards since the last look. The driver keeps it meanwhile."""

    def __init__(self) -> None:
        self._set: Any = None
        self._uuids: dict[int, str] = {}  # of registered cards, by the address of their handle

    def watch(self, handles: Sequence[tuple[str, Any]]) -> None:
        """Also watch these cards. Drivers that tell of nothing are no problem."""
        for uuid, gpu in handles:
            address = _address(gpu)
            if self._uuids.get(address) == uuid:
                continue
            if self._set is None and (made := or_none(pynvml.nvmlEventSetCreate)) is not None:
                self._set = made
            if self._set is None:
                return
            self._uuids[address] = uuid
            or_none(pynvml.nvmlDeviceRegisterEvents, gpu, pynvml.nvmlEventTypeXidCriticalError, self._set)

    def look(self) -> dict[str, tuple[int, ...]]:
        """The XID errors since the last look, by card."""
        found: dict[str, list[int]] = {}
        for _ in range(_AT_MOST if self._set is not None else 0):
            event = or_none(pynvml.nvmlEventSetWait_v2, self._set, _WAIT_MS)
            if event is None:
                break
            uuid = self._uuids.get(_address(event.device), "")
            if uuid and int(event.eventData) not in found.setdefault(uuid, []):
                found[uuid].append(int(event.eventData))
        for uuid, xids in found.items():
            for xid in xids:
                fault = hardware_fault(xid)
                meaning = fault[1] if fault is not None else OF_PROGRAMS.get(xid, "not known; it changes nothing")
                write = log.warning if fault is not None else log.info
                write("gpu.xid", gpu=uuid, xid=xid, reason=meaning)
        return {uuid: tuple(xids) for uuid, xids in found.items()}

    def close(self) -> None:
        """Before the library is shut down. Safe twice."""
        if self._set is not None:
            or_none(pynvml.nvmlEventSetFree, self._set)
        self._set, self._uuids = None, {}


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
