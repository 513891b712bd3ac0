"""Space on the engine's disk: reserved before a fetch, and freed when the disk fills."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass

from headway.clock import Clock
from headway.logs import get_logger

from ..machine.disks import DiskReading
from ..ports import ImageRemoval, NotEnoughDisk, Runtime
from . import eviction
from .eviction import EvictionCandidate
from .ledger import ImageUseLedger

log = get_logger(__name__)

_REST_S = 600.0  # an image that was used since then is removed only for another image


@dataclass(frozen=True, slots=True)
class DiskWatermarks:
    """How full the engine's disk may be. ``high`` and ``low`` are shares, and ``reserve_bytes`` always stay free."""

    high: float = 0.85
    low: float = 0.70
    reserve_bytes: int = 1 << 30


class ImageDiskSpace:
    """Decides which fetch may use the disk, and which images to remove for it.

    ``in_use`` returns keys and ids of images that stay.
    """

    def __init__(
        self,
        *,
        node_id: str,
        runtime: Runtime,
        ledger: ImageUseLedger,
        disk: Callable[[], Awaitable[DiskReading | None]],
        in_use: Callable[[], Collection[str]],
        clock: Clock,
        watermarks: DiskWatermarks,
    ) -> None:
        self._node_id = node_id
        self._runtime = runtime
        self._ledger = ledger
        self._disk = disk
        self._in_use = in_use
        self._clock = clock
        self._watermarks = watermarks
        self._turn = asyncio.Lock()
        self._filling: dict[asyncio.Future[None], int] = {}  # running fetches: bytes that they may use
        self._removals: dict[str, asyncio.Task[ImageRemoval]] = {}  # by key and id

    @contextlib.asynccontextmanager
    async def reserved(self, name: str, needs: int, *, stays: int, urgent: Callable[[], bool]) -> AsyncIterator[None]:
        """The block runs when there is space for ``needs`` bytes, of which ``stays`` stay. ``name`` is the image's.

        ``urgent`` returns whether a task waits for it now, so that other images may be removed for it.

        Raises:
            NotEnoughDisk: there is no space, and no image can be removed for it.
        """
        filling: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        async with self._turn:
            await self._make(name, needs, stays, urgent)
            self._filling[filling] = needs
        try:
            yield
        finally:
            del self._filling[filling]
            filling.set_result(None)

    async def tidy(self) -> None:
        """Above the high watermark, remove Headway's images until the disk is below the low one."""
        disk = await self._disk()
        if disk is None or not eviction.is_above(disk, self._watermarks.high):
            return
        spared: set[str] = set()
        while disk is not None and eviction.is_above(disk, self._watermarks.low):
            before = self._clock.now() - _REST_S
            candidate = self._ledger.least_recent(needed=self._in_use(), spared=spared, used_before=before)
            if candidate is None:
                return
            await self._remove(candidate, spared)
            disk = await self._disk()

    def is_being_removed(self, name: str) -> bool:
        """Whether the image with this key or id is being removed."""
        return name in self._removals

    async def wait_until_removed(self, name: str) -> None:
        """Wait until a removal of it is over, if there is one."""
        removal = self._removals.get(name)
        if removal is not None:
            await asyncio.wait({removal})

    async def _make(self, name: str, needs: int, stays: int, urgent: Callable[[], bool]) -> None:
        spared: set[str] = set()
        while True:
            disk = await self._disk()
            if disk is None or not needs:
                return
            now = urgent()
            want = needs + self._watermarks.reserve_bytes
            enough = disk.free_bytes - sum(self._filling.values()) >= want
            if enough and (now or not eviction.goes_above(disk, stays, self._watermarks.high)):
                return
            if self._filling:
                # The disk does not show yet what the other fetches will use, nor what they free at their end.
                await asyncio.wait(self._filling, return_when=asyncio.FIRST_COMPLETED)
                continue
            candidate = self._ledger.least_recent(needed=self._in_use(), spared=spared) if now else None
            if candidate is None:
                raise NotEnoughDisk(eviction.not_enough_disk_sentence(self._node_id, name, want, disk))
            await self._remove(candidate, spared)

    async def _remove(self, candidate: EvictionCandidate, spared: set[str]) -> None:
        task = asyncio.create_task(self._runtime.remove_image(candidate.image_id, candidate.names))
        names = (candidate.image_id, *candidate.keys)
        self._removals.update(dict.fromkeys(names, task))
        try:
            result = await asyncio.shield(task)
        finally:
            for name in names:
                self._removals.pop(name, None)
        log.info("image.removed", image=candidate.image_id, result=result.value, unused_since=round(candidate.used_at))
        if result is ImageRemoval.IN_USE:
            spared.add(candidate.image_id)
            return
        self._ledger.forget(candidate.keys)
