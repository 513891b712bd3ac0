"""What may not begin, what has not ended, and what is not told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.clock import FakeClock
from tests.unit.worker.attempt.executor_rig import One, answer
from tests.unit.worker.attempt.test_task_controller import ControllerRig, said
from tests.unit.worker.builders import a_launch, an_attempt
from tests.unit.worker.fakes import NS, a_rig
from worker.attempt.launch_verdict import RefuseLaunch, verdict
from worker.attempt.leases import Lease, counts_from_s, first_lease
from worker.box import BoxEnd, BoxStanding, EndRecord, StopWord
from worker.ports import AttemptProgress, ContainerFacts, ContainerState

A = an_attempt("a")
DONE = EndRecord(BoxEnd.EXITED, exit_code=0, run_ns=NS)


def test_without_arrival_and_answer_nothing_lets_it_begin() -> None:
    assert first_lease(launched_enforced=False, lease_s=120, stop_s=30, arrived_s=None, answered=None) is None


@pytest.mark.parametrize("answered", [None, Lease()])
def test_a_launch_that_says_that_leases_are_enforced_sets_a_deadline(answered: Lease | None) -> None:
    lease = first_lease(launched_enforced=True, lease_s=120, stop_s=30, arrived_s=1_000.0, answered=answered)
    assert lease == Lease(1_090 * NS)


@pytest.mark.parametrize("launched_enforced", [True, False])
def test_an_answered_heartbeat_counts_and_not_the_arrival_of_a_launch(launched_enforced: bool) -> None:
    """The launch may have waited on its way for longer than a lease."""
    answered = Lease(1_050 * NS)
    lease = first_lease(
        launched_enforced=launched_enforced, lease_s=120, stop_s=30, arrived_s=1_000.0, answered=answered
    )
    assert lease == answered


@pytest.mark.parametrize(
    ("answered", "counts_from"),
    [(None, 1_000), (Lease(), 1_000), (Lease(1_050 * NS), 960), (Lease(1_500 * NS), 1_000)],
)
def test_a_launch_counts_from_the_last_answered_heartbeat(answered: Lease | None, counts_from: float) -> None:
    assert counts_from_s(arrived_s=1_000.0, lease_s=120, stop_s=30, answered=answered) == counts_from


def test_a_launch_to_an_earlier_life_of_the_worker_is_refused_for_now() -> None:
    """It was sent before the restart and comes after it: TaskManager may have sent another one meanwhile."""
    refused = verdict(a_launch(incarnation=6), record=None, incarnation=7, conditions=())
    assert isinstance(refused, RefuseLaunch)
    assert (refused.error.slug, refused.again_later) == ("fenced", True)


@pytest.fixture
async def one(clock: FakeClock, tmp_path: Path) -> AsyncIterator[One]:
    rig = a_rig(clock, tmp_path, on_acked=lambda attempts: one.executor.acked())
    one = One(rig, an_attempt())
    yield one
    one.life.cancel()
    await asyncio.gather(one.life, return_exceptions=True)
    await rig.close()


async def test_a_launch_without_a_lease_waits_for_an_answer_after_a_restart(one: One) -> None:
    """While the Worker was away, a second machine may have come: then leases are enforced, and it was given away."""
    one.begin(adopted=True, lease_enforced=False)
    await one.settle()
    assert not one.rig.runtime.started
    answer(one, Lease())
    await one.running()
    assert one.rig.runtime.started == [one.attempt]


async def test_a_launch_that_comes_after_the_lease_begins_nothing(one: One) -> None:
    """The network held it up, or this machine stood still. Meanwhile it was cancelled there, and run anew elsewhere."""
    one.rig.context.lease = Lease(round((one.rig.clock.monotonic() - 30) * NS))
    one.begin(lease_enforced=True, lease_s=120.0)
    await one.settle()
    assert not one.rig.runtime.started
    answer(one, Lease(round((one.rig.clock.monotonic() + 90) * NS)))
    await one.running()
    assert one.rig.runtime.started == [one.attempt]


async def test_the_box_gets_the_lease_of_the_moment_in_which_it_is_made(
    one: One, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount that hangs: an answer of that time found no box to be written to."""
    gate = asyncio.Event()

    async def code(account: str, digest: str) -> Path:
        await gate.wait()
        return Path("/code")

    monkeypatch.setattr(one.rig.mount, "code", code)
    one.begin(code="sha256:" + "0" * 64)
    await one.settle()
    newer = Lease(round((one.rig.clock.monotonic() + 90) * NS))
    answer(one, newer)
    gate.set()
    await one.running()
    assert one.rig.runtime.orders[one.attempt].lease_until_boot_ns == newer.until_boot_ns


async def test_what_was_stopped_before_it_began_asks_the_engine_for_nothing(one: One) -> None:
    one.record.stop = StopWord.CANCELLED
    one.begin(adopted=True)
    assert (await one.end()).kind == "CANCELLED"
    assert not one.rig.runtime.started
    assert not one.rig.runtime.wanted


async def test_an_attempt_runs_while_a_process_sees_its_box(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher was killed without a record, and what it started is still there."""
    inhabited = True

    async def is_inhabited(attempt: object) -> bool:
        return inhabited

    monkeypatch.setattr(one.rig.runtime, "is_inhabited", is_inhabited)
    one.begin()
    await one.running()
    one.rig.runtime.exit(one.attempt, 1)
    await one.rig.clock.advance(20)
    assert one.rig.told.end_of(one.attempt) is None
    inhabited = False
    assert (await one.end()).reason.word == "platform_error"


async def test_an_end_that_is_written_in_the_last_moment_counts(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between a look at the record and the look at the lock the launcher wrote the one and let go of the other."""
    one.begin()
    await one.running()
    runtime = one.rig.runtime
    runtime.containers[one.attempt] = ContainerFacts(ContainerState.EXITED, "c0ffee", exit_code=0)

    async def standing(attempt: object) -> BoxStanding:
        before = runtime.records[one.attempt]
        runtime.records[one.attempt] = AttemptProgress(before.started, DONE)
        return BoxStanding.ENDED

    monkeypatch.setattr(runtime, "standing", standing)
    one.executor.nudge()
    assert (await one.end()).kind == "SUCCEEDED"


async def test_an_attempt_has_not_ended_while_its_launcher_lives(one: One) -> None:
    """The record is written before the launcher dies: its GPUs are not free before that."""
    one.begin()
    await one.running()
    one.rig.runtime.hidden.add(one.attempt)
    one.rig.runtime.end(one.attempt, DONE)
    await one.rig.clock.advance(3)
    assert one.rig.told.end_of(one.attempt) is None
    one.rig.runtime.hidden.clear()
    assert (await one.end()).kind == "SUCCEEDED"


@pytest.fixture
async def rig(clock: FakeClock, tmp_path: Path) -> AsyncIterator[ControllerRig]:
    rig = ControllerRig(clock, tmp_path)
    yield rig
    await rig.controller.close()
    await rig.parts.close()


async def test_an_end_that_waits_to_be_told_is_not_told_once_it_was_superseded(rig: ControllerRig) -> None:
    """A good one may still count, so only that is told all the same."""
    await rig.running(A)
    rig.parts.told.away = True
    rig.parts.runtime.end(A, EndRecord(BoxEnd.EXITED, exit_code=1, run_ns=NS))
    await rig.pass_time()
    await rig.controller.discard([A])
    rig.parts.told.away = False
    await rig.pass_time(10)
    assert rig.parts.told.end_of(A) is None


async def test_of_an_attempt_with_a_box_alone_the_ticket_is_withdrawn(rig: ControllerRig) -> None:
    rig.parts.runtime.launches[A] = b""
    rig.parts.runtime.stored_launch = _none  # type: ignore[method-assign]
    await rig.controller.adopt()
    assert A in rig.parts.runtime.withdrawn
    assert rig.controller.live() == []


async def test_an_attempt_with_a_box_alone_counts_as_live_while_it_runs(rig: ControllerRig) -> None:
    """Its record was lost. TaskManager would place it again if it were not listed."""
    rig.parts.runtime.launches[A] = b""
    rig.parts.runtime.stored_launch = _none  # type: ignore[method-assign]
    rig.parts.runtime.hidden.add(A)
    await rig.controller.adopt()
    assert rig.controller.live() == [A]
    assert rig.parts.runtime.stops == [(A, StopWord.PLATFORM)]
    rig.parts.runtime.hidden.clear()
    await rig.controller.sweep()
    assert rig.controller.live() == []


async def test_an_attempt_whose_life_crashed_is_told_as_here_and_continued(
    rig: ControllerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was in no heartbeat any more: TaskManager began it elsewhere, and it went on here."""
    await rig.running(A)

    async def broken(*arguments: object) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as broke:
        broke.setattr(rig.parts.runtime, "progress", broken)
        broke.setattr(rig.parts.runtime, "withdraw", broken)
        rig.controller.nudge(A)
        await rig.pass_time(1)
    assert rig.controller.live() == [A]
    await rig.controller.sweep()
    rig.parts.runtime.end(A, DONE)
    await rig.pass_time()
    end = rig.parts.told.end_of(A)
    assert end is not None
    assert end.kind == "SUCCEEDED"
    assert rig.controller.live() == []


async def test_an_attempt_whose_life_always_crashes_is_given_up_once_nothing_of_it_runs(
    rig: ControllerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TaskManager does not hear of it any more, and loses it."""
    await rig.running(A)

    async def broken(*arguments: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(rig.parts.runtime, "progress", broken)
    monkeypatch.setattr(rig.parts.runtime, "withdraw", broken)
    rig.controller.nudge(A)
    for _ in range(10):
        await rig.pass_time(0.3)
        await rig.controller.sweep()
    assert rig.controller.live() == [A], "its launcher lives"
    rig.parts.runtime.exit(A, 1)
    await rig.pass_time(0.3)
    await rig.controller.sweep()
    assert rig.controller.live() == []


async def test_an_attempt_of_a_box_alone_is_not_begun_again_when_that_is_gone_too(rig: ControllerRig) -> None:
    """Its record was lost. It may have run, and may have ended well."""
    rig.parts.runtime.launches[A] = said(A)[1]
    await rig.controller.adopt()
    rig.controller.lease_answered(Lease())
    await rig.pass_time()
    assert not rig.parts.runtime.started
    end = rig.parts.told.end_of(A)
    assert end is not None
    assert end.reason.word == "platform_error"


async def _none(attempt: object) -> bytes | None:
    return None


@pytest.mark.parametrize("broken", [False, True])
async def test_a_good_end_with_a_name_that_is_no_text_is_told(
    rig: ControllerRig, monkeypatch: pytest.MonkeyPatch, broken: bool
) -> None:
    """It used to crash the attempt's life again and again, so its success was lost. ``broken``: the door lets it in."""
    if broken:
        monkeypatch.setattr("worker.wire.valid_text", lambda text: text)
    await rig.running(A)
    rig.parts.runtime.end(A, EndRecord(BoxEnd.EXITED, exit_code=0, run_ns=NS, left=1, left_names="\u043e\u0431\udcd0"))
    await rig.pass_time(1)
    end = rig.parts.told.end_of(A)
    assert end is not None
    assert (end.kind, len(end.warnings)) == ("SUCCEEDED", 0 if broken else 1)
