"""What runs, has run, or may still start: the executor decides by the box, whatever the engine says (docs/box.md)."""

from __future__ import annotations

import asyncio

import pytest

from headway.ids import AttemptId
from headway.model.reasons import EndWord
from tests.unit.worker.attempt.executor_rig import DONE, One, answer, one
from tests.unit.worker.fakes import NS
from worker.attempt.leases import Lease
from worker.box import BoxEnd, BoxStanding, EndRecord, StopWord
from worker.ports import ContainerFacts, ContainerState, RuntimeRefused

assert one  # the fixture


async def test_adopted_before_its_container_was_made(one: One) -> None:
    one.begin(adopted=True)
    await one.settle()
    assert not one.rig.runtime.started, "it may have been given to another machine while this Worker was away"
    answer(one, Lease())
    await one.running()
    assert one.rig.runtime.started == [one.attempt]


async def test_adopted_within_its_deadline_it_begins_at_once(one: One) -> None:
    one.begin(adopted=True, lease_enforced=True, lease_s=120.0)
    await one.running()
    assert one.rig.runtime.started == [one.attempt]


async def test_adopted_in_another_boot_it_waits_for_a_heartbeat(one: One) -> None:
    """The boot clock of its arrival says nothing any more."""
    one.record.arrived_boot_id = "boot-0"
    one.begin(adopted=True, lease_enforced=True, lease_s=120.0)
    await one.settle()
    assert not one.rig.runtime.started
    answer(one, Lease(round((one.rig.clock.monotonic() + 60) * NS)))
    await one.running()
    assert one.rig.runtime.started == [one.attempt]


async def test_past_the_deadline_of_its_arrival_nothing_starts(one: One) -> None:
    """A slow image or a hanging engine used up the lease: TaskManager may have begun it elsewhere."""
    one.rig.runtime.image_gate = asyncio.Event()
    one.begin(lease_enforced=True, lease_s=120.0)
    await one.rig.clock.advance(91)
    one.rig.runtime.image_gate.set()
    await one.settle()
    assert not one.rig.runtime.started
    one.executor.stop(StopWord.SUPERSEDED)
    assert (await one.end()).kind == "CANCELLED"
    assert not one.rig.runtime.started


async def test_past_the_deadline_an_answered_heartbeat_lets_it_begin(one: One) -> None:
    one.rig.runtime.image_gate = asyncio.Event()
    one.begin(lease_enforced=True, lease_s=120.0)
    await one.rig.clock.advance(91)
    one.rig.runtime.image_gate.set()
    await one.settle()
    until = Lease(round((one.rig.clock.monotonic() + 90) * NS))
    answer(one, Lease(round((one.rig.clock.monotonic() - 1) * NS)))
    await one.settle()
    assert not one.rig.runtime.started, "that answer is as old as the lease"
    answer(one, until)
    await one.running()
    assert one.rig.runtime.orders[one.attempt].lease_until_boot_ns == until.until_boot_ns


async def test_what_the_engine_lost_sight_of_still_runs(one: One) -> None:
    """The engine was killed while it started the container: it says created, then that there is none."""
    one.begin()
    await one.running()
    one.rig.runtime.hidden.add(one.attempt)
    for state in (ContainerState.CREATED, ContainerState.EXITED, ContainerState.ABSENT):
        one.rig.runtime.containers[one.attempt] = ContainerFacts(state, "c0ffee")
        one.executor.nudge()
        await one.rig.clock.advance(5)
        assert one.rig.told.end_of(one.attempt) is None
    one.rig.runtime.hidden.clear()
    one.rig.runtime.end(one.attempt, DONE)
    assert (await one.end()).kind == "SUCCEEDED"


@pytest.mark.parametrize("state", [ContainerState.CREATED, ContainerState.ABSENT])
async def test_adopted_while_the_engine_does_not_know_that_it_runs(one: One, state: ContainerState) -> None:
    """It was judged as start_failed, and ran twice at once."""
    one.rig.runtime.hidden.add(one.attempt)
    one.rig.runtime.run(one.attempt)
    one.rig.runtime.containers[one.attempt] = ContainerFacts(state, "c0ffee")
    one.begin(adopted=True)
    await one.rig.clock.advance(30)
    assert one.rig.told.end_of(one.attempt) is None
    assert not one.rig.runtime.started
    one.rig.runtime.hidden.clear()
    one.rig.runtime.end(one.attempt, DONE)
    assert (await one.end()).kind == "SUCCEEDED"


async def test_a_hidden_launcher_that_dies_is_noticed_without_the_engine(one: One) -> None:
    one.begin()
    await one.running()
    one.rig.runtime.hidden.add(one.attempt)
    one.rig.runtime.containers[one.attempt] = ContainerFacts(ContainerState.CREATED, "c0ffee")
    one.executor.nudge()
    await one.rig.clock.advance(3)
    one.rig.runtime.hidden.clear()  # killed: nobody nudges, and there is no record
    one.rig.runtime.containers[one.attempt] = ContainerFacts(ContainerState.EXITED, "c0ffee", exit_code=1)
    end = await one.end()
    assert end.reason.word == "platform_error"


async def test_a_refused_start_whose_launcher_was_quicker_runs(one: One) -> None:
    one.rig.runtime.refusal = RuntimeRefused("the engine refused it", word=EndWord.START_FAILED)
    one.rig.runtime.hidden.add(one.attempt)
    one.rig.runtime.standings[one.attempt] = BoxStanding.MAY_START
    one.begin()
    one.rig.runtime.standings[one.attempt] = BoxStanding.RUNS
    await one.rig.clock.advance(2)
    assert one.rig.told.end_of(one.attempt) is None
    del one.rig.runtime.standings[one.attempt]
    one.rig.runtime.run(one.attempt)
    one.rig.runtime.hidden.clear()
    one.rig.runtime.end(one.attempt, DONE)
    assert (await one.end()).kind == "SUCCEEDED"


async def test_before_it_says_never_started_the_ticket_is_withdrawn(one: One) -> None:
    one.rig.runtime.refusal = RuntimeRefused("no such image", word=EndWord.IMAGE_NOT_FOUND)
    one.begin()
    assert (await one.end()).reason.word == "image_not_found"
    assert one.attempt in one.rig.runtime.withdrawn


async def test_a_stop_before_the_launcher_came_needs_no_engine(one: One) -> None:
    one.rig.runtime.not_taken.add(one.attempt)
    one.begin()
    await one.settle()
    one.rig.runtime.away = True
    one.rig.runtime.obeys_stop = False
    one.executor.stop(StopWord.CANCELLED)
    assert (await one.end()).kind == "CANCELLED"
    assert one.attempt in one.rig.runtime.withdrawn


async def test_a_box_that_was_made_and_is_gone_is_not_made_again(one: One) -> None:
    one.record.boot_id = "boot-1"
    one.begin(adopted=True)
    end = await one.end()
    assert end.reason.word == "platform_error"
    assert not one.rig.runtime.started


async def test_a_launcher_that_does_not_obey_is_killed_through_its_box_while_the_engine_is_away(one: One) -> None:
    one.rig.runtime.obeys_stop = False
    one.begin(grace_s=1.0)
    await one.running()
    one.rig.runtime.hidden.add(one.attempt)
    one.rig.runtime.containers[one.attempt] = ContainerFacts(ContainerState.CREATED, "c0ffee")
    one.rig.runtime.away = True
    one.executor.stop(StopWord.CANCELLED)
    await one.rig.clock.advance(30)
    assert (await one.end()).kind == "CANCELLED"


@pytest.mark.parametrize("how", ["was_away", "goes_away"])
async def test_an_end_by_a_signal_around_an_outage_of_the_engine_is_the_platforms_fault(one: One, how: str) -> None:
    """An engine without live-restore ends its containers when it stops; users' tasks failed for good."""
    one.begin()
    await one.running()
    setattr(one.rig.runtime, how, True)
    one.rig.runtime.end(one.attempt, EndRecord(BoxEnd.STOPPED, signal=15, stop_word=StopWord.KILLED_OUTSIDE))
    end = await one.end()
    assert (end.reason.word, "engine" in end.reason.detail) == ("platform_error", True)


async def test_an_end_by_a_signal_while_the_engine_is_there_came_from_outside(one: One) -> None:
    one.begin()
    await one.running()
    one.rig.runtime.end(one.attempt, EndRecord(BoxEnd.STOPPED, signal=15, stop_word=StopWord.KILLED_OUTSIDE))
    assert (await one.end()).reason.word == "killed_outside"


async def test_work_left_in_the_background_is_named_in_a_warning(one: One) -> None:
    one.begin()
    await one.running()
    one.rig.runtime.end(one.attempt, EndRecord(BoxEnd.EXITED, exit_code=0, left=3, left_names="sleep/tail"))
    end = await one.end()
    assert end.kind == "SUCCEEDED"
    (warning,) = end.warnings
    assert "3 processes were still running in the background" in warning
    assert "sleep, tail" in warning


async def test_a_life_that_crashes_leaves_nothing_running(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    one.begin()
    await one.running()

    async def broken(attempt: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(one.rig.runtime, "progress", broken)
    one.executor.nudge()
    end = await one.end()
    assert end.reason.word == "platform_error"
    assert one.rig.runtime.kills == [one.attempt]


async def test_what_did_not_start_in_time_is_not_started_later(one: One) -> None:
    one.rig.runtime.not_taken.add(one.attempt)
    one.begin()
    await one.rig.clock.advance(61)
    assert (await one.end()).reason.word == "start_failed"
    assert one.attempt in one.rig.runtime.withdrawn


async def test_a_launcher_that_comes_just_before_the_kill_has_no_ticket_any_more(
    one: One, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed, and said to have never started. Then a call of before reached the engine, and it began."""
    steps: list[str] = []
    withdraw, kill = one.rig.runtime.withdraw, one.rig.runtime.kill

    async def noted_withdraw(attempt: AttemptId) -> bool:
        steps.append("withdraw")
        return await withdraw(attempt)

    async def noted_kill(attempt: AttemptId) -> None:
        steps.append("kill")
        await kill(attempt)

    monkeypatch.setattr(one.rig.runtime, "withdraw", noted_withdraw)
    monkeypatch.setattr(one.rig.runtime, "kill", noted_kill)
    one.rig.runtime.not_taken.add(one.attempt)
    one.begin()
    await one.rig.clock.advance(61)
    assert (await one.end()).reason.word == "start_failed"
    assert steps[:2] == ["withdraw", "kill"]


async def test_while_its_ticket_can_not_be_taken_back_it_is_not_said_to_be_gone(
    one: One, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that fails: a launcher may still come."""

    async def fails(attempt: AttemptId) -> bool:
        return False

    monkeypatch.setattr(one.rig.runtime, "withdraw", fails)
    one.rig.runtime.not_taken.add(one.attempt)
    one.begin()
    await one.rig.clock.advance(61)
    assert (await one.end()).reason.detail == "It could not be killed on the machine gpu-1."


async def test_an_end_that_was_written_down_counts_though_its_life_crashed(
    one: One, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's answer could not be read: a success was told as a fault, and run again."""
    one.begin()
    await one.running()

    async def broken(attempt: object) -> ContainerFacts:
        raise RuntimeError("an answer that nobody foresaw")

    monkeypatch.setattr(one.rig.runtime, "inspect", broken)
    monkeypatch.setattr(one.rig.runtime, "kill", _nothing)
    monkeypatch.setattr(one.executor, "_end_by_force", _ended)
    one.rig.runtime.end(one.attempt, DONE)
    assert (await one.end()).kind == "SUCCEEDED"


async def _nothing(attempt: object) -> None: ...


async def _ended() -> bool:
    return True


async def test_a_container_that_ended_before_its_launcher_came_is_not_over_with_its_ticket_there(
    one: One, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(attempt: AttemptId) -> bool:
        return False

    one.rig.runtime.not_taken.add(one.attempt)
    one.begin()
    await one.settle()
    with monkeypatch.context() as broken:
        broken.setattr(one.rig.runtime, "withdraw", fails)
        one.rig.runtime.exit(one.attempt, 125)
        await one.rig.clock.advance(10)
        assert one.rig.told.end_of(one.attempt) is None
    assert (await one.end()).reason.word == "start_failed"
    assert one.attempt in one.rig.runtime.withdrawn


async def test_what_lives_on_after_a_kill_is_not_said_to_be_dead(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine says that the container has ended, and a process of it is still there."""
    lives = True

    async def is_inhabited(attempt: AttemptId) -> bool:
        return lives

    monkeypatch.setattr(one.rig.runtime, "is_inhabited", is_inhabited)
    one.rig.runtime.obeys_stop = False
    one.begin(grace_s=1.0)
    await one.running()
    one.executor.stop(StopWord.CANCELLED)
    await one.rig.clock.advance(50)
    assert one.rig.runtime.kills
    assert one.rig.told.end_of(one.attempt) is None
    lives = False
    assert (await one.end()).kind == "CANCELLED"
