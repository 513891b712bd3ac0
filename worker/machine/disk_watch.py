"""Watches the disks of this machine, and ends a task that fills one."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

from headway.clock import Clock
from headway.errors import HeadwayError
from headway.ids import AttemptId
from headway.logs import get_logger

from . import disks
from .conditions import Conditions
from .disks import DiskReading

log = get_logger(__name__)
T = TypeVar("T")

WORD = "disk_full"
_READ_S = 5.0
_MEASURE_AGAIN_S = 10.0  # after a measurement that found no offender
_GOING_S = 60.0  # an ended task gets so long to free its space before the next one is ended

Places = Callable[[], Iterable[tuple[Path, str]]]


def read_disks(places: Iterable[tuple[Path, str]]) -> list[DiskReading]:
    """One reading for each disk of these folders, given as (path, owner). Missing folders are left out. Blocks."""
    found: dict[int, DiskReading] = {}
    for path, holds in places:
        try:
            device, usage = os.stat(path).st_dev, shutil.disk_usage(path)
        except OSError:
            continue
        before = found.get(device)
        if before is None:
            found[device] = DiskReading(device, path, holds, usage.free, usage.total)
    return list(found.values())


class DiskUsageReader(Protocol):
    """How much of a disk each attempt uses."""

    async def uses(self, device: int) -> Mapping[AttemptId, int]:
        """Bytes by live attempt."""
        ...


class DiskWatch:
    """``look`` sets or ends the condition ``disk_full``. ``run`` repeats that, and ends the attempt that fills a disk.

    What counts: a disk with less than ``low_bytes`` free, and a critical disk with less than half of that.
    ``end`` ends an attempt, with the sentence for its owner. ``is_gone`` tells whether its space is free again.
    """

    def __init__(
        self,
        *,
        node_id: str,
        low_bytes: int,
        places: Places,
        usage: DiskUsageReader,
        end: Callable[[AttemptId, str], Awaitable[None]],
        is_gone: Callable[[AttemptId], Awaitable[bool]],
        conditions: Conditions,
        clock: Clock,
        read: Callable[[Iterable[tuple[Path, str]]], list[DiskReading]] = read_disks,
    ) -> None:
        self._node_id = node_id
        self._low_bytes = low_bytes
        self._places = places
        self._usage = usage
        self._end = end
        self._is_gone = is_gone
        self._conditions = conditions
        self._clock = clock
        self._read = read
        self._going: tuple[AttemptId, float] | None = None  # ended, and until when (monotonic) to wait for it
        self._measure_at = float("-inf")
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="disks")

    def close(self) -> None:
        """Release the thread. Safe twice."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def look(self) -> DiskReading | None:
        """The fullest disk now. None: none answered in time, and the condition stays as it was."""
        return disks.tightest(await self._look())

    async def of(self, folders: Sequence[Path]) -> DiskReading | None:
        """The fullest disk of these folders now. None: there is none, or it does not answer in time."""
        if not folders:
            return None
        reading = asyncio.get_running_loop().run_in_executor(
            self._threads, lambda: self._read([(folder, "the container engine") for folder in folders])
        )
        try:
            return disks.tightest(await asyncio.wait_for(reading, _READ_S))
        except TimeoutError:
            return None

    async def run(self) -> None:
        while True:
            found = await self._look()
            try:
                for disk in disks.critical(found, self._low_bytes):
                    await self._relieve(disk)
            except HeadwayError as error:
                log.warning("disk.not_relieved", reason=str(error))
            await self._clock.sleep(disks.look_again_s(found, self._low_bytes))

    async def _look(self) -> list[DiskReading]:
        places = list(self._places())
        reading = asyncio.get_running_loop().run_in_executor(self._threads, lambda: self._read(places))
        try:
            found = await asyncio.wait_for(reading, _READ_S)
        except TimeoutError:
            return []
        if found:
            before = any(condition.word == WORD for condition in self._conditions.now)
            full = disks.nearly_full(found, self._low_bytes, before=before)
            sentence = disks.full_sentence(self._node_id, full, self._low_bytes) if full else ""
            self._conditions.set(WORD, sentence)
        return found

    async def _relieve(self, disk: DiskReading) -> None:
        """End the attempt that fills it, unless an ended one still frees space."""
        now = self._clock.monotonic()
        if self._going is not None:
            attempt, until = self._going
            if now < until and not await self._is_gone(attempt):
                return
            self._going = None
            return  # its space became free after this reading
        if now < self._measure_at:
            return
        uses = await self._usage.uses(disk.device)
        attempt_or_none = disks.offender(uses, self._low_bytes)
        if attempt_or_none is None:
            self._measure_at = self._clock.monotonic() + _MEASURE_AGAIN_S
            log.warning("disk.filled_by_nobody", place=str(disk.place), free_bytes=disk.free_bytes, tasks=len(uses))
            return
        # Measuring takes time, and space may have become free meanwhile.
        latest = next((d for d in await self._look() if d.device == disk.device), disk)
        if not disks.critical([latest], self._low_bytes):
            return
        attempt, wrote = attempt_or_none, uses[attempt_or_none]
        log.warning("disk.offender_ended", attempt=str(attempt), bytes=wrote, free_bytes=latest.free_bytes)
        self._going = (attempt, self._clock.monotonic() + _GOING_S)
        await self._end(attempt, disks.ended_sentence(self._node_id, latest, wrote))
