"""Taking, stopping, adopting and reaping attempts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from headway.errors import StoreFull
from headway.rpc import convert
from headway.rpc.v1 import common_pb2, worker_pb2
from tests.support.clock import FakeClock
from tests.support.waiting import eventually
from tests.unit.worker.builders import an_attempt
from tests.unit.worker.fakes import NS, Rig, a_rig
from worker import wire
from worker.attempt.admission import RefuseLaunch
from worker.attempt.leases import Lease
from worker.attempt.task_controller import LaunchAccepted, TaskController
from worker.box import BoxEnd, EndRecord, StopWord
from worker.model import AttemptStage, Condition, ExtendAttempt, Extension, LaunchAttempt
from worker.ports import ContainerFacts, ContainerState

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


class Desk:
    """A controller and its world; ``restart`` makes a new one on the same store and containers."""

    def __init__(self, clock: FakeClock, folder: Path) -> None:
        self.clock = clock
        self.folder = folder
        self.conditions: list[Condition] = []
        self.rig: Rig = a_rig(clock, folder, on_acked=lambda attempts: self.controller.acked(attempts))
        self.controller = self._controller()

    def _controller(self) -> TaskController:
        controller = TaskController(self.rig.context, lambda: self.conditions, keep_ended_s=60)
        self.rig.runtime.on_change = controller.nudge
        return controller

    async def restart(self) -> None:
        before = self.rig
        await self.controller.close()
        await before.close()
        self.rig = a_rig(self.clock, self.folder, on_acked=lambda attempts: self.controller.acked(attempts))
        for name in ("runtime", "store"):
            setattr(self.rig, name, getattr(before, name))
            setattr(self.rig.context, name, getattr(before, name))
        self.controller = self._controller()
        await self.controller.adopt()
        await self.clock.settle()

    async def running(self, *attempts: object) -> None:
        for attempt in attempts:
            await self.controller.launch([said(attempt)])
        await self.clock.settle()
        for attempt in attempts:
            self.rig.runtime.run(attempt)  # type: ignore[arg-type]
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
async def desk(clock: FakeClock, tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(clock, tmp_path)
    yield desk
    await desk.controller.close()
    await desk.rig.close()


async def test_what_is_accepted_is_on_the_disk(desk: Desk) -> None:
    (answer,) = await desk.controller.launch([said()])
    assert isinstance(answer, LaunchAccepted)
    assert A in desk.rig.store.rows


async def test_a_full_disk_takes_nothing_and_starts_nothing(desk: Desk) -> None:
    desk.rig.store.full = True
    with pytest.raises(StoreFull):
        await desk.controller.launch([said()])
    await desk.clock.advance(5)
    assert not desk.rig.runtime.started
    assert not desk.controller.live()
    desk.rig.store.full = False
    (answer,) = await desk.controller.launch([said()])
    assert isinstance(answer, LaunchAccepted)


async def test_the_same_launch_at_the_same_moment_makes_one_container(desk: Desk) -> None:
    await asyncio.gather(*(desk.controller.launch([said()]) for _ in range(5)))
    await desk.clock.settle()
    assert desk.rig.runtime.started == [A]


async def test_an_unfit_node_refuses_and_remembers_nothing(desk: Desk) -> None:
    desk.conditions = [Condition("engine_unavailable", "It hangs.", 0.0)]
    (answer,) = await desk.controller.launch([said()])
    assert isinstance(answer, RefuseLaunch)
    assert answer.again_later
    desk.conditions = []
    (answer,) = await desk.controller.launch([said()])
    assert isinstance(answer, LaunchAccepted)


async def test_a_stop_that_comes_first_is_remembered_over_a_restart(desk: Desk) -> None:
    await desk.controller.stop([(A, StopWord.CANCELLED)])
    await desk.restart()
    (answer,) = await desk.controller.launch([said()])
    assert isinstance(answer, RefuseLaunch)
    assert (answer.error.slug, answer.again_later) == ("fenced", False)


async def test_a_stop_at_the_moment_of_the_launch_starts_no_process_for_long(desk: Desk) -> None:
    launching = asyncio.ensure_future(desk.controller.launch([said()]))
    await asyncio.sleep(0)
    await desk.controller.stop([(A, StopWord.CANCELLED)])
    await launching
    await desk.pass_time()
    end = desk.rig.told.end_of(A)
    assert end is not None
    assert end.kind == "CANCELLED"
    assert not desk.rig.runtime.containers


async def test_a_stop_survives_the_worker(desk: Desk) -> None:
    await desk.running(A)
    desk.rig.runtime.obeys_stop = False
    await desk.controller.stop([(A, StopWord.CANCELLED)])
    await desk.clock.settle()
    await desk.restart()
    assert desk.rig.runtime.stops.count((A, StopWord.CANCELLED)) == 2, "said again after the restart"


async def test_more_time_survives_the_worker(desk: Desk) -> None:
    await desk.running(A)
    await desk.controller.extend([ExtendAttempt(A, 120.0, (Extension("ann", 60.0),)), ExtendAttempt(B, 120.0)])
    await desk.clock.settle()
    await desk.restart()
    assert desk.rig.runtime.extended == [(A, 120_000)] * 2, "handed over again: nobody knows whether it arrived"
    await desk.pass_time(2)
    desk.clock.tick(70)
    await desk.pass_time(1)
    assert not desk.rig.runtime.kills, "its first limit is over, with all that the Worker waits behind it"


async def test_why_the_worker_ended_one_for_its_disk_survives_the_worker(desk: Desk) -> None:
    await desk.running(A, B)
    desk.rig.runtime.obeys_stop = False
    await desk.controller.end_for_disk(A, "It had written 40GiB to the disk of gpu-1.")
    await desk.controller.end_for_disk(A, "Said again, it is no news.")
    await desk.clock.settle()
    await desk.restart()
    desk.rig.runtime.end(A, EndRecord(BoxEnd.STOPPED, signal=15, stop_word=StopWord.DISK_FULL))
    await desk.pass_until(lambda: desk.rig.told.end_of(A) is not None)
    end = desk.rig.told.end_of(A)
    assert end is not None
    assert (end.kind, end.reason.word) == ("FAILED", "disk_full")
    assert end.reason.detail.startswith("It had written 40GiB to the disk of gpu-1.")
    assert desk.rig.told.end_of(B) is None


async def test_one_that_is_ending_already_keeps_its_reason(desk: Desk) -> None:
    await desk.running(A)
    desk.rig.runtime.obeys_stop = False
    await desk.controller.stop([(A, StopWord.CANCELLED)])
    await desk.controller.end_for_disk(A, "It had written 40GiB.")
    await desk.controller.end_for_disk(B, "Never heard of it.")
    record = desk.controller.find(A)
    assert record is not None
    assert (record.stop, record.stop_detail) == (StopWord.CANCELLED, "")
    assert desk.controller.find(B) is None


async def test_a_restart_takes_back_what_runs_and_reports_what_ended(desk: Desk) -> None:
    await desk.running(A, B)
    await desk.controller.close()
    desk.rig.runtime.end(B, DONE)
    await desk.restart()
    assert A in desk.controller.live()
    await desk.pass_time()
    end = desk.rig.told.end_of(B)
    assert end is not None
    assert end.kind == "SUCCEEDED"
    assert desk.rig.told.end_of(A) is None
    assert desk.rig.runtime.started == [A, B], "nothing was started again"


async def test_an_end_without_an_answer_is_told_again_after_a_restart(desk: Desk) -> None:
    await desk.running(A)
    desk.rig.told.away = True
    desk.rig.runtime.end(A, DONE)
    await desk.pass_time()
    record = desk.controller.find(A)
    assert record is not None
    assert record.stage is AttemptStage.ENDED
    assert desk.controller.live() == [A]
    await desk.restart()
    await desk.pass_time()
    assert desk.rig.told.kinds(A) == ["SUCCEEDED"]
    await eventually(lambda: not desk.controller.live())
    await desk.restart()
    await desk.pass_time()
    assert desk.rig.told.kinds(A) == [], "answered: never told again"


async def test_a_superseded_attempt_ends_without_a_word(desk: Desk) -> None:
    await desk.running(A)
    told = len(desk.rig.told.kinds(A))
    await desk.controller.discard([A, B])
    await desk.pass_time()
    assert desk.rig.runtime.stops == [(A, StopWord.SUPERSEDED)]
    assert len(desk.rig.told.kinds(A)) == told
    assert not desk.controller.live()
    assert not desk.rig.runtime.containers


async def test_a_bad_end_that_nobody_wants_any_more(desk: Desk) -> None:
    await desk.running(A)
    desk.rig.told.away = True
    desk.rig.runtime.end(A, FAILURE)
    await desk.pass_time()
    await desk.controller.discard([A])
    await desk.pass_time(1)
    assert not desk.controller.live()


async def test_a_good_end_of_a_discarded_attempt_is_told_once(desk: Desk) -> None:
    """TaskManager may still take it. Until it has answered, the attempt counts as live."""
    await desk.running(A)
    desk.rig.told.away = True
    desk.rig.runtime.end(A, DONE)
    await desk.pass_time()
    for _ in range(2):  # with each heartbeat
        await desk.controller.discard([A])
        await desk.pass_time(1)
    assert desk.controller.live() == [A]
    desk.rig.told.away = False
    desk.rig.told.discard = [A]
    await desk.pass_time(10)
    assert desk.rig.told.end_of(A) is not None
    await desk.controller.discard([A], heard=True)
    await desk.pass_time(1)
    assert not desk.controller.live()


async def test_an_attempt_that_ends_well_though_it_was_discarded_is_told(desk: Desk) -> None:
    await desk.running(A)
    await desk.controller.discard([A])
    desk.rig.runtime.end(A, DONE)
    await desk.pass_time()
    assert desk.rig.told.kinds(A)[-1] == "SUCCEEDED"
    assert not desk.controller.live()


async def test_a_good_end_is_told_after_a_restart_though_it_was_discarded(desk: Desk) -> None:
    await desk.running(A)
    desk.rig.told.away = True
    desk.rig.runtime.end(A, DONE)
    await desk.pass_time()
    await desk.controller.discard([A])
    await desk.restart()
    await desk.pass_time(10)
    assert desk.rig.told.kinds(A)[-1] == "SUCCEEDED"
    assert not desk.controller.live()


async def test_containers_that_nobody_owns_are_reaped_and_others_left_alone(desk: Desk) -> None:
    await desk.running(A)
    stray = an_attempt("stray")
    desk.rig.runtime.containers[stray] = ContainerFacts(ContainerState.RUNNING, "beef")
    await desk.controller.sweep()
    assert desk.rig.runtime.removed == [stray]
    assert A in desk.rig.runtime.containers


async def test_an_engine_that_is_away_is_no_reason_to_reap_or_end_anything(desk: Desk) -> None:
    await desk.running(A)
    desk.rig.runtime.away = True
    await desk.controller.sweep()
    await desk.clock.advance(60)
    assert desk.rig.told.end_of(A) is None
    assert desk.controller.live() == [A]


async def test_the_sweep_finds_what_no_nudge_told(desk: Desk) -> None:
    await desk.running(A)
    desk.rig.runtime.on_change = lambda attempt: None
    desk.rig.runtime.end(A, DONE)
    await desk.pass_time(0.5)
    assert desk.rig.told.end_of(A) is None
    await desk.controller.sweep()
    await desk.pass_time()
    assert desk.rig.told.end_of(A) is not None


async def test_what_has_ended_is_forgotten_after_a_day(desk: Desk) -> None:
    await desk.running(A)
    desk.rig.runtime.end(A, DONE)
    await desk.pass_time()
    await eventually(lambda: not desk.controller.live())
    await desk.clock.advance(3600)
    await desk.controller.sweep()
    assert desk.controller.find(A) is not None, "a launch that comes late is still refused"
    await desk.clock.advance(90_000)
    await desk.controller.sweep()
    assert desk.controller.find(A) is None
    assert A not in desk.rig.store.rows


async def test_nothing_begins_once_the_worker_closes(desk: Desk) -> None:
    await desk.controller.close()
    (answer,) = await desk.controller.launch([said()])
    assert isinstance(answer, LaunchAccepted)
    await desk.clock.settle()
    assert not desk.rig.runtime.started
    await desk.restart()
    desk.controller.lease_answered(Lease())
    await desk.clock.settle()
    assert desk.rig.runtime.started == [A]


@pytest.mark.parametrize("copied_before", [True, False])
async def test_the_line_about_dropped_output_survives_a_restart(desk: Desk, copied_before: bool) -> None:
    # It used to be cut off again by the copy that a restarted Worker makes to be sure.
    spool = desk.folder / "spool"
    spool.mkdir()
    desk.rig.runtime.spools[A] = spool
    await desk.running(A)
    desk.rig.told.away = True
    if not copied_before:
        desk.rig.mount.problem = "It hangs."
    (spool / "stdout").write_bytes(b"output")
    desk.rig.runtime.end(A, EndRecord(BoxEnd.EXITED, exit_code=0, stdout_bytes=6, dropped_bytes=5 << 20))
    await desk.pass_until(lambda: bool(desk.rig.context.reports._waiting))
    log = desk.rig.mount.job_folder(A) / "stdout.log"
    assert log.exists() == copied_before
    await desk.restart()
    await desk.pass_until(lambda: desk.controller.find(A).stage is AttemptStage.DONE)  # type: ignore[union-attr]
    assert log.read_bytes().startswith(b"output\n[headway] 5MiB of output")


async def test_heartbeats_tell_what_task_manager_needs_to_take_an_attempt_back(desk: Desk) -> None:
    await desk.running(A)
    ((record, launch),) = desk.controller.held()
    told = wire.live_attempt(record, launch)
    assert convert.attempt_id(told.attempt) == A
    assert (told.generation, tuple(told.gpu_uuids), told.ended) == (launch.generation, launch.gpu_uuids, False)
    assert told.HasField("process_started_at")
    desk.rig.told.away = True
    desk.rig.runtime.end(A, DONE)
    await desk.pass_time()
    ((record, launch),) = desk.controller.held()
    assert wire.live_attempt(record, launch).ended
    desk.rig.told.away = False
    await desk.pass_time(10)
    assert desk.controller.held() == []
    assert desk.rig.told.reports[-1].generation == launch.generation
