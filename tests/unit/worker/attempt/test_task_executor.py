"""One attempt's life, with an engine that misbehaves in every way that was seen."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from headway.jobfile.spec import RunAs
from headway.model.reasons import EndWord
from tests.support.waiting import eventually
from tests.unit.worker.attempt.executor_rig import DONE, One, one
from tests.unit.worker.fakes import NS
from worker.attempt import finish
from worker.attempt.leases import Lease
from worker.box import BoxEnd, EndRecord, StartStage, StopWord
from worker.model import AttemptStage, ExtendAttempt, Extension, Owner
from worker.ports import ContainerFacts, ContainerState, EngineUnavailable, LocalImage, RuntimeRefused, StartOrder

assert one  # the fixture


async def test_the_ordinary_life(one: One) -> None:
    one.begin()
    await one.running()
    assert one.rig.told.kinds(one.attempt)[-1] == "PROCESS_STARTED"
    one.rig.runtime.end(one.attempt, DONE)
    end = await one.end()
    assert (end.kind, end.reason.exit_code, end.run_s, end.image_id) == ("SUCCEEDED", 0, 5.0, "sha256:feed")
    await eventually(one.life.done)
    assert one.record.stage is AttemptStage.DONE
    assert one.rig.runtime.removed == [one.attempt]
    platform = (one.rig.mount.job_folder(one.attempt) / "platform.log").read_text()
    assert "Process started. Its timeout is 10m" in platform
    assert platform.rstrip().endswith("Ended (exited): It exited with code 0.")


async def test_an_image_to_fetch_shows_as_a_state_of_its_own(one: One) -> None:
    one.rig.runtime.image_gate = asyncio.Event()
    one.begin()
    await one.rig.clock.advance(5)
    assert one.rig.told.kinds(one.attempt) == ["PULL_STARTED"]
    one.rig.runtime.image_gate.set()
    await one.running()
    assert one.rig.told.kinds(one.attempt)[-1] == "PROCESS_STARTED"


async def test_an_image_that_takes_too_long_is_the_platforms_fault(one: One) -> None:
    one.rig.runtime.image_gate = asyncio.Event()
    one.rig.context.limits = one.rig.context.limits.__class__(pull_s=0.05)
    one.begin()
    await asyncio.sleep(0.1)
    end = await one.end()
    assert end.reason.word == EndWord.IMAGE_PULL_FAILED
    assert end.retry_elsewhere


async def test_a_refusal_is_the_end_and_has_no_exit_code(one: One) -> None:
    one.rig.runtime.refusal = RuntimeRefused("There is no image team/torch:2.4", word=EndWord.IMAGE_NOT_FOUND)
    one.begin()
    end = await one.end()
    assert (end.kind, end.reason.word) == ("FAILED", "image_not_found")
    assert not end.reason.HasField("exit_code")
    assert not end.HasField("process_started_at")
    assert not one.rig.runtime.started


async def test_a_mount_that_is_gone_at_the_start_loses_the_attempt(one: One) -> None:
    one.rig.mount.problem = "The mount hangs."
    one.begin()
    end = None
    for _ in range(200):
        await one.rig.clock.advance(0.1)
        end = one.rig.told.end_of(one.attempt)
        if end is not None:
            break
    assert end is not None, "the end does not wait for the mount's return"
    assert (end.kind, end.reason.word, end.retry_elsewhere) == ("LOST", "mount_unavailable", True)


async def test_a_start_whose_answer_got_lost_makes_one_container(one: One) -> None:
    one.rig.runtime.lost_answers = 3
    one.begin()
    await one.rig.clock.advance(30)
    assert one.rig.runtime.started == [one.attempt]
    await one.running()
    one.rig.runtime.end(one.attempt, DONE)
    assert (await one.end()).kind == "SUCCEEDED"


async def test_an_engine_that_is_away_at_the_start_is_waited_for_then_given_up(one: One) -> None:
    one.begin()
    one.rig.runtime.away = True
    await one.rig.clock.advance(60)
    assert one.rig.told.end_of(one.attempt) is None
    assert one.rig.told.kinds(one.attempt) == []
    one.rig.runtime.away = False
    await one.rig.clock.advance(20)
    await one.running()
    assert one.rig.told.kinds(one.attempt)[-1] == "PROCESS_STARTED"


async def test_an_engine_that_stays_away_at_the_start_is_told(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may use up no platform retry: nothing was tried."""

    async def silent(order: StartOrder) -> ContainerFacts:
        one.rig.runtime.away = True
        raise EngineUnavailable("no answer in 60 s")

    monkeypatch.setattr(one.rig.runtime, "start", silent)
    one.begin()
    await one.rig.clock.advance(400)
    end = await one.end()
    assert (end.reason.word, end.engine_away) == ("start_failed", True)


async def test_an_engine_that_answers_others_is_not_away(one: One, monkeypatch: pytest.MonkeyPatch) -> None:
    """This start is what it can't do: it counts."""

    async def silent(order: StartOrder) -> ContainerFacts:
        raise EngineUnavailable("no answer in 60 s")

    monkeypatch.setattr(one.rig.runtime, "start", silent)
    one.begin()
    await one.rig.clock.advance(400)
    end = await one.end()
    assert (end.reason.word, end.engine_away) == ("start_failed", False)


async def test_an_engine_that_goes_before_its_launcher_came_is_told(one: One) -> None:
    one.rig.runtime.not_taken.add(one.attempt)
    one.begin()
    await one.settle()
    one.rig.runtime.away = True
    await one.rig.clock.advance(70)
    end = await one.end()
    assert (end.reason.word, end.engine_away) == ("start_failed", True)


async def test_an_engine_that_is_away_during_the_run_changes_nothing(one: One) -> None:
    one.begin()
    await one.running()
    one.rig.runtime.away = True
    one.executor.nudge()
    await one.rig.clock.advance(300)
    assert one.rig.told.end_of(one.attempt) is None
    one.rig.runtime.away = False
    one.rig.runtime.end(one.attempt, DONE)
    await one.rig.clock.advance(20)
    assert (await one.end()).kind == "SUCCEEDED"


async def test_a_cancel_in_the_middle_of_the_creation_leaves_no_container(one: One) -> None:
    one.rig.runtime.start_gate = asyncio.Event()
    one.begin()
    await one.settle()
    one.executor.stop(StopWord.CANCELLED)
    one.rig.runtime.start_gate.set()
    end = await one.end()
    assert (end.kind, end.reason.word) == ("CANCELLED", "cancelled")
    assert not one.rig.runtime.containers
    assert one.attempt in one.rig.runtime.removed


async def test_a_cancel_during_a_fetch_does_not_wait_for_it(one: One) -> None:
    one.rig.runtime.image_gate = asyncio.Event()
    one.begin()
    await one.settle()
    one.executor.stop(StopWord.CANCELLED)
    assert (await one.end()).kind == "CANCELLED"
    assert not one.rig.runtime.started


async def test_a_cancel_before_anything_began(one: One) -> None:
    one.record.stop = StopWord.CANCELLED
    one.begin()
    assert (await one.end()).kind == "CANCELLED"
    assert not one.rig.runtime.started


async def test_a_cancel_of_what_runs_goes_through_the_launcher(one: One) -> None:
    one.begin()
    await one.running()
    one.executor.stop(StopWord.CANCELLED)
    end = await one.end()
    assert (end.kind, end.reason.signal) == ("CANCELLED", 15)
    assert one.rig.runtime.stops == [(one.attempt, StopWord.CANCELLED)]
    assert not one.rig.runtime.kills


async def test_a_launcher_that_does_not_stop_is_killed_after_grace(one: One) -> None:
    one.rig.runtime.obeys_stop = False
    one.begin(grace_s=10.0)
    await one.running()
    one.executor.stop(StopWord.CANCELLED)
    await one.rig.clock.advance(20)
    assert not one.rig.runtime.kills, "grace and some slack come first"
    await one.rig.clock.advance(10)
    assert one.rig.runtime.kills
    assert (await one.end()).kind == "CANCELLED"


async def test_the_worker_stands_behind_the_timeout(one: One) -> None:
    one.begin(timeout_s=60.0, grace_s=10.0)
    await one.running()
    await one.rig.clock.advance(80)
    assert not one.rig.runtime.kills
    await one.rig.clock.advance(10)
    assert one.rig.runtime.kills
    end = await one.end()
    assert (end.kind, end.reason.word) == ("TIMED_OUT", "timed_out")


async def test_what_cannot_be_killed_is_final_after_a_bound_and_keeps_what_it_holds(one: One) -> None:
    one.rig.runtime.obeys_stop = False
    one.rig.runtime.unkillable = True
    one.begin(grace_s=1.0)
    await one.running()
    one.executor.stop(StopWord.CANCELLED)
    await one.rig.clock.advance(120)
    end = await one.end()
    assert (end.kind, end.reason.word) == ("LOST", "platform_error")
    assert "could not be killed on the machine gpu-1" in end.reason.detail
    assert one.record.unsafe
    one.rig.runtime.unkillable = False
    await one.rig.clock.advance(60)
    assert not one.record.unsafe


async def test_an_engine_that_is_away_is_no_container_that_cannot_be_killed(one: One) -> None:
    one.rig.runtime.obeys_stop = False
    one.begin(grace_s=1.0)
    await one.running()
    one.executor.stop(StopWord.CANCELLED)
    one.rig.runtime.away = True
    await one.rig.clock.advance(600)
    assert one.rig.told.end_of(one.attempt) is None
    one.rig.runtime.away = False
    await one.rig.clock.advance(10)
    assert (await one.end()).kind == "CANCELLED"


async def test_a_process_that_never_starts_is_given_up(one: One) -> None:
    one.begin()
    await one.rig.clock.advance(70)
    end = await one.end()
    assert (end.kind, end.reason.word) == ("FAILED", "start_failed")
    assert one.rig.runtime.kills


async def test_a_container_that_ends_without_a_record_is_no_success(one: One) -> None:
    one.begin()
    await one.running()
    one.rig.runtime.exit(one.attempt, 0)
    end = await one.end()
    assert (end.kind, end.reason.word) == ("LOST", "platform_error")
    assert not end.reason.HasField("exit_code")


async def test_a_container_that_was_removed_by_hand(one: One) -> None:
    one.begin()
    await one.running()
    del one.rig.runtime.containers[one.attempt]
    one.executor.nudge()
    end = await one.end()
    assert (end.kind, end.reason.word) == ("FAILED", "killed_outside")


async def test_a_program_that_is_not_there(one: One) -> None:
    one.begin()
    await one.settle()
    record = EndRecord(BoxEnd.START_FAILED, errno="ENOENT", stage=StartStage.EXEC)
    one.rig.runtime.end(one.attempt, record)
    end = await one.end()
    assert end.reason.word == "command_not_found"
    assert end.reason.detail == "This image has no shell. Give the command as a list."


async def test_what_the_image_says_stands_in_the_sentence(one: One) -> None:
    """It used to be the folder `/` and a user without a name: the image's config was not at hand at the end."""
    one.rig.runtime.image = LocalImage("sha256:feed", working_dir="/app", user="app")
    one.begin()
    await one.settle()
    one.rig.runtime.end(
        one.attempt,
        EndRecord(BoxEnd.START_FAILED, errno="ENOTDIR", error="/app is a file there", stage=StartStage.WORKDIR),
    )
    end = await one.end()
    assert end.reason.word == "image_bad"
    assert end.reason.detail.startswith("The image says WORKDIR /app, but /app is a file there. ")


async def test_a_full_disk_delays_the_report_of_the_end_and_loses_it_not(one: One) -> None:
    one.begin()
    await one.running()
    one.rig.store.full = True
    one.rig.runtime.end(one.attempt, DONE)
    await one.rig.clock.advance(60)
    assert one.rig.told.end_of(one.attempt) is None
    one.rig.store.full = False
    await one.rig.clock.advance(20)
    assert (await one.end()).kind == "SUCCEEDED"


async def test_what_a_container_wrote_goes_before_its_end_is_stored_when_the_disk_is_full(one: One) -> None:
    """It used to wait for room that only its own removal could make."""
    one.begin()
    await one.running()
    one.rig.store.full = True
    one.rig.runtime.end(one.attempt, DONE)
    await one.rig.clock.advance(5)
    assert one.attempt in one.rig.runtime.removed
    one.rig.store.full = False
    await one.rig.clock.advance(20)
    assert (await one.end()).kind == "SUCCEEDED", "its record lies in the box"


async def test_a_container_that_alone_can_tell_its_end_stays_until_that_is_stored(one: One) -> None:
    one.begin()
    await one.running()
    one.rig.store.full = True
    one.rig.runtime.exit(one.attempt, 255)
    await one.rig.clock.advance(10)
    assert one.attempt not in one.rig.runtime.removed


@pytest.mark.parametrize(
    ("word", "grace_s", "want_ms"),
    [
        (StopWord.DISK_FULL, 600.0, 5_000),  # it would go on to write for ten minutes
        (StopWord.DISK_FULL, 2.0, None),
        (StopWord.CANCELLED, 600.0, None),
    ],
)
async def test_a_task_that_fills_the_disk_gets_little_grace(
    one: One, word: StopWord, grace_s: float, want_ms: int | None
) -> None:
    one.begin(grace_s=grace_s)
    await one.running()
    one.executor.stop(word)
    await one.end()
    assert one.rig.runtime.graces == [want_ms]


async def test_a_stop_that_the_disk_takes_no_more_is_a_kill(one: One) -> None:
    """The order is a file. The attempt used to count as a failure of the platform."""
    one.begin(grace_s=10.0)
    await one.running()
    one.rig.runtime.stop_error = OSError(28, "No space left on device")
    one.record.stop_detail = "It had written 40GiB to the disk of gpu-1."
    one.executor.stop(StopWord.DISK_FULL)
    end = await one.end()
    assert one.rig.runtime.kills
    assert (end.kind, end.reason.word) == ("FAILED", "disk_full")
    assert "It had written 40GiB" in end.reason.detail


async def test_adopted_while_it_runs(one: One) -> None:
    one.rig.runtime.containers[one.attempt] = ContainerFacts(ContainerState.RUNNING, "c0ffee")
    one.rig.runtime.run(one.attempt)
    one.begin(adopted=True)
    await one.rig.clock.advance(1)
    assert one.rig.told.kinds(one.attempt) == ["PROCESS_STARTED"]
    one.rig.runtime.end(one.attempt, DONE)
    assert (await one.end()).kind == "SUCCEEDED"
    assert not one.rig.runtime.started


async def test_adopted_after_it_ended(one: One) -> None:
    one.rig.runtime.containers[one.attempt] = ContainerFacts(ContainerState.RUNNING, "c0ffee")
    one.rig.runtime.run(one.attempt)
    one.rig.runtime.end(one.attempt, DONE)
    one.begin(adopted=True)
    assert (await one.end()).kind == "SUCCEEDED"
    assert not one.rig.runtime.started


async def test_adopted_after_a_reboot_found_exited_with_0(one: One) -> None:
    one.record.boot_id = "boot-0"
    one.rig.runtime.containers[one.attempt] = ContainerFacts(ContainerState.EXITED, "c0ffee", exit_code=0)
    one.begin(adopted=True)
    end = await one.end()
    assert (end.kind, end.reason.word) == ("LOST", "node_lost")


async def test_adopted_when_its_container_is_gone_though_it_ran(one: One) -> None:
    one.rig.runtime.run(one.attempt)
    one.begin(adopted=True)
    end = await one.end()
    assert end.reason.word == "killed_outside"
    assert not one.rig.runtime.started, "what ran once is never started again"


async def test_a_lost_nudge_is_made_up_for_by_the_next(one: One) -> None:
    one.begin()
    await one.running()
    one.rig.runtime.on_change = lambda attempt: None
    one.rig.runtime.end(one.attempt, DONE)
    await one.rig.clock.advance(1)
    assert one.rig.told.end_of(one.attempt) is None
    one.executor.nudge()  # the sweep does that
    assert (await one.end()).kind == "SUCCEEDED"


async def test_the_first_lease_of_a_task(one: One) -> None:
    one.begin(lease_enforced=True, lease_s=120.0)
    await one.settle()
    order = one.rig.runtime.orders[one.attempt]
    assert order.lease_until_boot_ns == round((one.rig.clock.monotonic() + 90) * NS)


@pytest.mark.parametrize("left_s", [-5, 20])
@pytest.mark.parametrize("granted", [True, False])
async def test_a_lease_that_ran_out_in_a_silence_does_not_end_the_next_attempt(
    one: One, granted: bool, left_s: float
) -> None:
    """TaskManager was back and sent a launch before the next heartbeat was answered: the attempt ended at once.

    It had granted nothing since its own start when a report came before the heartbeat.
    """
    now = one.rig.clock.monotonic()
    one.rig.context.lease = Lease(round((now + left_s) * NS))
    one.begin(lease_enforced=granted, lease_s=120.0)
    await one.settle()
    assert not one.rig.runtime.orders, "it begins with the next answer, and does not end with the old lease"
    one.rig.context.lease = Lease(round((now + 90) * NS))
    one.executor.lease_answered()
    await one.settle()
    assert one.rig.runtime.orders[one.attempt].lease_until_boot_ns == round((now + 90) * NS)


# --- more time ------------------------------------------------------------------------------------------------


def taken(one: One, timeout_ms: int) -> None:
    """The launcher says that it counts by it."""
    runtime = one.rig.runtime
    runtime.records[one.attempt] = replace(runtime.records[one.attempt], timeout_ms=timeout_ms)
    one.executor.nudge()


async def test_more_time_is_handed_over_and_reported_once_the_launcher_counts_by_it(one: One) -> None:
    one.begin()
    await one.running()
    order = ExtendAttempt(one.attempt, 2_400.0, (Extension("ann", 600.0), Extension("root", 1_200.0, forced=True)))
    assert one.executor.extend(order)
    one.executor.nudge()
    await one.settle()
    assert one.rig.runtime.extended == [(one.attempt, 2_400_000)]
    assert not one.executor.extend(order), "said again with each heartbeat"
    assert not one.executor.extend(ExtendAttempt(one.attempt, 1_200.0)), "an older order that comes late"
    assert not one.rig.told.reports[-1].HasField("timeout_s")
    taken(one, 2_400_000)
    await one.rig.clock.advance(0.1)
    assert (one.rig.told.reports[-1].kind, one.rig.told.reports[-1].timeout_s) == ("PROCESS_STARTED", 2_400.0)
    # Neither the launcher's old limit nor the Worker's own alarm behind it strikes.
    await one.rig.clock.advance(2_000)
    assert not one.rig.runtime.kills
    one.rig.runtime.end(one.attempt, EndRecord(BoxEnd.TIMED_OUT, signal=15, run_ns=2_400 * NS, timeout_ms=2_400_000))
    end = await one.end()
    assert (end.kind, end.timeout_s) == ("TIMED_OUT", 2_400.0)
    assert end.reason.detail == "It ran past its timeout of 40m and was ended."
    await eventually(one.life.done)
    platform = (one.rig.mount.job_folder(one.attempt) / "platform.log").read_text()
    assert "ann gave it 10m more." in platform
    assert "root gave it 20m more, although promised starts are delayed." in platform
    assert "Its timeout is 40m now, until " in platform


async def test_time_that_came_too_late_is_never_said_to_have_counted(one: One) -> None:
    one.begin()
    await one.running()
    assert one.executor.extend(ExtendAttempt(one.attempt, 1_200.0, (Extension("ann", 600.0),)))
    one.rig.runtime.end(one.attempt, EndRecord(BoxEnd.TIMED_OUT, signal=15, run_ns=600 * NS, timeout_ms=600_000))
    end = await one.end()
    assert (end.kind, end.timeout_s) == ("TIMED_OUT", 600.0)
    assert end.reason.detail == ("It ran past its timeout of 10m and was ended. Its extension to 20m came too late.")
    assert not one.executor.extend(ExtendAttempt(one.attempt, 3_000.0)), "it has ended"


async def test_a_launcher_that_takes_no_time_is_killed_at_the_new_limit_not_before(one: One) -> None:
    one.begin()
    await one.running()
    assert one.executor.extend(ExtendAttempt(one.attempt, 1_200.0))
    one.executor.nudge()
    await one.settle()
    await one.rig.clock.advance(1_100)
    assert not one.rig.runtime.kills
    await one.rig.clock.advance(200)
    assert one.rig.runtime.kills


async def test_a_full_disk_delays_more_time_until_it_is_said_again(one: One) -> None:
    one.begin()
    await one.running()
    order = ExtendAttempt(one.attempt, 1_200.0, (Extension("ann", 600.0),))
    one.rig.runtime.extend_error = OSError(28, "No space left on device")
    assert one.executor.extend(order)
    one.executor.nudge()
    await one.settle()
    one.rig.runtime.extend_error = None
    assert one.executor.extend(order)
    one.executor.nudge()
    await one.settle()
    assert one.rig.runtime.extended == [(one.attempt, 1_200_000)]
    assert one.record.platform_log.count(b"ann gave it 10m more.") == 1


@pytest.mark.parametrize(("is_owners", "handed"), [(True, 0), (False, 1)])
async def test_files_of_an_image_user_are_handed_over_only_where_they_are_not_the_accounts(
    one: One, monkeypatch: pytest.MonkeyPatch, is_owners: bool, handed: int
) -> None:
    given: list[Path] = []
    monkeypatch.setattr(finish, "give_to", lambda home, uid, gid: given.append(home))
    runtime = one.rig.runtime
    start = runtime.start

    async def with_a_home(order: StartOrder) -> ContainerFacts:
        assert (order.account_uid, order.account_gid) == (20_001, 20_001)
        return replace(await start(order), notes=("A note of its home.",), home_is_owners=is_owners)

    monkeypatch.setattr(runtime, "start", with_a_home)
    one.begin(user=RunAs.IMAGE, owner=Owner("ann", 20_001, 20_001, may_use_image_user=True))
    await one.running()
    assert b"A note of its home." in one.record.platform_log
    runtime.end(one.attempt, DONE)
    await one.end()
    assert len(given) == handed


async def test_what_is_being_stopped_gets_no_time(one: One) -> None:
    one.begin()
    await one.running()
    one.rig.runtime.obeys_stop = False
    one.executor.stop(StopWord.CANCELLED)
    await one.settle()
    assert not one.executor.extend(ExtendAttempt(one.attempt, 1_200.0))
    assert not one.rig.runtime.extended
