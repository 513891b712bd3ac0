"""Policy and discipline on a running queue: set, stored, taken back; a policy that fails; what policies have learnt."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.errors import InvalidInput, StoreFull
from headway.rpc.v1 import task_manager_pb2 as pb
from headway.store import Database
from task_manager.engine.events import SetScheduling, StopPlanned
from task_manager.model import Task
from task_manager.order import policy_registry
from task_manager.order.dynamic_policies import Adaptive
from task_manager.order.policy import AgingSjf, Policy, View
from task_manager.planning.pass_model import Discipline
from tests.support.clock import FakeClock
from tests.support.postgres import Postgres
from tests.unit.task_manager.rig import SETTINGS, TaskManagerRig, a_node, a_task, a_task_manager, exited, tid

BARE = replace(
    SETTINGS, start_limit_s=0.0, stop_limit_s=0.0, policy="aging_sjf", policy_defaults={"aging_sjf": {"beta": 2.0}}
)


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


async def a_queue(rig: TaskManagerRig) -> None:
    """One card; under the configured rule the order is run, b, a."""
    now = rig.clock.now()
    await rig.nodes(a_node(gpus=1))
    await rig.enqueue(a_task("run", gpus=1, at=now - 500, timeout=100))
    await rig.enqueue(a_task("a", gpus=1, at=now, timeout=300), a_task("b", gpus=1, at=now + 10, timeout=50))


async def put(rig: TaskManagerRig, policy: str | None = None, discipline: str | None = None) -> None:
    await rig.engine.submit(SetScheduling(policy, discipline, "root"))
    await rig.settle()


async def seen(rig: TaskManagerRig) -> tuple[list[str], pb.Scheduling]:
    reply = await rig.queries.queue(pb.GetQueueRequest())
    return [entry.task.name for entry in reply.entries], reply.scheduling


async def test_a_policy_is_set_survives_restarts_and_is_taken_back(rig: TaskManagerRig) -> None:
    await a_queue(rig)
    order, told = await seen(rig)
    assert order == ["b", "a"]
    assert (told.policy, told.policy_set_by, told.configured_policy) == ("aging_sjf", "", "aging_sjf")
    await put(rig, "log_aging:c=1")
    for _ in range(2):
        order, told = await seen(rig)
        assert order == ["a", "b"]
        assert (told.policy, told.policy_set_by, told.configured_policy) == ("log_aging:c=1", "root", "aging_sjf")
        assert told.policy_set_at == pytest.approx(rig.clock.now(), abs=60)
        assert rig.running() == [rig.only_attempt(tid("run"))]
        await rig.restart()
    await put(rig, "default")
    order, told = await seen(rig)
    assert order == ["b", "a"]
    assert (told.policy, told.policy_set_by) == ("aging_sjf", "")
    await rig.restart()
    assert (await seen(rig))[0] == ["b", "a"]


async def test_white_space_around_is_no_part_of_what_is_set(rig: TaskManagerRig) -> None:
    await put(rig, " log_aging:c=1\n", "easy ")
    _, told = await seen(rig)
    assert (told.policy, told.discipline) == ("log_aging:c=1", "easy")
    await put(rig, "default ", " default")
    _, told = await seen(rig)
    assert (told.policy_set_by, told.discipline_set_by) == ("", "")


async def test_parameters_of_the_configuration_count_for_a_policy_by_its_name(rig: TaskManagerRig) -> None:
    await put(rig, "aging_sjf")
    assert rig.engine.state.policy == policy_registry.by_name("aging_sjf:beta=2")
    await put(rig, "aging_sjf:beta=3")
    assert rig.engine.state.policy == policy_registry.by_name("aging_sjf:beta=3")


async def test_a_discipline_is_set_and_counts_at_once(rig: TaskManagerRig) -> None:
    now = rig.clock.now()
    await rig.nodes(a_node(gpus=2))
    await rig.enqueue(a_task("first", gpus=1, at=now, timeout=100))
    await rig.enqueue(a_task("large", gpus=2, at=now, timeout=100), a_task("long", gpus=1, at=now, timeout=900))
    assert [a.task.name for a in rig.running()] == ["first"]
    await put(rig, discipline="greedy")
    assert [a.task.name for a in rig.running()] == ["first", "long"]
    await rig.restart()
    _, told = await seen(rig)
    assert (told.discipline, told.discipline_set_by, told.configured_discipline) == ("greedy", "root", "conservative")
    await put(rig, discipline="default")
    assert rig.engine.settings.discipline is Discipline.CONSERVATIVE


async def test_the_constant_of_log_aging_is_that_of_the_tasks_arrival_and_survives_a_restart(
    rig: TaskManagerRig,
) -> None:
    await a_queue(rig)  # 100, 300 and 50 s
    await put(rig, "log_aging")

    async def constants() -> dict[str, float]:
        reply = await rig.queries.queue(pb.GetQueueRequest())
        return {entry.task.name: entry.terms["c"] for entry in reply.entries}

    assert await constants() == {"a": 800.0, "b": 800.0}, "too few have come"
    now = rig.clock.now()
    await rig.enqueue(*[a_task(f"t{i:02}", gpus=1, at=now, timeout=150) for i in range(21)])
    await rig.enqueue(a_task("x", gpus=1, at=now, timeout=400))
    assert (await constants())["x"] == 12 * 160.0
    await rig.enqueue(a_task("y", gpus=1, at=now, timeout=680))
    came = await constants()
    assert (came["a"], came["x"], came["y"]) == (800.0, 12 * 160.0, 12 * 180.0), "those of the others stay"
    await rig.restart()
    assert await constants() == came
    await rig.enqueue(a_task("z", gpus=1, at=now, timeout=720))
    assert (await constants())["z"] == 12 * 200.0, "the mean goes on from what is stored"


@pytest.mark.parametrize(
    ("policy", "discipline", "want"),
    [
        ("lottery", None, "There is no scheduling policy 'lottery'; there are"),
        ("log_aging:d=2", None, "Policy 'log_aging' has no parameter 'd'; it has c, means."),
        (
            "fifo",
            "loose",
            "There is no overtaking rule 'loose'; there are conservative, easy, greedy, strict, and default.",
        ),
    ],
)
async def test_what_is_unknown_is_refused_and_changes_nothing(
    tmp_path: Path, clock: FakeClock, policy: str, discipline: str | None, want: str
) -> None:
    async with a_task_manager(tmp_path, clock, settings=BARE) as rig:
        await a_queue(rig)
        before = await seen(rig)
        with pytest.raises(InvalidInput) as refused:
            await put(rig, policy, discipline)
        assert want in str(refused.value)
        assert await seen(rig) == before
        await rig.restart()
        assert await seen(rig) == before


@pytest.mark.parametrize("policy", ["hrrn", "fair", "sjf"])
@pytest.mark.parametrize("discipline", ["conservative", "greedy", "strict"])
async def test_a_promise_stays_whatever_is_set(
    tmp_path: Path, clock: FakeClock, policy: str, discipline: str, caplog: pytest.LogCaptureFixture
) -> None:
    now = clock.now()
    async with a_task_manager(tmp_path, clock, settings=BARE) as rig:
        await rig.nodes(a_node(gpus=1))
        await rig.enqueue(a_task("run", gpus=1, at=now, timeout=600))
        await rig.enqueue(a_task("long", gpus=1, at=now - 1_000, timeout=300))
        promised = (await rig.queries.explain(tid("long"))).promised_start
        assert promised == pytest.approx(now + 600, abs=2)
        await put(rig, policy, discipline)
        for i in range(3):
            await rig.enqueue(a_task(f"short{i}", gpus=1, at=now + 10, timeout=20, priority=i))
        assert (await rig.queries.explain(tid("long"))).promised_start <= promised
        await rig.restart()
        await rig.nodes(a_node(gpus=1))
        await rig.end(rig.only_attempt(tid("run")))
        while "long" not in [a.task.name for a in rig.running()]:
            (running,) = rig.running()
            await rig.clock.advance(19)
            await rig.beat()
            await rig.end(running)
        assert rig.clock.now() <= promised
        assert "promise.moved" not in caplog.messages


async def test_a_turn_that_is_not_stored_sets_nothing(rig: TaskManagerRig, monkeypatch: pytest.MonkeyPatch) -> None:
    await a_queue(rig)
    before = await seen(rig)
    write = Database.write

    async def full(self: Database, work: object) -> None:
        raise StoreFull("no space")

    monkeypatch.setattr(Database, "write", full)
    with pytest.raises(StoreFull):
        await put(rig, "fifo", "greedy")
    assert await seen(rig) == before
    monkeypatch.setattr(Database, "write", write)
    await put(rig, "fifo")
    assert (await seen(rig))[0] == ["a", "b"]


async def test_what_a_policy_has_learnt_outlives_a_planned_stop_and_a_change(tmp_path: Path, clock: FakeClock) -> None:
    order = Adaptive()
    async with a_task_manager(tmp_path, clock, settings=replace(BARE, policy="adaptive"), order=order) as rig:
        await a_queue(rig)
        await rig.report(rig.only_attempt(tid("run")), "PROCESS_STARTED", process_started_at=clock.now())
        await _end_after(rig, "run", 25.0)
        assert order.rho == pytest.approx(0.25)
        await rig.engine.submit(StopPlanned())
        rig.order = Adaptive()
        await rig.restart()
        assert rig.order.rho == pytest.approx(0.25)
        await put(rig, "fifo")
        await put(rig, "adaptive:c_min=10")
        acting = rig.engine.state.policy
        assert isinstance(acting, Adaptive)
        assert (acting.c_min, acting.rho) == (10.0, pytest.approx(0.25))


async def _end_after(rig: TaskManagerRig, name: str, seconds: float) -> None:
    attempt = rig.only_attempt(tid(name))
    await rig.report(attempt, "PROCESS_STARTED", process_started_at=rig.clock.now())
    rig.workers.has["n1:7004"].pop(attempt, None)
    await rig.report(attempt, "SUCCEEDED", reason=exited(0), run_s=seconds)


async def test_it_is_also_saved_now_and_then(tmp_path: Path, clock: FakeClock) -> None:
    async with a_task_manager(tmp_path, clock, settings=replace(BARE, policy="adaptive"), order=Adaptive()) as rig:
        await a_queue(rig)
        await _end_after(rig, "run", 50.0)
        await rig.advance(61, beats=["n1"])
        rig.order = Adaptive()
        await rig.restart()
        assert rig.order.rho == pytest.approx(0.5)


class Broken(Policy):
    """Somebody else's, that fails in every way once it is told to."""

    name = "broken"
    static = False
    fails: str = ""

    def key(self, task: Task, now: float, view: View | None) -> float:
        if self.fails == "raise":
            raise RuntimeError("no licence")
        if self.fails == "exit":
            raise SystemExit("no licence")
        return math.nan if self.fails == "nan" else task.submitted_at

    def terms(self, task: Task, now: float) -> dict[str, float]:
        raise SystemExit("no words") if self.fails == "exit" else RuntimeError("no words")

    def state(self) -> dict[str, Any]:
        if self.fails == "exit":
            raise SystemExit("no state")
        return {"set": {1}}

    def restore(self, state: Mapping[str, Any]) -> None:
        raise SystemExit("no memory") if self.fails == "exit" else RuntimeError("no memory")


class Wordy(AgingSjf):
    """Tells more than anybody wants to know."""

    name = "wordy"

    def terms(self, task: Task, now: float) -> dict[str, float]:
        return {"\ud800": 1.0, "a\nb": 2.0, "good": 3.0, "odd": math.nan} | {f"t{i}": 4.0 for i in range(100_000)}


async def test_of_the_terms_of_a_policy_only_what_can_be_shown_is_told(tmp_path: Path, clock: FakeClock) -> None:
    async with a_task_manager(tmp_path, clock, settings=BARE, order=Wordy()) as rig:
        await a_queue(rig)
        reply = await rig.queries.queue(pb.GetQueueRequest())
        told = dict(reply.entries[0].terms)
        assert told["good"] == 3.0
        assert set(told) == {"good", *(f"t{i}" for i in range(16))}
        assert pb.GetQueueReply.FromString(reply.SerializeToString()) == reply


@pytest.mark.parametrize("how", ["raise", "nan", "exit"])
async def test_a_policy_that_fails_is_told_and_loses_nothing(tmp_path: Path, clock: FakeClock, how: str) -> None:
    order = Broken()
    async with a_task_manager(tmp_path, clock, settings=replace(BARE, policy="broken"), order=order) as rig:
        await a_queue(rig)
        names, told = await seen(rig)
        assert (names, told.failure) == (["a", "b"], "")
        order.fails = how
        await rig.enqueue(a_task("c", gpus=1, at=clock.now() + 1_000, timeout=20))
        names, told = await seen(rig)
        assert names == ["b", "a", "c"], "aging_sjf stands in"
        want = "its key is nan" if how == "nan" else "no licence"
        assert want in told.failure
        assert told.failure.endswith("aging_sjf orders the queue until it works again")
        await rig.engine.submit(StopPlanned())
        await rig.restart()
        assert (await seen(rig))[0] == ["b", "a", "c"]
        order.fails = ""
        await rig.nodes(a_node(gpus=1))
        await rig.end(rig.only_attempt(tid("run")))
        names, told = await seen(rig)
        assert (names, told.failure) == (["b", "c"], "")
        assert [a.task.name for a in rig.running()] == ["a"]


async def test_a_policy_acts_again_once_what_it_failed_at_is_cancelled(tmp_path: Path, clock: FakeClock) -> None:
    order = Broken()
    async with a_task_manager(tmp_path, clock, settings=replace(BARE, policy="broken"), order=order) as rig:
        await a_queue(rig)
        order.fails = "nan"
        await rig.enqueue(a_task("c", gpus=1, at=clock.now() + 1_000, timeout=20))
        order.fails = ""
        assert (await seen(rig))[0] == ["b", "a", "c"]
        await rig.cancel(tid("c"))
        names, told = await seen(rig)
        assert (names, told.failure) == (["a", "b"], "")
        order.fails = "nan"
        await rig.enqueue(a_task("d", gpus=1, at=clock.now() + 1_000, timeout=20))
        for name in ("a", "b", "d"):
            assert "its key is nan" in (await seen(rig))[1].failure
            await rig.cancel(tid(name))
        names, told = await seen(rig)
        assert (names, told.failure) == ([], ""), "of an empty queue there is nothing to be told"


async def test_a_policy_that_is_gone_leaves_the_queue_as_configured(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_task_manager(tmp_path, clock, settings=BARE) as rig:
        monkeypatch.setitem(policy_registry.BUILT_IN, "passing", Broken)
        await a_queue(rig)
        await put(rig, "passing")
        assert (await seen(rig))[0] == ["a", "b"]
        monkeypatch.delitem(policy_registry.BUILT_IN, "passing")
        await rig.restart()
        names, told = await seen(rig)
        assert names == ["b", "a"]
        assert (told.policy, told.policy_set_by, told.configured_policy) == ("passing", "root", "aging_sjf")
        assert told.failure.startswith("passing can't be had (There is no scheduling policy 'passing'; there are ")
        assert told.failure.endswith("); aging_sjf orders the queue")
        reply = await rig.queries.queue(pb.GetQueueRequest())
        assert reply.policy == "aging_sjf", "what acts"
        assert rig.engine.scheduling_choice.policy_text == "aging_sjf", "what the decision log tells"
        await put(rig, "fifo")
        names, told = await seen(rig)
        assert (names, told.policy, told.failure) == (["a", "b"], "fifo", "")
