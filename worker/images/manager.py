"""Fetches images to the engine. Several tasks that wait for one image share its fetch.

For an image that is on the engine a start only looks into a table. Each fetch has an asyncio task of its own. If one
waiting start is cancelled, the fetch goes on for the others. A fetched image gets Headway's mark, which is a name on
the engine, and an entry in the journal. Only an image with both is ever removed (``disk_space``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace

from headway.clock import Clock
from headway.errors import HeadwayError
from headway.logs import get_logger
from headway.model.reasons import EndWord

from ..machine.disks import DiskReading
from ..model import ImageSource, WantedImage
from ..ports import (
    EngineImage,
    EngineUnavailable,
    LocalImage,
    NotEnoughDisk,
    RegistryCredentials,
    Runtime,
    RuntimeRefused,
)
from . import eviction
from .disk_space import DiskWatermarks, ImageDiskSpace
from .eviction import FetchedImage
from .ledger import ImageUseLedger
from .permissions import ImagePermissions
from .ports import ImageJournal, MarketArchives, MarketImageInfo
from .resolver import ImageResolver

log = get_logger(__name__)

_AT_ONCE = 2  # fetches of different images: more only share disk and network
_TIDY_S = 30.0
_LISTING_WAIT_S = 3.0


@dataclass(slots=True)
class _Fetch:
    """A running fetch. ``urgent``: a task waits for it, so other images may be removed for it."""

    task: asyncio.Task[LocalImage]
    urgent: bool


class ImageManager:
    """See the module, and ``ports.ImageProvider`` for starts. One event loop owns it."""

    def __init__(
        self,
        *,
        node_id: str,
        runtime: Runtime,
        journal: ImageJournal,
        market: MarketArchives,
        credentials: Callable[[WantedImage], Awaitable[RegistryCredentials | None]],
        disk: Callable[[], Awaitable[DiskReading | None]],
        needed: Callable[[], Iterable[str]],
        clock: Clock,
        watermarks: DiskWatermarks,
        pull: bool = True,
    ) -> None:
        """``disk`` reads the engine's disk. ``needed`` returns keys and ids of images that accepted attempts need."""
        self._node_id = node_id
        self._runtime = runtime
        self._market = market
        self._credentials = credentials
        self._needed = needed
        self._clock = clock
        self._pull = pull
        self.needed_soon: frozenset[str] = frozenset()  # keys of images that stay, since tasks will need them here
        self._ledger = ImageUseLedger(journal, clock)
        self._permissions = ImagePermissions(journal, clock)
        self._resolver = ImageResolver(self._ask_registry, self._permissions, clock)
        self._disk_space = ImageDiskSpace(
            node_id=node_id,
            runtime=runtime,
            ledger=self._ledger,
            disk=disk,
            in_use=self._in_use,
            clock=clock,
            watermarks=watermarks,
        )
        self._fetches: dict[str, _Fetch] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._listing: list[EngineImage] = []
        self._reading: asyncio.Task[None] | None = None

    # -- for starts -----------------------------------------------------------------------------------

    async def prepare(self, wanted: WantedImage, on_fetch: Callable[[], None]) -> LocalImage:
        """See ``ports.ImageProvider``."""
        pinned = wanted.source is ImageSource.REGISTRY  # at submit, when its registry was asked for this account
        facts = await self._find_usable(wanted)
        if facts is None and wanted.source is ImageSource.UNKNOWN and self._pull:
            wanted = await self._resolver.resolve(wanted)
            facts = await self._find(wanted)
        if facts is None:
            self._refuse_if_not_fetchable(wanted)
            on_fetch()
            facts = await self._fetched(wanted, urgent=True)
        if pinned:
            self._permissions.grant(wanted)
        self._ledger.use((wanted.key, facts.id))
        return facts

    @property
    def busy(self) -> bool:
        """Whether something is being fetched."""
        return bool(self._fetches)

    async def prefetch(self, wanted: WantedImage) -> None:
        """Fetch it if it is not there and fits below the high watermark. Raises as ``prepare``."""
        if await self._find(wanted) is None:
            self._refuse_if_not_fetchable(wanted)
            await self._fetched(wanted, urgent=False)

    # -- for the node's status --------------------------------------------------------------------------

    async def listing(self) -> list[tuple[EngineImage, bool]]:
        """The engine's images, and whether Headway fetched each. The last known list, if the engine is slow."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_listing(), name="image listing")
        await asyncio.wait({self._reading}, timeout=_LISTING_WAIT_S)
        return [(image, self._is_ours(image)) for image in self._listing]

    def _is_ours(self, image: EngineImage) -> bool:
        # Also one that another Worker of this engine fetched, and one that is not marked yet.
        ledger = self._ledger
        return image.marked or image.id in ledger.ids or any(key in ledger for key in (image.id, *image.repo_digests))

    # -- life -------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Read the journal. Raises StoreUnavailable."""
        await self._ledger.open()
        await self._permissions.open()

    async def run(self) -> None:
        """Keep the journal equal to the engine, and the disk below its watermark."""
        while True:
            try:
                await self.reconcile()
                await self.tidy()
            except HeadwayError as error:
                log.warning("images.not_tidied", reason=str(error))
            await self._clock.sleep(_TIDY_S)

    async def tidy(self) -> None:
        """See ``ImageDiskSpace.tidy``."""
        # A long run counts as use until its end.
        self._ledger.use(self._in_use())
        await self._disk_space.tidy()

    async def reconcile(self) -> None:
        """Drop entries whose image somebody else removed, and complete fetches that were interrupted.

        Raises EngineUnavailable, StoreFull, StoreUnavailable.
        """
        there = {image.id: image for image in await self._runtime.images()}
        for entry in self._ledger:
            if entry.key in self._fetches or self._disk_space.is_being_removed(entry.key):
                continue
            if entry.image_id in there:
                if not there[entry.image_id].marked:
                    # Somebody has removed the mark, so the image is theirs now.
                    self._ledger.forget([entry.key])
            elif entry.image_id:
                self._ledger.forget([entry.key])
            else:
                facts = await self._runtime.find_image(_as_wanted(entry))
                if facts is None:
                    self._ledger.forget([entry.key])
                else:
                    await self._mark(replace(entry, image_id=facts.id))

    def close(self) -> None:
        """Cancel all fetches. Safe twice."""
        for fetch in self._fetches.values():
            fetch.task.cancel()
        if self._reading is not None:
            self._reading.cancel()

    # -- finding ----------------------------------------------------------------------------------------

    async def _find_usable(self, wanted: WantedImage) -> LocalImage | None:
        """The image, if it is there and this account may use it without a question to the registry."""
        if wanted.source is ImageSource.UNKNOWN and wanted.key in self._ledger:
            return None  # it was fetched for another account perhaps
        return await self._find(wanted)

    async def _find(self, wanted: WantedImage) -> LocalImage | None:
        await self._disk_space.wait_until_removed(wanted.key)
        facts = await self._runtime.find_image(wanted)
        if facts is not None and self._disk_space.is_being_removed(facts.id):
            await self._disk_space.wait_until_removed(facts.id)
            return await self._runtime.find_image(wanted)
        return facts

    def _in_use(self) -> set[str]:
        needed = set(self._needed())
        return {*needed, *self._resolver.keys(needed), *self.needed_soon, *self._fetches}

    async def _ask_registry(self, wanted: WantedImage) -> str:
        return await self._runtime.resolve_image(wanted, await self._credentials(wanted))

    # -- fetching ---------------------------------------------------------------------------------------

    def _refuse_if_not_fetchable(self, wanted: WantedImage) -> None:
        if wanted.source is ImageSource.ENGINE:
            raise RuntimeRefused(
                f"The image {wanted.name} is in no market and no registry, and {self._node_id} no longer has it",
                word=EndWord.IMAGE_PULL_FAILED,
                elsewhere=True,
            )
        if wanted.source is not ImageSource.MARKET and not self._pull:
            pinned = wanted.source is ImageSource.REGISTRY
            raise RuntimeRefused(
                f"The image {wanted.name} is not on {self._node_id}, which fetches none from registries",
                word=EndWord.IMAGE_PULL_FAILED if pinned else EndWord.IMAGE_NOT_FOUND,
                elsewhere=pinned,
            )

    async def _fetched(self, wanted: WantedImage, *, urgent: bool) -> LocalImage:
        key = wanted.key
        while True:
            fetch = self._fetches.get(key)
            joined = fetch is not None
            if fetch is None:
                task = asyncio.create_task(self._fetch(wanted), name=f"fetch {wanted.name}")
                fetch = self._fetches[key] = _Fetch(task, urgent)
                task.add_done_callback(lambda done: self._fetch_over(key, done))
            was_urgent, fetch.urgent = fetch.urgent, fetch.urgent or urgent
            try:
                # A cancelled caller leaves the fetch to the others.
                return await asyncio.shield(fetch.task)
            except RuntimeRefused as error:
                # A prefetch gives up sooner than a fetch for a task, so the task tries again.
                if not (joined and urgent and not was_urgent):
                    if wanted.source is ImageSource.REGISTRY and not error.elsewhere:
                        await self._permissions.revoke(wanted)
                    raise

    def _fetch_over(self, key: str, task: asyncio.Task[LocalImage]) -> None:
        self._fetches.pop(key, None)
        if not task.cancelled():
            task.exception()  # those who wait have got it, if there are any

    async def _fetch(self, wanted: WantedImage) -> LocalImage:
        async with self._turns:
            facts = await self._find(wanted)
            if facts is not None:
                return facts
            log.info("image.fetch", image=wanted.name, source=wanted.source.value, key=wanted.key)
            began_s = self._clock.monotonic()
            if wanted.source is ImageSource.MARKET:
                facts = await self._load(wanted)
            else:
                facts = await self._pulled(wanted)
            log.info(
                "image.fetched", image=wanted.name, id=facts.id, took_s=round(self._clock.monotonic() - began_s, 2)
            )
            return facts

    async def _load(self, wanted: WantedImage) -> LocalImage:
        info = await self._market.info(wanted)
        layers = [digest for digest, _size in info.layers]
        there = await self._runtime.layers_there(layers)
        try:
            return await self._load_without(wanted, info, there)
        except RuntimeRefused as error:
            if not there or isinstance(error, NotEnoughDisk):
                raise
            # A layer that was there may have been removed meanwhile.
            log.info("image.loaded_whole", image=wanted.name, reason=str(error))
            return await self._load_without(wanted, info, 0)

    async def _load_without(self, wanted: WantedImage, info: MarketImageInfo, there: int) -> LocalImage:
        rest = info.layers[there:]
        above = {digest for digest, _size in rest}
        omit = [digest for digest, _size in info.layers[:there] if digest not in above]
        archive = await self._market.open(wanted, omit)
        size = sum(size for _digest, size in info.layers)
        try:
            needs = archive.size + sum(size for _digest, size in rest)
            async with self._reserve(wanted, needs, sum(size for _digest, size in rest)):
                return await self._fetch_and_record(wanted, size, lambda: self._runtime.load_image(wanted, archive))
        finally:
            archive.close()

    async def _pulled(self, wanted: WantedImage) -> LocalImage:
        credentials = await self._credentials(wanted)
        async with self._reserve(wanted, eviction.pull_peak_bytes(wanted.size_bytes), wanted.size_bytes):
            return await self._fetch_and_record(
                wanted, wanted.size_bytes, lambda: self._runtime.pull_image(wanted, credentials), names=(wanted.key,)
            )

    def _reserve(self, wanted: WantedImage, needs: int, stays: int) -> AbstractAsyncContextManager[None]:
        def urgent() -> bool:
            fetch = self._fetches.get(wanted.key)
            return fetch is None or fetch.urgent

        return self._disk_space.reserved(wanted.name, needs, stays=stays, urgent=urgent)

    async def _fetch_and_record(
        self, wanted: WantedImage, size: int, fetch: Callable[[], Awaitable[LocalImage]], names: tuple[str, ...] = ()
    ) -> LocalImage:
        """Fetch it, mark it and store an entry. The intent is stored first, so a kill in between loses nothing."""
        now = self._clock.now()
        entry = FetchedImage(wanted.key, "", names, size, now, now)
        await self._ledger.put(entry)
        try:
            facts = await fetch()
        except EngineUnavailable:
            raise  # it may have worked, which the next ``reconcile`` finds out
        except HeadwayError:
            self._ledger.forget([entry.key])
            raise
        await self._mark(replace(entry, image_id=facts.id))
        return facts

    async def _mark(self, entry: FetchedImage) -> None:
        await self._runtime.mark_image(entry.image_id)
        await self._ledger.put(entry)

    async def _read_listing(self) -> None:
        try:
            self._listing = list(await self._runtime.images())
        except HeadwayError as error:
            log.debug("images.not_listed", reason=str(error))
        finally:
            self._reading = None


def _as_wanted(entry: FetchedImage) -> WantedImage:
    name, at, digest = entry.key.partition("@")
    if at:
        return WantedImage(name, digest, ImageSource.REGISTRY)
    return WantedImage(entry.key, entry.key, ImageSource.MARKET)
