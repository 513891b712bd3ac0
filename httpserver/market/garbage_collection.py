"""Removes images from the mount that nobody needs any more.

A content stays while a tag points to it and for a day after. It also stays as long as a job needs it. It is checked
when one of these ends, and once an hour. Rows go first: a kill in between leaves files without rows, which the next
check removes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import TypeVar

from headway.archive import Composed, ImageInfo, ImageStore
from headway.clock import Clock
from headway.errors import HeadwayError, InvalidInput
from headway.logs import get_logger
from headway.mount import Layout, reach
from headway.store.database import Database
from headway.waiting import wait

from ..uploads.ports import FinishWatch
from ..uses.service import Ref, Uses
from . import store
from .ingest_process import ingest_apart

log = get_logger(__name__)
T = TypeVar("T")

_LOOK_EVERY_S = 3_600.0
_AGAIN_S = 30.0
# So long after its bytes appeared a content without rows may still be getting them: its upload ends by itself.
ORPHAN_KEPT_S = 3_600.0


class ImageFiles:
    """Calls the store of images on the mount from the event loop."""

    def __init__(self, layout: Layout, cluster: str, *, threads: int = 4) -> None:
        self._layout = layout
        self._cluster = cluster
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="images")

    def close(self) -> None:
        """Lets go of the threads; those that hang on a dead mount are left behind."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def run(self, work: Callable[[ImageStore, Layout], T]) -> T:
        """``work(images, layout)`` in a thread, on the real mount, whatever is unmounted meanwhile.

        Raises:
            MountUnavailable, StoreFull: the mount is away or full.
        """

        def working() -> T:
            with os_errors_explained(), reach(self._layout, self._cluster, self._layout.root) as root:
                anchored = Layout(root)
                return work(ImageStore(anchored), anchored)

        return await self.in_thread(working)

    async def compose(self, digest: str, tag: str) -> Composed:
        """The image as an archive, read later, so by its own path and not by one that ends with this call.

        Raises:
            NotFound, ImageDamaged, MountUnavailable: see ImageStore.compose.
        """

        def working() -> Composed:
            with os_errors_explained(), reach(self._layout, self._cluster, self._layout.root):
                return ImageStore(self._layout).compose(digest, tag=tag)

        return await self.in_thread(working)

    async def ingest(self, path: PurePosixPath, *, choose: str, keep_free_bytes: int, watch: FinishWatch) -> ImageInfo:
        """See :func:`ingest_apart`."""
        return await ingest_apart(
            self._layout.root, self._cluster, path, choose=choose, keep_free_bytes=keep_free_bytes, watch=watch
        )

    async def in_thread(self, work: Callable[[], T]) -> T:
        """``work()`` in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


@contextmanager
def os_errors_explained() -> Iterator[None]:
    """Turns errors of the file system into errors that a person can act on."""
    from headway.archive.disk import as_problems

    with as_problems("The folder of the images"):
        yield


class ImageCollector:
    """See the module. :meth:`run` is a side task."""

    def __init__(self, db: Database, files: ImageFiles, uses: Uses, clock: Clock) -> None:
        self._db = db
        self._files = files
        self._uses = uses
        self._clock = clock
        self._due: set[str] = set()
        self._news = asyncio.Event()
        self._read: Counter[str] = Counter()  # contents that somebody downloads
        uses.when_freed(lambda ref: self.look_at([ref.key]) if ref.kind == "image" else None)

    def look_at(self, digests: Iterable[str]) -> None:
        """Checks these soon: perhaps nobody needs them any more."""
        self._due.update(digests)
        if self._due:
            self._news.set()

    @contextmanager
    def reading(self, digest: str) -> Iterator[None]:
        """While it is open the content stays."""
        self._read[digest] += 1
        try:
            yield
        finally:
            self._read[digest] -= 1
            if not self._read[digest]:
                del self._read[digest]
                self.look_at([digest])

    async def run(self) -> None:
        """Until cancelled."""
        looked_at = -_LOOK_EVERY_S
        while True:
            wait_s = _LOOK_EVERY_S
            try:
                if self._clock.monotonic() >= looked_at + _LOOK_EVERY_S:
                    await self.look_around()
                    looked_at = self._clock.monotonic()
                self._news.clear()
                await self.collect_due()
            except HeadwayError as error:
                log.info("images.not_collected", reason=error.message)
                wait_s = _AGAIN_S
            await self._wait(wait_s)

    async def look_around(self) -> None:
        """Finds what no event reported: contents past their time, files without rows, rows without files.

        Raises:
            HeadwayError: the mount or the database does not answer.
        """
        now = self._clock.now()
        known = await self._db.read(store.known_digests)
        there = set(await self._files.run(lambda images, _: images.list()))
        for digest in sorted(known - there):
            # Never forgotten by itself: the mount may be the wrong one, or come back.
            log.error("image.files_missing", digest=digest, advice="upload the image again, or delete it")
        orphans = there - known
        if orphans:
            old = await self._files.run(lambda images, layout: _old(layout, orphans, now - ORPHAN_KEPT_S))
            self.look_at(old)
        self.look_at(await self._db.read(lambda conn: store.due(conn, now)))

    async def collect_due(self) -> None:
        """Looks at all that is due now.

        Raises:
            HeadwayError: the mount or the database does not answer; the rest stays due.
        """
        for digest in sorted(self._due):
            await self.collect(digest)
            self._due.discard(digest)

    async def collect(self, digest: str) -> None:
        """Removes the content, if nobody needs it. Safe to call twice."""
        now = self._clock.now()
        if digest in self._read or await self._db.read(lambda conn: store.needed(conn, digest, now)):
            return
        ref = Ref("image", digest)
        if self._uses.live_in_memory(ref):
            return
        async with self._uses.deleting(ref):
            # Both again: the end of an upload takes the same lock.
            if digest in self._read or await self._db.read(lambda conn: store.needed(conn, digest, now)):
                return
            if await self._uses.live(ref):
                return
            await self._db.write(lambda conn: store.forget_content(conn, digest))
            freed = await self._files.run(lambda images, _: images.remove(digest))
            await self._uses.forget(ref)
        if freed:
            log.info("image.removed", digest=digest, freed_bytes=freed)

    async def _wait(self, seconds: float) -> None:
        if seconds == _AGAIN_S:
            await self._clock.sleep(seconds)
        else:
            await wait(self._news, seconds, self._clock)


def _old(layout: Layout, digests: Iterable[str], before: float) -> list[str]:
    old = []
    for digest in digests:
        try:
            if layout.image(digest).stat().st_mtime < before:
                old.append(digest)
        except (FileNotFoundError, InvalidInput):
            continue
    return old
