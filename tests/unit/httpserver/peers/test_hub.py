"""Event streams with time and readers under control."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import job_manager_pb2 as jm
from headway.rpc.v1 import resource_manager_pb2 as rm
from headway.rpc.v1 import task_manager_pb2 as tm
from httpserver import wire
from httpserver.peers.hub import NODE_FIELDS_ON_PAGES, STATUS_FIELDS_ON_PAGES, PageEventHub
from tests.support.clock import FakeClock


def a_change(job_id: str = "j1", version: int = 1, state: str = "RUNNING") -> jm.JobChanges:
    return jm.JobChanges(changes=[jm.JobChange(job=jm.Job(id=job_id, state=state, version=version))])


def parsed(text: str) -> list[tuple[str, str, dict]]:
    out = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            out.append((fields["event"], fields["id"], json.loads(fields["data"])))
    return out


class Reader:
    """Reads one piece at a time."""

    def __init__(self, stream: AsyncIterator[str]) -> None:
        self._stream = stream
        self._next: asyncio.Task[str] | None = None

    async def piece(self, clock: FakeClock) -> str | None:
        """The next piece, or None if there is none now."""
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self._stream))
        await clock.settle()
        if not self._next.done():
            return None
        done, self._next = self._next, None
        return done.result()

    async def close(self) -> None:
        if self._next is not None:
            self._next.cancel()
            await asyncio.wait((self._next,))


@pytest.fixture
def hub(clock: FakeClock) -> PageEventHub:
    return PageEventHub(clock, ring=50)


async def connected(hub: PageEventHub, clock: FakeClock, last_id: str | None = None, **kwargs: object) -> Reader:
    reader = Reader(hub.stream(last_id, **kwargs))  # type: ignore[arg-type]
    assert (await reader.piece(clock) or "").startswith("retry: ")
    return reader


async def test_a_quiet_stream_is_kept_open_and_its_place_moves_on(hub: PageEventHub, clock: FakeClock):
    """LOG-14: proxies close what is silent for 30 s."""
    reader = await connected(hub, clock, job="j1")
    await reader.piece(clock)
    hub.on_jobs(a_change("j2"))
    assert await reader.piece(clock) is None
    await clock.advance(14)
    assert await reader.piece(clock) is None
    await clock.advance(2)
    comment = await reader.piece(clock) or ""
    assert comment.startswith(": ")
    assert comment.rstrip().endswith("-1")
    await reader.close()


async def test_a_reader_that_is_too_slow_is_told_to_load_anew_and_goes_on(hub: PageEventHub, clock: FakeClock):
    reader = await connected(hub, clock)
    await reader.piece(clock)
    for i in range(200):
        hub.on_jobs(a_change(f"j{i}"))
    (kind, id, data), *_ = parsed(await reader.piece(clock) or "")
    assert (kind, data["reason"]) == ("reset", "too many changes at once")
    assert id.endswith("-200")
    hub.on_jobs(a_change("new"))
    assert [e[2]["id"] for e in parsed(await reader.piece(clock) or "")] == ["new"]
    await reader.close()


async def test_of_many_changes_of_one_job_that_wait_together_only_the_last_is_sent(hub: PageEventHub, clock: FakeClock):
    reader = await connected(hub, clock)
    await reader.piece(clock)
    for version in range(1, 20):
        hub.on_jobs(a_change("j1", version))
    hub.on_jobs(a_change("j2", 7))
    sent = parsed(await reader.piece(clock) or "")
    assert [(e[2]["id"], e[2]["version"]) for e in sent] == [("j1", 19), ("j2", 7)]
    assert [e[1].split("-")[1] for e in sent] == ["19", "20"]
    await reader.close()


async def test_a_resume_within_the_ring_gets_the_rest_and_beyond_it_a_reset(hub: PageEventHub, clock: FakeClock):
    reader = await connected(hub, clock)
    (_, first_id, _), *_ = parsed(await reader.piece(clock) or "")
    await reader.close()
    for i in range(50):
        hub.on_jobs(a_change(f"j{i}"))
    back = await connected(hub, clock, first_id)
    assert len(parsed(await back.piece(clock) or "")) == 50
    await back.close()
    hub.on_jobs(a_change("one more"))
    late = await connected(hub, clock, first_id)
    assert parsed(await late.piece(clock) or "")[0][0] == "reset"
    await late.close()


async def test_one_strange_row_does_not_end_the_stream(hub: PageEventHub, clock: FakeClock):
    """WEB-07."""
    reader = await connected(hub, clock)
    await reader.piece(clock)
    hub.on_jobs(a_change("bad", state="NEVER HEARD OF"))
    hub.on_jobs(a_change("good"))
    assert [e[2]["id"] for e in parsed(await reader.piece(clock) or "")] == ["good"]
    await reader.close()


async def test_what_a_task_was_pinned_to_is_told_to_its_owner(hub: PageEventHub, clock: FakeClock):
    digest = "sha256:" + "a" * 64
    task = jm.TaskView(
        name="a",
        state="FAILED",
        image="ann/tool:1",
        image_digest=digest,
        code=digest,
        datasets=[common.DatasetPin(name="mnist", version="1")],
        reason=common.EndReason(word="image_not_found"),
        sentence=f"The image ann/tool:1 ({digest}) is no longer in the market",
    )
    attempt = tm.AttemptView(
        attempt=common.Attempt(task=common.Task(job_id="j1", name="a"), number=1),
        state="RUNNING",
        image_id=digest,
        owner="ann",
        warnings=["Its output could not be copied to `secret`."],
    )
    owner = await connected(hub, clock, whole=lambda owner: owner == "ann")
    other = await connected(hub, clock, whole=lambda owner: owner == "eve")
    for reader in (owner, other):
        await reader.piece(clock)
    hub.on_jobs(jm.JobChanges(changes=[jm.JobChange(job=jm.Job(id="j1", state="FAILED", owner="ann"), tasks=[task])]))
    hub.on_attempts(tm.AttemptChanges(attempts=[attempt]))
    told = {}
    for name, reader in (("ann", owner), ("eve", other)):
        text = await reader.piece(clock) or ""
        (told[name],) = [data["task"] for kind, _, data in parsed(text) if kind == "task"]
        assert [kind for kind, _, _ in parsed(text)] == ["job", "task", "attempt"]
        assert text.count(digest) == (4 if name == "ann" else 0)
        assert ("secret" in text) == (name == "ann")
        await reader.close()
    assert (told["ann"]["image_digest"], told["ann"]["code"], told["ann"]["datasets"]) == (digest, digest, ["mnist@1"])
    assert (told["eve"]["image"], told["eve"]["image_digest"], told["eve"]["datasets"]) == ("ann/tool:1", None, [])


async def test_nodes_are_told_when_they_differ_and_when_they_go(hub: PageEventHub, clock: FakeClock):
    reader = await connected(hub, clock)
    await reader.piece(clock)
    node = rm.Node(id="n1", health="READY", admission="OPEN")
    hub.on_nodes(rm.NodesChanged(reset=True, nodes=[node]))
    assert [e[0] for e in parsed(await reader.piece(clock) or "")] == ["node"]
    hub.on_nodes(rm.NodesChanged(reset=True, nodes=[node]))
    assert await reader.piece(clock) is None
    hub.on_nodes(rm.NodesChanged(reset=True, nodes=[]))
    assert [(e[0], e[2]) for e in parsed(await reader.piece(clock) or "")] == [("node_gone", {"id": "n1"})]
    await reader.close()


async def test_a_change_of_a_node_that_no_page_shows_makes_no_event_and_is_kept(hub: PageEventHub, clock: FakeClock):
    node = rm.Node(id="n1", health="READY", admission="OPEN")
    hub.on_nodes(rm.NodesChanged(nodes=[node]))
    events = hub._number
    moved = rm.Node(id="n1", health="READY", admission="OPEN", address="10.0.0.9:7004")
    moved.status.engine_images.add(id="sha256:1")
    hub.on_nodes(rm.NodesChanged(nodes=[moved]))
    assert hub._number == events
    assert hub.nodes() == [moved]


def test_what_counts_for_pages_is_what_they_show_of_a_node():
    others: dict[str, Any] = {
        "health": "DOWN",
        "admission": "DRAINED",
        "labels": {"rack": "1"},
        "images": ["sha256:1"],
        "capacity": {"cpu_centi": 100},
        "conditions": [{"word": "disk_full"}],
        "engine_images": [{"id": "sha256:1"}],
        "drain": {"since_at": 1.0, "by": "ann"},
        "events": [{"at": 1.0, "word": "rebooted"}],
    }
    plain = rm.Node(id="n1", health="READY", admission="OPEN")

    def shown(field: FieldDescriptor, *, in_status: bool) -> bool:
        value = others.get(field.name, "x" if field.type == field.TYPE_STRING else 7)
        changed = rm.Node()
        changed.CopyFrom(plain)
        changed.MergeFrom(rm.Node(status={field.name: value}) if in_status else rm.Node(**{field.name: value}))
        return wire.node(changed) != wire.node(plain)

    of_node = [field for field in rm.Node.DESCRIPTOR.fields if field.name != "status"]
    of_status = rm.Node.DESCRIPTOR.fields_by_name["status"].message_type.fields
    assert {field.name for field in of_node if shown(field, in_status=False)} == NODE_FIELDS_ON_PAGES
    assert {field.name for field in of_status if shown(field, in_status=True)} == STATUS_FIELDS_ON_PAGES


async def test_somebody_who_is_no_longer_welcome_is_sent_away(hub: PageEventHub, clock: FakeClock):
    welcome = True
    reader = await connected(hub, clock, still_allowed=lambda: welcome)
    await reader.piece(clock)
    await reader.piece(clock)
    await clock.advance(16)
    assert (await reader.piece(clock) or "").startswith(": ")
    welcome = False
    await reader.piece(clock)
    await clock.advance(16)
    with pytest.raises(StopAsyncIteration):
        await reader.piece(clock)
    assert hub.streams == 0


async def test_a_stop_ends_all_streams(hub: PageEventHub, clock: FakeClock):
    reader = await connected(hub, clock)
    await reader.piece(clock)
    assert await reader.piece(clock) is None
    hub.close()
    with pytest.raises(StopAsyncIteration):
        await reader.piece(clock)


async def test_attempts_of_a_burst_make_one_word_about_the_queue_a_second(hub: PageEventHub, clock: FakeClock):
    telling = asyncio.create_task(hub._tell_queue())
    reader = await connected(hub, clock)
    await reader.piece(clock)
    for _ in range(100):
        hub.on_attempts(tm.AttemptChanges(queue_changed=True))
    assert await reader.piece(clock) is None
    await clock.advance(1)
    assert [e[0] for e in parsed(await reader.piece(clock) or "")] == ["queue"]
    await clock.advance(5)
    assert await reader.piece(clock) is None
    telling.cancel()
    await reader.close()


class AService:
    """A service that is watched and says nothing but that it is."""

    name = "JobManager"

    async def watch(self, method: str, request: object) -> AsyncIterator[jm.JobChanges]:
        if method == "WatchJobs":
            yield jm.JobChanges()
        await asyncio.Event().wait()


class SomeServices:
    jobs = tasks = nodes = AService()


async def test_who_was_there_before_the_watch_loads_anew_when_it_begins(hub: PageEventHub, clock: FakeClock) -> None:
    reader = await connected(hub, clock)
    first = await reader.piece(clock)
    assert first is not None
    assert parsed(first)[0][2] == {"reason": "connected"}
    watching = asyncio.create_task(hub.run(SomeServices()))  # type: ignore[arg-type]
    try:
        text = await reader.piece(clock)
        assert text is not None
        assert [(kind, data) for kind, _, data in parsed(text)] == [
            ("reset", {"reason": "JobManager is watched from now on"})
        ]
    finally:
        watching.cancel()
        await asyncio.wait((watching,))
        await reader.close()
