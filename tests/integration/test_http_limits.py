"""What limits refuse, over HTTP: each at its place and with its status, and what was refused holds nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import job_manager_pb2 as jm
from httpserver.uses.service import Ref
from tests.integration.http_rig import Rig, a_job_file, a_rig, submit
from tests.integration.test_market import an_image, push
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path_factory.mktemp("limits"), queued_tasks_per_user=2) as rig:
        rig.tasks.longest_s = 3_600.0
        yield rig


async def test_a_timeout_that_is_too_long_is_told_at_its_place_whatever_is_asked_for(rig: Rig):
    ann = await rig.client("ann")
    document = a_job_file("a", "b")
    document["tasks"][1] |= {"timeout": "2h", "resources": {"cpus": 99}}
    for how in ({}, {"dry_run": "true"}):
        answer = await ann.post("/jobs", content=json.dumps(document, indent=1), params=how)
        assert (answer.status_code, answer.json()["slug"]) == (422, "unsatisfiable")
        errors = answer.json()["errors"]
        assert [error["pointer"] for error in errors] == ["/tasks/1/timeout", "/tasks/1/resources"]
        assert "the longest is 3600 s" in errors[0]["message"]
        assert all(error["line"] for error in errors)
        assert answer.json()["detail"].endswith("(and 1 more)")
        # What machines still to come could run waits for them; the timeout is too long for all of them.
        answer = await ann.post("/jobs", json=document, params={"allow_unsatisfiable": "true", **how})
        assert [error["pointer"] for error in answer.json()["errors"]] == ["/tasks/1/timeout"]
    assert (await ann.post("/queue/preview", json=document)).status_code == 422
    assert (await ann.get("/jobs", params={"owner": "me"})).json()["jobs"] == []


async def test_what_would_wait_beside_too_many_is_refused_and_holds_no_image(rig: Rig):
    bob = await rig.client("bob")
    digest = await push(bob, an_image("held"), "held:1")
    ref = Ref("image", digest)
    first = await submit(bob, "a", defaults={"image": "bob/held:1", "command": "true", "timeout": "1m"})
    await eventually(lambda: [o for o in rig.tasks.of("enqueue") if o.task.job_id == first])
    exited = common.EndReason(word="exited", exit_code=1)
    events = [rig.tasks.event(first, "a", kind, reason=exited) for kind in ("ATTEMPT_STARTED", "FAILED")]
    await rig.parts.jobs._services.jobs.call("ReportTaskEvents", jm.ReportTaskEventsRequest(events=events))
    await eventually(lambda: not rig.parts.uses.live_in_memory(ref), what="nobody needs the image any more")

    await submit(bob, "c", "d")
    document = a_job_file("a")
    document["defaults"]["image"] = "bob/held:1"
    want = "2 tasks of bob wait already, and at most 2 may: there is no room for 1 task more."
    for ask in (
        bob.post("/jobs", json=document),
        bob.post("/jobs", json=document, params={"dry_run": "true"}),
        bob.post("/queue/preview", json=document),
        bob.post("/queue/preview", json=[{"timeout": "1m"}]),
        bob.post(f"/jobs/{first}/retry"),
        bob.post(f"/jobs/{first}/tasks/a/retry"),
    ):
        answer = await ask
        assert (answer.status_code, answer.json()["slug"]) == (429, "too-many-waiting"), answer.text
        assert answer.json()["detail"].startswith(want)
        assert answer.headers["Retry-After"] == "60"
    assert rig.parts.uses.live_in_memory(ref) == []
    assert await rig.parts.uses.live(ref) == []
    assert (await bob.delete("/images/bob/held:1")).status_code == 204
    # More than may ever wait never has room: there is no time after which it would.
    answer = await bob.post("/jobs", json=a_job_file("a", "b", "c"))
    assert (answer.status_code, "split them into several jobs" in answer.json()["detail"]) == (429, True)
