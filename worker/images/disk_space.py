"""Room on the engine's disk: made before a fetch, and taken back when the disk fills."""

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

_REST_S = (
    600.0  # an image used so short a time ago is not removed for the watermarks, only for another that needs the room
)


@dataclass(frozen=True, slots=True)
class DiskWatermarks:
    """How full the engine's disk may be: shares of it, and bytes that stay free whatever happens."""

    high: float = 0.85
    low: float = 0.70
    reserve_bytes: int = 1 << 30


class ImageDiskSpace:
    """Who may fill the disk, and which images go for it. ``in_use``: keys and ids of those that stay."""

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
        self._filling: dict[asyncio.Future[None], int] = {}  # fetches that have their room: bytes that they may take
        self._removals: dict[str, asyncio.Task[ImageRemoval]] = {}  # by key and id

    @contextlib.asynccontextmanager
    async def reserved(self, name: str, needs: int, *, stays: int, urgent: Callable[[], bool]) -> AsyncIterator[None]:
        """The block runs when there is room for ``needs`` bytes, of which ``stays`` stay; ``name`` is the image's.

        ``urgent``: a task waits for it (now), so that others may go for its room.

        Raises:
            RuntimeRefused: there is none, and nothing of ours can go for it.
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
        """With more of the disk in use than the high mark, remove images of ours until it is below the low one."""
        disk = await self._disk()
        if disk is None or not eviction.is_above(disk, self._watermarks.high):
            return
        spared: set[str] = set()
        while disk is not None and eviction.is_above(disk, self._watermarks.low):
            before = self._clock.now() - _REST_S
            victim = self._ledger.least_recent(needed=self._in_use(), spared=spared, used_before=before)
            if victim is None:
                return
            await self._remove(victim, spared)
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
                # What the others fill is not all to be seen yet, nor what they give back at their end.
                await asyncio.wait(self._filling, return_when=asyncio.FIRST_COMPLETED)
                continue
            victim = self._ledger.least_recent(needed=self._in_use(), spared=spared) if now else None
            if victim is None:
                raise NotEnoughDisk(eviction.not_enough_disk_sentence(self._node_id, name, want, disk))
            await self._remove(victim, spared)

    async def _remove(self, victim: EvictionCandidate, spared: set[str]) -> None:
        task = asyncio.create_task(self._runtime.remove_image(victim.image_id, victim.names))
        names = (victim.image_id, *victim.keys)
        self._removals.update(dict.fromkeys(names, task))
        try:
            result = await asyncio.shield(task)
        finally:
            for name in names:
                self._removals.pop(name, None)
        log.info("image.removed", image=victim.image_id, result=result.value, unused_since=round(victim.used_at))
        if result is ImageRemoval.IN_USE:
            spared.add(victim.image_id)
            return
        self._ledger.forget(victim.keys)
