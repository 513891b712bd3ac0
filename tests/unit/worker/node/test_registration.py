"""Registration and reports of changes, on a clock that tests move."""

from __future__ import annotations

import asyncio

import pytest

from headway.errors import Fenced, Unavailable
from tests.support.clock import FakeClock
from tests.unit.worker.builders import an_attempt
from worker.machine.conditions import Conditions
from worker.node.registration import Registration

A, B = an_attempt("a"), an_attempt("b")


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
