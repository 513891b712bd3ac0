"""The market's images on the shared mount, as archives for an engine."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from headway.archive import ImageDamaged, ImageStore
from headway.errors import HeadwayError, MountUnavailable, NotFound
from headway.model.reasons import EndWord
from headway.mount import Layout, read_marker

from ..machine.mount import SharedMount
from ..model import WantedImage
from ..ports import RuntimeRefused
from .ports import MarketImageInfo

T = TypeVar("T")

_LOOK_S = 60.0
_SILENCE_S = 60.0
_AHEAD = 8  # chunks that are read before the engine has taken those before
_POLL_S = 1.0


class MountedMarketArchives:
    """``ports.MarketArchives`` on a real mount."""

    def __init__(self, layout: Layout, cluster: str, mounted: SharedMount, *, silence_s: float = _SILENCE_S) -> None:
        self._layout = layout
        self._cluster = cluster
        self._mounted = mounted
        self._store = ImageStore(layout)
        self._silence_s = silence_s

    async def info(self, wanted: WantedImage) -> MarketImageInfo:
        def look() -> MarketImageInfo:
            self._require_mount()
            info = self._store.info(wanted.digest)
            if info is None:
                raise _gone(wanted)
            return MarketImageInfo(info.architecture, tuple((layer.digest, layer.size_bytes) for layer in info.layers))

        return await self._on_mount(wanted, look)

    async def open(self, wanted: WantedImage, omit: Collection[str]) -> MountedArchive:
        def compose() -> MountedArchive:
            composed = self._store.compose(wanted.digest, omit=omit)
            return MountedArchive(wanted.name, composed.size, composed.chunks(), self._why, self._silence_s)

        return await self._on_mount(wanted, compose)

    async def _on_mount(self, wanted: WantedImage, work: Callable[[], T]) -> T:
        if self._mounted.problem:
            raise MountUnavailable(self._mounted.problem)
        try:
            return await self._mounted.call(work, within_s=_LOOK_S)
        except NotFound as error:
            raise _gone(wanted) from error
        except (OSError, ImageDamaged) as error:
            found = error
        raise await self._mounted.call(lambda: self._why(wanted.name, found)) from found

    def _why(self, name: str, error: Exception) -> HeadwayError:
        """What an error during a read means. Blocks."""
        try:
            self._require_mount()
        except MountUnavailable as away:
            return away
        if isinstance(error, ImageDamaged):
            return RuntimeRefused(f"The image {name} in the market is damaged: {error.message}", word=EndWord.IMAGE_BAD)
        if isinstance(error, FileNotFoundError):
            return RuntimeRefused(
                f"A part of the image {name} is missing in the market. Upload it again", word=EndWord.IMAGE_BAD
            )
        why = error.strerror if isinstance(error, OSError) else ""
        return MountUnavailable(f"The image {name} can't be read from the shared mount: {why or error}.")

    def _require_mount(self) -> None:
        # Without the mount the folder is empty, which says nothing about the market.
        if read_marker(self._layout.root) != self._cluster:
            raise MountUnavailable(f"{self._layout.root} is not the shared mount now.")


def _gone(wanted: WantedImage) -> RuntimeRefused:
    return RuntimeRefused(
        f"The image {wanted.name} ({wanted.digest}) is no longer in the market", word=EndWord.IMAGE_NOT_FOUND
    )


class MountedArchive:
    """An archive that a thread of its own reads ahead. So a mount that hangs does not block its reader for ever."""

    def __init__(
        self,
        name: str,
        size: int,
        source: Iterator[bytes],
        why: Callable[[str, Exception], HeadwayError],
        silence_s: float,
    ) -> None:
        self.size = size
        self._name = name
        self._source = source
        self._why = why
        self._silence_s = silence_s
        self._parts: queue.Queue[bytes | HeadwayError | None] = queue.Queue(_AHEAD)
        self._closed = threading.Event()
        self._reader: threading.Thread | None = None

    def chunks(self) -> Iterator[bytes]:
        """See ``ports.ImageArchive``."""
        # A daemon thread: a read that never ends must not keep the Worker from ending.
        self._reader = threading.Thread(target=self._read, name="image-archive", daemon=True)
        self._reader.start()
        while True:
            try:
                part = self._parts.get(timeout=self._silence_s)
            except queue.Empty:
                raise MountUnavailable(
                    f"The shared mount did not answer for {self._silence_s:g} s while the image {self._name} was read."
                ) from None
            if part is None:
                return
            if isinstance(part, HeadwayError):
                raise part
            yield part

    def close(self) -> None:
        """See ``ports.ImageArchive``."""
        self._closed.set()

    def _read(self) -> None:
        last: HeadwayError | None = None
        try:
            for part in self._source:
                if not self._put(part):
                    return
        except (OSError, ImageDamaged) as error:
            last = self._why(self._name, error)
        except HeadwayError as error:
            last = error
        finally:
            close = getattr(self._source, "close", None)
            if close is not None:
                close()
        self._put(last)

    def _put(self, part: bytes | HeadwayError | None) -> bool:
        """False: the archive was closed."""
        while not self._closed.is_set():
            try:
                self._parts.put(part, timeout=_POLL_S)
            except queue.Full:
                continue
            return True
        return False
