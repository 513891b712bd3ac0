"""Nodes with their database, Workers that do as the test says, and a clock that the test moves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, insert, select

from headway.errors import Conflict, Fenced, InvalidInput, NotFound, StoreFull, Unavailable
from headway.rpc.v1 import resource_manager_pb2 as pb
from headway.store import Database
from headway.store.migrations import differences
from resource_manager.health import SilenceLimits
from resource_manager.hub import NodeEventHub, NodeSubscription
from resource_manager.node_admission import AdmissionEvent
from resource_manager.nodes import Nodes
from resource_manager.poller import Poller
from resource_manager.tables import metadata, usage, usage_block
from tests.support.clock import FakeClock
from tests.support.databases import engine_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("both_databases")


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

    async def get_status(self, node_id: str, address: str, deadline_s: float) -> pb.NodeStatus:
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

    async def return_gpu(
        self, node_id: str, address: str, request: pb.ReturnGpuRequest, deadline_s: float
    ) -> pb.ReturnGpuReply:
        if address in self.away:
            raise Unavailable(f"Worker at {address} does not answer.")
        for gpu in self.statuses[address].capacity.gpus:
            if gpu.uuid == request.uuid and gpu.fault != "row_remap_failed":
                gpu.sick, gpu.fault = False, ""
                return pb.ReturnGpuReply(returned=True, sentence="It is given out again.")
        return pb.ReturnGpuReply(sentence="It stays out.")

    async def forget(self, address: str) -> None:
        self.forgotten.append(address)

    async def close(self) -> None:
        pass


class Rig:
    def __init__(self, db: Database, clock: FakeClock) -> None:
        self.db = db
        self.clock = clock
        self.workers = Workers()
        self.hub = NodeEventHub()
        self.nodes = Nodes(db, clock, self.hub, SilenceLimits(30, 90), usage_days=400)
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
async def a_rig(folder: Path, clock: FakeClock) -> AsyncIterator[Rig]:
    db = await Database.open(str(folder / "nodes.db"), room="resource_manager")
    rig = Rig(db, clock)
    await rig.nodes.load()
    loops = [asyncio.create_task(loop()) for loop in (rig.poller.run, rig.nodes.keep_time)]
    try:
        yield rig
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await db.close()


@pytest.fixture
async def rig(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path, clock) as one:
        yield one


async def test_tables_and_migrations_agree(tmp_path: Path, rig: Rig) -> None:
    assert differences(engine_of(tmp_path / "nodes.db", "resource_manager"), "resource_manager", metadata) == []


async def test_a_silent_node_is_suspect_before_it_is_down_and_comes_back(rig: Rig) -> None:
    await rig.register("a")
    await rig.register("b")
    rig.workers.away.add("a:7004")
    await rig.clock.advance(25)
    assert rig.node("a").health == "READY"
    await rig.clock.advance(15)
    assert rig.node("a").health == "SUSPECT"
    assert "does not answer" in rig.node("a").health_sentence
    await rig.clock.advance(60)
    assert rig.node("a").health == "DOWN"
    assert rig.node("b").health == "READY"
    rig.workers.away.clear()
    await rig.clock.advance(25)
    assert rig.node("a").health == "READY"
    assert rig.node("a").health_sentence == ""


async def test_wall_clocks_that_jump_lose_no_node(rig: Rig) -> None:
    await rig.register("a")
    for step in (3_600, -7_200):
        rig.clock.step_wall(step)
        await rig.clock.advance(60)
        node = rig.node("a")
        assert node.health == "READY"
        # The Worker's own idea of the time is nowhere to be seen.
        assert node.status.at == pytest.approx(rig.clock.now(), abs=12)


async def test_a_suspended_machine_blames_nobody_when_it_wakes(rig: Rig) -> None:
    await rig.register("a")
    await rig.clock.advance(20)
    rig.clock.tick(3_600)
    await rig.clock.advance(2)
    assert rig.node("a").health == "READY"


async def test_a_worker_that_hangs_is_asked_once_and_holds_up_no_other(rig: Rig) -> None:
    for name in "abc":
        await rig.register(name)
    let_go = rig.workers.hanging["a:7004"] = asyncio.Event()
    await rig.clock.advance(60)
    assert rig.workers.asked["a:7004"] == 1
    assert rig.workers.asked["b:7004"] >= 5
    assert rig.node("a").health == "SUSPECT"
    let_go.set()
    await rig.clock.advance(1)
    assert rig.node("a").health == "READY"


async def test_polls_are_spread_around_their_period(rig: Rig) -> None:
    await rig.register("a")
    await rig.clock.advance(1_000)
    assert 95 <= rig.workers.asked["a:7004"] <= 106


async def test_a_worker_at_a_new_address_is_asked_there(rig: Rig) -> None:
    await rig.register("a")
    await rig.clock.advance(12)
    rig.workers.statuses["elsewhere:7004"] = a_status("a", 2)
    await rig.nodes.register(pb.RegisterNodeRequest(node_id="a", incarnation=2, address="elsewhere:7004"))
    asked = rig.workers.asked["a:7004"]
    await rig.clock.advance(25)
    assert rig.workers.asked["a:7004"] == asked
    assert rig.workers.asked["elsewhere:7004"] >= 2
    assert rig.workers.forgotten == ["a:7004"]


async def test_a_returned_gpu_is_known_at_once(rig: Rig) -> None:
    await rig.register("a")
    status = rig.workers.statuses["a:7004"]
    status.capacity.gpus.add(uuid="GPU-8", sick=True, fault="xid_error")
    status.capacity.gpus.add(uuid="GPU-9", sick=True, fault="row_remap_failed")
    await rig.clock.advance(12)

    async def wish(node: str, uuid: str) -> bool:
        return (await rig.poller.return_gpu(pb.ReturnGpuRequest(node_id=node, uuid=uuid, by="root"))).returned

    with rig.hub.watch(rig.nodes.view()) as watch:
        assert await wish("a", "GPU-8")
        (told,) = await watch.next()
    assert [gpu.fault for gpu in told.nodes[0].status.capacity.gpus] == ["", "", "row_remap_failed"]
    assert not await wish("a", "GPU-9")
    with pytest.raises(NotFound, match="no node 'b'"):
        await wish("b", "GPU-8")
    rig.workers.away.add("a:7004")
    with pytest.raises(Unavailable):
        await wish("a", "GPU-9")


async def test_an_older_incarnation_is_refused_everywhere(rig: Rig) -> None:
    await rig.register("a", incarnation=5)
    with pytest.raises(Fenced):
        await rig.nodes.register(pb.RegisterNodeRequest(node_id="a", incarnation=4, address="x:1"))
    with pytest.raises(Fenced):
        await rig.nodes.report(a_status("a", 4))
    await rig.nodes.on_answer("a", a_status("a", 4, cpu=100), rig.clock.monotonic())
    assert rig.node("a").status.capacity.cpu_centi == 800
    assert rig.node("a").incarnation == 5


async def test_what_one_worker_says_never_keeps_people_from_seeing_the_others(rig: Rig) -> None:
    """All nodes are told in one message of 4 MiB. Whoever has one Worker's certificate could fill it."""
    await rig.register("a")
    await rig.register("b")
    good = pb.RegisterNodeRequest(node_id="a", incarnation=2, address="a:7004", status=a_status("a", 2), version="0.1")
    large = a_status("a", 2)
    large.images.extend(["x" * 1_000] * 1_000)
    for wrong in (
        pb.RegisterNodeRequest(address="a" * 301),
        pb.RegisterNodeRequest(version="1" * 301),
        pb.RegisterNodeRequest(labels={"room": "x" * 20_000}),
        pb.RegisterNodeRequest(status=large),
    ):
        request = pb.RegisterNodeRequest()
        request.CopyFrom(good)
        request.MergeFrom(wrong)
        with pytest.raises(InvalidInput):
            await rig.nodes.register(request)
    large.incarnation = 1
    with pytest.raises(InvalidInput, match="A status has"):
        await rig.nodes.report(large)
    rig.workers.statuses["a:7004"] = large
    await rig.clock.advance(35)
    assert (rig.node("a").health, rig.node("b").health) == ("SUSPECT", "READY")
    assert "A status has" in rig.node("a").health_sentence
    assert sum(node.ByteSize() for node in rig.nodes.view()) < 10_000


async def test_a_worker_is_asked_to_register_when_it_is_not_known(rig: Rig) -> None:
    assert not await rig.nodes.report(a_status("a"))
    await rig.register("a")
    assert await rig.nodes.report(a_status("a", live=3))
    assert rig.node("a").status.live_attempts == 3
    assert not await rig.nodes.report(a_status("a", 2))


async def test_after_a_restart_nodes_are_suspect_until_seen(tmp_path: Path, clock: FakeClock) -> None:
    async with a_rig(tmp_path, clock) as rig:
        await rig.register("a")
        await rig.register("b")
        await rig.nodes.set_admission("a", AdmissionEvent.CORDON, "fan is loud", "root")
    async with a_rig(tmp_path, clock) as rig:
        assert [node.health for node in rig.nodes.view()] == ["SUSPECT", "SUSPECT"]
        assert rig.node("a").status.capacity.cpu_centi == 800
        rig.workers.statuses["a:7004"] = a_status("a", 1)
        rig.workers.away.add("b:7004")
        await rig.clock.advance(2)
        assert (rig.node("a").health, rig.node("a").admission) == ("READY", "CORDONED")
        assert rig.node("a").note == "fan is loud"
        assert rig.node("b").health == "SUSPECT"
        # Its Worker was restarted meanwhile and its registration got lost: the poll tells as well.
        rig.workers.statuses["a:7004"] = a_status("a", 9)
        await rig.clock.advance(12)
        assert rig.node("a").incarnation == 9


async def test_a_drain_ends_with_the_first_empty_answer_asked_for_after_it_began(rig: Rig) -> None:
    await rig.register("a", live=0)
    asked_before = rig.clock.monotonic()
    rig.clock.tick(0.5)
    assert (await rig.nodes.set_admission("a", AdmissionEvent.DRAIN, "new disk", "root")).node.admission == "DRAINING"
    await rig.nodes.on_answer("a", a_status("a", live=0), asked_before)
    assert rig.node("a").admission == "DRAINING"
    rig.workers.statuses["a:7004"] = a_status("a", live=2)
    await rig.clock.advance(15)
    assert rig.node("a").admission == "DRAINING"
    rig.workers.statuses["a:7004"] = a_status("a", live=0)
    await rig.clock.advance(12)
    await eventually(lambda: rig.node("a").admission == "DRAINED")
    # The Worker is restarted with its new disk: what was said of the node stays.
    await rig.register("a", incarnation=2)
    assert (rig.node("a").admission, rig.node("a").note) == ("DRAINED", "new disk")
    opened = (await rig.nodes.set_admission("a", AdmissionEvent.UNCORDON, "", "root")).node
    assert (opened.admission, opened.note) == ("OPEN", "")


async def test_only_a_dead_node_is_forgotten_and_then_asked_no_more(rig: Rig) -> None:
    await rig.register("a")
    with pytest.raises(Conflict):
        await rig.nodes.forget("a")
    rig.workers.away.add("a:7004")
    await rig.clock.advance(100)
    assert rig.node("a").health == "DOWN"
    await rig.nodes.forget("a")
    await rig.clock.advance(1)
    asked = rig.workers.asked["a:7004"]
    await rig.clock.advance(60)
    assert rig.workers.asked["a:7004"] == asked
    assert rig.workers.forgotten == ["a:7004"]
    with pytest.raises(NotFound):
        rig.node("a")


async def test_watchers_get_all_nodes_and_then_only_what_matters(rig: Rig) -> None:
    await rig.register("a")
    with rig.hub.watch(rig.nodes.view()) as watch:
        first = list(watch.first())
        assert [(m.reset, [n.id for n in m.nodes]) for m in first] == [(True, ["a"])]
        for used in (0.1, 0.7, 0.3):
            rig.workers.statuses["a:7004"] = a_status("a", used=used)
            await rig.clock.advance(12)
        assert unread(watch) == {}
        assert rig.node("a").status.cpu_used == pytest.approx(0.3)
        rig.workers.statuses["a:7004"] = a_status("a", cpu=400)
        await rig.clock.advance(12)
        assert unread(watch) == {"a": "READY"}
        rig.workers.away.add("a:7004")
        await rig.clock.advance(120)
        messages = await watch.next()
        assert [n.health for m in messages for n in m.nodes] == ["DOWN"]
        await rig.nodes.forget("a")
        assert [list(m.removed) for m in await watch.next()] == [["a"]]


def unread(watch: NodeSubscription) -> dict[str, str]:
    found = {name: node.health for name, node in watch._unread.items() if node is not None}
    watch._unread.clear()
    watch._ready.clear()
    return found


async def test_an_empty_cluster_resets_its_watchers_too(rig: Rig) -> None:
    with rig.hub.watch(rig.nodes.view()) as watch:
        assert [m.reset for m in watch.first()] == [True]


async def usage_of(rig: Rig, since: float, until: float = 0, points: int = 5000) -> list[pb.UsagePoint]:
    found, _ = await rig.nodes.usage("a", since, until, points)
    return found


async def test_usage_is_there_before_and_after_it_is_written(rig: Rig) -> None:
    await rig.register("a")
    since = rig.clock.now()
    await rig.clock.advance(300)
    before = await usage_of(rig, since)
    assert 28 <= len(before) <= 33
    await rig.nodes.flush()
    after = await usage_of(rig, since)
    assert [p.at for p in after] == [p.at for p in before]
    assert after[0].gpus[0].utilisation == 1.0
    assert len(await usage_of(rig, since, points=5)) <= 5
    assert not await usage_of(rig, since - 100, since - 50)
    with pytest.raises(InvalidInput, match="lies after"):
        await usage_of(rig, since, since - 1)


class History:
    """A node's readings over days, without its Worker."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig

    async def go_on(self, hours: float) -> None:
        """As ResourceManager does: a reading each 20 s, written each minute, rolled up every ten."""
        for minute in range(round(hours * 60)):
            for _ in range(3):
                self.rig.clock.tick(20)
                now = self.rig.clock.now()
                spike = 8.0 if now // 3600 % 2 and now % 3600 < 20 else 1.0
                self.rig.nodes.history.add("a", pb.UsagePoint(at=now, cpu_used=spike, live_attempts=1))
            await self.rig.nodes.flush()
            if minute % 10 == 9:
                await self.rig.nodes.roll_up()

    async def rows(self) -> dict[float, int]:
        def count(conn: Connection) -> dict[float, int]:
            query = select(usage_block.c.span_s, func.count()).group_by(usage_block.c.span_s)
            return {row[0]: row[1] for row in conn.execute(query)}

        return await self.rig.db.read(count)


@pytest.mark.slow
async def test_hours_days_and_years_have_their_roll_ups_and_rows_stay_few(tmp_path: Path, clock: FakeClock) -> None:
    async with a_rig(tmp_path, clock) as rig:
        await rig.register("a")
        rig.workers.away.add("a:7004")
        story = History(rig)
        began = clock.now()
        await story.go_on(hours=27)
    # What is being rolled up when ResourceManager ends is not lost with it.
    async with a_rig(tmp_path, clock) as rig:
        story = History(rig)
        await story.go_on(hours=3)
        now = clock.now()
        seconds, minutes, hours = [await rig.nodes.usage("a", now - s, 0, 5000) for s in (3_600, 86_400, 7 * 86_400)]
        assert [level.span_s for _, level in (seconds, minutes, hours)] == [0, 60, 3_600]
        assert 178 <= len(seconds[0]) <= 181
        assert 1_439 <= len(minutes[0]) <= 1_441
        assert 30 <= len(hours[0]) <= 32
        for points, level in (minutes, hours):
            steps = {round(b.at - a.at) for a, b in pairwise(points[:-1])}
            assert steps == {level.span_s}
            assert {round(p.peak.cpu_used) for p in points} == {1, 8}, "a spike of seconds is still seen"
            assert points[-1].at <= now
        assert hours[0][0].at >= began - 3_600
        # An hour of rows of a minute, a day of rows of ten minutes, a row a day.
        rows = await story.rows()
        assert rows[0.0] <= 76
        assert rows[60.0] <= 147
        assert rows[3_600.0] <= 3
        clock.tick(399 * 86_400)
        await rig.nodes.roll_up()
        kept, level = await rig.nodes.usage("a", now - 7 * 86_400, 0, 5000)
        assert 24 <= len(kept) <= 32
        assert level.span_s == 3_600
        clock.tick(3 * 86_400)
        await rig.nodes.roll_up()
        assert await story.rows() == {}


async def test_a_clock_set_back_leaves_no_gap_and_no_future(rig: Rig) -> None:
    await rig.register("a")
    rig.workers.away.add("a:7004")
    story = History(rig)
    began = rig.clock.now()
    await story.go_on(hours=1)
    rig.clock.step_wall(-1_800)
    await story.go_on(hours=2)
    points, level = await rig.nodes.usage("a", began, 0, 5000)
    assert level.span_s == 60
    assert {round(b.at - a.at) for a, b in pairwise(points[:-1])} == {60}


async def test_readings_of_an_earlier_version_are_still_shown(rig: Rig) -> None:
    await rig.register("a")
    rig.workers.away.add("a:7004")
    now = rig.clock.now()

    def of_before(conn: Connection) -> None:
        for back_s, span_s in ((5 * 86_400, 300.0), (7_200, 0.0)):
            point = pb.UsagePoint(at=now - back_s, cpu_used=2.5)
            data = {"node_id": "a", "at": point.at, "span_s": span_s, "reading": point.SerializeToString()}
            conn.execute(insert(usage), data)

    await rig.db.write(of_before)
    await History(rig).go_on(hours=0.5)
    week, _ = await rig.nodes.usage("a", now - 7 * 86_400, 0, 500)
    assert [p.cpu_used for p in week[:2]] == [2.5, 2.5]
    day, level = await rig.nodes.usage("a", now - 80_000, 0, 500)
    assert (day[0].at, level.span_s) == (now - 7_200, 60)
    rig.clock.tick(401 * 86_400)
    await rig.nodes.roll_up()
    assert await usage_of(rig, 0) == []


async def test_a_full_disk_loses_no_reading_and_no_node(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.register("a")
    await rig.clock.advance(60)

    async def full(work: object) -> None:
        raise StoreFull

    with monkeypatch.context() as patched:
        patched.setattr(rig.db, "write", full)
        with pytest.raises(StoreFull):
            await rig.nodes.flush()
        with pytest.raises(StoreFull):
            await rig.nodes.set_admission("a", AdmissionEvent.CORDON, "", "root")
    assert rig.node("a").admission == "OPEN"
    waiting = await usage_of(rig, 0)
    assert waiting
    await rig.nodes.flush()
    assert await usage_of(rig, 0) == waiting
