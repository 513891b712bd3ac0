"""The heartbeat: leases, orders, silence, on a clock that tests move."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

import pytest

from headway.errors import Fenced, Unavailable
from headway.ids import AttemptId
from tests.support.clock import FakeClock
from tests.unit.worker.builders import an_attempt
from worker.attempt.leases import Lease
from worker.box import StopWord
from worker.model import ExtendAttempt, Extension
from worker.node.heartbeat import Heartbeat, HeartbeatAnswer

A, B = an_attempt("a"), an_attempt("b")


class Pulse:
    """A heartbeat and all it does."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.answer: HeartbeatAnswer | None = HeartbeatAnswer(lease_s=120, lease_enforced=True)
        self.sent: list[tuple[float, bool]] = []
        self.renewed: list[Lease] = []
        self.stopped: list[tuple[AttemptId, StopWord]] = []
        self.discarded: list[AttemptId] = []
        self.extended: list[ExtendAttempt] = []
        self.again = 0  # how often it was told that TaskManager answers again
        self.delay_s = 0.0
        self.fenced = False
        self.lease = Lease()

        async def send(sent_s: float, suspended: bool) -> HeartbeatAnswer:
            self.sent.append((sent_s, suspended))
            if self.delay_s:
                await clock.sleep(self.delay_s)
            if self.fenced:
                raise Fenced("a later start was heard")
            if self.answer is None:
                raise Unavailable("away")
            return self.answer

        async def renew(lease: Lease, discarded: Collection[AttemptId]) -> None:
            self.renewed.append(lease)

        async def stop(orders: Sequence[tuple[AttemptId, StopWord]]) -> None:
            self.stopped.extend(orders)

        async def discard(attempts: Sequence[AttemptId]) -> None:
            self.discarded.extend(attempts)

        async def extend(orders: Sequence[ExtendAttempt]) -> None:
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
    beat = asyncio.create_task(pulse.heartbeat.send_once())
    await clock.advance(8)
    assert await beat
    assert pulse.renewed == [Lease(round((before + 90) * 1e9))]
    assert pulse.lease == pulse.renewed[-1], "new attempts start with it"


async def test_leases_that_are_not_enforced_are_written_once(clock: FakeClock) -> None:
    pulse = Pulse(clock)
    await pulse.heartbeat.send_once()
    pulse.answer = HeartbeatAnswer(lease_s=120, lease_enforced=False)
    for _ in range(5):
        await pulse.heartbeat.send_once()
    assert [lease.enforced for lease in pulse.renewed] == [True, False]
    assert pulse.sent[-1][1], "the mode is acknowledged"


async def test_deadlines_that_an_earlier_life_wrote_are_taken_back_where_leases_are_not_enforced(
    clock: FakeClock,
) -> None:
    """The Worker was killed, and the other machine left the cluster: tasks ended though each heartbeat was answered."""
    pulse = Pulse(clock)
    pulse.answer = HeartbeatAnswer(lease_s=120, lease_enforced=False)
    await pulse.heartbeat.send_once()
    await pulse.heartbeat.send_once()
    assert pulse.renewed == [Lease()]


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
    pulse.answer = HeartbeatAnswer(lease_s=120, lease_enforced=True)
    await clock.advance(3)
    assert len(pulse.renewed) == renewed + 1
    await clock.advance(30)
    assert pulse.again == 1
    run.cancel()


async def test_a_superseded_worker_ends_what_it_runs_and_itself(clock: FakeClock) -> None:
    """Two machines with one name: without leases to enforce, the older one's tasks used to run on beside their second
    attempts."""
    pulse = Pulse(clock)
    pulse.answer = HeartbeatAnswer(lease_s=120, lease_enforced=False)
    await pulse.heartbeat.send_once()
    pulse.fenced = True
    with pytest.raises(Fenced):
        await pulse.heartbeat.run()
    assert pulse.renewed[-1] == Lease(round(clock.monotonic() * 1e9)), "it is over now"
    assert pulse.lease == pulse.renewed[-1]


async def test_more_time_comes_with_a_heartbeats_answer(clock: FakeClock) -> None:
    pulse = Pulse(clock)
    order = ExtendAttempt(A, 90.0, (Extension("ann", 30.0),))
    pulse.answer = HeartbeatAnswer(lease_s=120, lease_enforced=True, extend=(order,))
    assert await pulse.heartbeat.send_once()
    assert pulse.extended == [order]


async def test_a_planned_stop_of_taskmanager_suspends_leases_before_it_is_answered(clock: FakeClock) -> None:
    pulse = Pulse(clock)
    await pulse.heartbeat.send_once()
    await pulse.heartbeat.suspend_leases()
    assert pulse.renewed[-1] == Lease()
    assert pulse.lease == Lease()


async def test_orders_in_an_answer_are_carried_out(clock: FakeClock) -> None:
    pulse = Pulse(clock)
    pulse.answer = HeartbeatAnswer(120, False, discard=(A,), stop=((B, StopWord.CANCELLED),))
    await pulse.heartbeat.send_once()
    assert pulse.discarded == [A]
    assert pulse.stopped == [(B, StopWord.CANCELLED)]
