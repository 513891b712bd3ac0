"""Jobs that are deleted, pruned and pinned over HTTP, with what they left on the mount."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from headway.ids import JobId
from headway.model.retention import DAY_S, AccountRule, RetentionRules
from headway.rpc.v1 import job_manager_pb2 as jm
from tests.integration.http_rig import Rig, a_rig, submit
from tests.integration.test_http_events import listening
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

RULES = RetentionRules(days=90, accounts={"eva": AccountRule(days=365)})


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path_factory.mktemp("retention"), rules=RULES) as rig:
        yield rig


async def ended(rig: Rig, client: httpx.AsyncClient) -> str:
    """A job that ran and ended, with a log on the mount."""
    job = await submit(client, "a")
    events = [rig.tasks.event(job, "a", kind) for kind in ("ATTEMPT_STARTED", "SUCCEEDED")]
    await rig.parts.jobs._services.jobs.call("ReportTaskEvents", jm.ReportTaskEventsRequest(events=events))
    rig.store_log(job, "a", b"one line\n")
    return job


def folder(rig: Rig, job: str) -> Path:
    return rig.layout.job(JobId(job))


async def test_a_deleted_job_is_gone_with_its_logs(rig: Rig) -> None:
    ann = await rig.client("ann")
    job, other = await ended(rig, ann), await ended(rig, ann)
    async with listening(rig) as pages:
        await eventually(lambda: pages.events)
        answer = await ann.delete(f"/jobs/{job}")
        assert answer.status_code == 204, answer.text
        answer = await ann.get(f"/jobs/{job}")
        assert answer.status_code == 404
        assert "deleted" in answer.json()["detail"]
        await eventually(lambda: {"id": job} in pages.of("job_gone"))
    await eventually(lambda: not folder(rig, job).exists(), what="its folder is gone")
    assert rig.tasks.removed == [job], "before its folder"
    assert (await ann.get(f"/jobs/{job}/tasks/a/attempts/1/logs/stdout")).status_code == 404
    assert (await ann.delete(f"/jobs/{job}")).status_code == 404
    assert folder(rig, other).exists()
    assert (await ann.get(f"/jobs/{other}")).status_code == 200


async def test_who_may_delete_and_what(rig: Rig) -> None:
    ann, bob, boss = await rig.client("ann"), await rig.client("bob"), await rig.client("boss", admin=True)
    job = await ended(rig, ann)
    for answer in (await bob.delete(f"/jobs/{job}"), await bob.post(f"/jobs/{job}/pin")):
        assert answer.status_code == 403
    live = await submit(ann, "a")
    answer = await ann.delete(f"/jobs/{live}")
    assert answer.status_code == 409
    assert "can't be deleted: cancel it first" in answer.json()["detail"]
    assert (await ann.post(f"/jobs/{job}/pin")).json()["job"]["pinned"]
    answer = await boss.delete(f"/jobs/{job}")
    assert answer.status_code == 409
    assert "is pinned and can't be deleted: unpin it first" in answer.json()["detail"]
    assert not (await ann.post(f"/jobs/{job}/unpin")).json()["job"]["pinned"]
    assert (await boss.delete(f"/jobs/{job}")).status_code == 204
    assert (await ann.get(f"/jobs/{live}")).status_code == 200


async def test_a_job_says_until_when_it_is_kept(rig: Rig) -> None:
    ann, eva = await rig.client("ann"), await rig.client("eva")
    for client, days in ((ann, 90), (eva, 365)):
        job = await ended(rig, client)
        shown = (await client.get(f"/jobs/{job}")).json()
        assert shown["kept_until"] == pytest.approx(shown["ended_at"] + days * DAY_S)
        await client.post(f"/jobs/{job}/pin")
        shown = (await client.get(f"/jobs/{job}")).json()
        assert (shown["pinned"], shown["kept_until"]) == (True, None)
    live = await submit(ann, "a")
    assert (await ann.get(f"/jobs/{live}")).json()["kept_until"] is None


async def test_pruning_over_http(rig: Rig) -> None:
    zoe, boss = await rig.client("zoe"), await rig.client("boss", admin=True)
    jobs = [await ended(rig, zoe) for _ in range(2)]
    asked = {"older": "1d", "dry_run": True}
    assert (await zoe.post("/jobs/prune", json={**asked, "owner": "ann"})).status_code == 403
    assert (await zoe.post("/jobs/prune", json={**asked, "owner": ""})).status_code == 403
    for older in ("-1d", "0d", "0", "soon", "90"):
        answer = await zoe.post("/jobs/prune", json={"older": older})
        assert answer.status_code == 400, older
        assert answer.json()["errors"][0]["pointer"] == "/older"
    assert (await zoe.get(f"/jobs/{jobs[0]}")).status_code == 200
    none = (await zoe.post("/jobs/prune", json={"older": "90d"})).json()
    assert (none["jobs"], none["next_cursor"]) == (0, None)
    assert [job["id"] for job in (await boss.get("/jobs", params={"owner": "zoe"})).json()["jobs"]] == jobs[::-1]
    young = {"older": "0.1s", "owner": "zoe"}
    await asyncio.sleep(0.2)
    assert (await boss.post("/jobs/prune", json={**young, "dry_run": True})).json()["jobs"] == 2
    assert (await zoe.get(f"/jobs/{jobs[0]}")).status_code == 200, "nothing was deleted yet"
    found = (await boss.post("/jobs/prune", json=young)).json()
    assert (found["jobs"], found["tasks"], found["log_bytes"]) == (2, 2, 14)
    assert (await zoe.get("/jobs", params={"owner": "me"})).json()["jobs"] == []


async def test_a_job_that_is_being_deleted_is_not_shown_half(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows and its folder are there as long as TaskManager is away."""
    ann = await rig.client("ann")
    job = await ended(rig, ann)
    monkeypatch.setattr(rig.tasks, "away", True)
    assert (await ann.delete(f"/jobs/{job}")).status_code == 204
    for path in ("", "/spec", "/tasks/a", "/tasks/a/attempts/1/logs/stdout", "/logs.zip"):
        answer = await ann.get(f"/jobs/{job}{path}")
        assert answer.status_code == 404, path
        assert "is being deleted" in answer.json()["detail"], path
    assert (await ann.post(f"/jobs/{job}/pin")).status_code == 404
    assert job not in (await ann.get("/jobs", params={"owner": "me"})).text
    assert folder(rig, job).exists()
    monkeypatch.setattr(rig.tasks, "away", False)
    await eventually(lambda: not folder(rig, job).exists(), within_s=60, what="it goes on")


async def read_and_delete(rig: Rig, client: httpx.AsyncClient, job: str, got: bytearray, **asked: str) -> None:
    """Reads a log, and deletes its job once something of it has come."""
    async with client.stream("GET", f"/jobs/{job}/tasks/a/attempts/1/logs/stdout", params=asked) as answer:
        async for data in answer.aiter_raw():
            if not got:
                assert (await client.delete(f"/jobs/{job}")).status_code == 204
                await eventually(lambda: not folder(rig, job).exists(), what="its folder is gone")
            got += data


async def test_a_download_is_cut_when_its_job_is_deleted(rig: Rig) -> None:
    """Its length was promised: what is missing must not look like a whole log."""
    ann = await rig.client("ann")
    job, size, got = await ended(rig, ann), 64 << 20, bytearray()
    rig.tasks.put(job, "a", state="SUCCEEDED", stdout_bytes=size)
    with rig.store_log(job, "a", b"").open("r+b") as sparse:
        sparse.truncate(size)
    with pytest.raises(httpx.RemoteProtocolError):
        await read_and_delete(rig, ann, job, got)
    assert 0 < len(got) < size
    again = await ann.get(f"/jobs/{job}/tasks/a/attempts/1/logs/stdout")
    assert f"{job} was deleted on " in again.json()["detail"]


async def test_a_follower_is_cut_when_its_job_is_deleted(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it asks again and is told why: a plain end would say that this was the whole log."""
    ann = await rig.client("ann")
    job, got = await ended(rig, ann), bytearray()
    # Half of its copy is still to come, and its Worker is away.
    monkeypatch.setattr(rig.tasks, "worker_address", "")
    rig.tasks.put(job, "a", state="SUCCEEDED", stdout_bytes=18)
    with pytest.raises(httpx.RemoteProtocolError):
        await read_and_delete(rig, ann, job, got, follow="true")
    assert got == b"one line\n"
    again = await ann.get(f"/jobs/{job}/tasks/a/attempts/1/logs/stdout", params={"follow": "true"})
    assert f"{job} was deleted on " in again.json()["detail"]


async def test_jobs_of_nobody_are_not_pruned_in_silence(rig: Rig) -> None:
    await rig.client("ann")
    boss = await rig.client("boss", admin=True)
    answer = await boss.post("/jobs/prune", json={"older": "90d", "owner": "ann"})
    assert (answer.status_code, answer.json()["jobs"]) == (200, 0)
    answer = await boss.post("/jobs/prune", json={"older": "90d", "owner": "annn"})
    assert answer.status_code == 404
    assert answer.json()["detail"] == "There is no account `annn`. Did you mean `ann`?"
