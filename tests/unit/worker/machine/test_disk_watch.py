"""A disk that fills up: the condition, the one task that goes, and those that stay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

import pytest

from headway.ids import AttemptId
from tests.support.clock import FakeClock
from worker.machine.conditions import Conditions
from worker.machine.disk_watch import DiskWatch
from worker.machine.disks import DiskReading
from worker.ports import EngineUnavailable

from ..builders import an_attempt

GIB = 1 << 30
A, B = an_attempt("a"), an_attempt("b")


class World:
    """Two disks, attempts that hold parts of the first, and a watch over it all."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.free: dict[int, int] = {1: 50 * GIB, 2: 80 * GIB}
        self.held: dict[AttemptId, int] = {}
        self.measured: list[int] = []
        self.ended: list[tuple[AttemptId, str]] = []
        self.away = False
        self.conditions = Conditions(clock)
        self.watch = DiskWatch(
            node_id="gpu-1",
            low_bytes=2 * GIB,
            places=lambda: [
                (Path("/var/lib/docker"), "its container engine"),
                (Path("/var/lib/headway"), "the worker"),
            ],
            usage=self,
            end=self._end,
            is_gone=self._is_gone,
            conditions=self.conditions,
            clock=clock,
            read=self._read,
        )
        self.loop = asyncio.get_running_loop().create_task(self.watch.run())

    def _read(self, places: Iterable[tuple[Path, str]]) -> list[DiskReading]:
        found = [
            DiskReading(n, path, holds, self.free.get(n, -1), 100 * GIB) for n, (path, holds) in enumerate(places, 1)
        ]
        return [disk for disk in found if disk.free_bytes >= 0]

    async def uses(self, device: int) -> Mapping[AttemptId, int]:
        self.measured.append(device)
        if self.away:
            raise EngineUnavailable("It hangs.")
        return dict(self.held)

    async def _end(self, attempt: AttemptId, sentence: str) -> None:
        self.ended.append((attempt, sentence))

    async def _is_gone(self, attempt: AttemptId) -> bool:
        return attempt not in self.held

    def give_back(self, attempt: AttemptId) -> None:
        self.free[1] += self.held.pop(attempt)

    async def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.25)):
            await self.clock.advance(0.25)
            await asyncio.sleep(0.002)  # disks are read in a thread

    def says(self) -> str:
        return next((condition.sentence for condition in self.conditions.now), "")


@pytest.fixture
async def world(clock: FakeClock) -> AsyncIterator[World]:
    world = World(clock)
    yield world
    world.loop.cancel()
    await asyncio.gather(world.loop, return_exceptions=True)
    world.watch.close()


async def test_a_disk_with_room_costs_nothing_but_a_look(world: World) -> None:
    world.held = {A: 40 * GIB}
    await world.pass_time(40)
    assert not world.says()
    assert not world.measured


async def test_a_low_disk_takes_no_work_and_ends_nobody(world: World) -> None:
    world.free[1], world.held = GIB + 1, {A: 40 * GIB}
    await world.pass_time(20)
    assert "that its container engine uses (/var/lib/docker)" in world.says()
    assert world.conditions.blocking() is not None
    assert not world.measured
    world.free[1] = 2 * GIB
    await world.pass_time(2)
    assert world.says(), "not lifted at once, else it flickers"
    world.free[1] = 3 * GIB
    await world.pass_time(2)
    assert not world.says()


async def test_the_worker_s_own_disk_is_watched_too(world: World) -> None:
    world.free[2] = GIB
    await world.pass_time(20)
    assert "that the worker uses (/var/lib/headway)" in world.says()


async def test_the_greatest_goes_alone_and_the_condition_lifts_by_itself(world: World) -> None:
    world.free[1], world.held = GIB - 1, {A: 5 * GIB, B: 40 * GIB}
    await world.pass_time(20)
    ((attempt, sentence),) = world.ended
    assert attempt == B
    assert "40GiB to the disk of gpu-1" in sentence
    world.give_back(B)
    await world.pass_time(5)
    assert not world.says()
    assert len(world.ended) == 1
    assert world.measured == [1]


async def test_the_next_one_goes_only_when_the_first_has_given_its_space_back(world: World) -> None:
    world.free[1], world.held = 0, {A: GIB // 2, B: GIB // 2 + 1}
    await world.pass_time(40)
    assert [attempt for attempt, _ in world.ended] == [B]
    world.held.pop(B)  # and somebody else has taken its space
    await world.pass_time(3)
    assert [attempt for attempt, _ in world.ended] == [B, A]


async def test_one_that_will_not_go_is_not_waited_for_without_end(world: World) -> None:
    world.free[1], world.held = 0, {A: GIB, B: 2 * GIB}
    await world.pass_time(20)
    world.held[B] = 0  # as one that is ending is not counted any more
    await world.pass_time(70)
    assert [attempt for attempt, _ in world.ended] == [B, A]


async def test_who_wrote_little_stays(world: World) -> None:
    world.free[1], world.held = 0, {A: GIB // 2 - 1, B: 4096}
    await world.pass_time(60)
    assert world.says()
    assert not world.ended
    assert 2 <= len(world.measured) <= 7, "measured now and then, not at every look"


async def test_an_engine_that_hangs_ends_nobody_and_is_asked_again(world: World) -> None:
    world.free[1], world.held, world.away = 0, {A: 9 * GIB}, True
    await world.pass_time(20)
    assert not world.ended
    world.away = False
    await world.pass_time(2)
    assert [attempt for attempt, _ in world.ended] == [A]


async def test_disks_that_do_not_answer_leave_the_condition_as_it_is(world: World) -> None:
    world.free[1] = GIB
    await world.pass_time(20)
    before = world.says()
    world.free.clear()
    await world.pass_time(20)
    assert world.says() == before


async def test_the_tightest_disk_is_what_the_status_tells(world: World) -> None:
    world.free[2] = 10 * GIB
    disk = await world.watch.look()
    assert disk is not None
    assert (disk.device, disk.free_bytes) == (2, 10 * GIB)
