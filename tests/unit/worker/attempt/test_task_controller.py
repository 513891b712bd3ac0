"""Taking, stopping, adopting and reaping attempts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from headway.errors import StoreFull
from headway.ids import AttemptId
from headway.rpc import convert
from headway.rpc.v1 import common_pb2, worker_pb2
from tests.support.clock import FakeClock
from tests.support.waiting import eventually
from tests.unit.worker.builders import an_attempt
from tests.unit.worker.fakes import NS, Rig, a_rig
from worker import wire
from worker.attempt.launch_verdict import RefuseLaunch
from worker.attempt.leases import Lease
from worker.attempt.task_controller import LaunchAccepted, TaskController
from worker.box import BoxEnd, EndRecord, StopWord
from worker.model import AttemptRecord, AttemptStage, Condition, ExtendAttempt, Extension, LaunchAttempt
from worker.ports import ContainerFacts, ContainerState
from worker.sampling.idle_rule import IdleMode, IdleRule, IdleStep
from worker.sampling.sampler import IdleNews

A, B = an_attempt("a"), an_attempt("b")
DONE = EndRecord(BoxEnd.EXITED, exit_code=0, run_ns=NS)
FAILURE = EndRecord(BoxEnd.EXITED, exit_code=1, run_ns=NS)


def said(attempt: object = A, *, incarnation: int = 7) -> tuple[LaunchAttempt, bytes]:
    """A launch as it came over the wire."""
    message = worker_pb2.LaunchAttempt(
        attempt=convert.attempt_to_pb(attempt),  # type: ignore[arg-type]
        owner=common_pb2.Account(name="ann", uid=20_001, gid=20_001),
        spec=common_pb2.TaskSpec(name="t", image="x", script="true", timeout_s=60, grace_s=1),
        incarnation=incarnation,
    )
    return wire.launch(message), message.SerializeToString()


class ControllerRig:
    """A controller and its world; ``restart`` makes a new one on the same store and containers."""

    def __init__(self, clock: FakeClock, folder: Path) -> None:
        self.clock = clock
        self.folder = folder
        self.conditions: list[Condition] = []
        self.parts: Rig = a_rig(clock, folder, on_acked=lambda attempts: self.controller.acked(attempts))
        self.controller = self._controller()

    def _controller(self) -> TaskController:
        controller = TaskController(self.parts.context, lambda: self.conditions, keep_ended_s=60)
        self.parts.runtime.on_change = controller.nudge
        return controller

    async def restart(self) -> None:
        before = self.parts
        await self.controller.close()
        await before.close()
        self.parts = a_rig(self.clock, self.folder, on_acked=lambda attempts: self.controller.acked(attempts))
        for name in ("runtime", "store"):
            setattr(self.parts, name, getattr(before, name))
            setattr(self.parts.context, name, getattr(before, name))
        self.controller = self._controller()
        await self.controller.adopt()
        await self.clock.settle()

    async def running(self, *attempts: object) -> None:
        for attempt in attempts:
            await self.controller.launch([said(attempt)])
        await self.clock.settle()
        for attempt in attempts:
            self.parts.runtime.run(attempt)  # type: ignore[arg-type]
        await self.clock.advance(0.1)

    async def pass_time(self, seconds: float = 2.0) -> None:
        for _ in range(round(seconds / 0.1)):
            await self.clock.advance(0.1)
            await asyncio.sleep(0.002)

    async def pass_until(self, check: Callable[[], bool]) -> None:
        """Copies work in threads, so that the clock alone does not tell when they are through."""

        async def checked() -> bool:
            await self.clock.advance(0.1)
            return check()

        await eventually(checked, within_s=20)


@pytest.fixture
async def rig(clock: FakeClock, tmp_path: Path) -> AsyncIterator[ControllerRig]:
    rig = ControllerRig(clock, tmp_path)
    yield rig
    await rig.controller.close()
    await rig.parts.close()


async def test_what_is_accepted_is_on_the_disk(rig: ControllerRig) -> None:
    (answer,) = await rig.controller.launch([said()])
    assert isinstance(answer, LaunchAccepted)
    assert A in rig.parts.store.rows


async def test_a_caller_that_goes_away_while_it_is_stored_leaves_no_attempt_that_never_begins(
    rig: ControllerRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored, store = asyncio.Event(), rig.parts.store

    async def slowly(records: Sequence[AttemptRecord]) -> None:
        await stored.wait()
        for record in records:
            await store.put(record)

    monkeypatch.setattr(store, "put_many", slowly)
    call = asyncio.create_task(rig.controller.launch([said()]))
    await rig.clock.settle()
    call.cancel()  # as gRPC does once the deadline of the call is over, or TaskManager is gone
    await rig.clock.settle()
    stored.set()
    (answer,) = await rig.controller.launch([said()])
    await rig.clock.advance(1)
    assert isinstance(answer, LaunchAccepted)
    assert rig.controller.live() == [A]
    assert rig.parts.runtime.started == [A]


async def test_a_full_disk_takes_nothing_and_starts_nothing(rig: ControllerRig) -> None:
    rig.parts.store.full = True
    with pytest.raises(StoreFull):
        await rig.controller.launch([said()])
    await rig.clock.advance(5)
    assert not rig.parts.runtime.started
    assert not rig.controller.live()
    rig.parts.store.full = False
    (answer,) = await rig.controller.launch([said()])
    assert isinstance(answer, LaunchAccepted)


async def test_the_same_launch_at_the_same_moment_makes_one_container(rig: ControllerRig) -> None:
    await asyncio.gather(*(rig.controller.launch([said()]) for _ in range(5)))
    await rig.clock.settle()
    assert rig.parts.runtime.started == [A]


async def test_an_unfit_node_refuses_and_remembers_nothing(rig: ControllerRig) -> None:
    rig.conditions = [Condition("engine_unavailable", "It hangs.", 0.0)]
    (answer,) = await rig.controller.launch([said()])
    assert isinstance(answer, RefuseLaunch)
    assert answer.again_later
    rig.conditions = []
    (answer,) = await rig.controller.launch([said()])
    assert isinstance(answer, LaunchAccepted)


async def test_a_stop_that_comes_first_is_remembered_over_a_restart(rig: ControllerRig) -> None:
    await rig.controller.stop([(A, StopWord.CANCELLED)])
    await rig.restart()
    (answer,) = await rig.controller.launch([said()])
    assert isinstance(answer, RefuseLaunch)
    assert (answer.error.slug, answer.again_later) == ("fenced", False)


async def test_a_stop_at_the_moment_of_the_launch_starts_no_process_for_long(rig: ControllerRig) -> None:
    launching = asyncio.ensure_future(rig.controller.launch([said()]))
    await asyncio.sleep(0)
    await rig.controller.stop([(A, StopWord.CANCELLED)])
    await launching
    await rig.pass_time()
    end = rig.parts.told.end_of(A)
    assert end is not None
    assert end.kind == "CANCELLED"
    assert not rig.parts.runtime.containers


async def test_a_stop_survives_the_worker(rig: ControllerRig) -> None:
    await rig.running(A)
    rig.parts.runtime.obeys_stop = False
    await rig.controller.stop([(A, StopWord.CANCELLED)])
    await rig.clock.settle()
    await rig.restart()
    assert rig.parts.runtime.stops.count((A, StopWord.CANCELLED)) == 2, "said again after the restart"


async def test_more_time_survives_the_worker(rig: ControllerRig) -> None:
    await rig.running(A)
    await rig.controller.extend([ExtendAttempt(A, 120.0, (Extension("ann", 60.0),)), ExtendAttempt(B, 120.0)])
    await rig.clock.settle()
    await rig.restart()
    assert rig.parts.runtime.extended == [(A, 120_000)] * 2, "handed over again: nobody knows whether it arrived"
    await rig.pass_time(2)
    rig.clock.tick(70)
    await rig.pass_time(1)
    assert not rig.parts.runtime.kills, "its first limit is over, with all that the Worker waits behind it"


async def test_why_the_worker_ended_one_for_its_disk_survives_the_worker(rig: ControllerRig) -> None:
    await rig.running(A, B)
    rig.parts.runtime.obeys_stop = False
    await rig.controller.end_for_disk(A, "It had written 40GiB to the disk of gpu-1.")
    await rig.controller.end_for_disk(A, "Said again, it is no news.")
    await rig.clock.settle()
    await rig.restart()
    rig.parts.runtime.end(A, EndRecord(BoxEnd.STOPPED, signal=15, stop_word=StopWord.DISK_FULL))
    await rig.pass_until(lambda: rig.parts.told.end_of(A) is not None)
    end = rig.parts.told.end_of(A)
    assert end is not None
    assert (end.kind, end.reason.word) == ("FAILED", "disk_full")
    assert end.reason.detail.startswith("It had written 40GiB to the disk of gpu-1.")
    assert rig.parts.told.end_of(B) is None


def idle(attempt: AttemptId, step: IdleStep, idle_s: float) -> IdleNews:
    return IdleNews(attempt, step, 2, idle_s)


async def test_idle_gpus_are_warned_of_before_the_attempt_is_ended(rig: ControllerRig) -> None:
    rule = IdleRule(IdleMode.ON, 0.05, 3_600)
    await rig.running(A, B)
    await rig.controller.on_idle(rule, idle(A, IdleStep.HALF, 1_800))
    await rig.pass_time(1)
    notices = [report.notice for report in rig.parts.told.reports if report.notice]
    assert notices[-1].startswith("All of its 2 GPUs have been used less than 5 % for 30m.")
    record = rig.controller.find(A)
    assert record is not None
    assert b"Warning: All of its 2 GPUs" in record.platform_log
    await rig.controller.on_idle(rule, idle(A, IdleStep.OVER, 3_600))
    await rig.pass_until(lambda: rig.parts.told.end_of(A) is not None)
    end = rig.parts.told.end_of(A)
    assert end is not None
    assert (end.kind, end.reason.word) == ("FAILED", "gpu_idle")
    assert end.reason.detail == "All of its 2 GPUs were used less than 5 % for 1h, so Headway ended it."
    assert rig.parts.runtime.stops == [(A, StopWord.GPU_IDLE)]
    assert rig.parts.told.end_of(B) is None


async def test_a_dry_run_ends_nothing(rig: ControllerRig) -> None:
    await rig.running(A)
    await rig.controller.on_idle(IdleRule(IdleMode.DRY_RUN, 0.05, 3_600), idle(A, IdleStep.OVER, 3_600))
    await rig.pass_time(1)
    assert rig.parts.runtime.stops == []
    assert any("Here it goes on." in report.notice for report in rig.parts.told.reports)


async def test_idle_gpus_of_one_that_is_being_stopped_are_no_news(rig: ControllerRig) -> None:
    await rig.running(A)
    rig.parts.runtime.obeys_stop = False
    await rig.controller.stop([(A, StopWord.CANCELLED)])
    for attempt in (A, B):
        await rig.controller.on_idle(IdleRule(IdleMode.ON, 0.05, 60), idle(attempt, IdleStep.OVER, 60))
    record = rig.controller.find(A)
    assert record is not None
    assert (record.stop, record.stop_detail) == (StopWord.CANCELLED, "")


async def test_one_that_is_ending_already_keeps_its_reason(rig: ControllerRig) -> None:
    await rig.running(A)
    rig.parts.runtime.obeys_stop = False
    await rig.controller.stop([(A, StopWord.CANCELLED)])
    await rig.controller.end_for_disk(A, "It had written 40GiB.")
    await rig.controller.end_for_disk(B, "Never heard of it.")
    record = rig.controller.find(A)
    assert record is not None
    assert (record.stop, record.stop_detail) == (StopWord.CANCELLED, "")
    assert rig.controller.find(B) is None


async def test_a_restart_takes_back_what_runs_and_reports_what_ended(rig: ControllerRig) -> None:
    await rig.running(A, B)
    await rig.controller.close()
    rig.parts.runtime.end(B, DONE)
    await rig.restart()
    assert A in rig.controller.live()
    await rig.pass_time()
    end = rig.parts.told.end_of(B)
    assert end is not None
    assert end.kind == "SUCCEEDED"
    assert rig.parts.told.end_of(A) is None
    assert rig.parts.runtime.started == [A, B], "nothing was started again"


async def test_an_end_without_an_answer_is_told_again_after_a_restart(rig: ControllerRig) -> None:
    await rig.running(A)
    rig.parts.told.away = True
    rig.parts.runtime.end(A, DONE)
    await rig.pass_time()
    record = rig.controller.find(A)
    assert record is not None
    assert record.stage is AttemptStage.ENDED
    assert rig.controller.live() == [A]
    await rig.restart()
    await rig.pass_time()
    assert rig.parts.told.kinds(A) == ["SUCCEEDED"]
    await eventually(lambda: not rig.controller.live())
    await rig.restart()
    await rig.pass_time()
    assert rig.parts.told.kinds(A) == [], "answered: never told again"


async def test_a_superseded_attempt_ends_without_a_word(rig: ControllerRig) -> None:
    await rig.running(A)
    told = len(rig.parts.told.kinds(A))
    await rig.controller.discard([A, B])
    await rig.pass_time()
    assert rig.parts.runtime.stops == [(A, StopWord.SUPERSEDED)]
    assert len(rig.parts.told.kinds(A)) == told
    assert not rig.controller.live()
    assert not rig.parts.runtime.containers


async def test_a_bad_end_that_nobody_wants_any_more(rig: ControllerRig) -> None:
    await rig.running(A)
    rig.parts.told.away = True
    rig.parts.runtime.end(A, FAILURE)
    await rig.pass_time()
    await rig.controller.discard([A])
    await rig.pass_time(1)
    assert not rig.controller.live()


async def test_a_good_end_of_a_discarded_attempt_is_told_once(rig: ControllerRig) -> None:
    """TaskManager may still take it. Until it has answered, the attempt counts as live."""
    await rig.running(A)
    rig.parts.told.away = True
    rig.parts.runtime.end(A, DONE)
    await rig.pass_time()
    for _ in range(2):  # with each heartbeat
        await rig.controller.discard([A])
        await rig.pass_time(1)
    assert rig.controller.live() == [A]
    rig.parts.told.away = False
    rig.parts.told.discard = [A]
    await rig.pass_time(10)
    assert rig.parts.told.end_of(A) is not None
    await rig.controller.discard([A], heard=True)
    await rig.pass_time(1)
    assert not rig.controller.live()


async def test_an_attempt_that_ends_well_though_it_was_discarded_is_told(rig: ControllerRig) -> None:
    await rig.running(A)
    await rig.controller.discard([A])
    rig.parts.runtime.end(A, DONE)
    await rig.pass_time()
    assert rig.parts.told.kinds(A)[-1] == "SUCCEEDED"
    assert not rig.controller.live()


async def test_a_good_end_is_told_after_a_restart_though_it_was_discarded(rig: ControllerRig) -> None:
    await rig.running(A)
    rig.parts.told.away = True
    rig.parts.runtime.end(A, DONE)
    await rig.pass_time()
    await rig.controller.discard([A])
    await rig.restart()
    await rig.pass_time(10)
    assert rig.parts.told.kinds(A)[-1] == "SUCCEEDED"
    assert not rig.controller.live()


async def test_containers_that_nobody_owns_are_reaped_and_others_left_alone(rig: ControllerRig) -> None:
    await rig.running(A)
    stray = an_attempt("stray")
    rig.parts.runtime.containers[stray] = ContainerFacts(ContainerState.RUNNING, "beef")
    await rig.controller.sweep()
    assert rig.parts.runtime.removed == [stray]
    assert A in rig.parts.runtime.containers


async def test_an_engine_that_is_away_is_no_reason_to_reap_or_end_anything(rig: ControllerRig) -> None:
    await rig.running(A)
    rig.parts.runtime.away = True
    await rig.controller.sweep()
    await rig.clock.advance(60)
    assert rig.parts.told.end_of(A) is None
    assert rig.controller.live() == [A]


async def test_the_sweep_finds_what_no_nudge_told(rig: ControllerRig) -> None:
    await rig.running(A)
    rig.parts.runtime.on_change = lambda attempt: None
    rig.parts.runtime.end(A, DONE)
    await rig.pass_time(0.5)
    assert rig.parts.told.end_of(A) is None
    await rig.controller.sweep()
    await rig.pass_time()
    assert rig.parts.told.end_of(A) is not None


async def test_what_has_ended_is_forgotten_after_a_day(rig: ControllerRig) -> None:
    await rig.running(A)
    rig.parts.runtime.end(A, DONE)
    await rig.pass_time()
    await eventually(lambda: not rig.controller.live())
    await rig.clock.advance(3600)
    await rig.controller.sweep()
    assert rig.controller.find(A) is not None, "a launch that comes late is still refused"
    await rig.clock.advance(90_000)
    await rig.controller.sweep()
    assert rig.controller.find(A) is None
    assert A not in rig.parts.store.rows


async def test_nothing_begins_once_the_worker_closes(rig: ControllerRig) -> None:
    await rig.controller.close()
    (answer,) = await rig.controller.launch([said()])
    assert isinstance(answer, LaunchAccepted)
    await rig.clock.settle()
    assert not rig.parts.runtime.started
    await rig.restart()
    rig.controller.lease_answered(Lease())
    await rig.clock.settle()
    assert rig.parts.runtime.started == [A]


@pytest.mark.parametrize("copied_before", [True, False])
async def test_the_line_about_dropped_output_survives_a_restart(rig: ControllerRig, copied_before: bool) -> None:
    # It used to be cut off again by the copy that a restarted Worker makes to be sure.
    spool = rig.folder / "spool"
    spool.mkdir()
    rig.parts.runtime.spools[A] = spool
    await rig.running(A)
    rig.parts.told.away = True
    if not copied_before:
        rig.parts.mount.problem = "It hangs."
    (spool / "stdout").write_bytes(b"output")
    rig.parts.runtime.end(A, EndRecord(BoxEnd.EXITED, exit_code=0, stdout_bytes=6, dropped_bytes=5 << 20))
    await rig.pass_until(lambda: bool(rig.parts.context.reports._waiting))
    log = rig.parts.mount.job_folder(A) / "stdout.log"
    assert log.exists() == copied_before
    await rig.restart()
    await rig.pass_until(lambda: rig.controller.find(A).stage is AttemptStage.DONE)  # type: ignore[union-attr]
    assert log.read_bytes().startswith(b"output\n[headway] 5MiB of output")


async def test_heartbeats_tell_what_task_manager_needs_to_take_an_attempt_back(rig: ControllerRig) -> None:
    await rig.running(A)
    ((record, launch),) = rig.controller.held()
    told = wire.live_attempt(record, launch)
    assert convert.attempt_id(told.attempt) == A
    assert (told.generation, tuple(told.gpu_uuids), told.ended) == (launch.generation, launch.gpu_uuids, False)
    assert told.HasField("process_started_at")
    rig.parts.told.away = True
    rig.parts.runtime.end(A, DONE)
    await rig.pass_time()
    ((record, launch),) = rig.controller.held()
    assert wire.live_attempt(record, launch).ended
    rig.parts.told.away = False
    await rig.pass_time(10)
    assert rig.controller.held() == []
    assert rig.parts.told.reports[-1].generation == launch.generation
