"""Job files, and the process of its own that reads large ones."""

from __future__ import annotations

import asyncio
import signal

import pytest

from headway.errors import Unavailable
from httpserver.jobs import job_file
from httpserver.jobs.job_file_process import JobFileProcess
from tests.support.clock import FakeClock
from tests.support.waiting import eventually

GRANTS = job_file.Grants(high_priority=False, image_user=False)
GOOD = b'{"version": 1, "name": "n", "tasks": [{"name": "a", "image": "i", "command": "true", "timeout": "1m"}]}'


async def test_a_large_file_is_read_by_another_process_that_ends_when_idle(clock: FakeClock):
    process = JobFileProcess(clock)
    try:
        found = await process.call("examine", GOOD, "json", GRANTS, turn="ann")
        assert (found.name, found.task_count, found.problems) == ("n", 1, ())
        running = process._process
        assert running is not None
        assert await process.call("examine", b"[]", "json", GRANTS, turn="ann") == job_file.examine(
            b"[]", "json", GRANTS
        )
        assert process._process is running
        await clock.advance(21)
        await eventually(lambda: running.returncode is not None)
        assert (await process.call("examine", GOOD, "json", GRANTS, turn="ann")).name == "n"
    finally:
        await process.close()
    assert process._process is None


async def test_a_reader_that_was_killed_costs_one_call(clock: FakeClock):
    process = JobFileProcess(clock)
    try:
        await process.call("examine", GOOD, "json", GRANTS, turn="ann")
        assert process._process is not None
        process._process.kill()
        await process._process.wait()
        assert (await process.call("examine", GOOD, "json", GRANTS, turn="ann")).name == "n"
        process._process.send_signal(signal.SIGSTOP)  # so that it can't answer before it is killed
        asking = asyncio.create_task(process.call("examine", GOOD, "json", GRANTS, turn="ann"))
        await asyncio.sleep(0)
        process._process.kill()
        with pytest.raises(Unavailable):
            await asking
        assert (await process.call("examine", GOOD, "json", GRANTS, turn="ann")).name == "n"
    finally:
        await process.close()


async def test_a_caller_that_goes_away_does_not_leave_its_answer_to_the_next(clock: FakeClock):
    process = JobFileProcess(clock)
    try:
        asking = asyncio.create_task(process.call("examine", b"[]", "json", GRANTS, turn="ann"))
        await eventually(lambda: process._process is not None)
        asking.cancel()
        await asyncio.wait((asking,))
        assert (await process.call("examine", GOOD, "json", GRANTS, turn="ann")).name == "n"
    finally:
        await process.close()


def test_problems_of_the_graph_are_put_at_their_place_in_the_file():
    from headway.errors import Problem

    text = b"""name: t
defaults: {image: i, command: "true", timeout: 1m}
tasks:
  - {name: a}
  - name: b
    needs:
      - c
      - a
  - name: c
    needs: {b: any}
"""
    told = job_file.all_problems(
        text, "yaml", GRANTS, (Problem("/tasks/1/needs/c", "cycle"), Problem("/tasks/2/needs/b", "cycle too"))
    )
    assert [(p.pointer, p.line) for p in told] == [("/tasks/1/needs/0", 7), ("/tasks/2/needs/b", 10)]
