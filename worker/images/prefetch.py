"""Brings images that queued tasks will probably need here, while nothing else has to be brought."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from headway.clock import Clock
from headway.errors import HeadwayError
from headway.logs import get_logger

from ..model import WantedImage
from ..ports import EngineUnavailable
from .manager import ImageManager

log = get_logger(__name__)

_BUSY_S = 0.5


class ImagePrefetcher:
    """The wish list of TaskManager; each list replaces the one before, and none outlives this process."""

    def __init__(self, manager: ImageManager, clock: Clock) -> None:
        self._manager = manager
        self._clock = clock
        self._list: tuple[WantedImage, ...] = ()
        self._changed = asyncio.Event()

    def replace(self, images: Sequence[WantedImage]) -> None:
        """From now on these, most likely first; those that are here already stay as long as they are on the list."""
        self._list = tuple(images)
        self._manager.needed_soon = frozenset(image.key for image in images)
        self._changed.set()

    async def run(self) -> None:
        """One after another; what can't be had is left to the task that needs it, and to the next list."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            for wanted in self._list:
                while self._manager.busy and not self._changed.is_set():
                    await self._clock.sleep(_BUSY_S)
                if self._changed.is_set():
                    break
                try:
                    await self._manager.prefetch(wanted)
                except EngineUnavailable as error:
                    log.info("image.prefetch_put_off", reason=str(error))
                    break
                except HeadwayError as error:
                    log.info("image.not_prefetched", image=wanted.name, reason=str(error))
