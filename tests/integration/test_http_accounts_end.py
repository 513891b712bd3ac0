"""What ends with an account over HTTP: its work, its sessions, its streams; and its removal."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from httpserver.api.common import COOKIE
from tests.integration.http_rig import PASSWORD, Rig, a_rig, submit
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory, both_databases: None) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path_factory.mktemp("accounts")) as rig:
        yield rig


async def held(client: httpx.AsyncClient, job: str) -> dict[str, bool]:
    return {task["name"]: task["held"] for task in (await client.get(f"/jobs/{job}")).json()["tasks"]}


async def test_disabling_holds_what_waits_and_enabling_releases_it(rig: Rig):
    boss, dora = await rig.client("boss", admin=True), await rig.client("dora")
    job = await submit(dora, "a", "b")
    await dora.post(f"/jobs/{job}/tasks/b/hold")
    answer = await boss.patch("/users/dora", json={"enabled": False})
    assert answer.status_code == 200, answer.text
    assert (await dora.get("/me")).status_code == 401
    assert await held(boss, job) == {"a": True, "b": True}
    await boss.patch("/users/dora", json={"enabled": True})
    assert await held(boss, job) == {"a": False, "b": True}


async def test_disabling_cancels_its_jobs_where_asked(rig: Rig):
    boss, carl = await rig.client("boss", admin=True), await rig.client("carl")
    jobs = [await submit(carl, "a") for _ in range(2)]
    assert (await boss.patch("/users/carl", json={"cancel_jobs": True})).status_code == 400
    assert (await carl.get("/me")).status_code == 200
    await boss.patch("/users/carl", json={"enabled": False, "cancel_jobs": True})
    for job in jobs:
        assert (await boss.get(f"/jobs/{job}")).json()["state"] in ("STOPPING", "CANCELLED")


@pytest.mark.parametrize("what", ["disable", "password", "session", "admin ends it"])
async def test_streams_end_at_once_with_the_session(rig: Rig, what: str):
    """They went on until the next look, 15 seconds later, and followed logs went on for ever."""
    name = f"eve{what[0]}"
    boss, eve = await rig.client("boss", admin=True), await rig.client(name)
    job = await submit(eve, "a")
    rig.tasks.put(job, "a")
    rig.worker.logs[job, "a", 1, "stdout"] = bytearray(b"one line\n")
    cut: list[str] = []

    async def read(path: str) -> None:
        one = {"job": job, "task": "a", "stream": "stdout"}
        method, sent = ("POST", {"logs": [one]}) if path == "/logs/follow" else ("GET", None)
        try:
            async with eve.stream(method, path, json=sent) as answer:
                assert answer.status_code == 200
                async for _ in answer.aiter_bytes():
                    begun.add(path)
        except httpx.HTTPError:
            pass
        cut.append(path)

    begun: set[str] = set()
    paths = ["/events", f"/jobs/{job}/tasks/a/attempts/1/logs/stdout?follow=true", "/logs/follow"]
    reading = [asyncio.create_task(read(path)) for path in paths]
    await eventually(lambda: len(begun) == len(paths), what="all have begun")
    match what:
        case "disable":
            await boss.patch(f"/users/{name}", json={"enabled": False})
        case "password":
            await boss.patch(f"/users/{name}", json={"password": "another good one"})
        case "session":
            # Over another line: its own answer still comes.
            other = await rig._client({"Authorization": eve.headers["authorization"]})
            assert (await other.delete("/session")).status_code == 204
        case _:
            (session,) = (await boss.get(f"/users/{name}/sessions")).json()["sessions"]
            ended = await boss.delete(f"/users/{name}/sessions/{session['id']}")
            assert ended.json() == {"ended": 1}
    await asyncio.wait_for(asyncio.gather(*reading), 5)
    assert sorted(cut) == sorted(paths)
    assert (await eve.get("/me")).status_code == 401


async def test_an_upload_under_way_ends_with_the_session(rig: Rig):
    boss, fay = await rig.client("boss", admin=True), await rig.client("fay")
    begun, gate = asyncio.Event(), asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b"x" * 100
        begun.set()
        await gate.wait()
        yield b"y"

    putting = asyncio.create_task(fay.put("/files/big", content=body()))
    await begun.wait()
    await asyncio.sleep(0.2)
    await boss.patch("/users/fay", json={"enabled": False})
    await asyncio.sleep(0.2)
    gate.set()
    try:
        assert (await putting).status_code == 401
    except httpx.HTTPError:
        pass
    await boss.patch("/users/fay", json={"enabled": True})
    rig.secrets.pop("fay")
    assert (await (await rig.client("fay")).get("/files/big")).status_code == 404


async def test_an_admin_sees_and_ends_tokens_of_others_who_can_not(rig: Rig):
    boss, gus, hal = await rig.client("boss", admin=True), await rig.client("gus"), await rig.client("hal")
    made = (await gus.post("/tokens", json={"name": "ci"})).json()
    for method, path in (
        ("GET", "/users/gus/tokens"),
        ("GET", "/users/gus/sessions"),
        ("DELETE", f"/users/gus/tokens/{made['id']}"),
        ("DELETE", "/users/gus/tokens"),
        ("DELETE", "/users/gus/sessions"),
        ("DELETE", "/users/gus"),
    ):
        assert (await hal.request(method, path)).status_code == 403
    assert [one["name"] for one in (await boss.get("/users/gus/tokens")).json()["tokens"]] == ["ci"]
    assert (await boss.delete("/users/gus/tokens")).json() == {"ended": 1}
    assert (await boss.get("/users/nobodyhere/tokens")).status_code == 404
    assert (await gus.get("/me")).status_code == 200


async def gone(rig: Rig, boss: httpx.AsyncClient, name: str, **query: str) -> httpx.Response:
    await boss.patch(f"/users/{name}", json={"enabled": False})
    return await boss.delete(f"/users/{name}", params=query)


async def test_a_removed_accounts_files_go_where_the_admin_says(rig: Rig):
    boss = await rig.client("boss", admin=True)
    for name in ("ida", "jon", "kim", "lea"):
        client = await rig.client(name)
        assert (await client.put("/files/deep/f", content=b"1", params={"parents": "true"})).status_code in (200, 201)
    kept = await gone(rig, boss, "ida")
    assert kept.json() == {"name": "ida", "home": ""}
    assert (rig.layout.home("ida") / "deep" / "f").read_bytes() == b"1"
    assert (await gone(rig, boss, "jon", home="delete")).status_code == 200
    assert not rig.layout.home("jon").exists()
    for query in ({"home": "hand_over"}, {"to": "lea"}, {"home": "hand_over", "to": "kim"}):
        assert (await gone(rig, boss, "kim", **query)).status_code == 400
    assert (await gone(rig, boss, "kim", home="hand_over", to="nobodyhere")).status_code == 404
    assert (await gone(rig, boss, "kim", home="hand_over", to="lea")).json()["home"] == "from-kim"
    assert (await (await rig.client("lea")).get("/files/from-kim/deep/f")).content == b"1"
    lea = rig.parts.accounts.get("lea")
    assert lea is not None
    if os.geteuid() == 0:
        assert {path.lstat().st_uid for path in rig.layout.home("lea").rglob("*")} == {lea.uid}
    names = [user["name"] for user in (await boss.get("/users")).json()["users"]]
    assert not {"ida", "jon", "kim"} & set(names)
    assert (await boss.post("/users", json={"name": "ida"})).status_code == 409


async def test_an_account_whose_home_is_being_deleted_can_not_be_enabled(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    """It was enabled and could sign in, to a home that was half gone."""
    boss, _ = await rig.client("boss", admin=True), await rig.client("oda")
    begun, gate = threading.Event(), threading.Event()

    def failing(layout: object, account: object) -> bool:
        begun.set()
        gate.wait(10)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("httpserver.files.home_end.delete", failing)
    removing = asyncio.create_task(gone(rig, boss, "oda", home="delete"))
    await eventually(begun.is_set, what="its home is being deleted")
    refused = await boss.patch("/users/oda", json={"enabled": True})
    gate.set()
    assert refused.status_code == 409
    assert refused.json()["detail"] == "`oda` is being removed now."
    assert (await removing).status_code == 503
    # The removal failed, and is over.
    assert (await boss.patch("/users/oda", json={"enabled": True})).status_code == 200


async def test_who_has_live_jobs_is_not_removed_and_jobs_stay_readable_to_admins(rig: Rig):
    boss, max_ = await rig.client("boss", admin=True), await rig.client("max")
    job = await submit(max_, "a")
    assert (await boss.delete("/users/max")).status_code == 409
    refused = await gone(rig, boss, "max")
    assert refused.status_code == 409
    assert "--cancel-jobs" in refused.json()["detail"]
    rig.tasks.put(job, "a", state="CANCELLED")
    await boss.post(f"/jobs/{job}/cancel")
    job_state = (await boss.get(f"/jobs/{job}")).json()["state"]
    if job_state == "CANCELLED":
        assert (await boss.delete("/users/max")).status_code == 200
    assert (await boss.get(f"/jobs/{job}/spec")).status_code == 200


async def test_the_browser_that_changes_its_password_stays_in(rig: Rig):
    nan = await rig.browser("nan")
    nan.headers["sec-fetch-site"] = "same-origin"
    assert nan.headers["cookie"].startswith(COOKIE)
    answer = await nan.post("/me/password", json={"current": PASSWORD, "new": "another good one"})
    assert answer.status_code == 204
    assert (await nan.get("/me")).status_code == 200
