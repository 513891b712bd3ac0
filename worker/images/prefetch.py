"""Fetches images that queued tasks will probably need here, while no other fetch runs."""

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
    """TaskManager's list of images to prefetch. A new list replaces the old one. None is stored."""

    def __init__(self, manager: ImageManager, clock: Clock) -> None:
        self._manager = manager
        self._clock = clock
        self._list: tuple[WantedImage, ...] = ()
        self._changed = asyncio.Event()

    def set_list(self, images: Sequence[WantedImage]) -> None:
        """Fetch these from now on, the most likely first. Images on the list are not removed."""
        self._list = tuple(images)
        self._manager.needed_soon = frozenset(image.key for image in images)
        self._changed.set()

    async def run(self) -> None:
        """Fetch one after another. An image that can't be fetched is left to its task and to the next list."""
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
