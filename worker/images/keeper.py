"""Brings images to the engine, once however many wait, and removes them again when the disk fills.

An image that is there costs a start no more than a look into a table. One that is not is fetched by a task of its own:
whoever waits for it may be cancelled and leaves it to the others. What was fetched gets a name of Headway's own on the
engine and an entry in the journal; only what has both is ever removed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from headway.clock import Clock
from headway.errors import HeadwayError
from headway.logs import get_logger
from headway.model.reasons import EndWord

from ..disks import Disk
from ..model import ImageSource, WantedImage
from ..ports import (
    Archive,
    Credentials,
    EngineImage,
    EngineUnavailable,
    ImageFacts,
    NoRoom,
    Removed,
    Runtime,
    RuntimeRefused,
)
from . import cache
from .cache import Brought, Victim

log = get_logger(__name__)

_AT_ONCE = 2  # fetches of different images: more only share disk and network
_TIDY_S = 30.0
_REST_S = 600.0  # an image used so short a time ago is not removed for the marks, only for another that needs the room
_NOTE_USE_S = 30.0  # uses that follow sooner are not written down
_LISTING_WAIT_S = 3.0


@dataclass(frozen=True, slots=True)
class Shelved:
    """An image of the market: its layers from the lowest on, as (digest, bytes unpacked)."""

    architecture: str
    layers: tuple[tuple[str, int], ...]


class SizedArchive(Archive, Protocol):
    """An archive whose size is known."""

    size: int


class Shelf(Protocol):
    """The images of the market, on the shared mount."""

    async def look(self, wanted: WantedImage) -> Shelved:
        """Raises MountUnavailable, RuntimeRefused (it is not there, or broken)."""
        ...

    async def open(self, wanted: WantedImage, omit: Collection[str]) -> SizedArchive:
        """Its archive without these layers. Raises as ``look``."""
        ...


class Journal(Protocol):
    """``journal.ImageJournal``."""

    async def load(self) -> list[Brought]: ...

    async def put(self, one: Brought) -> None: ...

    def used_later(self, keys: Sequence[str], at: float) -> None: ...

    def forget_later(self, keys: Sequence[str]) -> None: ...


class Images(Protocol):
    """What a start needs of all this."""

    async def prepare(self, wanted: WantedImage, on_fetch: Callable[[], None]) -> ImageFacts:
        """The image, brought if it is not there. ``on_fetch`` is called when it has to be fetched. May take minutes.

        Raises EngineUnavailable (try again), RuntimeRefused, MountUnavailable.
        """
        ...


@dataclass(frozen=True, slots=True)
class Marks:
    """How full the engine's disk may be: shares of it, and bytes that stay free whatever happens."""

    high: float = 0.85
    low: float = 0.70
    reserve_bytes: int = 1 << 30


@dataclass(slots=True)
class _Fetch:
    """One fetch under way. ``urgent``: a task waits for it, so that others may go for its room."""

    task: asyncio.Task[ImageFacts]
    urgent: bool


class ImageKeeper:
    """See the module; ``Images`` for starts. One event loop owns it."""

    def __init__(
        self,
        *,
        node_id: str,
        runtime: Runtime,
        journal: Journal,
        shelf: Shelf,
        credentials: Callable[[WantedImage], Awaitable[Credentials | None]],
        disk: Callable[[], Awaitable[Disk | None]],
        needed: Callable[[], Iterable[str]],
        clock: Clock,
        marks: Marks,
        pull: bool = True,
    ) -> None:
        """``disk``: the engine's, as it is now; ``needed``: keys and ids of images that accepted attempts need."""
        self._node_id = node_id
        self._runtime = runtime
        self._journal = journal
        self._shelf = shelf
        self._credentials = credentials
        self._disk = disk
        self._needed = needed
        self._clock = clock
        self._marks = marks
        self._pull = pull
        self.wished: frozenset[str] = frozenset()  # keys of images that will be needed here: they stay
        self._brought: dict[str, Brought] = {}
        self._noted: dict[str, float] = {}  # key: last use that was written down
        self._fetches: dict[str, _Fetch] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._room = asyncio.Lock()
        self._filling: dict[asyncio.Future[None], int] = {}  # fetches that have their room: bytes that they may take
        self._leaving: dict[str, asyncio.Task[Removed]] = {}  # by key and id
        self._listing: list[EngineImage] = []
        self._reading: asyncio.Task[None] | None = None

    # -- for starts -----------------------------------------------------------------------------------

    async def prepare(self, wanted: WantedImage, on_fetch: Callable[[], None]) -> ImageFacts:
        """See ``Images``."""
        facts = await self._find(wanted)
        if facts is None:
            self._refuse_what_is_not_fetched(wanted)
            on_fetch()
            facts = await self._fetched(wanted, urgent=True)
        self._use((wanted.key, facts.id))
        return facts

    @property
    def busy(self) -> bool:
        """Whether something is being fetched."""
        return bool(self._fetches)

    async def prefetch(self, wanted: WantedImage) -> None:
        """Bring it if it is not there and fits below the high mark. Raises as ``prepare``."""
        if await self._find(wanted) is None:
            self._refuse_what_is_not_fetched(wanted)
            await self._fetched(wanted, urgent=False)

    # -- for the node's status --------------------------------------------------------------------------

    async def listing(self) -> list[tuple[EngineImage, bool]]:
        """What is on the engine, and whether it is ours; as of the last answer when the engine is slow."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_listing(), name="image listing")
        await asyncio.wait({self._reading}, timeout=_LISTING_WAIT_S)
        ours = {one.image_id for one in self._brought.values()}
        return [(image, image.id in ours) for image in self._listing]

    # -- life -------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Read the journal. Raises StoreUnavailable."""
        self._brought = {one.key: one for one in await self._journal.load()}

    async def run(self) -> None:
        """Keeps journal and engine in step, and the disk below its mark."""
        while True:
            try:
                await self._reconcile()
                await self.tidy()
            except HeadwayError as error:
                log.warning("images.not_tidied", reason=str(error))
            await self._clock.sleep(_TIDY_S)

    async def tidy(self) -> None:
        """With more of the disk in use than the high mark, remove images of ours until it is below the low one."""
        needed = self._in_use()
        # A long run counts as use until its end.
        self._use(needed)
        disk = await self._disk()
        if disk is None or not cache.is_above(disk, self._marks.high):
            return
        spared: set[str] = set()
        while disk is not None and cache.is_above(disk, self._marks.low):
            before = self._clock.now() - _REST_S
            victim = cache.least_recent(
                self._brought.values(), needed=self._in_use(), spared=spared, used_before=before
            )
            if victim is None:
                return
            await self._remove(victim, spared)
            disk = await self._disk()

    def close(self) -> None:
        """Let go of what is under way. Safe twice."""
        for fetch in self._fetches.values():
            fetch.task.cancel()
        if self._reading is not None:
            self._reading.cancel()

    # -- fetching ---------------------------------------------------------------------------------------

    async def _find(self, wanted: WantedImage) -> ImageFacts | None:
        leaving = self._leaving.get(wanted.key)
        if leaving is not None:
            await asyncio.wait({leaving})
        facts = await self._runtime.find_image(wanted)
        if facts is not None and facts.id in self._leaving:
            await asyncio.wait({self._leaving[facts.id]})
            return await self._runtime.find_image(wanted)
        return facts

    def _refuse_what_is_not_fetched(self, wanted: WantedImage) -> None:
        if wanted.source is ImageSource.ENGINE:
            raise RuntimeRefused(
                f"The image {wanted.name} is in no market and no registry, and {self._node_id} has it no more",
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

    async def _fetched(self, wanted: WantedImage, *, urgent: bool) -> ImageFacts:
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
                # Who is cancelled meanwhile leaves the fetch to the others.
                return await asyncio.shield(fetch.task)
            except RuntimeRefused:
                # A fetch that nobody waited for gives up sooner than one for a task.
                if not (joined and urgent and not was_urgent):
                    raise

    def _fetch_over(self, key: str, task: asyncio.Task[ImageFacts]) -> None:
        self._fetches.pop(key, None)
        if not task.cancelled():
            task.exception()  # told to whoever waits; nobody may be left

    async def _fetch(self, wanted: WantedImage) -> ImageFacts:
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

    async def _load(self, wanted: WantedImage) -> ImageFacts:
        shelved = await self._shelf.look(wanted)
        layers = [digest for digest, _size in shelved.layers]
        there = await self._runtime.layers_there(layers)
        try:
            return await self._load_without(wanted, shelved, there)
        except RuntimeRefused as error:
            if not there or isinstance(error, NoRoom):
                raise
            # A layer that was there may have gone in between.
            log.info("image.loaded_whole", image=wanted.name, reason=str(error))
            return await self._load_without(wanted, shelved, 0)

    async def _load_without(self, wanted: WantedImage, shelved: Shelved, there: int) -> ImageFacts:
        rest = shelved.layers[there:]
        above = {digest for digest, _size in rest}
        omit = [digest for digest, _size in shelved.layers[:there] if digest not in above]
        archive = await self._shelf.open(wanted, omit)
        size = sum(size for _digest, size in shelved.layers)
        try:
            needs = archive.size + sum(size for _digest, size in rest)
            async with self._room_for(wanted, needs, stays=sum(size for _digest, size in rest)):
                return await self._bring(wanted, size, lambda: self._runtime.load_image(wanted, archive))
        finally:
            archive.close()

    async def _pulled(self, wanted: WantedImage) -> ImageFacts:
        credentials = await self._credentials(wanted)
        async with self._room_for(wanted, cache.pull_needs(wanted.size_bytes), stays=wanted.size_bytes):
            if wanted.source is not ImageSource.REGISTRY:
                # By a name that may mean something else tomorrow, and that people may use here: not ours to remove.
                return await self._runtime.pull_image(wanted, credentials)
            return await self._bring(
                wanted, wanted.size_bytes, lambda: self._runtime.pull_image(wanted, credentials), names=(wanted.key,)
            )

    async def _bring(
        self, wanted: WantedImage, size: int, fetch: Callable[[], Awaitable[ImageFacts]], names: tuple[str, ...] = ()
    ) -> ImageFacts:
        """Fetch it, mark it as ours and write it down; the intent first, so that a kill in between loses nothing."""
        now = self._clock.now()
        entry = Brought(wanted.key, "", names, size, now, now)
        await self._journal.put(entry)
        self._brought[entry.key] = entry
        try:
            facts = await fetch()
        except EngineUnavailable:
            raise  # it may have worked: the next look tells
        except HeadwayError:
            self._forget([entry.key])
            raise
        await self._mark(replace(entry, image_id=facts.id))
        return facts

    async def _mark(self, entry: Brought) -> None:
        await self._runtime.mark_image(entry.image_id)
        self._brought[entry.key] = entry
        await self._journal.put(entry)

    # -- room -------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _room_for(self, wanted: WantedImage, needs: int, *, stays: int) -> AsyncIterator[None]:
        """The block runs when there is room for ``needs`` bytes on the engine's disk, of which ``stays`` stay.

        Raises:
            RuntimeRefused: there is none, and nothing of ours can go for it.
        """
        filling: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        async with self._room:
            await self._make_room(wanted, needs, stays)
            self._filling[filling] = needs
        try:
            yield
        finally:
            del self._filling[filling]
            filling.set_result(None)

    async def _make_room(self, wanted: WantedImage, needs: int, stays: int) -> None:
        spared: set[str] = set()
        while True:
            disk = await self._disk()
            if disk is None or not needs:
                return
            fetch = self._fetches.get(wanted.key)
            urgent = fetch is None or fetch.urgent
            want = needs + self._marks.reserve_bytes
            enough = disk.free_bytes - sum(self._filling.values()) >= want
            if enough and (urgent or not cache.goes_above(disk, stays, self._marks.high)):
                return
            if self._filling:
                # What the others fill is not all to be seen yet, nor what they give back at their end.
                await asyncio.wait(self._filling, return_when=asyncio.FIRST_COMPLETED)
                continue
            victim = (
                cache.least_recent(
                    self._brought.values(), needed=self._in_use(), spared=spared, used_before=float("inf")
                )
                if urgent
                else None
            )
            if victim is None:
                raise NoRoom(cache.no_room_sentence(self._node_id, wanted.name, want, disk))
            await self._remove(victim, spared)

    def _in_use(self) -> set[str]:
        return {*self._needed(), *self.wished, *self._fetches}

    async def _remove(self, victim: Victim, spared: set[str]) -> None:
        task = asyncio.create_task(self._runtime.remove_image(victim.image_id, victim.names))
        names = (victim.image_id, *victim.keys)
        self._leaving.update(dict.fromkeys(names, task))
        try:
            result = await asyncio.shield(task)
        finally:
            for name in names:
                self._leaving.pop(name, None)
        log.info("image.removed", image=victim.image_id, result=result.value, unused_since=round(victim.used_at))
        if result is Removed.IN_USE:
            spared.add(victim.image_id)
            return
        self._forget(victim.keys)

    # -- the journal --------------------------------------------------------------------------------------

    def _use(self, names: Iterable[str]) -> None:
        now = self._clock.now()
        names = set(names)
        uses = []
        for key, one in self._brought.items():
            if key in names or one.image_id in names:
                self._brought[key] = replace(one, used_at=now)
                if now - self._noted.get(key, 0.0) >= _NOTE_USE_S:
                    self._noted[key] = now
                    uses.append(key)
        self._journal.used_later(uses, now)

    def _forget(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._brought.pop(key, None)
            self._noted.pop(key, None)
        self._journal.forget_later(keys)

    async def _reconcile(self) -> None:
        """Entries whose image somebody else removed go; fetches that were cut off between engine and journal are
        looked into."""
        there = {image.id: image for image in await self._runtime.images()}
        for entry in list(self._brought.values()):
            if entry.key in self._fetches or entry.key in self._leaving:
                continue
            if entry.image_id in there:
                if not there[entry.image_id].marked:
                    # Somebody has taken the mark away: then it is theirs.
                    self._forget([entry.key])
            elif entry.image_id:
                self._forget([entry.key])
            else:
                facts = await self._runtime.find_image(_as_wanted(entry))
                if facts is None:
                    self._forget([entry.key])
                else:
                    await self._mark(replace(entry, image_id=facts.id))

    async def _read_listing(self) -> None:
        try:
            self._listing = list(await self._runtime.images())
        except HeadwayError as error:
            log.debug("images.not_listed", reason=str(error))
        finally:
            self._reading = None


def _as_wanted(entry: Brought) -> WantedImage:
    name, at, digest = entry.key.partition("@")
    if at:
        return WantedImage(name, digest, ImageSource.REGISTRY)
    return WantedImage(entry.key, entry.key, ImageSource.MARKET)
