"""What the keeper of images needs from outside, and what others need of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..model import WantedImage
from ..ports import ImageArchive, ImageFacts
from .eviction import FetchedImage


@dataclass(frozen=True, slots=True)
class MarketImageInfo:
    """An image of the market: its layers from the lowest on, as (digest, bytes unpacked)."""

    architecture: str
    layers: tuple[tuple[str, int], ...]


class SizedArchive(ImageArchive, Protocol):
    """An archive whose size is known."""

    size: int


class ImageMarket(Protocol):
    """The images of the market, on the shared mount."""

    async def info(self, wanted: WantedImage) -> MarketImageInfo:
        """Raises MountUnavailable, RuntimeRefused (it is not there, or broken)."""
        ...

    async def open(self, wanted: WantedImage, omit: Collection[str]) -> SizedArchive:
        """Its archive without these layers. Raises as ``look``."""
        ...


class ImageJournal(Protocol):
    """``journal.ImageJournal``."""

    async def load(self) -> list[FetchedImage]: ...

    async def put(self, one: FetchedImage) -> None: ...

    def used_later(self, keys: Sequence[str], at: float) -> None: ...

    def forget_later(self, keys: Sequence[str]) -> None: ...

    async def load_permissions(self) -> dict[tuple[str, str], float]: ...

    def grant_later(self, permission: tuple[str, str], at: float) -> None: ...

    def drop_permissions_later(self, permissions: Sequence[tuple[str, str]]) -> None: ...

    async def revoke(self, permissions: Sequence[tuple[str, str]]) -> None: ...


class ImageProvider(Protocol):
    """What a start needs of all this."""

    async def prepare(self, wanted: WantedImage, on_fetch: Callable[[], None]) -> ImageFacts:
        """The image, brought if it is not there. ``on_fetch`` is called when it has to be fetched. May take minutes.

        Raises EngineUnavailable (try again), RuntimeRefused, MountUnavailable.
        """
        ...
