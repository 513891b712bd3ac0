"""Reports to TaskManager, on a clock that tests move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from headway.errors import Unavailable
from headway.ids import AttemptId
from headway.rpc import convert
from headway.rpc.v1 import task_manager_pb2 as tm
from tests.support.clock import FakeClock
from tests.unit.worker.builders import an_attempt
from worker.attempt.reporter import AttemptReporter

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
async def reports(clock: FakeClock, line: Line) -> AsyncIterator[AttemptReporter]:
    reports = AttemptReporter(line.send, clock, on_acked=line.acked.extend, on_discard=line.discarded.extend)
    task = asyncio.create_task(reports.run())
    yield reports
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_an_end_is_sent_at_once_and_stands_for_what_came_before(
    reports: AttemptReporter, line: Line, clock: FakeClock
) -> None:
    reports.submit(A, a_report(A, "CONTAINER_STARTING"))
    reports.submit(A, a_report(A, "PROCESS_STARTED"))
    reports.submit(A, a_report(A, "SUCCEEDED"), end=True)
    reports.submit(A, a_report(A, "PROCESS_STARTED"))
    await clock.settle()
    assert line.batches == [["a SUCCEEDED"]]
    assert line.acked == [A]


async def test_what_is_no_end_is_told_within_a_moment(reports: AttemptReporter, line: Line, clock: FakeClock) -> None:
    reports.submit(A, a_report(A, "PROCESS_STARTED"))
    await clock.settle()
    assert line.batches == []
    await clock.advance(0.1)
    assert line.batches == [["a PROCESS_STARTED"]]
    assert line.acked == []


async def test_what_piles_up_goes_in_one_message(reports: AttemptReporter, line: Line, clock: FakeClock) -> None:
    line.gate = asyncio.Event()
    reports.submit(A, a_report(A, "SUCCEEDED"), end=True)
    await clock.settle()
    for number in range(40):
        attempt = an_attempt(f"t{number}")
        reports.submit(attempt, a_report(attempt, "SUCCEEDED"), end=True)
    line.gate.set()
    await clock.settle()
    assert [len(batch) for batch in line.batches] == [1, 40]


async def test_an_answer_that_got_lost_is_asked_for_again(
    reports: AttemptReporter, line: Line, clock: FakeClock
) -> None:
    line.away = True
    reports.submit(A, a_report(A, "FAILED"), end=True)
    await clock.advance(60)
    tries = len(line.batches)
    assert 10 < tries < 40, "with growing pauses"
    assert line.acked == []
    line.away = False
    await clock.advance(6)
    assert line.acked == [A]
    assert len(line.batches) == tries + 1


async def test_what_was_not_taken_is_offered_at_once_when_taskmanager_answers_again(
    reports: AttemptReporter, line: Line, clock: FakeClock
) -> None:
    """Ends that are told seconds after the first heartbeat leave GPUs idle, and promises behind them in doubt."""
    line.away = True
    reports.submit(A, a_report(A, "SUCCEEDED"), end=True)
    await clock.advance(30)
    line.away = False
    tries = len(line.batches)
    reports.retry_now()
    await clock.settle()
    assert (len(line.batches), line.acked) == (tries + 1, [A])


async def test_a_newer_report_is_not_acked_with_the_older(
    reports: AttemptReporter, line: Line, clock: FakeClock
) -> None:
    line.gate = asyncio.Event()
    reports.submit(A, a_report(A, "PROCESS_STARTED"))
    await clock.advance(0.1)
    reports.submit(A, a_report(A, "SUCCEEDED"), end=True)
    line.gate.set()
    await clock.settle()
    assert line.batches == [["a PROCESS_STARTED"], ["a SUCCEEDED"]]
    assert line.acked == [A]
