"""What the keeper of images decides: one fetch for all, room first, who goes, and what is brought ahead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headway.model.reasons import EndWord
from headway.rpc.v1 import common_pb2, worker_pb2
from tests.support.clock import FakeClock
from tests.support.waiting import eventually
from tests.unit.worker.builders import a_launch
from worker import wire
from worker.attempt.launch_spec import working_dir
from worker.images import DiskWatermarks, ImageManager, ImagePrefetcher, eviction, permissions
from worker.images.eviction import FetchedImage
from worker.images.ports import MarketImageInfo
from worker.machine.disks import DiskReading
from worker.model import ImageSource, WantedImage
from worker.peers import registry_of
from worker.ports import (
    EngineImage,
    EngineUnavailable,
    ImageRemoval,
    LocalImage,
    NotEnoughDisk,
    RegistryCredentials,
    RuntimeRefused,
)
from worker.store import WorkerStore

GIB = 1 << 30


def digest(number: int) -> str:
    return f"sha256:{number:064x}"


def market(number: int) -> WantedImage:
    return WantedImage(f"lab/tool:{number}", digest(number), ImageSource.MARKET, "ann")


class Nothing:
    """An archive."""

    size = GIB

    def chunks(self) -> Iterator[bytes]:
        yield b""

    def close(self) -> None:
        pass


@dataclass
class World:
    """An engine with a disk of 100 GiB, and a market where every image has 1 GiB."""

    total_bytes: int = 100 * GIB
    other_bytes: int = 0  # what others have on the disk
    on_engine: dict[str, EngineImage] = field(default_factory=dict)
    loads: list[str] = field(default_factory=list)
    pulls: list[tuple[str, RegistryCredentials | None]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    in_use: set[str] = field(default_factory=set)
    gate: asyncio.Event | None = None
    loading: int = 0
    most_loading: int = 0
    away: bool = False
    remove_gate: asyncio.Event | None = None
    registry: dict[str, tuple[str, set[str]]] = field(default_factory=dict)  # name: digest, and who may have it
    registry_away: bool = False
    questions: list[tuple[str, str]] = field(default_factory=list)  # to it: name, account

    # -- the runtime --------------------------------------------------------------------------------

    async def find_image(self, wanted: WantedImage) -> LocalImage | None:
        await asyncio.sleep(0)
        if self.away:
            raise EngineUnavailable("away")
        if wanted.digest in self.on_engine:
            return LocalImage(wanted.digest)
        held = [i for i in self.on_engine.values() if wanted.source is not ImageSource.UNKNOWN or not i.marked]
        by_name = [i.id for i in held if wanted.key in (*i.names, *i.repo_digests)]
        return LocalImage(by_name[0]) if by_name else None

    async def load_image(self, wanted: WantedImage, archive: Any) -> LocalImage:
        self.loads.append(wanted.name)
        return await self._arrive(wanted.digest, EngineImage(wanted.digest, size_bytes=GIB))

    async def resolve_image(self, wanted: WantedImage, credentials: RegistryCredentials | None) -> str:
        self.questions.append((wanted.name, wanted.account))
        await asyncio.sleep(0)
        meant = self.registry.get(wanted.name)
        if self.registry_away or meant is None:
            raise RuntimeRefused(wanted.name, word=EndWord.IMAGE_PULL_FAILED, elsewhere=self.registry_away)
        if credentials is None or credentials.username not in meant[1]:
            raise RuntimeRefused("not for you", word=EndWord.IMAGE_PULL_FAILED)
        return meant[0]

    async def pull_image(self, wanted: WantedImage, credentials: RegistryCredentials | None) -> LocalImage:
        assert wanted.digest, "only what is pinned is pulled"
        self.pulls.append((wanted.name, credentials))
        image_id = digest(900 + len(self.pulls))
        return await self._arrive(image_id, EngineImage(image_id, (), (wanted.key,), GIB))

    async def _arrive(self, image_id: str, image: EngineImage) -> LocalImage:
        self.loading += 1
        self.most_loading = max(self.most_loading, self.loading)
        try:
            if self.gate is not None:
                await self.gate.wait()
            if self.away:
                raise EngineUnavailable("away")
        finally:
            self.loading -= 1
        self.on_engine[image_id] = image
        return LocalImage(image_id)

    async def mark_image(self, image_id: str) -> None:
        image = self.on_engine[image_id]
        self.on_engine[image_id] = EngineImage(image_id, image.names, image.repo_digests, image.size_bytes, marked=True)

    async def remove_image(self, image_id: str, names: Collection[str]) -> ImageRemoval:
        if self.remove_gate is not None:
            await self.remove_gate.wait()
        if image_id in self.in_use:
            return ImageRemoval.IN_USE
        self.removed.append(image_id)
        self.on_engine.pop(image_id, None)
        return ImageRemoval.GONE

    async def layers_there(self, layers: Sequence[str]) -> int:
        return 0

    async def images(self) -> list[EngineImage]:
        return list(self.on_engine.values())

    # -- the market and the disk ----------------------------------------------------------------------

    async def info(self, wanted: WantedImage) -> MarketImageInfo:
        return MarketImageInfo("amd64", ((f"layer-of-{wanted.digest}", GIB),))

    async def open(self, wanted: WantedImage, omit: Collection[str]) -> Nothing:
        return Nothing()

    async def disk(self) -> DiskReading | None:
        used = self.other_bytes + sum(image.size_bytes for image in self.on_engine.values())
        return DiskReading(1, Path("/engine"), "the container engine", self.total_bytes - used, self.total_bytes)


@dataclass
class Kept:
    """A keeper in its world."""

    world: World
    manager: ImageManager
    store: WorkerStore
    clock: FakeClock
    needed: set[str]
    fetching: list[str] = field(default_factory=list)

    async def prepare(self, wanted: WantedImage) -> str:
        return (await self.manager.prepare(wanted, lambda: self.fetching.append(wanted.name))).id


Opened = Callable[..., Any]


@pytest.fixture
async def opened(tmp_path: Path, clock: FakeClock) -> Any:
    made: list[Kept] = []

    async def open_(world: World | None = None, **options: Any) -> Kept:
        world = world or World()
        store = await WorkerStore.open(str(tmp_path / "worker.db"))
        needed: set[str] = set()

        async def credentials(wanted: WantedImage) -> RegistryCredentials | None:
            return RegistryCredentials(wanted.account, "secret")

        keeper = ImageManager(
            node_id="gpu-1",
            runtime=world,  # type: ignore[arg-type]
            journal=store.images,
            market=world,
            credentials=credentials,
            disk=world.disk,
            needed=lambda: needed,
            clock=clock,
            watermarks=options.pop("watermarks", DiskWatermarks(0.85, 0.70, reserve_bytes=GIB)),
            **options,
        )
        await keeper.open()
        made.append(Kept(world, keeper, store, clock, needed))
        return made[-1]

    yield open_
    for one in made:
        one.manager.close()
        await one.store.close()


# -- fetching -----------------------------------------------------------------------------------------


async def test_an_image_that_is_there_is_not_fetched(opened: Opened) -> None:
    kept = await opened()
    kept.world.on_engine[digest(1)] = EngineImage(digest(1))
    assert await kept.prepare(market(1)) == digest(1)
    assert (kept.world.loads, kept.fetching, await kept.store.images.load()) == ([], [], [])
    assert [ours for _image, ours in await kept.manager.listing()] == [False]


async def test_ten_that_wait_cause_one_load_and_one_that_is_cancelled_leaves_it_to_them(opened: Opened) -> None:
    kept = await opened()
    kept.world.gate = asyncio.Event()
    waiters = [asyncio.create_task(kept.prepare(market(1))) for _ in range(10)]
    await kept.clock.settle()
    waiters[0].cancel()
    kept.world.gate.set()
    assert await asyncio.gather(*waiters[1:]) == [digest(1)] * 9
    assert kept.world.loads == ["lab/tool:1"]
    assert [ours for _image, ours in await kept.manager.listing()] == [True]
    assert kept.world.on_engine[digest(1)].marked


async def test_no_more_than_two_images_come_at_once(opened: Opened) -> None:
    kept = await opened()
    kept.world.gate = asyncio.Event()
    waiters = [asyncio.create_task(kept.prepare(market(number))) for number in range(1, 6)]
    await eventually(lambda: kept.world.loading == 2, every_s=0.001)
    await kept.clock.settle()
    kept.world.gate.set()
    await asyncio.gather(*waiters)
    assert (kept.world.most_loading, len(kept.world.loads)) == (2, 5)


async def test_an_engine_that_went_away_is_asked_again(opened: Opened) -> None:
    kept = await opened()
    kept.world.gate = asyncio.Event()
    first = asyncio.create_task(kept.prepare(market(1)))
    await eventually(lambda: kept.world.loading, every_s=0.001)
    kept.world.away = True
    kept.world.gate.set()
    with pytest.raises(EngineUnavailable):
        await first
    kept.world.away = False
    assert await kept.prepare(market(1)) == digest(1)
    assert len(kept.world.loads) == 2


@pytest.mark.parametrize(
    ("wanted", "pull", "word", "elsewhere"),
    [
        (WantedImage("mine:1", digest(1), ImageSource.ENGINE), True, EndWord.IMAGE_PULL_FAILED, True),
        (WantedImage("reg.example/a:1", digest(1), ImageSource.REGISTRY), False, EndWord.IMAGE_PULL_FAILED, True),
        (WantedImage("a:1"), False, EndWord.IMAGE_NOT_FOUND, False),
    ],
)
async def test_what_is_never_fetched(
    opened: Opened, wanted: WantedImage, pull: bool, word: EndWord, elsewhere: bool
) -> None:
    kept = await opened(pull=pull)
    with pytest.raises(RuntimeRefused) as caught:
        await kept.prepare(wanted)
    assert (caught.value.word, caught.value.elsewhere, kept.fetching) == (word, elsewhere, [])
    assert not kept.world.pulls


async def test_what_is_pulled_is_ours(opened: Opened) -> None:
    kept = await opened()
    pinned = WantedImage("reg.example:5000/a/b:1", digest(1), ImageSource.REGISTRY, "ann")
    await kept.prepare(pinned)
    assert kept.world.pulls[0] == ("reg.example:5000/a/b:1", RegistryCredentials("ann", "secret"))
    assert "secret" not in repr(kept.world.pulls)
    entries = await kept.store.images.load()
    assert [(e.key, e.names) for e in entries] == [(pinned.key, (f"reg.example:5000/a/b@{digest(1)}",))]


# -- what is not everybody's ----------------------------------------------------------------------------

NAME = "reg.example/team/tool:1"


def named(account: str, name: str = NAME) -> WantedImage:
    """Not pinned at submit: the registry could not be asked there."""
    return WantedImage(name, account=account)


@pytest.fixture
async def private(opened: Opened) -> Kept:
    """A registry that shows an image to ann and cat, and an engine that has it for ann."""
    kept: Kept = await opened()
    kept.world.registry[NAME] = kept.world.registry[f"{NAME}@{digest(1)}"] = (digest(1), {"ann", "cat"})
    await kept.prepare(named("ann"))
    assert len(kept.world.pulls) == 1
    return kept


@pytest.mark.parametrize("name", [NAME, f"{NAME}@{digest(1)}", f"reg.example/team/tool@{digest(1)}"])
async def test_an_image_that_came_for_one_account_is_not_run_by_another(private: Kept, name: str) -> None:
    """It used to run for whoever named it, once the engine had it."""
    with pytest.raises(RuntimeRefused):
        await private.prepare(named("bob", name))
    assert len(private.world.pulls) == 1
    assert private.fetching == [NAME], "nor does it look as if it were fetched"


async def test_who_may_have_it_too_runs_the_one_that_is_there(private: Kept) -> None:
    assert await private.prepare(named("cat")) == await private.prepare(named("ann"))
    assert await private.prepare(named("cat", f"{NAME}@{digest(1)}")) == await private.prepare(named("ann"))
    assert len(private.world.pulls) == 1
    pinned = WantedImage(NAME, digest(1), ImageSource.REGISTRY, "bob")
    assert await private.prepare(pinned) == await private.prepare(named("ann")), "asked for bob at submit"


async def test_a_fetch_for_one_account_is_not_joined_by_another(opened: Opened) -> None:
    kept = await opened()
    kept.world.registry[NAME] = (digest(1), {"ann"})
    kept.world.gate = asyncio.Event()
    first = asyncio.create_task(kept.prepare(named("ann")))
    await eventually(lambda: kept.world.loading, every_s=0.001)
    with pytest.raises(RuntimeRefused):
        await kept.prepare(named("bob"))
    with pytest.raises(RuntimeRefused):
        await kept.prepare(named("bob", f"reg.example/team/tool@{digest(1)}"))
    kept.world.gate.set()
    await first


async def test_a_registry_is_not_asked_for_each_task(private: Kept) -> None:
    await asyncio.gather(*(private.prepare(named(account)) for account in ("ann", "cat") * 5))
    assert private.world.questions == [(NAME, "ann"), (NAME, "cat")]
    private.world.registry[NAME] = (digest(2), {"ann"})
    await private.clock.advance(600)
    assert await private.prepare(named("ann")) != digest(1), "the name means something else now"
    assert len(private.world.pulls) == 2
    with pytest.raises(RuntimeRefused):
        await private.prepare(named("cat"))


async def test_what_a_name_meant_serves_while_its_registry_is_away_and_only_who_was_told(private: Kept) -> None:
    there = await private.prepare(named("ann"))
    await private.clock.advance(3600)
    private.world.registry_away = True
    assert await private.prepare(named("ann")) == there
    with pytest.raises(RuntimeRefused):
        await private.prepare(named("cat"))
    private.world.registry_away = False
    private.world.registry[NAME] = (digest(1), set())
    with pytest.raises(RuntimeRefused):
        await private.prepare(named("ann"))
    private.world.registry_away = True
    with pytest.raises(RuntimeRefused):
        await private.prepare(named("ann"))


WRITTEN = f"reg.example/team/tool@{digest(1)}"


async def restarted(kept: Kept, opened: Opened) -> Kept:
    kept.manager.close()
    await kept.store.close()
    again: Kept = await opened(kept.world)
    return again


async def test_a_written_digest_runs_while_its_registry_is_away_for_whom_it_was_given(
    private: Kept, opened: Opened
) -> None:
    """It used to fail with "is not on gpu-1", where it had run a minute ago."""
    there = await private.prepare(named("ann"))
    pinned = WantedImage(NAME, digest(1), ImageSource.REGISTRY, "dan")  # HttpServer asked for dan
    assert await private.prepare(pinned) == there
    again = await restarted(private, opened)
    again.world.registry_away = True
    for account in ("ann", "dan"):
        assert await again.prepare(named(account, WRITTEN)) == there
    with pytest.raises(RuntimeRefused):
        await again.prepare(named("cat", WRITTEN))
    with pytest.raises(RuntimeRefused):
        await again.prepare(named("ann", f"reg.example/team/tool@{digest(2)}"))
    await again.clock.advance(permissions.AGE_S)
    with pytest.raises(RuntimeRefused):
        await again.prepare(named("ann", WRITTEN))
    assert len(again.world.pulls) == 1
    last = await restarted(again, opened)
    await last.store.close()  # the last writes are done
    assert await (await restarted(last, opened)).store.images.load_permissions() == {}


async def test_what_a_registry_refuses_runs_no_more_while_it_is_away(private: Kept, opened: Opened) -> None:
    private.world.registry[f"reg.example/team/tool@{digest(1)}"] = (digest(1), set())
    with pytest.raises(RuntimeRefused):
        await private.prepare(named("ann", WRITTEN))
    again = await restarted(private, opened)
    again.world.registry_away = True
    with pytest.raises(RuntimeRefused):
        await again.prepare(named("ann", WRITTEN))


async def test_an_image_of_a_name_that_a_task_needs_makes_no_room(private: Kept) -> None:
    private.needed.add(NAME)
    private.world.other_bytes = 98 * GIB
    with pytest.raises(NotEnoughDisk):
        await private.prepare(market(5))
    assert private.world.removed == []


# -- room -----------------------------------------------------------------------------------------------


async def test_room_is_made_by_those_that_were_not_used_for_longest(opened: Opened) -> None:
    kept = await opened()
    for number in (1, 2, 3):
        await kept.prepare(market(number))
        await kept.clock.advance(1)
    await kept.prepare(market(1))
    kept.needed.add(digest(2))  # of an attempt that was accepted
    kept.world.other_bytes = 100 * GIB - 3 * GIB - 2 * GIB  # 2 GiB left; it takes 2, and 1 stays in reserve
    assert await kept.prepare(market(4)) == digest(4)
    assert kept.world.removed == [digest(3)]


async def test_no_room_is_said_with_numbers_and_what_is_needed_stays(opened: Opened) -> None:
    kept = await opened()
    await kept.prepare(market(1))
    await kept.prepare(market(2))
    kept.needed.add(market(1).key)
    kept.manager.needed_soon = frozenset({market(2).key})
    kept.world.other_bytes = 97 * GIB
    with pytest.raises(NotEnoughDisk) as caught:
        await kept.prepare(market(3))
    want = "Not enough disk on the machine gpu-1 for the image lab/tool:3: it needs 3.0GiB, and 1.0GiB are free"
    assert str(caught.value) == want
    assert caught.value.elsewhere
    assert (kept.world.removed, kept.world.loads) == ([], ["lab/tool:1", "lab/tool:2"])
    assert len(await kept.store.images.load()) == 2


async def test_an_image_in_use_is_passed_over(opened: Opened) -> None:
    kept = await opened()
    await kept.prepare(market(1))
    await kept.clock.advance(1)
    await kept.prepare(market(2))
    kept.world.in_use.add(digest(1))
    kept.world.other_bytes = 96 * GIB
    await kept.prepare(market(3))
    assert kept.world.removed == [digest(2)]


async def test_two_at_once_do_not_count_on_the_same_room(opened: Opened) -> None:
    kept = await opened(World(total_bytes=5 * GIB - 1), watermarks=DiskWatermarks(1.0, 1.0, reserve_bytes=GIB))
    kept.world.gate = asyncio.Event()
    waiters = [asyncio.create_task(kept.prepare(market(number))) for number in (1, 2)]
    await eventually(lambda: kept.world.loading, every_s=0.001)
    await kept.clock.settle()
    assert kept.world.loading == 1
    kept.world.gate.set()
    await asyncio.gather(*waiters)
    assert kept.world.most_loading == 1


async def test_a_start_waits_for_a_removal_and_then_brings_it_anew(opened: Opened) -> None:
    kept = await opened()
    await kept.prepare(market(1))
    kept.world.other_bytes = 97 * GIB
    kept.world.remove_gate = asyncio.Event()
    other = asyncio.create_task(kept.prepare(market(2)))
    await eventually(lambda: kept.manager._disk_space.is_being_removed(digest(1)), every_s=0.001)
    again = asyncio.create_task(kept.prepare(market(1)))
    await kept.clock.settle()
    assert not again.done()
    kept.world.other_bytes = 0
    kept.world.remove_gate.set()
    assert await asyncio.gather(other, again) == [digest(2), digest(1)]
    assert kept.world.loads == ["lab/tool:1", "lab/tool:2", "lab/tool:1"]


# -- marks ----------------------------------------------------------------------------------------------


async def test_above_the_high_mark_images_go_until_the_low_one(opened: Opened) -> None:
    kept = await opened()
    for number in range(1, 11):
        await kept.prepare(market(number))
        await kept.clock.advance(1)
    kept.world.other_bytes = 70 * GIB
    await kept.manager.tidy()
    assert kept.world.removed == [], "80 of 100 GiB are in use"
    kept.world.other_bytes = 76 * GIB
    await kept.manager.tidy()
    assert kept.world.removed == [], "all were used a moment ago"
    kept.needed.update({digest(1), digest(2)})
    await kept.clock.advance(600)
    kept.world.other_bytes = 76 * GIB
    await kept.manager.tidy()
    assert kept.world.removed == [digest(number) for number in range(3, 11)], "down to what is needed"
    assert {one.image_id for one in await kept.store.images.load()} >= {digest(1), digest(2)}


async def test_the_last_use_outlives_a_restart(opened: Opened) -> None:
    kept = await opened()
    await kept.prepare(market(1))
    await kept.clock.advance(1)
    await kept.prepare(market(2))
    await kept.clock.advance(100)
    await kept.prepare(market(1))
    await kept.store.close()
    again = await opened(kept.world)
    again.world.other_bytes = 96 * GIB
    await again.prepare(market(3))
    assert again.world.removed == [digest(2)]


async def test_the_journal_follows_what_people_do_on_the_engine(opened: Opened) -> None:
    kept = await opened()
    await kept.prepare(market(1))
    await kept.prepare(market(2))
    del kept.world.on_engine[digest(1)]
    kept.world.on_engine[digest(2)] = EngineImage(digest(2), ("mine:1",), marked=False)
    await kept.manager.reconcile()
    assert [ours for _image, ours in await kept.manager.listing()] == [False]


async def test_what_arrives_and_what_another_worker_brought_is_told_as_headways(opened: Opened) -> None:
    """So that nobody is given it by its id in the moment before it is marked, or at another Worker's word."""
    kept = await opened()
    pinned = WantedImage("reg.example/a:1", digest(7), ImageSource.REGISTRY, "ann")
    gate, mark = asyncio.Event(), kept.world.mark_image

    async def slow(image_id: str) -> None:
        await gate.wait()
        await mark(image_id)

    kept.world.mark_image = slow  # type: ignore[method-assign]
    fetches = [asyncio.create_task(kept.prepare(wanted)) for wanted in (market(1), pinned)]
    await eventually(lambda: len(kept.world.on_engine) == 2)
    kept.world.on_engine[digest(3)] = EngineImage(digest(3), marked=True)
    assert [ours for _image, ours in await kept.manager.listing()] == [True] * 3
    gate.set()
    await asyncio.gather(*fetches)


# -- ahead ----------------------------------------------------------------------------------------------


async def test_images_are_brought_ahead_one_after_another(opened: Opened) -> None:
    kept = await opened()
    prefetch = ImagePrefetcher(kept.manager, kept.clock)
    run = asyncio.create_task(prefetch.run())
    kept.world.gate = asyncio.Event()
    prefetch.set_list([market(1), market(2)])
    await eventually(lambda: kept.world.loading, every_s=0.001)
    kept.world.gate.set()
    while len(kept.world.on_engine) < 2:
        await kept.clock.advance(0.5)
        await asyncio.sleep(0.001)
    assert (kept.world.loads, kept.world.most_loading) == (["lab/tool:1", "lab/tool:2"], 1)
    prefetch.set_list([])
    assert kept.manager.needed_soon == frozenset()
    run.cancel()


async def test_nothing_is_brought_ahead_above_the_high_mark_and_nothing_goes_for_it(opened: Opened) -> None:
    kept = await opened()
    await kept.prepare(market(1))
    kept.world.other_bytes = 84 * GIB
    with pytest.raises(NotEnoughDisk):
        await kept.manager.prefetch(market(2))
    assert kept.world.removed == []
    assert await kept.prepare(market(2)) == digest(2), "a task gets it all the same"


async def test_a_task_takes_a_fetch_over_that_was_begun_ahead(opened: Opened) -> None:
    kept = await opened()
    await kept.prepare(market(1))
    kept.world.gate = asyncio.Event()
    ahead = asyncio.create_task(kept.manager.prefetch(market(2)))
    await eventually(lambda: kept.world.loading, every_s=0.001)
    task = asyncio.create_task(kept.prepare(market(2)))
    await kept.clock.settle()
    kept.world.gate.set()
    assert await task == digest(2)
    await ahead
    assert kept.world.loads == ["lab/tool:1", "lab/tool:2"]


def test_only_pinned_images_can_be_wished_for() -> None:
    request = worker_pb2.PrepareImagesRequest()
    for source in (
        common_pb2.IMAGE_SOURCE_MARKET,
        common_pb2.IMAGE_SOURCE_REGISTRY,
        common_pb2.IMAGE_SOURCE_ENGINE,
        common_pb2.IMAGE_SOURCE_UNKNOWN,
    ):
        request.images.add(image="a/b:1", digest=digest(1), source=source, account="ann")
    request.images.add(image="a/b:1", source=common_pb2.IMAGE_SOURCE_MARKET)
    assert [one.source for one in wire.prefetch_images(request)] == [ImageSource.MARKET, ImageSource.REGISTRY]


# -- names ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "registry", "key"),
    [
        ("busybox", "docker.io", "busybox@d"),
        ("busybox:1.36", "docker.io", "busybox@d"),
        ("library/busybox:1.36", "docker.io", "busybox@d"),
        ("docker.io/library/busybox", "docker.io", "busybox@d"),
        ("docker.io/library/a/b", "docker.io", "library/a/b@d"),
        ("docker.io/team/tool:1", "docker.io", "team/tool@d"),
        ("localhost/a", "localhost", "localhost/a@d"),
        ("localhost:5000/a:1", "localhost:5000", "localhost:5000/a@d"),
        ("ghcr.io/x/y:1@sha256:00", "ghcr.io", "ghcr.io/x/y@d"),
    ],
)
def test_what_a_name_says(name: str, registry: str, key: str) -> None:
    assert registry_of(name) == registry
    assert WantedImage(name, "d", ImageSource.REGISTRY).key == key


def test_least_recent_counts_all_entries_of_an_image() -> None:
    brought = [
        FetchedImage("a@1", "x", ("a@1",), used_at=1.0),
        FetchedImage("b@1", "x", ("b@1",), used_at=9.0),
        FetchedImage("c", "y", used_at=5.0),
        FetchedImage("d", "", used_at=0.0),
    ]
    first = eviction.least_recent(brought, needed=(), used_before=100.0)
    assert first is not None
    assert first.image_id == "y"
    second = eviction.least_recent(brought, needed={"y"}, used_before=100.0)
    assert second is not None
    assert (second.image_id, second.names) == ("x", ("a@1", "b@1"))
    assert eviction.least_recent(brought, needed={"c", "b@1"}, used_before=100.0) is None


def test_code_is_where_a_task_begins() -> None:
    image = LocalImage("x", working_dir="/app")
    assert working_dir(a_launch(code=digest(1)), image) == "/root/code"
    assert working_dir(a_launch(code=digest(1), working_dir="/root/nfs"), image) == "/root/nfs"
    assert working_dir(a_launch(), image) == "/app"
