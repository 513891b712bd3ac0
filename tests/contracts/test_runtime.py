"""What every runtime keeps: ``worker.ports.Runtime``. Real time, since containers know no other."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.ids import AttemptId
from tests.contracts.subjects import (
    OF_ANOTHER_PACKAGE,
    DockerSubject,
    ScriptedSubject,
    Subject,
    subject_of_another_package,
)
from tests.support.waiting import eventually
from tests.support.worker_rig import an_attempt
from worker.box import BoxEnd, EndRecord, StopWord, Stream, boottime_ns
from worker.ports import ContainerState

SECOND = 10**9
pytestmark = pytest.mark.timeout(120)


OURS = ["scripted", pytest.param("docker", marks=pytest.mark.docker)]


@pytest.fixture(params=[OF_ANOTHER_PACKAGE] if OF_ANOTHER_PACKAGE else OURS)
async def subject(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Subject]:
    if OF_ANOTHER_PACKAGE:
        subject: Subject = subject_of_another_package(tmp_path)
    elif request.param == "scripted":
        subject = ScriptedSubject(tmp_path)
    else:
        subject = DockerSubject(tmp_path, request.getfixturevalue("docker_engine").url)
    await subject.open()
    yield subject
    if request.param != "scripted":
        for attempt in await subject.runtime.list():
            await subject.runtime.remove(attempt)
    await subject.abandon()


async def end_of(subject: Subject, attempt: AttemptId) -> EndRecord:
    async def end() -> EndRecord | None:
        return (await subject.runtime.progress(attempt)).end

    record = await eventually(end, within_s=20, what="an end record")
    assert record is not None
    return record


async def started(subject: Subject, attempt: AttemptId) -> None:
    async def start() -> bool:
        return (await subject.runtime.progress(attempt)).started is not None

    await eventually(start, within_s=20, what="a start record")


async def test_from_start_to_removal(subject: Subject) -> None:
    runtime, attempt, before = subject.runtime, an_attempt(), time.time_ns()
    assert (await runtime.inspect(attempt)).state is ContainerState.ABSENT
    facts = await runtime.start(await subject.order(attempt, run_s=0.5, exit_code=7, output="hello\r\n"))
    assert facts.id
    assert attempt in await runtime.list()
    end = await end_of(subject, attempt)
    assert (end.reason, end.exit_code, end.signal) == (BoxEnd.EXITED, 7, None)
    assert 0.5 * SECOND <= end.run_ns <= end.ended_wall_ns - before
    assert end.stdout_bytes == 7
    progress = await runtime.progress(attempt)
    assert progress.started is not None
    assert progress.started.wall_ns == end.started_wall_ns

    async def exited() -> bool:
        return (await runtime.inspect(attempt)).state is ContainerState.EXITED

    await eventually(exited, what="the container is gone after its record")
    spool = runtime.spool(attempt, Stream.STDOUT)
    assert spool is not None
    assert spool.read_bytes() == b"hello\r\n"
    await runtime.remove(attempt)
    assert (await runtime.inspect(attempt)).state is ContainerState.ABSENT
    assert attempt not in await runtime.list()
    assert spool.exists(), "the box outlives the container"
    await runtime.remove_box(attempt)
    assert not spool.exists()


async def test_a_second_start_starts_nothing(subject: Subject) -> None:
    runtime, attempt = subject.runtime, an_attempt()
    order = await subject.order(attempt, run_s=1.0)
    first = await runtime.start(order)
    await started(subject, attempt)
    second = await runtime.start(order)
    assert second.id == first.id
    end = await end_of(subject, attempt)
    third = await runtime.start(order)
    assert third.id == first.id
    assert (await runtime.progress(attempt)).end == end


async def test_nudges_tell_of_the_end(subject: Subject) -> None:
    attempt = an_attempt()
    await subject.runtime.start(await subject.order(attempt, run_s=0.5))
    await started(subject, attempt)
    subject.nudged(attempt).clear()
    await asyncio.wait_for(subject.nudged(attempt).wait(), 10)


async def test_a_stop_is_kept_with_its_word(subject: Subject) -> None:
    runtime, attempt = subject.runtime, an_attempt()
    await runtime.start(await subject.order(attempt, run_s=60))
    await started(subject, attempt)
    await runtime.stop(attempt, StopWord.CANCELLED)
    await runtime.stop(attempt, StopWord.DISK_FULL)
    end = await end_of(subject, attempt)
    assert (end.reason, end.stop_word) == (BoxEnd.STOPPED, StopWord.CANCELLED)
    # The signal goes to the program that a shell waits for; a shell may say a last word after it.
    assert end.signal == signal.SIGTERM or end.exit_code is not None


async def test_grace_then_kill(subject: Subject) -> None:
    runtime, attempt = subject.runtime, an_attempt()
    await runtime.start(await subject.order(attempt, run_s=60, ignores_term=True, grace_s=1.0, output="up"))

    def printed() -> bool:
        spool = runtime.spool(attempt, Stream.STDOUT)
        return spool is not None and spool.exists() and spool.read_bytes() == b"up"

    await eventually(printed, what="its trap is set")
    before = boottime_ns()
    await runtime.stop(attempt, StopWord.CANCELLED)
    end = await end_of(subject, attempt)
    assert end.signal == signal.SIGKILL
    assert boottime_ns() - before >= SECOND


async def test_the_timeout_needs_no_worker(subject: Subject) -> None:
    attempt = an_attempt()
    await subject.runtime.start(await subject.order(attempt, run_s=60, timeout_s=1.0))
    await started(subject, attempt)
    await subject.abandon()
    await asyncio.sleep(1.5)
    await subject.open()
    end = await end_of(subject, attempt)
    assert end.reason is BoxEnd.TIMED_OUT
    assert SECOND <= end.run_ns < 60 * SECOND


async def test_more_time_outlives_the_first_limit_and_ends_at_the_new_one(subject: Subject) -> None:
    attempt = an_attempt()
    await subject.runtime.start(await subject.order(attempt, run_s=60, timeout_s=1.5))
    await started(subject, attempt)
    await subject.runtime.extend(attempt, 3_000)

    async def taken() -> bool:
        return (await subject.runtime.progress(attempt)).timeout_ms == 3_000

    await eventually(taken, within_s=20, what="more time")
    end = await end_of(subject, attempt)
    assert (end.reason, end.timeout_ms) == (BoxEnd.TIMED_OUT, 3_000)
    assert end.run_ns >= 3 * SECOND
    # Nothing is revived by an order that comes after the end.
    await subject.runtime.extend(attempt, 60_000)
    assert (await subject.runtime.progress(attempt)).end == end


async def test_a_restarted_worker_finds_what_runs(subject: Subject) -> None:
    attempt = an_attempt()
    order = await subject.order(attempt, run_s=3)
    facts = await subject.runtime.start(order)
    await started(subject, attempt)
    before = (await subject.runtime.progress(attempt)).started
    await subject.abandon()
    await subject.open()
    found = (await subject.runtime.list())[attempt]
    assert found.state is ContainerState.RUNNING
    assert found.id == facts.id
    assert (await subject.runtime.start(order)).id == facts.id
    assert (await subject.runtime.progress(attempt)).started == before
    assert (await end_of(subject, attempt)).exit_code == 0


@pytest.mark.slow
async def test_a_lease_that_is_not_renewed_ends_it(subject: Subject) -> None:
    runtime, renewed, left = subject.runtime, an_attempt("renewed"), an_attempt("left")
    until = boottime_ns() + 4 * SECOND
    for attempt in (renewed, left):
        await runtime.start(await subject.order(attempt, run_s=7, lease_until_boot_ns=until))
    await started(subject, renewed)
    await runtime.renew({renewed: None, an_attempt("unknown"): None})
    assert (await end_of(subject, left)).reason is BoxEnd.LEASE_EXPIRED
    assert (await end_of(subject, renewed)).reason is BoxEnd.EXITED


async def test_all_is_safe_for_an_attempt_that_never_was(subject: Subject) -> None:
    runtime, attempt = subject.runtime, an_attempt()
    await runtime.extend(attempt, 60_000)
    await runtime.stop(attempt, StopWord.CANCELLED)
    await runtime.kill(attempt)
    await runtime.remove(attempt)
    await runtime.remove(attempt)
    await runtime.remove_box(attempt)
    progress = await runtime.progress(attempt)
    assert progress.started is None
    assert progress.end is None


async def test_kill_ends_what_is_deaf(subject: Subject) -> None:
    runtime, attempt = subject.runtime, an_attempt()
    await runtime.start(await subject.order(attempt, run_s=60, ignores_term=True, grace_s=60))
    await started(subject, attempt)
    await runtime.kill(attempt)

    async def over() -> bool:
        return (await runtime.inspect(attempt)).state is not ContainerState.RUNNING

    await eventually(over, what="the container is gone")


async def test_a_removed_attempt_that_ran_is_gone_for_good(subject: Subject) -> None:
    runtime, attempt = subject.runtime, an_attempt()
    await runtime.start(await subject.order(attempt, run_s=60))
    await started(subject, attempt)
    await runtime.remove(attempt)
    assert (await runtime.inspect(attempt)).state is ContainerState.ABSENT
