"""One's own sessions, tokens and password over HTTP; what admins do with accounts, and what stays shut to others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.integration.http_rig import PASSWORD, Rig, a_rig

pytestmark = pytest.mark.asyncio(loop_scope="module")

NEW = "another good one"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path_factory.mktemp("own")) as rig:
        yield rig


async def signed_in(rig: Rig, name: str, password: str = PASSWORD) -> httpx.AsyncClient:
    """A session of its own, by the password."""
    await rig.account(name)
    anyone = await rig.client()
    answer = await anyone.post("/session", json={"username": name, "password": password})
    assert answer.status_code == 200, answer.text
    return await rig._client({"Authorization": f"Bearer {answer.json()['token']}"})


def pointers(answer: httpx.Response) -> list[str]:
    return [error["pointer"] for error in answer.json()["errors"]]


async def test_everybody_sees_and_ends_their_own_sessions_alone(rig: Rig):
    bea = await rig.client("bea")
    other, third, mia = await signed_in(rig, "bea"), await signed_in(rig, "bea"), await signed_in(rig, "mia")
    listed = (await bea.get("/sessions")).json()["sessions"]
    assert [one["current"] for one in listed] == [True, False, False]
    (theirs,) = [one for one in (await mia.get("/sessions")).json()["sessions"] if one["current"]]
    # Another's is as one that isn't there.
    for id in (theirs["id"], "nosuch"):
        assert (await bea.delete(f"/sessions/{id}")).json() == {"ended": 0}
    assert (await mia.get("/me")).status_code == 200
    assert (await bea.delete(f"/sessions/{listed[1]['id']}")).json() == {"ended": 1}
    assert (await other.get("/me")).status_code == 401
    assert (await bea.delete("/sessions")).json() == {"ended": 1}
    assert (await third.get("/me")).status_code == 401
    assert (await bea.get("/me")).status_code == 200
    made = (await bea.post("/tokens", json={"name": "ci"})).json()
    program = await rig._client({"Authorization": f"Bearer {made['token']}"})
    assert [one["current"] for one in (await program.get("/sessions")).json()["sessions"]] == [False]
    assert (await program.delete("/sessions")).json() == {"ended": 1}
    assert (await bea.get("/me")).status_code == 401
    assert (await program.get("/me")).status_code == 200


async def test_ones_own_session_ends_by_its_id_too(rig: Rig):
    kai = await signed_in(rig, "kai")
    (own,) = [one for one in (await kai.get("/sessions")).json()["sessions"] if one["current"]]
    assert (await kai.delete(f"/sessions/{own['id']}")).json() == {"ended": 1}
    assert (await kai.get("/me")).status_code == 401


async def test_only_admins_reach_what_belongs_to_accounts(rig: Rig):
    """The same answer for what is there and what isn't, right or wrong: it tells nothing."""
    boss, zoe, eli = await rig.client("boss", admin=True), await rig.client("zoe"), await rig.client("eli")
    token = (await zoe.post("/tokens", json={"name": "ci"})).json()
    before = (await boss.get("/users")).json()["users"]
    answers = set()
    for name in ("zoe", "nobodyhere", "%00"):
        for method, path, body in (
            ("GET", "/users", None),
            ("POST", "/users", {"name": "mallory", "admin": True}),
            ("POST", "/users", {"name": 7}),
            ("PATCH", f"/users/{name}", {"admin": True}),
            ("PATCH", f"/users/{name}", {"quota_bytes": -5}),
            ("POST", f"/users/{name}/password", {}),
            ("POST", f"/users/{name}/password", {"keep_tokens": "perhaps"}),
            ("DELETE", f"/users/{name}", None),
            ("GET", f"/users/{name}/sessions", None),
            ("GET", f"/users/{name}/tokens", None),
            ("DELETE", f"/users/{name}/tokens/{token['id']}", None),
        ):
            answer = await eli.request(method, path, **({} if body is None else {"json": body}))
            answers.add((answer.status_code, answer.json()["detail"], str(answer.json()["errors"])))
    assert answers == {(403, "Only an admin may do that.", "[]")}
    known = lambda users: [{k: v for k, v in one.items() if k != "signed_in_at"} for one in users]  # noqa: E731
    assert known((await boss.get("/users")).json()["users"]) == known(before)
    assert (await zoe.get("/tokens")).json()["tokens"][0]["id"] == token["id"]


async def test_a_password_that_the_server_makes_anew_is_answered_once_and_stands_in_no_log(
    rig: Rig, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("DEBUG")
    boss, ona = await rig.client("boss", admin=True), await signed_in(rig, "ona")
    made = (await ona.post("/tokens", json={"name": "ci"})).json()
    program = await rig._client({"Authorization": f"Bearer {made['token']}"})
    first = (await boss.post("/users/ona/password", json={"keep_tokens": True})).json()["password"]
    assert (await ona.get("/me")).status_code == 401
    assert (await program.get("/me")).status_code == 200
    ona = await signed_in(rig, "ona", first)
    assert (await ona.post("/me/password", json={"current": first, "new": NEW})).status_code == 204
    second = (await boss.post("/users/ona/password", json={})).json()["password"]
    assert (await program.get("/me")).status_code == 401
    assert (await boss.post("/users/nobodyhere/password", json={})).status_code == 404
    said = [str(record.__dict__) for record in caplog.records]
    acts = [record.getMessage() for record in caplog.records]
    assert {"account.changed", "account.password_changed", "account.token_made"} <= set(acts)
    for secret in (first, second, NEW, made["token"]):
        assert not [line for line in said if secret in line]


BAD: list[tuple[str, str, dict[str, Any], str]] = [
    ("POST", "/me/password", {"current": "not this one", "new": NEW}, "/current"),
    ("POST", "/me/password", {"current": PASSWORD, "new": PASSWORD}, "/new"),
    ("POST", "/me/password", {"current": PASSWORD, "new": "short"}, "/new"),
    ("POST", "/me/password", {"current": PASSWORD, "new": "password1234"}, "/new"),
    ("POST", "/tokens", {"name": ""}, "/name"),
    ("POST", "/tokens", {"name": "a\0b"}, "/name"),
    ("POST", "/tokens", {"name": "a\x1b[2Jb"}, "/name"),
    ("POST", "/tokens", {"name": "a\u202eb"}, "/name"),
    ("POST", "/tokens", {"name": "x" * 101}, "/name"),
    ("POST", "/tokens", {"name": "ci", "expires_in_s": 0}, "/expires_in_s"),
    ("POST", "/tokens", {"name": "ci", "expires_in_s": -86_400}, "/expires_in_s"),
    ("POST", "/tokens", {"name": "ci", "expires_in_s": 10**30}, "/expires_in_s"),
    ("POST", "/users", {"name": "admin"}, "/name"),
    ("POST", "/users", {"name": "me"}, "/name"),
    ("POST", "/users", {"name": "<b>x"}, "/name"),
    ("POST", "/users", {"name": "fine", "password": "short"}, "/password"),
    ("POST", "/users", {"name": "fine", "password": "12345678"}, "/password"),
    ("POST", "/users", {"name": "fine", "uid": 20_000}, "/uid"),
    ("POST", "/users", {"name": "fine", "uid": 1_000}, "/uid"),
    ("POST", "/users", {"name": "fine", "quota_bytes": -1}, "/quota_bytes"),
    ("PATCH", "/users/boss", {"quota_bytes": -2}, "/quota_bytes"),
    ("PATCH", "/users/boss", {"quota_bytes": 10**30}, "/quota_bytes"),
    ("PATCH", "/users/boss", {"quota_bytes": "1 TB of"}, "/quota_bytes"),
]


@pytest.mark.parametrize(("method", "path", "body", "pointer"), BAD)
async def test_what_is_refused_is_told_at_its_field(
    rig: Rig, method: str, path: str, body: dict[str, Any], pointer: str
):
    boss = await rig.client("boss", admin=True)
    users, tokens = (await boss.get("/users")).json(), (await boss.get("/tokens")).json()
    answer = await boss.request(method, path, json=body)
    assert answer.status_code in (400, 409), answer.text
    assert pointers(answer) == [pointer]
    assert ((await boss.get("/users")).json(), (await boss.get("/tokens")).json()) == (users, tokens)


async def test_an_heir_that_is_none_is_told_at_its_field(rig: Rig):
    boss, _ = await rig.client("boss", admin=True), await rig.client("ira")
    await boss.patch("/users/ira", json={"enabled": False})
    for to, status in (("nobodyhere", 404), ("ira", 400), ("", 400)):
        answer = await boss.delete("/users/ira", params={"home": "hand_over", "to": to})
        assert (answer.status_code, pointers(answer)) == (status, ["/to"])


async def test_the_last_admin_stays_an_enabled_admin(tmp_path_factory: pytest.TempPathFactory):
    async with a_rig(tmp_path_factory.mktemp("last")) as rig:
        admin = await rig.client("admin")
        for changes, pointer in (
            ({"enabled": False}, "/enabled"),
            ({"admin": False}, "/admin"),
            ({"enabled": False, "cancel_jobs": True}, "/enabled"),
        ):
            answer = await admin.patch("/users/admin", json=changes)
            assert (answer.status_code, pointers(answer)) == (409, [pointer])
            assert "last admin" in answer.json()["detail"]
        assert (await admin.delete("/users/admin")).status_code == 409
        # A disabled admin doesn't count.
        await rig.client("boss", admin=True)
        assert (await admin.patch("/users/boss", json={"enabled": False})).status_code == 200
        assert (await admin.patch("/users/admin", json={"admin": False})).status_code == 409
        assert (await admin.get("/users")).status_code == 200


@pytest.mark.parametrize("changes", [{"enabled": False}, {"admin": False}])
async def test_of_two_admins_who_shut_each_other_out_at_once_one_stays(
    tmp_path_factory: pytest.TempPathFactory, changes: dict[str, bool]
):
    async with a_rig(tmp_path_factory.mktemp("two")) as rig:
        admin, boss = await rig.client("admin"), await rig.client("boss", admin=True)
        answers = await asyncio.gather(
            admin.patch("/users/boss", json=changes), boss.patch("/users/admin", json=changes), return_exceptions=True
        )
        codes = [one.status_code for one in answers if isinstance(one, httpx.Response)]
        assert codes.count(200) == 1
        assert set(codes) <= {200, 401, 403, 409}
        left = [one for one in await rig.parts.accounts.all() if one.admin and one.enabled]
        assert len(left) == 1


async def test_of_two_removals_at_once_one_removes_and_hands_over(rig: Rig):
    boss, chief = await rig.client("boss", admin=True), await rig.client("chief", admin=True)
    ula, vic = await rig.client("ula"), await rig.client("vic")
    await ula.put("/files/f", content=b"1")
    await vic.get("/me")
    await boss.patch("/users/ula", json={"enabled": False})
    query = {"home": "hand_over", "to": "vic"}
    answers = await asyncio.gather(boss.delete("/users/ula", params=query), chief.delete("/users/ula", params=query))
    assert sorted(one.status_code for one in answers) == [200, 404]
    assert (await vic.get("/files/from-ula/f")).content == b"1"
