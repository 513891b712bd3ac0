"""Who gets in: sessions, tokens, roles, cross-site calls, names, sizes, and what every answer carries."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import socket
import ssl
import stat
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio

import httpserver.app
from headway.errors import ConfigInvalid
from tests.integration.http_rig import PASSWORD, Rig, a_job_file, a_rig, submit
from tests.support.waiting import eventually


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path) as rig:
        yield rig


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """One for all tests that only ask."""
    async with a_rig(tmp_path_factory.mktemp("shared")) as rig:
        yield rig


on_shared = pytest.mark.asyncio(loop_scope="module")


async def test_the_first_start_makes_an_admin_and_writes_it_down_for_the_operator_alone(rig: Rig):
    file = rig.folder / "first-admin"
    name, password = file.read_text().splitlines()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    anyone = await rig.client()
    answer = await anyone.post("/session", json={"username": name, "password": password})
    assert answer.status_code == 200
    assert answer.json()["user"]["admin"] is True


async def test_a_session_opens_by_cookie_and_as_bearer_and_ends_for_both(rig: Rig):
    await rig.account("ann")
    anyone = await rig.client()
    answer = await anyone.post("/session", json={"username": "ann", "password": PASSWORD})
    token = answer.json()["token"]
    cookie = answer.headers["set-cookie"]
    assert f"headway_session={token}" in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    bearer = {"Authorization": f"Bearer {token}"}
    assert (await anyone.get("/me", headers=bearer)).json()["name"] == "ann"
    anyone.cookies.clear()
    by_cookie = {"Cookie": f"other=1; headway_session={token}"}
    assert (await anyone.get("/me", headers=by_cookie)).json()["name"] == "ann"
    assert (await anyone.delete("/session", headers=bearer)).status_code == 204
    for headers in (bearer, by_cookie):
        assert (await anyone.get("/me", headers=headers)).status_code == 401


async def test_wrong_names_and_wrong_passwords_are_told_alike_and_slowed_down(rig: Rig):
    await rig.account("ann")
    anyone = await rig.client()
    told = set()
    for username, password in (
        ("ann", "wrong"),
        ("nobody", "wrong"),
        ("ann' or 1=1", "x"),
        ("", ""),
        ("ann\0", PASSWORD),
    ):
        answer = await anyone.post("/session", json={"username": username, "password": password})
        told.add((answer.status_code, answer.json()["detail"]))
    assert told == {(401, "The name or the password is wrong.")}
    answers = [await anyone.post("/session", json={"username": "ann", "password": "wrong"}) for _ in range(10)]
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) >= 1
    # The right password doesn't help any more either, or a guesser would know.
    assert (await anyone.post("/session", json={"username": "ann", "password": PASSWORD})).status_code == 429


async def test_tokens_are_shown_once_kept_as_hashes_and_end_at_once(rig: Rig):
    ann, bob = await rig.client("ann"), await rig.client("bob")
    made = (await ann.post("/tokens", json={"name": "laptop"})).json()
    secret = made["token"]
    listed = (await ann.get("/tokens")).json()["tokens"]
    assert [token["name"] for token in listed] == ["laptop"]
    assert "token" not in listed[0]
    assert secret.encode() not in b"".join(path.read_bytes() for path in rig.folder.glob("http.db*"))
    anyone = await rig.client()
    headers = {"Authorization": f"Bearer {secret}"}
    assert (await anyone.get("/me", headers=headers)).json()["name"] == "ann"
    assert (await bob.get("/tokens")).json()["tokens"] == []
    await bob.delete(f"/tokens/{made['id']}")
    assert (await anyone.get("/me", headers=headers)).status_code == 200
    # Signing out with it ends no long-lived token.
    assert (await anyone.delete("/session", headers=headers)).status_code == 204
    assert (await anyone.get("/me", headers=headers)).status_code == 200
    assert (await ann.delete(f"/tokens/{made['id']}")).status_code == 204
    assert (await ann.delete(f"/tokens/{made['id']}")).status_code == 204
    assert (await anyone.get("/me", headers=headers)).status_code == 401


@on_shared
async def test_an_unknown_key_in_any_json_body_is_refused_at_its_place(shared: Rig):
    chief = await shared.client("chief", admin=True)
    document = json.loads((Path(httpserver.app.__file__).with_name("openapi.json")).read_text("utf-8"))
    tried = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if "application/json" not in operation.get("requestBody", {}).get("content", ()):
                continue
            address = re.sub(r"\{\w+\}", "x", path.replace("{kind}", "files")).removeprefix("/api/v1")
            params = {"op": "move"} if path.endswith(("/files/{path}", "/images/{ref}")) and method == "post" else {}
            answer = await chief.request(method, address, json={"no_such_key": 1}, params=params)
            pointers = [error["pointer"] for error in answer.json().get("errors", ())]
            assert (answer.status_code in (400, 422), "/no_such_key" in pointers) == (True, True), (path, answer.text)
            tried += 1
    assert tried > 15


@on_shared
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer hws_"},
        {"Authorization": "Bearer hws_" + "A" * 43},
        {"Authorization": "Basic YWRtaW46YWRtaW4="},
        {"Authorization": "Bearer " + "x" * 7000},
        {"Cookie": "headway_session=hws_wrong"},
        {"Cookie": "headway_session="},
        {"Authorization": "Bearer hws_ü".encode().decode("latin-1")},
    ],
)
async def test_nothing_below_the_api_opens_without_a_valid_token(shared: Rig, headers: dict[str, str]):
    anyone = await shared.client()
    raw = {name: value.encode("latin-1") for name, value in headers.items()}
    for method, path in (
        ("GET", "/jobs"),
        ("GET", "/me"),
        ("POST", "/jobs"),
        ("GET", "/files/x"),
        ("GET", "/events"),
        ("GET", "/nope"),
    ):
        answer = await anyone.request(method, path, headers=raw)
        assert answer.status_code == 401, (method, path)
        assert answer.json()["slug"] == "not-signed-in"
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_admins_make_and_change_accounts_and_one_admin_always_stays(rig: Rig):
    ann = await rig.client("ann")
    boss = await rig.client("boss", admin=True)
    assert (await ann.get("/users")).status_code == 403
    assert (await ann.post("/users", json={"name": "eve", "admin": True})).status_code == 403
    made = await boss.post("/users", json={"name": "carl"})
    assert made.status_code == 201
    uids = [user["uid"] for user in (await boss.get("/users")).json()["users"]]
    assert len(set(uids)) == len(uids)
    assert min(uids) == 20_000
    assert (await boss.post("/users", json={"name": "carl"})).status_code == 409
    assert (await boss.post("/users", json={"name": "dora", "uid": made.json()["user"]["uid"]})).status_code == 409
    anyone = await rig.client()
    credentials = {"username": "carl", "password": made.json()["password"]}
    session = (await anyone.post("/session", json=credentials)).json()["token"]
    carl = {"Authorization": f"Bearer {session}"}
    anyone.cookies.clear()
    assert (await boss.patch("/users/carl", json={"enabled": False})).json()["enabled"] is False
    assert (await anyone.get("/me", headers=carl)).status_code == 401
    assert (await anyone.post("/session", json=credentials)).status_code == 401
    assert (await boss.patch("/users/nobody", json={"admin": True})).status_code == 404
    assert (await boss.patch("/users/admin", json={"admin": False})).status_code == 200
    last = await boss.patch("/users/boss", json={"enabled": False})
    assert (last.status_code, last.json()["slug"]) == (409, "conflict")


@on_shared
@pytest.mark.parametrize("name", ["", "A", "a b", "../x", "a/b", "a\0", "a\n", "x" * 33, "-a", "1a", "é", "root:x"])
async def test_account_names_that_could_harm_are_refused(shared: Rig, name: str):
    boss = await shared.client("boss", admin=True)
    answer = await boss.post("/users", json={"name": name})
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["pointer"] == "/name"


async def test_a_changed_password_ends_all_other_sessions(rig: Rig):
    await rig.account("ann")
    anyone = await rig.client()
    tokens = []
    for _ in range(2):
        answer = await anyone.post("/session", json={"username": "ann", "password": PASSWORD})
        tokens.append({"Authorization": f"Bearer {answer.json()['token']}"})
        anyone.cookies.clear()
    wrong = await anyone.post("/me/password", json={"current": "no", "new": "new password"}, headers=tokens[0])
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (400, "/current")
    done = await anyone.post("/me/password", json={"current": PASSWORD, "new": "new password"}, headers=tokens[0])
    assert done.status_code == 204
    assert [(await anyone.get("/me", headers=h)).status_code for h in tokens] == [200, 401]
    again = await anyone.post("/session", json={"username": "ann", "password": "new password"})
    assert again.status_code == 200


CROSS = [
    {"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"},
    {"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Referer": "https://evil.example/x"},
    {},
]


@on_shared
@pytest.mark.parametrize("headers", CROSS, ids=lambda h: json.dumps(h))
async def test_another_sites_page_cannot_act_with_a_browsers_session(shared: Rig, headers: dict[str, str]):
    """WEB-03: GETs change nothing, and whatever changes something must come from this very origin."""
    victim = await shared.browser("ann")
    owner = await shared.client("ann")
    job_id = await submit(owner)
    for method, path in (
        ("POST", f"/jobs/{job_id}/cancel"),
        ("POST", "/jobs"),
        ("PUT", "/files/x"),
        ("DELETE", "/files/x"),
        ("POST", "/files/x?op=mkdir"),
        ("POST", "/tokens"),
        ("DELETE", "/session"),
    ):
        answer = await victim.request(method, path, headers=headers, json={"name": "x"} if path == "/tokens" else None)
        assert (answer.status_code, answer.json()["slug"]) == (403, "cross-site"), (method, path)
    assert (await victim.get(f"/jobs/{job_id}/cancel", headers=headers)).status_code == 405
    assert (await owner.get(f"/jobs/{job_id}")).json()["state"] == "PENDING"


@on_shared
@pytest.mark.parametrize("path", ["/logs/follow", "/jobs", "/tokens"])
async def test_a_packed_body_is_refused_and_not_taken_for_what_it_holds(shared: Rig, path: str):
    ann = await shared.client("ann")
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    answer = await ann.post(path, content=gzip.compress(b"{}"), headers=headers)
    assert (answer.status_code, "Content-Encoding" in answer.json()["detail"]) == (415, True)
    plain = await ann.post(path, content=b"{}", headers={**headers, "Content-Encoding": "identity"})
    assert plain.status_code in (400, 422)


@on_shared
@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
async def test_bodies_that_a_form_could_send_are_refused_even_from_the_same_origin(shared: Rig, media: str):
    victim = await shared.browser("ann")
    headers = {"Content-Type": media, "Sec-Fetch-Site": "same-origin"}
    for path in ("/jobs", "/tokens", "/session"):
        answer = await victim.post(path, content=json.dumps(a_job_file("a")), headers=headers)
        assert answer.status_code == 415, path


@on_shared
@pytest.mark.parametrize("same", ["site", "origin", "referer"])
async def test_the_page_itself_may_act(shared: Rig, same: str):
    page = await shared.browser("ann")
    headers = {
        "site": {"Sec-Fetch-Site": "same-origin", "Origin": shared.url},
        "origin": {"Origin": shared.url},
        "referer": {"Referer": f"{shared.url}/jobs"},
    }[same]
    assert (await page.post("/jobs", json=a_job_file("a"), headers=headers)).status_code == 201


async def test_signing_in_from_another_sites_form_is_refused(rig: Rig):
    await rig.account("ann")
    anyone = await rig.client()
    answer = await anyone.post(
        "/session", json={"username": "ann", "password": PASSWORD}, headers={"Origin": "https://evil.example"}
    )
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


async def test_a_foreign_name_is_told_how_to_get_in(rig: Rig):
    """A page elsewhere whose name was pointed at this machine, or a tunnel that was set up half."""
    anyone = await rig.client()
    for path in ("/session", "/me"):
        answer = await anyone.get(path, headers={"Host": "gpu-box.example:8080"})
        assert (answer.status_code, answer.json()["slug"]) == (421, "wrong-host")
        assert "ssh -L" in answer.json()["detail"]
    async with httpx.AsyncClient(trust_env=False) as raw:
        assert (await raw.get(rig.url + "/", headers={"Host": "gpu-box"})).status_code == 421
        assert (await raw.get(rig.url + "/healthz", headers={"Host": "gpu-box"})).status_code == 200
        for name in ("localhost:80", "LOCALHOST", "127.0.0.1", "[::1]:9"):
            assert (await raw.get(rig.url + "/", headers={"Host": name})).status_code != 421


async def test_behind_a_proxy_its_headers_count_and_nobody_elses(tmp_path: Path):
    async with a_rig(tmp_path, behind_proxy=["127.0.0.1/32"], public_url="https://gpus.example") as rig:
        await rig.account("ann")
        anyone = await rig.client()
        forwarded = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "6.6.6.6, 9.9.9.9", "Host": "gpus.example"}
        answer = await anyone.post("/session", json={"username": "ann", "password": PASSWORD}, headers=forwarded)
        assert "Secure" in answer.headers["set-cookie"]
        assert "strict-transport-security" in answer.headers
        cookie = {"Cookie": f"headway_session={answer.json()['token']}"}
        good = {**forwarded, **cookie, "Origin": "https://gpus.example"}
        assert (await anyone.post("/tokens", json={"name": "t"}, headers=good)).status_code == 201
        downgraded = {**good, "Origin": "http://gpus.example"}
        assert (await anyone.post("/tokens", json={"name": "t"}, headers=downgraded)).status_code == 403
        # Wrong passwords count for the client that the proxy saw, not for one that it was told of.
        for _ in range(9):
            last = await anyone.post("/session", json={"username": "ann", "password": "no"}, headers=forwarded)
        assert last.status_code == 429
        other = {**forwarded, "X-Forwarded-For": "9.9.9.9, 8.8.8.8"}
        assert (
            await anyone.post("/session", json={"username": "ann", "password": PASSWORD}, headers=other)
        ).status_code == 200


async def test_a_body_of_100_mb_is_refused_without_being_kept(rig: Rig):
    import psutil

    ann = await rig.client("ann")
    process = psutil.Process()
    before = process.memory_info().rss
    block = b"x" * (1 << 20)

    async def body() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield block

    for headers in ({}, {"Content-Length": str(100 << 20)}):
        for method, path in (("POST", "/jobs"), ("POST", "/tokens"), ("PATCH", "/users/ann")):
            answer = await ann.request(
                method, path, content=body(), headers={"Content-Type": "application/json", **headers}
            )
            assert (answer.status_code, answer.json()["slug"]) == (413, "too-large"), (method, path)
    assert process.memory_info().rss - before < 60 << 20
    assert (await ann.get("/me")).status_code == 200


async def test_every_answer_carries_the_headers_that_keep_text_text(rig: Rig):
    ann = await rig.client("ann")
    for path in ("/me", "/nope", "/jobs/zzz", "/openapi.json"):
        headers = (await ann.get(path)).headers
        policy = headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-inline" not in policy.replace("style-src-attr 'unsafe-inline'", "")
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


@on_shared
@pytest.mark.parametrize(
    ("method", "path", "want_status", "want_slug"),
    [
        ("GET", "/nope", 404, "not-found"),
        ("DELETE", "/jobs", 405, "method-not-allowed"),
        ("GET", "/jobs?limit=0", 400, "invalid-input"),
        ("GET", "/jobs?limit=many", 400, "invalid-input"),
        ("GET", "/queue?limit=100000", 400, "invalid-input"),
        ("POST", "/tokens", 400, "invalid-input"),
        ("GET", "/jobs/" + "a" * 500, 400, "invalid-input"),
        ("GET", "/jobs/x/tasks/y/attempts/0/logs/stdout", 400, "invalid-input"),
        ("GET", "/jobs/x/tasks/y/attempts/1/logs/secrets", 400, "invalid-input"),
        ("PUT", "/users/x", 405, "method-not-allowed"),
    ],
)
async def test_everything_refused_is_a_problem_with_a_request_id(
    shared: Rig, method: str, path: str, want_status: int, want_slug: str
):
    ann = await shared.client("ann")
    answer = await ann.request(method, path)
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["slug"]) == (want_status, want_status, want_slug)
    assert problem["request_id"] == answer.headers["x-request-id"]
    assert problem["type"] == f"urn:headway:problem:{want_slug}"
    assert problem["detail"]


async def test_json_that_is_none_and_unknown_keys_are_told_at_their_place(rig: Rig):
    ann = await rig.client("ann")
    media = {"Content-Type": "application/json"}
    broken = await ann.post("/tokens", content=b'{"name": ', headers=media)
    assert broken.status_code == 400
    unknown = await ann.post("/tokens", json={"name": "x", "nmae": "y"})
    assert [item["pointer"] for item in unknown.json()["errors"]] == ["/nmae"]
    deep = await ann.post("/tokens", content=b"[" * 100_000, headers=media)
    assert deep.status_code == 400
    lone = await ann.post("/tokens", content=b'{"name": "\\ud800"}', headers=media)
    assert lone.status_code == 400


async def test_a_failure_inside_is_a_problem_without_its_details(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    ann = await rig.client("ann")

    async def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr("httpserver.cluster.queue_and_nodes.QueueAndNodes.nodes", broken)
    answer = await ann.get("/nodes")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "hunter2" not in answer.text
    assert answer.json()["slug"] == "internal"


async def test_health_readiness_and_metrics_are_open(rig: Rig):
    async with httpx.AsyncClient(base_url=rig.url, trust_env=False) as anyone:
        assert (await anyone.get("/healthz")).json()["status"] == "ok"
        ready = await anyone.get("/readyz")
        assert (ready.status_code, ready.json()["ready"]) == (200, True)
        (rig.layout.root / ".headway-mount").unlink()
        missing = await anyone.get("/readyz")
        assert missing.status_code == 503
        assert "shared mount" in missing.json()["conditions"]["mount"]
        text = (await anyone.get("/metrics")).text
        assert 'headway_http_requests_total{method="GET",route="/readyz",status="200"} 1.0' in text
        assert "process_resident_memory_bytes" in text


async def test_accounts_and_sessions_outlive_a_restart(tmp_path: Path):
    async with a_rig(tmp_path) as rig:
        token = await rig.account("ann")
        password = (rig.folder / "first-admin").read_text()
    async with a_rig(tmp_path) as rig:
        client = await rig.client()
        answer = await client.get("/me", headers={"Authorization": f"Bearer {token}"})
        assert answer.json()["name"] == "ann"
        # No second first admin.
        assert (rig.folder / "first-admin").read_text() == password
        assert len(await rig.parts.accounts.all()) == 2


async def test_sign_ins_at_once_neither_lock_out_nor_pile_up(rig: Rig):
    await rig.account("ann")
    clients = [await rig.client() for _ in range(6)]
    answers = await asyncio.gather(
        *(client.post("/session", json={"username": "ann", "password": PASSWORD}) for client in clients)
    )
    assert {answer.status_code for answer in answers} == {200}


async def test_a_stop_ends_open_event_streams_at_once(tmp_path: Path):
    async with a_rig(tmp_path) as rig:
        ann = await rig.client("ann")
        async with ann.stream("GET", "/events") as answer:
            lines = answer.aiter_lines()
            assert (await anext(lines)).startswith("retry:")
            rig.service.request_stop("test")
            # Ends by itself and whole, so that a browser comes back and asks for what it missed.
            async with asyncio.timeout(4):
                async for _ in lines:
                    pass


def new_certificate(cert: Path, key: Path) -> None:
    asked = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*asked, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    new_certificate(cert, key)
    return cert, key


async def shown_at(url: str) -> str:
    """The certificate that a new connection is shown."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    return await asyncio.to_thread(ssl.get_server_certificate, (parts.hostname, parts.port or 443))


async def test_a_renewed_certificate_is_shown_without_a_restart(tmp_path: Path, certificate: tuple[Path, Path]):
    """The page showed the old one, which browsers refuse once it has ended, until somebody restarted it."""
    cert, key = certificate
    new_cert, new_key = tmp_path / "new-cert.pem", tmp_path / "new-key.pem"
    new_certificate(new_cert, new_key)
    before, after = cert.read_text(), new_cert.read_text()
    async with a_rig(tmp_path, tls_cert=str(cert), tls_key=str(key)) as rig:
        assert (await shown_at(rig.url)).split() == before.split()
        new_key.replace(key)  # the certificate is still the old one, and does not belong to it
        for _ in range(30):
            assert (await shown_at(rig.url)).split() == before.split()
            await asyncio.sleep(0.05)
        new_cert.replace(cert)

        async def is_new() -> bool:
            return (await shown_at(rig.url)).split() == after.split()

        await eventually(is_new, what="the new certificate is shown")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda cert, key: new_certificate(cert.with_name("other"), key),
            "which does not belong to the certificate in",
        ),
        (lambda cert, key: cert.unlink(), "tls_cert is .*cert.pem, which can't be read: No such file"),
        (lambda cert, key: key.write_text("nonsense"), "tls_key is .*key.pem, which is no PEM file"),
        (lambda cert, key: cert.write_bytes(key.read_bytes()), "must hold the certificate first"),
    ],
)
async def test_a_pair_that_cannot_be_used_is_refused_at_the_start(
    tmp_path: Path, certificate: tuple[Path, Path], spoil: Callable[[Path, Path], object], said: str
):
    cert, key = certificate
    spoil(cert, key)
    with pytest.raises(ConfigInvalid, match=said):
        async with a_rig(tmp_path, tls_cert=str(cert), tls_key=str(key)):
            pass


async def test_with_a_certificate_it_speaks_tls_and_says_so(tmp_path: Path, certificate: tuple[Path, Path]):
    cert, key = certificate
    async with a_rig(tmp_path, tls_cert=str(cert), tls_key=str(key)) as rig:
        url = rig.url.replace("http://", "https://")
        async with httpx.AsyncClient(base_url=url, verify=False, trust_env=False) as client:
            await rig.account("ann")
            answer = await client.post("/api/v1/session", json={"username": "ann", "password": PASSWORD})
            assert answer.status_code == 200
            assert "Secure" in answer.headers["set-cookie"]
            assert "strict-transport-security" in answer.headers


async def test_a_taken_port_and_a_broken_certificate_are_one_clear_sentence(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigInvalid, match=r"The port \d+ at 127.0.0.1 is taken"):
            async with a_rig(tmp_path, port=taken.getsockname()[1]):
                pass
    (tmp_path / "x.pem").write_text("nonsense")
    with pytest.raises(ConfigInvalid, match="tls_cert"):
        async with a_rig(tmp_path, tls_cert=str(tmp_path / "x.pem"), tls_key=str(tmp_path / "x.pem")):
            pass


async def test_past_the_proxy_nobody_is_served_in_plain_text(tmp_path: Path):
    """Who was not the proxy was served over plain http, with a cookie that any line would carry."""
    async with a_rig(tmp_path, behind_proxy=["127.0.0.1/32"], public_url="https://gpus.example") as rig:
        await rig.account("ann")
        anyone = await rig.client()
        who = {"username": "ann", "password": PASSWORD}
        plain = {"X-Forwarded-For": "9.9.9.9", "Host": "gpus.example"}
        for proto in ({}, {"X-Forwarded-Proto": "http"}):
            refused = await anyone.post("/session", json=who, headers={**plain, **proto})
            assert refused.status_code == 403
            assert refused.json()["slug"] == "not-by-proxy"
            assert "set-cookie" not in refused.headers
        # A program on the machine itself may; a cookie is for encrypted lines all the same.
        local = await anyone.post("/session", json=who)
        assert local.status_code == 200
        assert "Secure" in local.headers["set-cookie"]


async def test_a_wrong_method_is_told_all_that_the_address_takes(rig: Rig):
    ann = await rig.client("ann")
    answer = await ann.put("/tokens")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, POST"
    assert (await ann.put("/users/ann")).headers["allow"] == "DELETE, PATCH"
