"""Signing in by a provider: a real small one, and one that lies in every way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import oidc_provider_mock
import pytest
import pytest_asyncio

from httpserver.audit.flood import FloodGate
from httpserver.provider.refusals import SENTENCES
from tests.integration.http_rig import PASSWORD, Rig, a_rig
from tests.support.identity_provider import CLIENT, SECRET, IdentityProvider, an_identity_provider

pytestmark = pytest.mark.asyncio(loop_scope="module")

START, BACK = "/session/provider", "/session/provider/callback"


@asynccontextmanager
async def a_rig_with(folder: Path, issuer: str, **oidc: Any) -> AsyncIterator[Rig]:
    secret = folder / "client-secret"
    secret.write_text(f"{SECRET}\n")
    passwords = oidc.pop("passwords", "on")
    settings = {"issuer": issuer, "client_id": CLIENT, "client_secret_file": str(secret), **oidc}
    async with a_rig(folder, oidc=settings, passwords=passwords) as rig:
        yield rig


async def a_browser(rig: Rig) -> httpx.AsyncClient:
    client = httpx.AsyncClient(base_url=f"{rig.url}/api/v1", trust_env=False, timeout=20)
    await rig.clients.enter_async_context(client)
    return client


async def sign_in(rig: Rig, provider: IdentityProvider, browser: httpx.AsyncClient, **query: str) -> httpx.Response:
    """The answer to the way back."""
    begun = await browser.get(START, params=query)
    assert begun.status_code == 303, begun.text
    return await browser.get(provider.authorize(begun.headers["location"]))


def word(answer: httpx.Response) -> str:
    """Why it failed; empty: it did not."""
    assert answer.status_code == 303, answer.text
    parts = urlsplit(answer.headers["location"])
    assert (parts.scheme, parts.netloc) == ("", "")
    return parse_qs(parts.query).get("sign_in", [""])[0]


async def names(rig: Rig) -> list[str]:
    return [account.name for account in await rig.parts.accounts.all()]


@pytest.fixture
def provider() -> Any:
    with an_identity_provider() as provider:
        yield provider


@pytest_asyncio.fixture(loop_scope="module")
async def rig(tmp_path: Path, provider: IdentityProvider) -> AsyncIterator[Rig]:
    async with a_rig_with(tmp_path, provider.issuer) as rig:
        yield rig


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lied_to(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Rig, IdentityProvider]]:
    """One for all lies: nobody of them leaves anything."""
    with an_identity_provider() as provider:
        async with a_rig_with(tmp_path_factory.mktemp("lies"), provider.issuer) as rig:
            yield rig, provider


# -- a real one ---------------------------------------------------------------------------------------


async def test_a_real_small_provider_signs_people_in_and_makes_their_account(tmp_path: Path) -> None:
    people = [
        oidc_provider_mock.User(
            sub="u-17",
            claims={
                "preferred_username": "grace",
                "email": "grace@lab.example",
                "email_verified": True,
                "groups": ["staff"],
            },
        )
    ]
    with oidc_provider_mock.run_server_in_thread(user_claims=people) as server:
        issuer = f"http://localhost:{server.server_port}"
        rules = {"allowed_domains": ["lab.example"], "allowed_groups": ["staff"], "groups": {"staff": "lab"}}
        async with a_rig_with(tmp_path, issuer, **rules) as rig:
            boss = await rig.client("boss", admin=True)
            assert (await boss.post("/groups", json={"name": "lab"})).status_code == 201
            browser = await a_browser(rig)
            begun = await browser.get(START, params={"next": "/jobs?mine=1"})
            asked = {name: values[0] for name, values in parse_qs(urlsplit(begun.headers["location"]).query).items()}
            assert asked["redirect_uri"] == f"{rig.url}/api/v1{BACK}"
            assert (asked["code_challenge_method"], asked["response_type"]) == ("S256", "code")
            async with httpx.AsyncClient(trust_env=False) as person:
                agreed = await person.post(begun.headers["location"], data={"sub": "u-17"})
            assert agreed.status_code == 302
            done = await browser.get(agreed.headers["location"])
            assert (done.status_code, done.headers["location"]) == (303, "/jobs?mine=1")
            me = (await browser.get("/me")).json()
            assert (me["name"], me["admin"]) == ("grace", False)
            assert me["uid"] >= 20_000
            (group,) = (await boss.get("/groups")).json()["groups"]
            assert group["members"] == ["grace"]
            (session,) = (await browser.get("/sessions")).json()["sessions"]
            assert session["way"] == "provider"


# -- what is right ------------------------------------------------------------------------------------


async def test_the_same_person_comes_back_to_the_same_account_whatever_it_is_called(
    rig: Rig, provider: IdentityProvider
) -> None:
    browser = await a_browser(rig)
    assert word(await sign_in(rig, provider, browser)) == ""
    first = (await browser.get("/me")).json()
    provider.claims = {"preferred_username": "countess", "email": "x@y.example"}
    again = await a_browser(rig)
    assert word(await sign_in(rig, provider, again)) == ""
    assert (await again.get("/me")).json()["uid"] == first["uid"]
    assert (await again.delete("/session", headers={"Sec-Fetch-Site": "same-origin"})).status_code == 204
    assert (await again.get("/me")).status_code == 401
    boss = await rig.client("boss", admin=True)
    (link,) = (await boss.get("/users/ada/links")).json()["links"]
    assert (link["issuer"], link["subject"]) == (provider.issuer, "s-1")
    found = (await boss.get("/audit", params={"subject": "account ada"})).json()["entries"]
    assert [(one["word"], one["way"]) for one in found] == [("account.make", "provider")]


async def test_two_first_sign_ins_at_once_make_one_account(rig: Rig, provider: IdentityProvider) -> None:
    browsers = [await a_browser(rig) for _ in range(4)]
    answers = await asyncio.gather(*(sign_in(rig, provider, browser) for browser in browsers))
    assert [word(answer) for answer in answers] == [""] * 4
    assert (await names(rig)).count("ada") == 1


async def test_a_local_account_is_taken_over_by_nobody_until_an_admin_links_it(
    rig: Rig, provider: IdentityProvider
) -> None:
    await rig.account("ada")
    browser = await a_browser(rig)
    assert word(await sign_in(rig, provider, browser)) == "name-taken"
    assert (await browser.get("/me")).status_code == 401
    boss = await rig.client("boss", admin=True)
    await rig.parts.audit._db.write(lambda conn: None)
    (refused,) = (await boss.get("/audit", params={"what": "session.sign_in", "outcome": "refused"})).json()["entries"]
    assert refused["problem"] == "sign-in-name-taken"
    assert '"provider_subject": "s-1"' in refused["detail"]
    assert (await boss.post("/users/ada/links", json={"subject": "s-1"})).status_code == 201
    assert word(await sign_in(rig, provider, browser)) == ""
    assert (await browser.get("/me")).json()["name"] == "ada"
    # Nobody else gets it, and no second account does.
    await rig.account("bob")
    assert (await boss.post("/users/bob/links", json={"subject": "s-1"})).status_code == 409
    assert (await boss.delete("/users/ada/links")).json() == {"unlinked": 1}
    assert word(await sign_in(rig, provider, await a_browser(rig))) == "name-taken"


async def test_a_disabled_and_a_removed_account_stay_shut(rig: Rig, provider: IdentityProvider) -> None:
    assert word(await sign_in(rig, provider, await a_browser(rig))) == ""
    boss = await rig.client("boss", admin=True)
    assert (await boss.patch("/users/ada", json={"enabled": False})).status_code == 200
    browser = await a_browser(rig)
    assert word(await sign_in(rig, provider, browser)) == "disabled"
    assert (await browser.get("/me")).status_code == 401
    await rig.parts.accounts.remove("ada", by="test")
    # Its name stays taken, so the same person is not given the old one's jobs.
    assert word(await sign_in(rig, provider, browser)) == "name-taken"


async def test_rights_follow_the_providers_groups_at_each_sign_in(tmp_path: Path, provider: IdentityProvider) -> None:
    async with a_rig_with(tmp_path, provider.issuer, admin_groups=["ops"], groups={"ops": "lab"}) as rig:
        boss = await rig.client("boss", admin=True)
        await boss.post("/groups", json={"name": "lab"})
        provider.told = {"groups": ["ops"]}  # not in the ID token: userinfo is asked
        browser = await a_browser(rig)
        assert word(await sign_in(rig, provider, browser)) == ""
        assert (await browser.get("/me")).json()["admin"] is True
        assert (await boss.get("/groups")).json()["groups"][0]["members"] == ["ada"]
        provider.told = {"groups": []}
        assert word(await sign_in(rig, provider, browser)) == ""
        assert (await browser.get("/me")).json()["admin"] is False
        assert (await boss.get("/groups")).json()["groups"][0]["members"] == []


async def test_no_account_is_made_where_none_shall_be(tmp_path: Path, provider: IdentityProvider) -> None:
    async with a_rig_with(tmp_path, provider.issuer, create_accounts=False) as rig:
        before = await names(rig)
        assert word(await sign_in(rig, provider, await a_browser(rig))) == "no-account"
        assert await names(rig) == before


async def test_new_keys_of_the_provider_are_found_by_themselves(rig: Rig, provider: IdentityProvider) -> None:
    assert word(await sign_in(rig, provider, await a_browser(rig))) == ""
    assert provider.asked.count("/keys") == 1
    assert word(await sign_in(rig, provider, await a_browser(rig))) == ""
    assert provider.asked.count("/keys") == 1
    provider.turn_key("two")
    rig.parts.provider._client._asked_s = -1e9  # type: ignore[union-attr]  # some time has passed
    assert word(await sign_in(rig, provider, await a_browser(rig))) == ""
    assert provider.asked.count("/keys") == 2


# -- what is wrong ------------------------------------------------------------------------------------

FAR = 3_600


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        ({"sign": "none"}, "untrusted"),
        ({"sign": "hs256"}, "untrusted"),
        ({"sign": "other_key"}, "untrusted"),
        ({"sign": ""}, "odd"),
        ({"claims": {"iss": "https://evil.example"}}, "untrusted"),
        ({"claims": {"aud": "another"}}, "untrusted"),
        ({"claims": {"aud": ["another", CLIENT]}}, "untrusted"),
        ({"claims": {"azp": "another"}}, "untrusted"),
        ({"claims": {"aud": None}}, "untrusted"),
        ({"claims": {"nonce": "of another request"}}, "untrusted"),
        ({"claims": {"nonce": None}}, "untrusted"),
        ({"claims": {"exp": 1_000_000_000}}, "clock"),
        ({"claims": {"iat": 9_000_000_000, "exp": 9_000_000_300}}, "clock"),
        ({"claims": {"nbf": 9_000_000_000}}, "clock"),
        ({"claims": {"exp": None}}, "odd"),
        ({"claims": {"exp": "soon"}}, "odd"),
        ({"claims": {"sub": None}}, "odd"),
        ({"claims": {"sub": ""}}, "odd"),
        ({"claims": {"preferred_username": "../etc"}}, "no-name"),
        ({"claims": {"preferred_username": "root"}}, "name-taken"),
        ({"claims": {"preferred_username": None}, "told": {"sub": "x", "preferred_username": "eve"}}, "untrusted"),
        ({"error": "invalid_client"}, "secret"),
        ({"error": "invalid_grant"}, "stale"),
        ({"error": "odd_thing"}, "odd"),
        ({"send_back": {"error": "access_denied", "code": ""}}, "denied"),
        ({"send_back": {"error": "<script>", "code": ""}}, "odd"),
        ({"send_back": {"code": ""}}, "odd"),
        ({"send_back": {"state": "made up"}}, "stale"),
        ({"send_back": {"iss": "https://evil.example"}}, "untrusted"),
        ({"send_back": {"session_state": "x", "iss": ""}}, ""),
    ],
)  # fmt: skip
async def test_what_a_provider_or_somebody_between_may_lie(
    lied_to: tuple[Rig, IdentityProvider], caplog: pytest.LogCaptureFixture, lie: dict[str, Any], why: str
) -> None:
    rig, provider = lied_to
    boss = await rig.client("boss", admin=True)
    before = await names(rig)
    for name, value in {"sign": "rs256", "claims": {}, "told": {}, "error": "", "send_back": {}, **lie}.items():
        setattr(provider, name, value)
    browser = await a_browser(rig)
    with caplog.at_level(logging.WARNING):
        answer = await sign_in(rig, provider, browser)
    assert word(answer) == why
    if not why:
        return
    assert why in SENTENCES
    assert (await browser.get("/me")).status_code == 401
    assert await names(rig) == before
    assert any("provider.sign_in_failed" in record.getMessage() for record in caplog.records)
    rig.parts.audit._flood = FloodGate()
    await rig.parts.audit._db.write(lambda conn: None)
    asked = {"what": "session.sign_in", "outcome": "refused", "limit": 1}
    (refused,) = (await boss.get("/audit", params=asked)).json()["entries"]
    assert refused["problem"] == f"sign-in-{why}"
    assert SECRET not in caplog.text


async def test_an_answer_must_name_its_issuer_where_the_provider_says_it_does(
    rig: Rig, provider: IdentityProvider
) -> None:
    provider.description = {"authorization_response_iss_parameter_supported": True}
    assert word(await sign_in(rig, provider, await a_browser(rig))) == "untrusted"
    provider.send_back = {"iss": provider.issuer}
    assert word(await sign_in(rig, provider, await a_browser(rig))) == ""


async def test_a_way_back_counts_once_and_in_its_own_browser(rig: Rig, provider: IdentityProvider) -> None:
    browser, stranger = await a_browser(rig), await a_browser(rig)
    begun = await browser.get(START)
    back = provider.authorize(begun.headers["location"])
    # Who lures somebody to a way back of his own would sign them in as himself.
    assert word(await stranger.get(back)) == "stale"
    assert word(await browser.get(back)) == ""
    assert word(await browser.get(back)) == "stale"
    # The code was used, whatever state comes along.
    code = parse_qs(urlsplit(back).query)["code"][0]
    provider.send_back = {"code": code}
    assert word(await sign_in(rig, provider, await a_browser(rig))) == "stale"


async def test_the_verifier_of_another_flow_redeems_nothing(rig: Rig, provider: IdentityProvider) -> None:
    """A code that was stolen on its way is worth nothing to another flow (PKCE)."""
    browser = await a_browser(rig)
    stolen = provider.authorize((await browser.get(START)).headers["location"])
    provider.send_back = {"code": parse_qs(urlsplit(stolen).query)["code"][0]}
    assert word(await sign_in(rig, provider, await a_browser(rig))) == "stale"
    assert len(provider.exchanges) == 1


@pytest.mark.parametrize("next", ["//evil.example", "https://evil.example/", "/\\evil.example", "/api/v1/session"])
async def test_nobody_is_sent_elsewhere(rig: Rig, provider: IdentityProvider, next: str) -> None:
    answer = await sign_in(rig, provider, await a_browser(rig), next=next)
    assert answer.headers["location"] == "/"


async def test_a_provider_that_is_away_or_odd_is_told_on_the_page(rig: Rig, provider: IdentityProvider) -> None:
    browser = await a_browser(rig)
    for lie, why in (
        ({"status": 503}, "away"),
        ({"status": 404}, "odd"),
        ({"description": {"issuer": "https://evil.example"}}, "odd"),
        ({"description": {"token_endpoint": "http://evil.example/token"}}, "odd"),
        ({"description": {"jwks_uri": 7}}, "odd"),
    ):
        for name, value in {"status": 200, "description": {}, **lie}.items():
            setattr(provider, name, value)
        assert word(await browser.get(START)) == why
    provider.status, provider.description = 200, {}
    assert word(await sign_in(rig, provider, browser)) == ""
    # What is known of it is good for a while.
    provider.status = 503
    begun = await browser.get(START)
    assert begun.headers["location"].startswith(f"{provider.issuer}/authorize?")
    assert word(await browser.get(provider.authorize(begun.headers["location"]))) == "away"


async def test_the_secret_goes_to_the_provider_alone_and_cookies_hold(rig: Rig, provider: IdentityProvider) -> None:
    browser = await a_browser(rig)
    begun = await browser.get(START)
    cookie = begun.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=lax" in cookie.lower()
    assert SECRET not in begun.headers["location"]
    done = await browser.get(provider.authorize(begun.headers["location"]))
    session = next(line for line in done.headers.get_list("set-cookie") if line.startswith("headway_session="))
    assert "HttpOnly" in session
    assert "samesite=strict" in session.lower()
    assert "code_verifier" in provider.exchanges[0]
    assert "client_secret" not in provider.exchanges[0]  # it went as the password of the call


# -- passwords, and command lines ---------------------------------------------------------------------


async def test_without_a_provider_the_ways_say_so(tmp_path: Path) -> None:
    async with a_rig(tmp_path) as rig:
        anyone = await rig.client()
        ways = (await anyone.get("/session/ways")).json()
        assert (ways["passwords"], ways["provider"]) == ("on", None)
        assert (await anyone.get(START)).status_code == 404
        assert (await anyone.get(BACK, params={"state": "x"})).status_code == 404


@pytest.mark.parametrize(("mode", "boss", "ann"), [("on", 200, 200), ("admins", 200, 401), ("off", 401, 401)])
async def test_whose_passwords_open_sessions(
    tmp_path: Path, provider: IdentityProvider, mode: str, boss: int, ann: int
) -> None:
    async with a_rig_with(tmp_path, provider.issuer, passwords=mode) as rig:
        await rig.account("boss", admin=True)
        await rig.account("ann")
        anyone = await rig.client()

        async def status(name: str, password: str = PASSWORD) -> int:
            answer = await anyone.post("/session", json={"username": name, "password": password})
            return answer.status_code

        assert [await status("boss"), await status("ann")] == [boss, ann]
        # The first admin of this very start, and whoever the machine's operator names, come in all the same.
        first = (tmp_path / "first-admin").read_text().split()
        assert await status(*first) == 200
        assert await status("ann", "a wrong one") == 401


async def test_a_command_line_is_let_in_by_somebody_on_the_page(rig: Rig) -> None:
    ann, anyone = await rig.client("ann"), await rig.client()
    asked = (await anyone.post("/session/requests", headers={"User-Agent": "headway-cli"})).json()
    secret, code = {"secret": asked["secret"]}, asked["code"]
    assert asked["path"] == f"/approve?code={code}"
    assert (await anyone.post("/session/requests/poll", json=secret)).json()["state"] == "waiting"
    assert (await anyone.get(f"/session/requests/{code}")).status_code == 401
    seen = (await ann.get(f"/session/requests/{code}")).json()
    assert (seen["address"], seen["agent"]) == ("127.0.0.1", "headway-cli")
    # A long-lived token can't make what outlives it.
    token = (await ann.post("/tokens", json={"name": "ci"})).json()["token"]
    program = await rig._client({"Authorization": f"Bearer {token}"})
    assert (await program.post(f"/session/requests/{code}", json={"approve": True})).status_code == 403
    assert (await ann.post(f"/session/requests/{code}", json={"approve": True})).status_code == 204
    polled = (await anyone.post("/session/requests/poll", json=secret)).json()
    assert polled["session"]["user"]["name"] == "ann"
    there = await rig._client({"Authorization": f"Bearer {polled['session']['token']}"})
    assert (await there.get("/me")).json()["name"] == "ann"
    assert (await anyone.post("/session/requests/poll", json=secret)).status_code == 400
    boss = await rig.client("boss", admin=True)
    await rig.parts.audit._db.write(lambda conn: None)
    entries = (await boss.get("/audit", params={"who": "ann", "what": "session"})).json()["entries"]
    assert sorted((one["word"], one["outcome"]) for one in entries) == [
        ("session.approve", "done"), ("session.approve", "refused"), ("session.sign_in", "done"),
    ]  # fmt: skip


async def test_one_that_is_turned_away_or_whose_account_is_shut_gets_nothing(rig: Rig) -> None:
    ann, boss, anyone = await rig.client("ann"), await rig.client("boss", admin=True), await rig.client()
    asked = (await anyone.post("/session/requests")).json()
    assert (await ann.post(f"/session/requests/{asked['code']}", json={"approve": False})).status_code == 204
    polled = await anyone.post("/session/requests/poll", json={"secret": asked["secret"]})
    assert polled.json() == {"state": "denied", "session": None}
    asked = (await anyone.post("/session/requests")).json()
    assert (await ann.post(f"/session/requests/{asked['code']}", json={"approve": True})).status_code == 204
    assert (await boss.patch("/users/ann", json={"enabled": False})).status_code == 200
    polled = await anyone.post("/session/requests/poll", json={"secret": asked["secret"]})
    assert polled.status_code == 401
