"""Nodes with their database, Workers that do as the test says, and a clock that the test moves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from headway.errors import Conflict, Fenced, NotFound, StoreFull, Unavailable
from headway.rpc.v1 import resource_manager_pb2 as pb
from headway.store import Database
from headway.store.migrations import differences
from resource_manager.health import SilenceLimits
from resource_manager.hub import NodeEventHub, NodeSubscription
from resource_manager.node_admission import AdmissionEvent
from resource_manager.nodes import Nodes
from resource_manager.poller import Poller
from resource_manager.tables import metadata
from tests.support.clock import FakeClock
from tests.support.waiting import eventually


class Workers:
    """By address; away ones don't answer, hanging ones not before they are let go."""

    def __init__(self) -> None:
        self.statuses: dict[str, pb.NodeStatus] = {}
        self.away: set[str] = set()
        self.hanging: dict[str, asyncio.Event] = {}
        self.asked: dict[str, int] = {}
        self.open = 0
        self.most_open = 0
        self.forgotten: list[str] = []

    async def get_status(self, address: str, deadline_s: float) -> pb.NodeStatus:
        self.asked[address] = self.asked.get(address, 0) + 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            if address in self.hanging:
                await self.hanging[address].wait()
            if address in self.away:
                raise Unavailable(f"Worker at {address} does not answer.")
            return self.statuses[address]
        finally:
            self.open -= 1

    async def forget(self, address: str) -> None:
        self.forgotten.append(address)

    async def close(self) -> None:
        pass


class House:
    def __init__(self, db: Database, clock: FakeClock) -> None:
        self.db = db
        self.clock = clock
        self.workers = Workers()
        self.hub = NodeEventHub()
        self.nodes = Nodes(db, clock, self.hub, SilenceLimits(30, 90), usage_days=30)
        self.poller = Poller(self.nodes, self.workers, clock, poll_s=10, chance=random.Random(1))

    async def register(self, name: str, incarnation: int = 1, live: int = 0, cpu: int = 800) -> None:
        status = a_status(name, incarnation, live=live, cpu=cpu)
        self.workers.statuses[f"{name}:7004"] = status
        await self.nodes.register(
            pb.RegisterNodeRequest(
                node_id=name, incarnation=incarnation, address=f"{name}:7004", status=status, version="0.1"
            )
        )

    def node(self, name: str) -> pb.Node:
        return self.nodes.view(name)[0]


def a_status(name: str, incarnation: int = 1, *, live: int = 0, cpu: int = 800, used: float = 1.0) -> pb.NodeStatus:
    return pb.NodeStatus(
        node_id=name,
        incarnation=incarnation,
        at=17.0,  # this Worker's clock is decades behind
        capacity=pb.Capacity(
            cpu_centi=cpu, memory_bytes=2**33, gpus=[pb.Gpu(uuid="GPU-1", model="A", utilisation=used)]
        ),
        live_attempts=live,
        cpu_used=used,
    )


@asynccontextmanager
async def a_house(folder: Path, clock: FakeClock) -> AsyncIterator[House]:
    db = await Database.open(str(folder / "nodes.db"), room="resource_manager")
    house = House(db, clock)
    await house.nodes.load()
    loops = [asyncio.create_task(loop()) for loop in (house.poller.run, house.nodes.keep_time)]
    try:
        yield house
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await db.close()


@pytest.fixture
async def house(tmp_path: Path, clock: FakeClock) -> AsyncIterator[House]:
    async with a_house(tmp_path, clock) as one:
        yield one


async def test_tables_and_migrations_agree(tmp_path: Path, house: House) -> None:
    assert differences(create_engine(f"sqlite:///{tmp_path}/nodes.db"), "resource_manager", metadata) == []


async def test_a_silent_node_is_suspect_before_it_is_down_and_comes_back(house: House) -> None:
    await house.register("a")
    await house.register("b")
    house.workers.away.add("a:7004")
    await house.clock.advance(25)
    assert house.node("a").health == "READY"
    await house.clock.advance(15)
    assert house.node("a").health == "SUSPECT"
    assert "does not answer" in house.node("a").health_sentence
    await house.clock.advance(60)
    assert house.node("a").health == "DOWN"
    assert house.node("b").health == "READY"
    house.workers.away.clear()
    await house.clock.advance(25)
    assert house.node("a").health == "READY"
    assert house.node("a").health_sentence == ""


async def test_wall_clocks_that_jump_lose_no_node(house: House) -> None:
    await house.register("a")
    for step in (3_600, -7_200):
        house.clock.step_wall(step)
        await house.clock.advance(60)
        node = house.node("a")
        assert node.health == "READY"
        # The Worker's own idea of the time is nowhere to be seen.
        assert node.status.at == pytest.approx(house.clock.now(), abs=12)


async def test_a_suspended_machine_blames_nobody_when_it_wakes(house: House) -> None:
    await house.register("a")
    await house.clock.advance(20)
    house.clock.tick(3_600)
    await house.clock.advance(2)
    assert house.node("a").health == "READY"


async def test_a_worker_that_hangs_is_asked_once_and_holds_up_no_other(house: House) -> None:
    for name in "abc":
        await house.register(name)
    let_go = house.workers.hanging["a:7004"] = asyncio.Event()
    await house.clock.advance(60)
    assert house.workers.asked["a:7004"] == 1
    assert house.workers.asked["b:7004"] >= 5
    assert house.node("a").health == "SUSPECT"
    let_go.set()
    await house.clock.advance(1)
    assert house.node("a").health == "READY"


async def test_polls_are_spread_around_their_period(house: House) -> None:
    await house.register("a")
    await house.clock.advance(1_000)
    assert 95 <= house.workers.asked["a:7004"] <= 106


async def test_a_worker_at_a_new_address_is_asked_there(house: House) -> None:
    await house.register("a")
    await house.clock.advance(12)
    house.workers.statuses["elsewhere:7004"] = a_status("a", 2)
    await house.nodes.register(pb.RegisterNodeRequest(node_id="a", incarnation=2, address="elsewhere:7004"))
    asked = house.workers.asked["a:7004"]
    await house.clock.advance(25)
    assert house.workers.asked["a:7004"] == asked
    assert house.workers.asked["elsewhere:7004"] >= 2
    assert house.workers.forgotten == ["a:7004"]


async def test_an_older_incarnation_is_refused_everywhere(house: House) -> None:
    await house.register("a", incarnation=5)
    with pytest.raises(Fenced):
        await house.nodes.register(pb.RegisterNodeRequest(node_id="a", incarnation=4, address="x:1"))
    with pytest.raises(Fenced):
        await house.nodes.report(a_status("a", 4))
    await house.nodes.on_answer("a", a_status("a", 4, cpu=100), house.clock.monotonic())
    assert house.node("a").status.capacity.cpu_centi == 800
    assert house.node("a").incarnation == 5


async def test_a_worker_is_asked_to_register_when_it_is_not_known(house: House) -> None:
    assert not await house.nodes.report(a_status("a"))
    await house.register("a")
    assert await house.nodes.report(a_status("a", live=3))
    assert house.node("a").status.live_attempts == 3
    assert not await house.nodes.report(a_status("a", 2))


async def test_after_a_restart_nodes_are_suspect_until_seen(tmp_path: Path, clock: FakeClock) -> None:
    async with a_house(tmp_path, clock) as house:
        await house.register("a")
        await house.register("b")
        await house.nodes.set_admission("a", AdmissionEvent.CORDON, "fan is loud", "root")
    async with a_house(tmp_path, clock) as house:
        assert [node.health for node in house.nodes.view()] == ["SUSPECT", "SUSPECT"]
        assert house.node("a").status.capacity.cpu_centi == 800
        house.workers.statuses["a:7004"] = a_status("a", 1)
        house.workers.away.add("b:7004")
        await house.clock.advance(2)
        assert (house.node("a").health, house.node("a").admission) == ("READY", "CORDONED")
        assert house.node("a").note == "fan is loud"
        assert house.node("b").health == "SUSPECT"
        # Its Worker was restarted meanwhile and its registration got lost: the poll tells as well.
        house.workers.statuses["a:7004"] = a_status("a", 9)
        await house.clock.advance(12)
        assert house.node("a").incarnation == 9


async def test_a_drain_ends_with_the_first_empty_answer_asked_for_after_it_began(house: House) -> None:
    await house.register("a", live=0)
    asked_before = house.clock.monotonic()
    house.clock.tick(0.5)
    assert (await house.nodes.set_admission("a", AdmissionEvent.DRAIN, "new disk", "root")).admission == "DRAINING"
    await house.nodes.on_answer("a", a_status("a", live=0), asked_before)
    assert house.node("a").admission == "DRAINING"
    house.workers.statuses["a:7004"] = a_status("a", live=2)
    await house.clock.advance(15)
    assert house.node("a").admission == "DRAINING"
    house.workers.statuses["a:7004"] = a_status("a", live=0)
    await house.clock.advance(12)
    await eventually(lambda: house.node("a").admission == "DRAINED")
    # The Worker is restarted with its new disk: what was said of the node stays.
    await house.register("a", incarnation=2)
    assert (house.node("a").admission, house.node("a").note) == ("DRAINED", "new disk")
    opened = await house.nodes.set_admission("a", AdmissionEvent.UNCORDON, "", "root")
    assert (opened.admission, opened.note) == ("OPEN", "")


async def test_only_a_dead_node_is_forgotten_and_then_asked_no_more(house: House) -> None:
    await house.register("a")
    with pytest.raises(Conflict):
        await house.nodes.forget("a")
    house.workers.away.add("a:7004")
    await house.clock.advance(100)
    assert house.node("a").health == "DOWN"
    await house.nodes.forget("a")
    await house.clock.advance(1)
    asked = house.workers.asked["a:7004"]
    await house.clock.advance(60)
    assert house.workers.asked["a:7004"] == asked
    assert house.workers.forgotten == ["a:7004"]
    with pytest.raises(NotFound):
        house.node("a")


async def test_watchers_get_all_nodes_and_then_only_what_matters(house: House) -> None:
    await house.register("a")
    with house.hub.watch(house.nodes.view()) as watch:
        first = list(watch.first())
        assert [(m.reset, [n.id for n in m.nodes]) for m in first] == [(True, ["a"])]
        for used in (0.1, 0.7, 0.3):
            house.workers.statuses["a:7004"] = a_status("a", used=used)
            await house.clock.advance(12)
        assert unread(watch) == {}
        assert house.node("a").status.cpu_used == pytest.approx(0.3)
        house.workers.statuses["a:7004"] = a_status("a", cpu=400)
        await house.clock.advance(12)
        assert unread(watch) == {"a": "READY"}
        house.workers.away.add("a:7004")
        await house.clock.advance(120)
        messages = await watch.next()
        assert [n.health for m in messages for n in m.nodes] == ["DOWN"]
        await house.nodes.forget("a")
        assert [list(m.removed) for m in await watch.next()] == [["a"]]


def unread(watch: NodeSubscription) -> dict[str, str]:
    found = {name: node.health for name, node in watch._unread.items() if node is not None}
    watch._unread.clear()
    watch._ready.clear()
    return found


async def test_an_empty_cluster_resets_its_watchers_too(house: House) -> None:
    with house.hub.watch(house.nodes.view()) as watch:
        assert [m.reset for m in watch.first()] == [True]


async def test_usage_is_there_before_and_after_it_is_written(house: House) -> None:
    await house.register("a")
    since = house.clock.now()
    await house.clock.advance(300)
    before = await house.nodes.usage("a", since, 0, 500)
    assert 28 <= len(before) <= 33
    await house.nodes.flush()
    after = await house.nodes.usage("a", since, 0, 500)
    assert [p.at for p in after] == [p.at for p in before]
    assert after[0].gpus[0].utilisation == 1.0
    assert len(await house.nodes.usage("a", since, 0, 5)) <= 5
    assert not await house.nodes.usage("a", since - 100, since - 50, 5)


async def test_old_usage_is_thinned_and_older_usage_goes(house: House) -> None:
    await house.register("a")
    since = house.clock.now()
    await house.clock.advance(600)
    await house.nodes.flush()
    house.clock.tick(86_400 + 3_600)
    await house.nodes.thin()
    points = await house.nodes.usage("a", since, 0, 500)
    assert 2 <= len(points) <= 4
    await house.nodes.thin()
    assert await house.nodes.usage("a", since, 0, 500) == points
    house.clock.tick(31 * 86_400)
    await house.nodes.thin()
    assert not await house.nodes.usage("a", since, 0, 500)


async def test_a_full_disk_loses_no_reading_and_no_node(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await house.register("a")
    await house.clock.advance(60)

    async def full(work: object) -> None:
        raise StoreFull

    with monkeypatch.context() as patched:
        patched.setattr(house.db, "write", full)
        with pytest.raises(StoreFull):
            await house.nodes.flush()
        with pytest.raises(StoreFull):
            await house.nodes.set_admission("a", AdmissionEvent.CORDON, "", "root")
    assert house.node("a").admission == "OPEN"
    waiting = await house.nodes.usage("a", 0, 0, 500)
    await house.nodes.flush()
    assert await house.nodes.usage("a", 0, 0, 500) == waiting
