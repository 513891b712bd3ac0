"""Which images Headway fetched, and when each was last used: in memory and in the journal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from headway.clock import Clock

from .eviction import EvictionCandidate, FetchedImage, least_recent
from .ports import ImageJournal

_STORE_USE_S = 30.0  # uses that follow sooner are not stored


class ImageUseLedger:
    """Entries by key. One without an image's id belongs to a running fetch. One event loop owns it."""

    def __init__(self, journal: ImageJournal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._images: dict[str, FetchedImage] = {}
        self._stored_use_at: dict[str, float] = {}  # key: last use that was stored

    async def open(self) -> None:
        """Read the journal. Raises StoreUnavailable."""
        self._images = {one.key: one for one in await self._journal.load()}

    def __iter__(self) -> Iterator[FetchedImage]:
        return iter(tuple(self._images.values()))

    def __contains__(self, key: str) -> bool:
        return key in self._images

    @property
    def ids(self) -> set[str]:
        """Ids of Headway's images."""
        return {one.image_id for one in self._images.values() if one.image_id}

    async def put(self, entry: FetchedImage) -> None:
        """Store an entry. It is durable when this returns. Raises StoreFull, StoreUnavailable."""
        await self._journal.put(entry)
        self._images[entry.key] = entry

    def use(self, names: Iterable[str]) -> None:
        """Images with these keys or ids are used now."""
        now = self._clock.now()
        names = set(names)
        uses = []
        for key, one in self._images.items():
            if key in names or one.image_id in names:
                self._images[key] = replace(one, used_at=now)
                if now - self._stored_use_at.get(key, 0.0) >= _STORE_USE_S:
                    self._stored_use_at[key] = now
                    uses.append(key)
        self._journal.used_later(uses, now)

    def forget(self, keys: Collection[str]) -> None:
        """Drop entries of images that are gone, are not Headway's any more, or never came."""
        for key in keys:
            self._images.pop(key, None)
            self._stored_use_at.pop(key, None)
        self._journal.forget_later(tuple(keys))

    def least_recent(
        self, *, needed: Collection[str], spared: Collection[str], used_before: float = float("inf")
    ) -> EvictionCandidate | None:
        """See ``eviction.least_recent``."""
        return least_recent(self._images.values(), needed=needed, spared=spared, used_before=used_before)
