"""Job events from JobManager to the command line, over real services."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from click.testing import CliRunner, Result

from headway.cli.main import cli
from headway.rpc.v1 import job_manager_pb2 as jm
from tests.integration.http_rig import Rig, a_rig, submit
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path_factory.mktemp("job-events")) as rig:
        yield rig


async def end(rig: Rig, job: str, *kinds: str) -> None:
    events = [rig.tasks.event(job, "a", kind) for kind in kinds or ("ATTEMPT_STARTED", "SUCCEEDED")]
    await rig.parts.jobs._services.jobs.call("ReportTaskEvents", jm.ReportTaskEventsRequest(events=events))


async def told(client: httpx.AsyncClient, count: int, **params: Any) -> list[dict[str, Any]]:
    """So many events, once they are there."""
    found: list[dict[str, Any]] = []

    async def there() -> bool:
        answer = await client.get("/job-events", params=params)
        assert answer.status_code == 200, answer.text
        found[:] = answer.json()["events"]
        return len(found) >= count

    await eventually(there, what=f"{count} events")
    return found


async def headway(rig: Rig, name: str, *words: str) -> Result:
    environment = {"HEADWAY_URL": rig.url, "HEADWAY_TOKEN": await rig.account(name)}
    return await asyncio.to_thread(CliRunner().invoke, cli, list(words), env=environment)


async def test_the_life_of_a_job_is_told_to_its_owner_and_to_admins(rig: Rig) -> None:
    ann, bob, boss = await rig.client("ann"), await rig.client("bob"), await rig.client("boss", admin=True)
    job = await submit(ann, "a")
    await end(rig, job)
    found = await told(ann, 4)
    assert [event["kind"] for event in found] == ["submitted", "started", "task_ended", "ended"]
    assert {event["job_id"] for event in found} == {job}
    assert (found[2]["task"], found[2]["state"], found[2]["attempt"]) == ("a", "SUCCEEDED", 1)
    assert found[3]["reason"] is None
    assert (await bob.get("/job-events")).json()["events"] == []
    assert (await bob.get("/job-events", params={"job": job})).status_code == 403
    assert (await bob.get("/job-events", params={"owner": "ann"})).status_code == 403
    assert len((await boss.get("/job-events", params={"job": job, "kind": "ended"})).json()["events"]) == 1
    behind = (await ann.get("/job-events", params={"after": found[2]["cursor"]})).json()
    assert [event["kind"] for event in behind["events"]] == ["ended"]
    assert behind["more"] is False
    for params in ({"after": "here"}, {"kind": "end"}, {"limit": 0}, {"befor": "1"}):
        answer = await ann.get("/job-events", params=params)
        assert answer.status_code == 400, params
    assert (await (await rig.client()).get("/job-events")).status_code == 401


async def test_a_stream_brings_what_happens_and_ends_with_its_account(rig: Rig) -> None:
    eva, boss = await rig.client("eva"), await rig.client("boss", admin=True)
    job = await submit(eva, "a")
    first = (await told(eva, 1))[0]
    lines: list[str] = []
    status: list[int] = []

    async def read() -> None:
        async with eva.stream("GET", "/job-events/stream", headers={"Last-Event-ID": first["cursor"]}) as answer:
            status.append(answer.status_code)
            assert answer.headers["content-type"].startswith("text/event-stream")
            async for line in answer.aiter_lines():
                lines.append(line)  # noqa: PERF401  # as they come

    reading = asyncio.create_task(read())
    await eventually(lambda: any(line.startswith("id: ") for line in lines))
    await end(rig, job)
    await eventually(lambda: "event: ended" in lines)
    kinds = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert kinds == ["started", "task_ended", "ended"]
    answer = await boss.patch("/users/eva", json={"enabled": False})
    assert answer.status_code == 200, answer.text
    await asyncio.wait((reading,), timeout=20)
    assert reading.done()
    assert (await eva.get("/job-events/stream")).status_code == 401


async def test_a_deleted_job_leaves_one_event(rig: Rig) -> None:
    dan = await rig.client("dan")
    job = await submit(dan, "a")
    await end(rig, job)
    await told(dan, 4)
    assert (await dan.delete(f"/jobs/{job}")).status_code == 204

    async def gone() -> bool:
        return [event["kind"] for event in await told(dan, 1)] == ["removed"]

    await eventually(gone)


async def test_the_command_line_goes_on_where_it_was(rig: Rig) -> None:
    joe = await rig.client("joe")
    job = await submit(joe, "a")
    await told(joe, 1)
    result = await headway(rig, "joe", "events")
    assert result.exit_code == 0, result.output
    assert f"{job}  submitted  test with 1 task" in result.stdout
    cursor = result.stderr.rpartition("--after ")[2].rstrip(")\n")
    following = asyncio.create_task(
        headway(rig, "joe", "events", "--follow", "--after", cursor, "--limit", "3", "-o", "json")
    )
    await end(rig, job, "ATTEMPT_STARTED")
    await end(rig, job, "FAILED")
    result = await following
    assert result.exit_code == 0, result.output
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["kind"] for event in found] == ["started", "task_ended", "ended"]
    assert found[2]["reason"]["sentence"]
    result = await headway(rig, "joe", "events", "--job", job[:12], "--kind", "ended")
    assert "FAILED" in result.stdout
