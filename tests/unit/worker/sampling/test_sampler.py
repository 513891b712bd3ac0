"""Rounds over live attempts: what is kept, what survives a restart, and what never waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from headway.ids import AttemptId
from headway.samples.model import Header, Sample
from headway.samples.reading import read_all
from tests.support.clock import FakeClock
from tests.support.waiting import eventually
from tests.unit.worker.builders import an_attempt
from tests.unit.worker.fakes import FakeRuntime
from worker.logs.copier import LogCopier
from worker.model import AttemptRecord, AttemptStage, AttemptTimes
from worker.ports import ContainerCounters, GpuInventory, GpuReading
from worker.sampling import recording as recordings
from worker.sampling import sampler as sampling
from worker.sampling.idle_rule import IdleMode, IdleRule, IdleStep
from worker.sampling.reader import SamplesReader
from worker.sampling.sampler import IdleNews, Measured, Sampler, Watched

ATTEMPT, OTHER = an_attempt(), an_attempt("other")
GPU = GpuReading("GPU-1", "A100", 40 << 30, 0, utilisation=0.5, power_w=100.0, memory_used_bytes=1 << 30)


@dataclass
class FakeGpus:
    gpus: dict[str, GpuReading] = field(default_factory=lambda: {"GPU-1": GPU})
    asked: list[set[str]] = field(default_factory=list)

    async def read(self, ours: Collection[str]) -> GpuInventory:
        raise AssertionError("a sample asks for no inventory")

    async def sample(self, uuids: Collection[str]) -> Mapping[str, GpuReading]:
        self.asked.append(set(uuids))
        return {uuid: gpu for uuid, gpu in self.gpus.items() if uuid in uuids}

    async def close(self) -> None: ...


class World:
    """A Worker's disk, its mount, and what runs."""

    def __init__(self, clock: FakeClock, folder: Path) -> None:
        self.clock, self.folder = clock, folder
        self.runtime, self.gpus = FakeRuntime(clock), FakeGpus()
        self.live = [Watched(ATTEMPT, clock.now(), ("GPU-1",))]
        self.problem = ""
        self.hangs: threading.Event | None = None
        self.news: list[IdleNews] = []
        self.loops: list[asyncio.Task[None]] = []
        self.count(0.0)
        self.begin()

    def begin(self, rule: IdleRule | None = None) -> None:
        """A Worker starts, or starts again."""
        self.copier = LogCopier(self.clock, self.mount_problem, every_s=15.0)
        self.sampler = Sampler(
            self.folder / "attempts",
            self.runtime,
            self.gpus,
            self.clock,
            every_s=1.0,
            live=lambda: self.live,
            copier=self.copier,
            target=lambda attempt: self.folder / "mount" / attempt.folder,
            idle_rule=rule,
            on_idle=self.on_idle,
        )
        self.loops.append(asyncio.get_running_loop().create_task(self.copier.run()))

    async def on_idle(self, news: IdleNews) -> None:
        self.news.append(news)

    def mount_problem(self) -> str:
        if self.hangs is not None:
            self.hangs.wait(20)
        return self.problem

    def count(self, cpu_s: float, **more: int) -> None:
        self.runtime.counters_of[ATTEMPT] = ContainerCounters(cpu_s, 1000, 2000, **more)

    async def run(self, seconds: int, *, cpus: float = 2.0) -> None:
        for _ in range(seconds):
            await self.clock.advance(1.0)
            before = self.runtime.counters_of.get(ATTEMPT)
            if before is not None:
                written = (before.disk_written_bytes or 0) + 10
                self.count((before.cpu_s or 0) + cpus, disk_written_bytes=written)
            await self.sampler.round()

    def samples(self, place: Path | None = None) -> list[Sample]:
        return self.read(place)[1]

    def read(self, place: Path | None = None) -> tuple[Header, list[Sample], int]:
        return read_all((place or self.sampler.file_of(ATTEMPT)).read_bytes())

    @property
    def copy(self) -> Path:
        return self.folder / "mount" / ATTEMPT.folder / "metrics"

    async def close(self) -> None:
        if self.hangs is not None:
            self.hangs.set()
        for loop in self.loops:
            loop.cancel()
        await asyncio.gather(*self.loops, return_exceptions=True)
        await self.copier.close()
        await self.sampler.close()


@pytest.fixture
async def world(clock: FakeClock, tmp_path: Path) -> AsyncIterator[World]:
    made = World(clock, tmp_path)
    yield made
    await made.close()


async def test_samples_hold_what_was_used_since_the_one_before(world: World) -> None:
    await world.run(4)
    header, samples, lost = world.read()
    assert lost == 0
    assert [gpu.model for gpu in header.gpus] == ["A100"]
    assert [sample.cpu_used for sample in samples] == pytest.approx([2.0] * 4)
    assert [sample.disk_written_bytes for sample in samples] == [10] * 4
    assert samples[-1].gpus[0].utilisation == pytest.approx(0.5, abs=1e-4)
    assert samples[-1].memory_bytes == 1000
    assert samples[-1].network_sent_bytes is None


async def test_the_driver_is_asked_once_for_all_attempts(world: World) -> None:
    world.live.append(Watched(OTHER, world.clock.now(), ("GPU-2", "GPU-3")))
    await world.run(2)
    assert world.gpus.asked == [{"GPU-1", "GPU-2", "GPU-3"}] * 2
    _, samples, _ = read_all(world.sampler.file_of(OTHER).read_bytes())
    assert samples[0].gpus[0].utilisation is None  # it can't be read: a gap, not a zero
    assert samples[0].cpu_used is None


async def test_the_sums_come_with_the_end_and_again_the_same(world: World) -> None:
    await world.run(11)
    measured = await world.sampler.finish(ATTEMPT, ("GPU-1",))
    assert measured.use is not None
    assert measured.use.measured_s == pytest.approx(10)
    assert measured.use.cpu_s == pytest.approx(20)
    assert measured.use.disk_written_bytes == 110
    assert measured.use.gpus[0].energy_j == pytest.approx(1000)
    assert measured.peak_memory_bytes == 2000
    again = await world.sampler.finish(ATTEMPT, ("GPU-1",))  # its report could not be stored, say
    assert again.use == measured.use


async def test_nothing_is_written_of_an_attempt_that_has_ended(world: World) -> None:
    await world.run(5)
    await world.sampler.finish(ATTEMPT)
    await world.run(3)
    assert len(world.samples()) == 5


async def test_an_end_in_the_middle_of_a_round_loses_nothing(world: World) -> None:
    await world.run(3)
    counters, going, reached = world.runtime.counters, threading.Event(), threading.Event()

    def slow(attempt: AttemptId) -> ContainerCounters | None:
        reached.set()
        going.wait(10)
        return counters(attempt)

    world.runtime.counters = slow  # type: ignore[method-assign]
    await world.clock.advance(1.0)
    looking = asyncio.create_task(world.sampler.round())
    await eventually(reached.is_set, every_s=0.001)
    ending = asyncio.create_task(world.sampler.finish(ATTEMPT))
    await asyncio.sleep(0.05)
    going.set()
    measured = await ending
    await looking
    assert measured.use is not None
    assert len(world.samples()) == 4


async def test_a_disk_that_hangs_costs_an_attempt_its_sums_and_not_its_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.run(3)
    monkeypatch.setattr(sampling, "_WRITE_S", 0.05)
    going = threading.Event()
    world.runtime.counters = lambda attempt: going.wait(10) and None  # type: ignore[method-assign]
    looking = asyncio.create_task(world.sampler.round())
    await asyncio.sleep(0.02)
    assert await asyncio.wait_for(world.sampler.finish(ATTEMPT), 2) == Measured()
    going.set()
    await looking


async def test_a_container_that_is_gone_leaves_no_samples_without_values(world: World) -> None:
    await world.run(3)
    del world.runtime.counters_of[ATTEMPT]
    await world.run(3)
    assert len(world.samples()) == 3


async def test_it_goes_on_after_a_restart_with_a_gap(world: World) -> None:
    await world.run(5)
    with world.sampler.file_of(ATTEMPT).open("ab") as file:
        file.write(b"\xa5S half a record")  # a power cut
    world.begin()
    await world.clock.advance(100.0)
    before = world.runtime.counters_of[ATTEMPT]
    world.count((before.cpu_s or 0) + 50, disk_written_bytes=(before.disk_written_bytes or 0) + 500)
    await world.sampler.round()
    await eventually(lambda: all(task.done() for task in world.sampler._resuming.values()), every_s=0.001)
    await world.run(3)
    _, samples, lost = world.read()
    assert lost == 0
    assert [sample.cpu_used for sample in samples] == pytest.approx([2.0] * 5 + [None] + [2.0] * 2)
    assert [sample.disk_written_bytes for sample in samples] == [10] * 5 + [510] + [10] * 2
    measured = await world.sampler.finish(ATTEMPT)
    assert measured.use is not None
    assert measured.use.measured_s == pytest.approx(4 + 2)
    assert measured.use.disk_written_bytes == 50 + 510 + 20


async def test_an_end_during_the_restart_still_has_its_sums(world: World) -> None:
    await world.run(5)
    world.begin()
    world.live = []
    measured = await world.sampler.finish(ATTEMPT, ("GPU-1",))
    assert measured.use is not None
    assert measured.use.measured_s == pytest.approx(4)


async def test_the_mount_follows_and_has_all_at_the_end(world: World) -> None:
    await world.run(40)
    await eventually(lambda: world.copy.exists(), every_s=0.001)
    await world.clock.advance(15.0)
    await eventually(lambda: len(world.samples(world.copy)) == 40, every_s=0.001)
    await world.run(3)
    await world.sampler.finish(ATTEMPT)
    await world.sampler.copied(ATTEMPT)
    assert world.copy.read_bytes() == world.sampler.file_of(ATTEMPT).read_bytes()
    minutes = world.copy.with_name("metrics.minutes")
    assert minutes.read_bytes() == world.sampler.file_of(ATTEMPT).with_name("metrics.minutes").read_bytes()


async def test_a_mount_that_hangs_delays_neither_samples_nor_the_end(world: World) -> None:
    world.hangs = threading.Event()
    await world.run(20)
    assert len(world.samples()) == 20
    measured = await asyncio.wait_for(world.sampler.finish(ATTEMPT), 5)
    assert measured.use is not None
    world.hangs.set()
    await asyncio.wait_for(world.sampler.copied(ATTEMPT), 10)
    assert len(world.samples(world.copy)) == 20


async def test_a_full_mount_gets_all_later(world: World) -> None:
    world.problem = "The mount is full."
    await world.run(20)
    await world.sampler.finish(ATTEMPT)
    waiting = asyncio.create_task(world.sampler.copied(ATTEMPT))
    await world.clock.advance(60.0)
    assert not waiting.done()
    world.problem = ""
    world.copier.try_again()
    await world.clock.advance(15.0)
    await asyncio.wait_for(waiting, 5)
    assert len(world.samples(world.copy)) == 20


async def test_a_full_local_disk_costs_samples_and_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.run(3)
    monkeypatch.setattr(recordings.os, "write", lambda descriptor, data: 0)
    await world.run(3)
    monkeypatch.undo()
    await world.run(3)
    _, samples, lost = world.read()
    assert (len(samples), lost) == (6, 0)


async def test_half_a_record_is_taken_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.run(3)
    size = world.sampler.file_of(ATTEMPT).stat().st_size
    write = recordings.os.write
    monkeypatch.setattr(recordings.os, "write", lambda descriptor, data: write(descriptor, data[:7]))
    await world.run(1)
    monkeypatch.undo()
    assert world.sampler.file_of(ATTEMPT).stat().st_size == size


async def test_a_round_that_fails_ends_nothing(world: World) -> None:
    def broken(attempt: AttemptId) -> ContainerCounters | None:
        raise ZeroDivisionError("a bug")

    counters, world.runtime.counters = world.runtime.counters, broken  # type: ignore[method-assign]
    loop = asyncio.create_task(world.sampler.run())
    world.loops.append(loop)
    for _ in range(3):
        await world.clock.advance(1.0)
        await asyncio.sleep(0.01)
    assert not loop.done()
    world.runtime.counters = counters  # type: ignore[method-assign]

    async def goes_on() -> bool:
        await world.clock.advance(1.0)
        return world.sampler.file_of(ATTEMPT).exists()

    await eventually(goes_on, every_s=0.001)


async def test_a_folder_that_can_not_be_made_costs_samples_and_no_more(world: World) -> None:
    (world.folder / "attempts").write_text("a file where a folder should be")
    await world.run(2)
    assert await world.sampler.finish(ATTEMPT) == Measured()


async def test_a_file_of_another_version_stays_as_it_is(world: World) -> None:
    await world.run(3)
    file = world.sampler.file_of(ATTEMPT)
    world.begin()
    world.live = [replace(world.live[0], gpu_uuids=("GPU-1", "GPU-2"))]  # does not fit what the file says
    before = file.read_bytes()
    await world.run(2)
    await eventually(lambda: all(task.done() for task in world.sampler._resuming.values()), every_s=0.001)
    await world.run(2)
    assert file.read_bytes() == before
    assert await world.sampler.finish(ATTEMPT, ("GPU-1", "GPU-2")) == Measured()


async def test_idle_gpus_are_told_of_and_a_restart_forgets_nothing(world: World) -> None:
    rule = IdleRule(IdleMode.ON, 0.05, 40.0)
    world.begin(rule)
    world.gpus.gpus["GPU-1"] = replace(GPU, utilisation=0.0)
    await world.run(26)
    assert [(news.step, news.idle_s) for news in world.news] == [(IdleStep.HALF, 20.0)]
    world.begin(rule)
    await world.sampler.round()
    await eventually(lambda: all(task.done() for task in world.sampler._resuming.values()), every_s=0.001)
    await world.run(16)
    assert [news.step for news in world.news[1:]] == [IdleStep.THREE_QUARTERS, IdleStep.OVER]


async def test_a_rule_that_is_set_later_warns_twice_before_it_ends(world: World) -> None:
    world.gpus.gpus["GPU-1"] = replace(GPU, utilisation=0.0)
    await world.run(60)
    world.begin(IdleRule(IdleMode.ON, 0.05, 40.0))
    await world.sampler.round()
    await eventually(lambda: all(task.done() for task in world.sampler._resuming.values()), every_s=0.001)
    await world.run(24)
    assert [news.step for news in world.news] == [IdleStep.HALF, IdleStep.THREE_QUARTERS, IdleStep.OVER]


async def test_samples_are_streamed_while_they_grow(world: World) -> None:
    record = AttemptRecord(ATTEMPT, AttemptStage.LIVE, b"launch", AttemptTimes(accepted_at=1.0))
    reader = SamplesReader(lambda _: record, world.sampler, world.clock)
    await world.run(2)
    parts: list[bytes] = []

    async def follow() -> None:
        async for part in reader.read(ATTEMPT, follow=True):
            assert part.offset == sum(map(len, parts))
            parts.append(part.data)

    following = asyncio.create_task(follow())
    await eventually(lambda: parts, every_s=0.001)
    assert len(read_all(b"".join(parts))[1]) == 2
    await world.run(2)
    record.stage = AttemptStage.ENDED
    for _ in range(10):
        await world.clock.advance(1.0)
        await asyncio.sleep(0.01)
    await asyncio.wait_for(following, 5)
    assert b"".join(parts) == world.sampler.file_of(ATTEMPT).read_bytes()
    size = world.sampler.file_of(ATTEMPT).stat().st_size
    rest = [part async for part in reader.read(ATTEMPT, offset=size)]
    assert [(part.data, part.ended) for part in rest] == [(b"", True)]
