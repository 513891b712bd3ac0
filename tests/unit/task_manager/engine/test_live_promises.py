"""Reservations and promised starts in the live queue: what a pass said is stored, shown, kept and taken back."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from headway.errors import PromisesMove
from headway.ids import NodeId
from headway.rpc.v1 import task_manager_pb2 as pb
from headway.states import NodeHealth
from task_manager.answers.decision_log import DecisionLog
from task_manager.engine.events import ExtendTask, NodesChanged
from task_manager.limits import AdmissionLimits, ShortTaskReserve
from task_manager.order.policy_registry import by_name
from task_manager.planning.pass_model import Discipline
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import SETTINGS, TaskManagerRig, a_node, a_task, a_task_manager, tid

# The platform's own limits apart, a start is booked for the timeout alone.
BARE = replace(SETTINGS, start_limit_s=0.0, stop_limit_s=0.0)


async def entry(rig: TaskManagerRig, name: str) -> pb.QueueEntry:
    return await rig.queries.explain(tid(name))


async def running(rig: TaskManagerRig, name: str) -> None:
    """Its process has started."""
    await rig.report(rig.only_attempt(tid(name)), "PROCESS_STARTED", process_started_at=rig.clock.now())


async def test_small_tasks_do_not_overtake_a_large_one_that_they_would_delay(tmp_path: Path, clock: FakeClock) -> None:
    """SCH-01: one of two GPUs is busy; the large task waits for both, and what is free is kept for it."""
    now = clock.now()
    async with a_task_manager(tmp_path, clock, settings=BARE) as rig:
        await rig.nodes(a_node(gpus=2))
        await rig.enqueue(a_task("first", gpus=1, at=now, timeout=100))
        await rig.enqueue(a_task("large", gpus=2, at=now, timeout=100))
        await rig.enqueue(a_task("long", gpus=1, at=now + 1, timeout=200))
        await rig.enqueue(a_task("short", gpus=1, at=now + 2, timeout=100))
        assert {a.task.name for a in rig.running()} == {"first", "short"}
        large, long = await entry(rig, "large"), await entry(rig, "long")
        assert large.estimated_start == pytest.approx(now + 100, abs=1)
        assert not large.estimate_rough
        assert long.estimated_start == pytest.approx(now + 200, abs=1)
        await rig.end(rig.only_attempt(tid("short")))
        why = (await entry(rig, "long")).reasons
        assert [reason.word for reason in why] == ["reserved_for_larger_task"]
        assert f"kept for {tid('large')}" in why[0].sentence


async def test_greedy_lets_start_what_fits(tmp_path: Path, clock: FakeClock) -> None:
    now = clock.now()
    async with a_task_manager(tmp_path, clock, settings=replace(BARE, discipline=Discipline.GREEDY)) as rig:
        await rig.nodes(a_node(gpus=2))
        for name, gpus, timeout in (("first", 1, 100), ("large", 2, 100), ("long", 1, 900)):
            await rig.enqueue(a_task(name, gpus=gpus, at=now, timeout=timeout))
        assert {a.task.name for a in rig.running()} == {"first", "long"}
        assert (await entry(rig, "large")).estimate_rough


async def test_a_promise_is_given_when_nobody_can_come_ahead_and_survives_a_restart(
    tmp_path: Path, clock: FakeClock
) -> None:
    now = clock.now()
    async with a_task_manager(tmp_path, clock, settings=BARE) as rig:
        await rig.nodes(a_node(gpus=1))
        await rig.enqueue(a_task("runs", gpus=1, at=now, timeout=600))
        await rig.enqueue(a_task("waits", gpus=1, at=now, timeout=60))
        assert not (await entry(rig, "waits")).HasField("promised_start")
        await rig.advance(61, beats=("n1",))  # a pass comes by itself when its window has closed
        promised = (await entry(rig, "waits")).promised_start
        assert now + 600 <= promised <= math.ceil(now + 600) + 1
        await rig.restart()
        await rig.nodes(a_node(gpus=1))
        assert (await entry(rig, "waits")).promised_start == pytest.approx(promised, abs=1)
        await rig.enqueue(replace(a_task("urgent", gpus=1, at=clock.now(), timeout=50), priority=1))
        urgent = await entry(rig, "urgent")
        assert urgent.estimated_start >= promised - 2, "it goes around what was promised"
        waits = await entry(rig, "waits")
        assert waits.promised_start == pytest.approx(promised, abs=1)
        assert reasons_of(urgent) == [
            ("waiting_for_gpu", "It asks for 1 GPU. The closest machine, n1, has no free GPU."),
            (
                "behind_promised_start",
                f"{tid('waits')} is behind it, but was promised an earlier start before this task came ahead.",
            ),
        ]
        assert reasons_of(waits)[1:] == [
            ("behind_higher_priority", "1 waiting task is ahead of it; its promised start still holds.")
        ]
        await rig.advance(500, beats=("n1",))
        await rig.end(rig.only_attempt(tid("runs")))
        assert [a.task.name for a in rig.running()] == ["waits"], "the other one would not be done before"
        told = await DecisionLog(rig.db, clock, 7).of_task(tid("urgent"), limit=1, before=0)
        assert [started.sentence for started in told.passes[0].started] == [
            f"{tid('waits')} was behind {tid('urgent')} but started on n1: its start had been promised "
            f"before {tid('urgent')} came, and a later task can't delay it."
        ]


def reasons_of(entry: pb.QueueEntry) -> list[tuple[str, str]]:
    return [(reason.word, reason.sentence) for reason in entry.reasons]


@pytest.mark.parametrize("apart_s", [1e-6, 0.02])
async def test_promises_survive_restarts_though_the_clocks_are_some_moments_apart(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture, apart_s: float
) -> None:
    """In another life of the machine each place is read by the wall clock of its own moment: two that touch may overlap
    by an instant then."""
    chance = random.Random(4)
    async with a_task_manager(tmp_path, clock, settings=BARE, order=by_name("fifo")) as rig:
        await rig.nodes(a_node(gpus=4, cpu=40_000, memory=1 << 40))
        for number in range(60):
            clock.step_wall(chance.choice([-apart_s, 0.0, apart_s]))
            await rig.enqueue(
                a_task(
                    f"t{number}", gpus=chance.choice([1, 1, 2, 3, 4]), at=clock.now(),
                    timeout=chance.choice([30, 60, 600, 3600]),
                )
            )  # fmt: skip
        promised = await promises_of(rig)
        assert len(promised) > 40
        for _ in range(3):
            clock.step_wall(apart_s)
            clock.reboot()
            await rig.restart()
            await rig.nodes(a_node(gpus=4, cpu=40_000, memory=1 << 40))
            again = await promises_of(rig)
            assert again.keys() == promised.keys()
            assert all(again[name] <= at + 1 for name, at in promised.items())
        assert "promise.moved" not in [record.getMessage() for record in caplog.records]


async def promises_of(rig: TaskManagerRig) -> dict[str, float]:
    """The promised starts of all that wait."""
    entries = (await rig.queries.queue(pb.GetQueueRequest(limit=1_000))).entries
    return {entry.task.name: entry.promised_start for entry in entries if entry.HasField("promised_start")}


async def test_a_start_that_is_late_without_a_known_cause_is_logged(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    now = clock.now()
    async with a_task_manager(tmp_path, clock, settings=BARE) as rig:
        await rig.nodes(a_node(gpus=1))
        await rig.enqueue(a_task("runs", gpus=1, at=now, timeout=600))
        await running(rig, "runs")
        await rig.enqueue(a_task("waits", gpus=1, at=now, timeout=60))
        await rig.advance(61, beats=("n1",))
        assert (await promises_of(rig)).keys() == {"waits"}
        await rig.nodes(a_node(gpus=1, health=NodeHealth.SUSPECT))
        await rig.end(rig.only_attempt(tid("runs")))
        assert rig.running() == []
        await rig.kill()
        clock.tick(700)
        await rig.start()
        await rig.nodes(a_node(gpus=1))
        assert [a.task.name for a in rig.running()] == ["waits"]
        (told,) = [record for record in caplog.records if record.getMessage().startswith("promise.")]
        assert told.getMessage() == "promise.missed"
        assert told.__dict__["fields"]["cause"] == "Headway's scheduler was not running when it was due"


@pytest.mark.parametrize("word", ["a report", "a heartbeat without it", "a heartbeat with it"])
async def test_after_an_outage_a_promise_waits_for_word_of_what_ended_meanwhile(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture, word: str
) -> None:
    """The first pass came before any Worker had been heard, took what had ended for what outlived its booking, and
    dropped the promises behind it."""
    now = clock.now()
    async with a_task_manager(tmp_path, clock, settings=BARE, order=by_name("fifo")) as rig:
        await rig.nodes(a_node(gpus=2))
        await rig.enqueue(a_task("ends", gpus=1, at=now, timeout=100), a_task("runs", gpus=1, at=now, timeout=103))
        for name in ("ends", "runs"):
            await running(rig, name)
        await rig.enqueue(a_task("due", gpus=1, at=now, timeout=60), a_task("later", gpus=1, at=now, timeout=60))
        await rig.advance(1, beats=("n1",))
        promised = await promises_of(rig)
        assert promised.keys() == {"due", "later"}
        ended = rig.only_attempt(tid("ends"))
        await rig.kill()
        clock.tick(100.5)  # when the promised start is due, the task before it has just ended, and nobody has said so
        await rig.start()
        await rig.nodes(a_node(gpus=2))
        assert (await entry(rig, "due")).promised_start == pytest.approx(promised["due"], abs=1)
        await rig.advance(1)
        assert (await promises_of(rig)).keys() == promised.keys()
        assert {a.task.name for a in rig.running()} == {"ends", "runs"}
        if word == "a heartbeat without it":
            del rig.workers.has["n1:7004"][ended]
        if word != "a report":
            await rig.beat()  # a Worker also lists what has ended until that is taken note of
            await rig.advance(1)
            assert (await promises_of(rig)).keys() == promised.keys()
        await rig.end(ended)
        assert {a.task.name for a in rig.running()} == {"due", "runs"}
        assert "promise.moved" not in [record.getMessage() for record in caplog.records]


async def test_what_runs_on_after_an_outage_has_outlived_its_booking_once_its_worker_says_so(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    now = clock.now()
    async with a_task_manager(tmp_path, clock, settings=BARE, order=by_name("fifo")) as rig:
        await rig.nodes(a_node(gpus=1))
        await rig.enqueue(a_task("runs", gpus=1, at=now, timeout=100))
        await running(rig, "runs")
        await rig.enqueue(a_task("next", gpus=1, at=now, timeout=60))
        await rig.advance(1, beats=("n1",))
        assert (await promises_of(rig)).keys() == {"next"}
        await rig.kill()
        clock.tick(105)
        await rig.start()
        await rig.nodes(a_node(gpus=1))
        assert (await promises_of(rig)).keys() == {"next"}
        await rig.beat()
        await rig.advance(7)
        assert (await promises_of(rig)).keys() == {"next"}, "its end may be on its way"
        await rig.advance(3)
        (told,) = [record for record in caplog.records if record.getMessage().startswith("promise.")]
        assert (told.getMessage(), told.__dict__["fields"]["cause"]) == (
            "promise.moved", f"{tid('runs')} on n1 runs longer than was booked for it",
        )  # fmt: skip


async def test_more_time_is_refused_where_a_promised_start_would_move(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    now = clock.now()
    async with a_task_manager(tmp_path, clock, settings=BARE) as rig:
        await rig.nodes(a_node(gpus=1))
        await rig.enqueue(a_task("runs", gpus=1, at=now, timeout=600))
        await running(rig, "runs")
        await rig.enqueue(a_task("waits", gpus=1, at=now, timeout=60))
        await rig.advance(61, beats=("n1",))
        with pytest.raises(PromisesMove, match=r"1 task would start later than promised: .*/waits by 10m"):
            await rig.engine.submit(ExtendTask(tid("runs"), 600.0, "ann"))
        await rig.engine.submit(ExtendTask(tid("runs"), 600.0, "chief", force=True))
        await rig.settle()
        (told,) = [record for record in caplog.records if record.getMessage() == "promise.moved"]
        assert f"{tid('runs')} on n1 was given more time" in str(vars(told))
        assert (await entry(rig, "waits")).estimated_start >= now + 1200


async def test_a_lost_node_takes_the_promise_along(
    tmp_path: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    now = clock.now()
    async with a_task_manager(tmp_path, clock, settings=BARE) as rig:
        await rig.nodes(a_node("n1", gpus=1))
        await rig.enqueue(a_task("runs", gpus=1, at=now, timeout=600))
        await rig.enqueue(a_task("waits", gpus=1, at=now, timeout=60))
        await rig.advance(61, beats=("n1",))
        assert (await entry(rig, "waits")).HasField("promised_start")
        await rig.engine.submit(NodesChanged(False, (), (NodeId("n1"),)))
        await rig.settle()
        assert not (await entry(rig, "waits")).HasField("promised_start")
        (told,) = [record for record in caplog.records if record.getMessage() == "promise.moved"]
        assert "has left the cluster" in str(vars(told))


async def test_an_account_holds_no_more_gpus_than_it_may(tmp_path: Path, clock: FakeClock) -> None:
    """SCH-07: one account's flood leaves room for others, and says why it waits."""
    settings = replace(BARE, limits=AdmissionLimits(running_gpus_per_user=1))
    async with a_task_manager(tmp_path, clock, settings=settings) as rig:
        await rig.nodes(a_node(gpus=2))
        await rig.enqueue(*(a_task(f"flood{i}", gpus=1, at=clock.now(), timeout=60) for i in range(5)))
        await rig.enqueue(replace(a_task("other", gpus=1, at=clock.now(), timeout=600), owner="bob"))
        assert {a.task.name for a in rig.running()} == {"flood0", "other"}
        await rig.end(rig.only_attempt(tid("other")))
        why = (await entry(rig, "flood1")).reasons
        assert [reason.word for reason in why] == ["user_limit"]


async def test_gpus_are_kept_for_short_tasks(tmp_path: Path, clock: FakeClock) -> None:
    settings = replace(BARE, limits=AdmissionLimits(short_reserve=ShortTaskReserve(gpus=1, above_s=300)))
    async with a_task_manager(tmp_path, clock, settings=settings) as rig:
        await rig.nodes(a_node(gpus=2))
        await rig.enqueue(*(a_task(f"long{i}", gpus=1, at=clock.now(), timeout=600) for i in range(2)))
        assert len(rig.running()) == 1
        assert [r.word for r in (await entry(rig, "long1")).reasons] == ["kept_for_short_tasks"]
        await rig.enqueue(a_task("short", gpus=1, at=clock.now(), timeout=60))
        assert tid("short") in {a.task for a in rig.running()}


@pytest.mark.parametrize(("grace_s", "more_s"), [(10.0, 30.0), (25.0, 30.0), (600.0, 605.0)])
async def test_a_promise_allows_for_all_of_the_grace_of_what_runs(
    tmp_path: Path, clock: FakeClock, grace_s: float, more_s: float
) -> None:
    """A task that took its ten minutes of grace used to outlive its booking, and the promises behind it fell."""
    now = clock.now()
    async with a_task_manager(tmp_path, clock, settings=replace(BARE, stop_limit_s=120.0)) as rig:
        await rig.nodes(a_node(gpus=1))
        await rig.enqueue(a_task("runs", gpus=1, at=now, timeout=100, grace_s=grace_s))
        await running(rig, "runs")
        await rig.enqueue(a_task("next", gpus=1, at=now, timeout=60, grace_s=grace_s))
        await rig.enqueue(a_task("then", gpus=1, at=now, timeout=60))
        assert (await entry(rig, "next")).estimated_start == pytest.approx(now + 100 + more_s, abs=1)
        assert (await entry(rig, "then")).estimated_start == pytest.approx(now + 160 + 2 * more_s, abs=1)
        await rig.advance(61, beats=("n1",))
        promised = (await entry(rig, "next")).promised_start
        assert promised == pytest.approx(now + 100 + more_s, abs=2)
        await rig.advance(100 + grace_s - 61, beats=("n1",))
        await rig.end(rig.only_attempt(tid("runs")))
        assert tid("next") in {attempt.task for attempt in rig.running()}
        assert clock.now() <= promised


async def test_a_wall_clock_that_is_set_moves_no_booking(tmp_path: Path, clock: FakeClock) -> None:
    now = clock.now()
    async with a_task_manager(tmp_path, clock, settings=BARE) as rig:
        await rig.nodes(a_node(gpus=1))
        await rig.enqueue(a_task("runs", gpus=1, at=now, timeout=600))
        await rig.enqueue(a_task("waits", gpus=1, at=now, timeout=60))
        await rig.advance(100, beats=("n1",))
        left_s = (await entry(rig, "waits")).estimated_start - clock.now()
        clock.step_wall(7_200)
        await rig.advance(10, beats=("n1",))
        assert (await entry(rig, "waits")).estimated_start - clock.now() == pytest.approx(left_s - 10, abs=2)
        clock.step_wall(-14_400)
        await rig.advance(10, beats=("n1",))
        assert (await entry(rig, "waits")).estimated_start - clock.now() == pytest.approx(left_s - 20, abs=2)
