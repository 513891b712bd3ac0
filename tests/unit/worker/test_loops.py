"""Reports, heartbeats, registration, alarms: the Worker's loops on a clock that tests move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from headway.errors import Fenced, Unavailable
from headway.ids import AttemptId
from headway.rpc import convert
from headway.rpc.v1 import task_manager_pb2 as tm
from tests.support.clock import FakeClock
from tests.unit.worker.builders import an_attempt
from worker.attempt.alarms import Alarms
from worker.attempt.leases import Lease
from worker.attempt.reports import Reports
from worker.box import StopWord
from worker.machine.conditions import Conditions
from worker.machine.heartbeat import Answer, Heartbeat
from worker.machine.registration import Registration
from worker.model import Extend, Given

A, B = an_attempt("a"), an_attempt("b")


def a_report(attempt: AttemptId, kind: str) -> tm.AttemptReport:
    return tm.AttemptReport(attempt=convert.attempt_to_pb(attempt), kind=kind)


class Line:
    """TaskManager's ear."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.away = False
        self.gate: asyncio.Event | None = None
        self.acked: list[AttemptId] = []
        self.discarded: list[AttemptId] = []

    async def send(self, reports: Sequence[tm.AttemptReport]) -> Sequence[AttemptId]:
        self.batches.append([f"{r.attempt.task.name} {r.kind}" for r in reports])
        if self.gate is not None:
            await self.gate.wait()
        if self.away:
            raise Unavailable("away")
        return []


@pytest.fixture
async def line() -> Line:
    return Line()


@pytest.fixture
async def reports(clock: FakeClock, line: Line) -> AsyncIterator[Reports]:
    reports = Reports(line.send, clock, on_acked=line.acked.extend, on_discard=line.discarded.extend)
    task = asyncio.create_task(reports.run())
    yield reports
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_end_is_sent_at_once_and_stands_for_what_came_before(
    reports: Reports, line: Line, clock: FakeClock
) -> None:
    reports.tell(A, a_report(A, "CONTAINER_STARTING"))
    reports.tell(A, a_report(A, "PROCESS_STARTED"))
    reports.tell(A, a_report(A, "SUCCEEDED"), end=True)
    reports.tell(A, a_report(A, "PROCESS_STARTED"))
    await clock.settle()
    assert line.batches == [["a SUCCEEDED"]]
    assert line.acked == [A]


async def test_what_is_no_end_is_told_within_a_moment(reports: Reports, line: Line, clock: FakeClock) -> None:
    reports.tell(A, a_report(A, "PROCESS_STARTED"))
    await clock.settle()
    assert line.batches == []
    await clock.advance(0.1)
    assert line.batches == [["a PROCESS_STARTED"]]
    assert line.acked == []


async def test_what_piles_up_goes_in_one_message(reports: Reports, line: Line, clock: FakeClock) -> None:
    line.gate = asyncio.Event()
    reports.tell(A, a_report(A, "SUCCEEDED"), end=True)
    await clock.settle()
    for number in range(40):
        attempt = an_attempt(f"t{number}")
        reports.tell(attempt, a_report(attempt, "SUCCEEDED"), end=True)
    line.gate.set()
    await clock.settle()
    assert [len(batch) for batch in line.batches] == [1, 40]


async def test_an_answer_that_got_lost_is_asked_for_again(reports: Reports, line: Line, clock: FakeClock) -> None:
    line.away = True
    reports.tell(A, a_report(A, "FAILED"), end=True)
    await clock.advance(60)
    tries = len(line.batches)
    assert 10 < tries < 40, "with growing pauses"
    assert line.acked == []
    line.away = False
    await clock.advance(6)
    assert line.acked == [A]
    assert len(line.batches) == tries + 1


async def test_what_was_not_taken_is_offered_at_once_when_taskmanager_answers_again(
    reports: Reports, line: Line, clock: FakeClock
) -> None:
    """Ends that are told seconds after the first heartbeat leave GPUs idle, and promises behind them in doubt."""
    line.away = True
    reports.tell(A, a_report(A, "SUCCEEDED"), end=True)
    await clock.advance(30)
    line.away = False
    tries = len(line.batches)
    reports.hurry()
    await clock.settle()
    assert (len(line.batches), line.acked) == (tries + 1, [A])


async def test_a_newer_report_is_not_acked_with_the_older(reports: Reports, line: Line, clock: FakeClock) -> None:
    line.gate = asyncio.Event()
    reports.tell(A, a_report(A, "PROCESS_STARTED"))
    await clock.advance(0.1)
    reports.tell(A, a_report(A, "SUCCEEDED"), end=True)
    line.gate.set()
    await clock.settle()
    assert line.batches == [["a PROCESS_STARTED"], ["a SUCCEEDED"]]
    assert line.acked == [A]


# --- heartbeat -------------------------------------------------------------------------------------------


class Pulse:
    """A heartbeat and all it does."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.answer: Answer | None = Answer(lease_s=120, lease_enforced=True)
        self.sent: list[tuple[float, bool]] = []
        self.renewed: list[Lease] = []
        self.stopped: list[tuple[AttemptId, StopWord]] = []
        self.discarded: list[AttemptId] = []
        self.extended: list[Extend] = []
        self.again = 0  # how often it was told that TaskManager answers again
        self.delay_s = 0.0
        self.fenced = False
        self.lease = Lease()

        async def send(sent_s: float, suspended: bool) -> Answer:
            self.sent.append((sent_s, suspended))
            if self.delay_s:
                await clock.sleep(self.delay_s)
            if self.fenced:
                raise Fenced("a later start was heard")
            if self.answer is None:
                raise Unavailable("away")
            return self.answer

        async def renew(lease: Lease) -> None:
            self.renewed.append(lease)

        async def stop(orders: Sequence[tuple[AttemptId, StopWord]]) -> None:
            self.stopped.extend(orders)

        async def discard(attempts: Sequence[AttemptId]) -> None:
            self.discarded.extend(attempts)

        async def extend(orders: Sequence[Extend]) -> None:
            self.extended.extend(orders)

        def set_lease(lease: Lease) -> None:
            self.lease = lease

        self.heartbeat = Heartbeat(
            send,
            clock,
            every_s=10,
            lease_stop_s=30,
            set_lease=set_lease,
            renew=renew,
            stop=stop,
            discard=discard,
            extend=extend,
            on_answered_again=self.answered_again,
        )

    def answered_again(self) -> None:
        self.again += 1


async def test_a_lease_counts_from_the_sending_not_from_the_answer(clock: FakeClock) -> None:
    pulse = Pulse(clock)
    pulse.delay_s = 8
    before = clock.monotonic()
    beat = asyncio.create_task(pulse.heartbeat.beat())
    await clock.advance(8)
    assert await beat
    assert pulse.renewed == [Lease(round((before + 90) * 1e9))]
    assert pulse.lease == pulse.renewed[-1], "new attempts start with it"


async def test_leases_that_are_not_enforced_are_written_once(clock: FakeClock) -> None:
    pulse = Pulse(clock)
    await pulse.heartbeat.beat()
    pulse.answer = Answer(lease_s=120, lease_enforced=False)
    for _ in range(5):
        await pulse.heartbeat.beat()
    assert [lease.enforced for lease in pulse.renewed] == [True, False]
    assert pulse.sent[-1][1], "the mode is acknowledged"


async def test_while_taskmanager_is_away_leases_run_on_and_it_is_asked_often(clock: FakeClock) -> None:
    pulse = Pulse(clock)
    run = asyncio.create_task(pulse.heartbeat.run())
    await clock.settle()
    renewed = len(pulse.renewed)
    pulse.answer = None
    await clock.advance(60)
    assert len(pulse.renewed) == renewed
    assert len(pulse.sent) > 20
    assert pulse.again == 0
    pulse.answer = Answer(lease_s=120, lease_enforced=True)
    await clock.advance(3)
    assert len(pulse.renewed) == renewed + 1
    await clock.advance(30)
    assert pulse.again == 1
    run.cancel()


async def test_a_superseded_worker_ends_what_it_runs_and_itself(clock: FakeClock) -> None:
    """Two machines with one name: without leases to enforce, the older one's tasks used to run on beside their second
    attempts."""
    pulse = Pulse(clock)
    pulse.answer = Answer(lease_s=120, lease_enforced=False)
    await pulse.heartbeat.beat()
    pulse.fenced = True
    with pytest.raises(Fenced):
        await pulse.heartbeat.run()
    assert pulse.renewed[-1] == Lease(round(clock.monotonic() * 1e9)), "it is over now"
    assert pulse.lease == pulse.renewed[-1]


async def test_more_time_comes_with_a_heartbeats_answer(clock: FakeClock) -> None:
    pulse = Pulse(clock)
    order = Extend(A, 90.0, (Given("ann", 30.0),))
    pulse.answer = Answer(lease_s=120, lease_enforced=True, extend=(order,))
    assert await pulse.heartbeat.beat()
    assert pulse.extended == [order]


async def test_a_planned_stop_of_taskmanager_suspends_leases_before_it_is_answered(clock: FakeClock) -> None:
    pulse = Pulse(clock)
    await pulse.heartbeat.beat()
    await pulse.heartbeat.suspend_leases()
    assert pulse.renewed[-1] == Lease()
    assert pulse.lease == Lease()


async def test_orders_in_an_answer_are_carried_out(clock: FakeClock) -> None:
    pulse = Pulse(clock)
    pulse.answer = Answer(120, False, discard=(A,), stop=((B, StopWord.CANCELLED),))
    await pulse.heartbeat.beat()
    assert pulse.discarded == [A]
    assert pulse.stopped == [(B, StopWord.CANCELLED)]


# --- registration ------------------------------------------------------------------------------------------


class Register:
    """ResourceManager's book."""

    def __init__(self, clock: FakeClock) -> None:
        self.calls: list[str] = []
        self.away = False
        self.fenced = False
        self.known = True
        self.conditions = Conditions(clock)

        async def register() -> float:
            self.calls.append("register")
            if self.fenced:
                raise Fenced("a newer one is registered")
            if self.away:
                raise Unavailable("away")
            return 10.0

        async def report() -> bool:
            self.calls.append("report")
            if self.away:
                raise Unavailable("away")
            return self.known

        self.registration = Registration(register, report, self.conditions, clock)


async def test_registers_until_it_is_heard_and_reports_changes_at_once(clock: FakeClock) -> None:
    book = Register(clock)
    book.away = True
    run = asyncio.create_task(book.registration.run())
    await clock.advance(12)
    assert 3 < len(book.calls) < 12
    book.away = False
    await clock.advance(6)
    assert book.registration.registered.is_set()
    book.calls.clear()
    book.conditions.set("disk_full", "The disk is full.")
    await clock.settle()
    assert book.calls == ["report"]
    book.conditions.set("disk_full", "The disk is full.")
    await clock.settle()
    assert book.calls == ["report"], "no change, no report"
    run.cancel()


async def test_a_node_that_nobody_polls_makes_sure_that_it_is_known(clock: FakeClock) -> None:
    book = Register(clock)
    run = asyncio.create_task(book.registration.run())
    await clock.settle()
    for _ in range(12):
        await clock.advance(10)
        book.registration.polled()
    assert book.calls == ["register"], "polls are proof enough"
    book.known = False
    await clock.advance(61)
    assert book.calls[:3] == ["register", "report", "register"]
    run.cancel()


async def test_a_second_worker_of_the_same_name_gives_way(clock: FakeClock) -> None:
    book = Register(clock)
    book.fenced = True
    with pytest.raises(Fenced):
        await book.registration.run()


# --- alarms ------------------------------------------------------------------------------------------------


async def test_alarms_ring_in_order_and_not_when_cancelled(clock: FakeClock) -> None:
    alarms, rung = Alarms(clock), list[str]()
    run = asyncio.create_task(alarms.run())
    now = clock.monotonic()
    alarms.set(now + 20, lambda: rung.append("late"))
    await clock.settle()
    alarms.set(now + 10, lambda: rung.append("early"))
    cancelled = alarms.set(now + 15, lambda: rung.append("never"))
    alarms.cancel(cancelled)
    alarms.cancel(cancelled)
    await clock.advance(12)
    assert rung == ["early"]
    await clock.advance(10)
    assert rung == ["early", "late"]
    run.cancel()


async def test_cancelled_alarms_hold_nothing_in_memory(clock: FakeClock) -> None:
    alarms = Alarms(clock)
    for _ in range(10_000):
        alarms.cancel(alarms.set(clock.monotonic() + 86_400, lambda: None))
    assert len(alarms._heap) < 200
