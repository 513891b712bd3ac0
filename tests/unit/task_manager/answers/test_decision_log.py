"""The decision log of a real queue: what it says, how it grows, that it is forgotten, and that it replays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from headway.errors import InvalidInput, NotFound, StoreFull
from headway.rpc.v1 import task_manager_pb2 as pb
from headway.store import Database
from task_manager.answers.decision_log import DecisionLog
from task_manager.decisions import frames
from task_manager.decisions.frames import Frame
from task_manager.limits import AdmissionLimits
from task_manager.order import policy_registry
from task_manager.planning.pass_model import Discipline
from task_manager.store import decision_store, tables
from tests.support.clock import FakeClock
from tests.support.postgres import Postgres
from tests.unit.task_manager.rig import SETTINGS, TaskManagerRig, a_node, a_task, a_task_manager, tid

BARE = replace(SETTINGS, start_limit_s=0.0, stop_limit_s=0.0)
DAY_S = 86_400.0


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "tm.db")
    server: Postgres = request.getfixturevalue("postgres")
    return server.url(server.new_database())


@pytest.fixture
async def rig(url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    async with a_task_manager(tmp_path, clock, url=url, settings=BARE) as made:
        yield made


async def history(rig: TaskManagerRig, name: str, limit: int = 0, before: int = 0) -> pb.ListDecisionsReply:
    return await DecisionLog(rig.db, rig.clock, 7).of_task(tid(name), limit=limit, before=before)


async def kept(rig: TaskManagerRig) -> list[Frame]:
    last = await rig.db.read(decision_store.last_id)
    found = await rig.db.read(lambda conn: list(decision_store.frames(conn, 1, last)))
    return [frame for _, _, frame in found]


async def test_a_limit_that_was_reached_is_told_beside_what_had_to_come_free(tmp_path: Path, clock: FakeClock) -> None:
    now = clock.now()
    settings = replace(BARE, limits=AdmissionLimits(running_gpus_per_user=1))
    async with a_task_manager(tmp_path, clock, settings=settings) as rig:
        await rig.nodes(a_node(gpus=1))
        await rig.enqueue(
            a_task("first", gpus=1, at=now, timeout=100), a_task("second", gpus=1, at=now + 1, timeout=100)
        )
        (one,) = (await history(rig, "second")).passes
        assert [reason.word for reason in one.reasons] == ["user_limit", "waiting_for_gpu"]
        assert one.reasons[0].sentence.startswith("ann holds 1 of the 1 GPUs that one account may hold at a time")


async def test_why_one_went_before_another(rig: TaskManagerRig) -> None:
    now = rig.clock.now()
    await rig.nodes(a_node(gpus=2))
    await rig.enqueue(a_task("first", gpus=1, at=now, timeout=100))
    await rig.enqueue(a_task("large", gpus=2, at=now, timeout=100))
    await rig.enqueue(a_task("small", gpus=1, at=now + 1, timeout=90))
    await rig.enqueue(a_task("urgent", gpus=1, at=now + 2, timeout=90, priority=1))
    assert {a.task.name for a in rig.running()} == {"first", "small"}

    passes = (await history(rig, "large")).passes
    assert [[s.task.name for s in one.started] for one in passes] == [["small"]]
    (small,) = passes[0].started
    assert small.ahead
    assert small.node_id == "n1"
    assert len(small.gpu_uuids) == 1
    assert small.sentence == (
        f"{tid('small')} was ahead of {tid('large')}: its order number is {now + 91:.0f}, the other's "
        f"{now + 100:.0f}, and the smallest goes first (aging_sjf)."
    )
    assert (passes[0].place, passes[0].key) == (2, now + 100)
    assert [reason.word for reason in passes[0].reasons] == ["waiting_for_gpu"]
    assert passes[0].reserved_start == pytest.approx(now + 100, abs=1)

    await rig.end(rig.only_attempt(tid("small")))
    passes = (await history(rig, "large")).passes
    assert [[s.task.name for s in one.started] for one in passes] == [["urgent"], ["small"]]
    assert passes[0].started[0].sentence == f"{tid('urgent')} has the higher priority."
    (own,) = (await history(rig, "urgent")).passes
    assert own.started_itself
    assert [s.sentence for s in own.started] == [""]


async def test_what_went_past_says_why(rig: TaskManagerRig) -> None:
    now = rig.clock.now()
    await rig.nodes(a_node(gpus=2))
    await rig.enqueue(a_task("first", gpus=1, at=now, timeout=1_000))
    await rig.enqueue(a_task("large", gpus=2, at=now, timeout=100))
    await rig.enqueue(a_task("short", gpus=1, at=now + 500, timeout=60))
    (one,) = (await history(rig, "large")).passes
    assert not one.started[0].ahead
    assert one.started[0].sentence == (
        f"{tid('short')} was behind {tid('large')} but started on n1: it could start without delaying any "
        f"reservation, and {tid('large')} could not."
    )


async def test_under_greedy_and_a_rule_that_re_sorts(tmp_path: Path, clock: FakeClock) -> None:
    now = clock.now()
    settings = replace(BARE, discipline=Discipline.GREEDY, policy="hrrn")
    async with a_task_manager(tmp_path, clock, settings=settings, order=policy_registry.by_name("hrrn")) as rig:
        await rig.nodes(a_node(gpus=2))
        await rig.enqueue(a_task("first", gpus=1, at=now, timeout=1_000))
        await rig.enqueue(a_task("large", gpus=2, at=now, timeout=100))
        await rig.enqueue(a_task("small", gpus=1, at=now, timeout=5_000))
        (one,) = (await history(rig, "large")).passes
        assert (one.policy, one.discipline, one.place) == ("hrrn", "greedy", 1)
        assert one.key == pytest.approx(-0.6, abs=0.1)
        assert "the overtaking rule greedy" in one.started[0].sentence
        for frame in await kept(rig):
            assert frames.decides_the_same(frame, frames.replay(frame))


async def test_pages_of_passes(rig: TaskManagerRig) -> None:
    now = rig.clock.now()
    await rig.nodes(a_node(gpus=1))
    await rig.enqueue(a_task("last", gpus=1, at=now + 9_000, timeout=100), a_task("t0", gpus=1, at=now))
    for i in range(1, 6):
        await rig.enqueue(a_task(f"t{i}", gpus=1, at=now))
        await rig.end(rig.only_attempt(tid(f"t{i - 1}")))
    first = await history(rig, "last", limit=2)
    assert [one.started[0].task.name for one in first.passes] == ["t5", "t4"]
    second = await history(rig, "last", limit=2, before=first.next_before)
    assert [one.started[0].task.name for one in second.passes] == ["t3", "t2"]
    third = await history(rig, "last", limit=2, before=second.next_before)
    assert [one.started[0].task.name for one in third.passes] == ["t1", "t0"]
    assert third.next_before == 0
    with pytest.raises(InvalidInput):
        await history(rig, "last", limit=201)
    with pytest.raises(NotFound):
        await history(rig, "nobody")


async def test_the_log_of_a_life_replays_also_over_restarts_and_whole_frames(rig: TaskManagerRig) -> None:
    now = rig.clock.now()
    await rig.nodes(a_node(gpus=2), a_node("n2", gpus=2))
    await rig.enqueue(*(a_task(f"w{i}", gpus=2, at=now + i, timeout=200.0 + i) for i in range(4)))
    for i in range(80):
        await rig.enqueue(a_task(f"t{i:03d}", gpus=1, at=now - 1_000 + i, timeout=50.0))
        if i in (20, 50):
            await rig.restart()
            await rig.nodes(a_node(gpus=2), a_node("n2", gpus=2))
        await rig.clock.advance(1)
        for attempt in rig.running():
            node = rig.engine.state.attempts[attempt.task].node_id
            await rig.end(attempt, node=node)
            break
    frames_there = await kept(rig)
    assert len(frames_there) > 70
    for frame in frames_there:
        assert frame.head.whole
        assert frames.decides_the_same(frame, frames.replay(frame))
    bases = await rig.db.read(lambda conn: list(conn.execute(select(tables.decisions.c.base).distinct()).scalars()))
    assert len(bases) >= 3, "a start begins with a whole frame"


async def test_old_passes_are_forgotten_but_not_what_younger_ones_build_upon(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node(gpus=1))
    log = DecisionLog(rig.db, rig.clock, 7)
    for name in "abc":
        await rig.beat()
        await rig.enqueue(a_task(name, gpus=1))
        await rig.end(rig.only_attempt(tid(name)))
        assert await log.forget() == (1 if name == "c" else 0)
        await rig.clock.advance(4 * DAY_S)
    before = [frame.placements[0].task_id.name for frame in await kept(rig)]
    assert before == ["b", "c"], "an hour apart each is whole, so `a` is nobody's base"
    await rig.clock.advance(30 * DAY_S)
    assert await log.forget() == 2
    assert (await history(rig, "c")).passes[:] == []


async def test_a_turn_that_is_not_stored_leaves_no_trace_in_the_log(
    rig: TaskManagerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await rig.nodes(a_node(gpus=2))
    await rig.enqueue(a_task("a", gpus=1))
    write = Database.write

    async def full(self: Database, work: object) -> None:
        raise StoreFull("no space")

    monkeypatch.setattr(Database, "write", full)
    with pytest.raises(StoreFull):
        await rig.enqueue(a_task("b", gpus=1))
    monkeypatch.setattr(Database, "write", write)
    await rig.enqueue(a_task("b", gpus=1))
    there = await kept(rig)
    assert [frame.placements[0].task_id.name for frame in there] == ["a", "b"]
    assert all(frames.decides_the_same(frame, frames.replay(frame)) for frame in there)


async def test_without_days_nothing_is_kept(tmp_path: Path, clock: FakeClock) -> None:
    async with a_task_manager(tmp_path, clock, settings=replace(BARE, decisions_days=0)) as rig:
        await rig.nodes(a_node())
        await rig.enqueue(a_task("a"))
        assert await kept(rig) == []


async def test_what_this_version_cannot_read_is_passed_over(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node(gpus=1))
    await rig.enqueue(a_task("t0", gpus=1))
    await rig.enqueue(*(a_task(f"t{i}", gpus=1, at=float(i)) for i in range(1, 6)))
    for i in range(3):
        await rig.end(rig.only_attempt(tid(f"t{i}")))
    spoil = tables.decisions.update().where(tables.decisions.c.id == 2).values(frame=b"of tomorrow")
    await rig.db.write(lambda conn: conn.execute(spoil))
    assert [frame.placements[0].task_id.name for frame in await kept(rig)] == ["t0"]
    await rig.restart()
    await rig.nodes(a_node(gpus=1))
    await rig.end(rig.only_attempt(tid("t3")))
    assert [frame.placements[0].task_id.name for frame in await kept(rig)] == ["t0", "t4"]
    assert [one.started[0].task.name for one in (await history(rig, "t5")).passes] == ["t4"]
