"""What the image manager needs from outside, and what others need of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..model import WantedImage
from ..ports import ImageArchive, LocalImage
from .eviction import FetchedImage


@dataclass(frozen=True, slots=True)
class MarketImageInfo:
    """An image of the market. ``layers`` are (digest, unpacked bytes), the lowest first."""

    architecture: str
    layers: tuple[tuple[str, int], ...]


class SizedArchive(ImageArchive, Protocol):
    """An archive whose size is known."""

    size: int


class MarketArchives(Protocol):
    """The market's images on the shared mount."""

    async def info(self, wanted: WantedImage) -> MarketImageInfo:
        """Its architecture and layers. Raises MountUnavailable, or RuntimeRefused if it is missing or broken."""
        ...

    async def open(self, wanted: WantedImage, omit: Collection[str]) -> SizedArchive:
        """Its archive without these layers. Raises as ``info``."""
        ...


class ImageJournal(Protocol):
    """Which images Headway fetched, and who may use them. See ``journal.SqlImageJournal``."""

    async def load(self) -> list[FetchedImage]: ...

    async def put(self, one: FetchedImage) -> None: ...

    def used_later(self, keys: Sequence[str], at: float) -> None: ...

    def forget_later(self, keys: Sequence[str]) -> None: ...

    async def load_permissions(self) -> dict[tuple[str, str], float]: ...

    def grant_later(self, permission: tuple[str, str], at: float) -> None: ...

    def drop_permissions_later(self, permissions: Sequence[tuple[str, str]]) -> None: ...

    async def revoke(self, permissions: Sequence[tuple[str, str]]) -> None: ...


class ImageProvider(Protocol):
    """What the start of an attempt needs of images."""

    async def prepare(self, wanted: WantedImage, on_fetch: Callable[[], None]) -> LocalImage:
        """The image, fetched if it is not there. That may take minutes. ``on_fetch`` is called before a fetch.

        Raises EngineUnavailable (try again), RuntimeRefused, MountUnavailable.
        """
        ...
