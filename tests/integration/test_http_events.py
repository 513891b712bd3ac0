"""Live events over HTTP: what happens is told, a break is resumed, a long one is a reset."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import pytest_asyncio

from headway.rpc.v1 import task_manager_pb2 as tm
from httpserver import schemas as s
from tests.integration.http_rig import Rig, a_rig, submit
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODELS = {
    "job": s.Job,
    "job_gone": s.JobGone,
    "task": s.TaskEvent,
    "attempt": s.AttemptEvent,
    "node": s.Node,
    "node_gone": s.NodeGone,
    "queue": s.QueueEvent,
    "reset": s.ResetEvent,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path_factory.mktemp("events")) as rig:
        yield rig


@dataclass
class Listener:
    """What one event stream has said."""

    events: list[tuple[str, str, Any]] = field(default_factory=list)  # kind, id, data

    def of(self, kind: str) -> list[Any]:
        return [data for k, _, data in self.events if k == kind]


@asynccontextmanager
async def listening(rig: Rig, name: str = "ann", **kwargs: Any) -> AsyncIterator[Listener]:
    listener = Listener()
    client = await rig.client(name)

    async def read() -> None:
        async with client.stream("GET", "/events", **kwargs) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            block: dict[str, str] = {}
            async for line in answer.aiter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    block[name] = value
                elif "data" in block:
                    data = json.loads(block["data"])
                    MODELS[block["event"]].model_validate(data)
                    listener.events.append((block["event"], block["id"], data))
                    block = {}
                else:
                    block = {}

    reading = asyncio.create_task(read())
    try:
        yield listener
    finally:
        reading.cancel()
        await asyncio.wait((reading,))


async def test_jobs_tasks_attempts_queue_and_nodes_are_told_as_they_change(rig: Rig):
    ann = await rig.client("ann")
    async with listening(rig) as heard:
        await eventually(lambda: heard.of("reset") == [{"reason": "connected"}])
        job_id = await submit(ann, "a", "b")
        await eventually(lambda: any(job["id"] == job_id for job in heard.of("job")))
        view = rig.tasks.put(job_id, "a", state="PULLING")
        await rig.tasks.changes.put(tm.AttemptChanges(attempts=[view], queue_changed=True))
        await eventually(lambda: [e["attempt"]["state"] for e in heard.of("attempt")] == ["PULLING"])
        await eventually(lambda: heard.of("queue"))
        await ann.post(f"/jobs/{job_id}/tasks/b/hold")
        await eventually(lambda: any(e["task"]["name"] == "b" and e["task"]["held"] for e in heard.of("task")))


async def test_others_jobs_are_told_too_and_one_job_can_be_asked_for_alone(rig: Rig):
    ann = await rig.client("ann")
    first = await submit(ann)
    async with listening(rig, "bob", params={"job": first}) as heard, listening(rig, "bob") as all_heard:
        await eventually(lambda: heard.events and all_heard.events)
        second = await submit(ann)
        await ann.post(f"/jobs/{first}/hold")
        await eventually(lambda: any(job["held"] for job in heard.of("job")))
        assert {job["id"] for job in heard.of("job")} == {first}
        assert {job["id"] for job in all_heard.of("job")} == {first, second}


async def test_a_break_is_resumed_with_what_was_missed_exactly_once(rig: Rig):
    ann = await rig.client("ann")
    async with listening(rig) as heard:
        await eventually(lambda: heard.events)
        job_id = await submit(ann)
        await eventually(lambda: heard.of("job"))
    last_id = heard.events[-1][1]
    await ann.post(f"/jobs/{job_id}/hold")
    await ann.post(f"/jobs/{job_id}/release")
    for how in ({"headers": {"Last-Event-ID": last_id}}, {"params": {"after": last_id}}):
        async with listening(rig, **how) as again:
            await eventually(lambda again=again: again.of("job") and again.of("job")[-1]["held"] is False)
            assert again.of("reset") == []
            ids = [id for _, id, _ in heard.events + again.events]
            assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("last_id", ["00000000-1", "nonsense", "-", "x" * 60, "00000000-99999999999999999999"])
async def test_an_id_of_another_life_is_answered_with_a_reset(rig: Rig, last_id: str):
    async with listening(rig, headers={"Last-Event-ID": last_id}) as heard:
        await eventually(lambda: heard.events)
        assert heard.events[0][0] == "reset"
        assert heard.of("reset")[0]["reason"] == "too long away"


async def test_nobody_listens_without_a_session(rig: Rig):
    anyone = await rig.client()
    assert (await anyone.get("/events")).status_code == 401


async def test_streams_are_counted_and_closed_when_the_reader_goes(rig: Rig):
    await eventually(lambda: rig.parts.hub.streams == 0)
    async with listening(rig) as heard:
        await eventually(lambda: heard.events)
        assert rig.parts.hub.streams == 1
    await eventually(lambda: rig.parts.hub.streams == 0)
