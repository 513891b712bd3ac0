"""Registries that are wrong, slow or evil, and what a submit makes of them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from headway.store import Database
from httpserver.auth.tables import accounts
from httpserver.auth.vault import Vault
from httpserver.registries import hosts as hosts_module
from httpserver.registries.client import Login, RegistryClient
from httpserver.registries.failure import FailureKind, RegistryFailure
from httpserver.registries.hosts import RegistryHosts
from httpserver.registries.manifests import MANIFEST_TYPES, ImageFacts
from httpserver.registries.names import ImageName, parse
from httpserver.registries.service import Registries, ResolvedRegistryImage
from tests.support.clock import FakeClock
from tests.support.ports import free_port
from tests.support.web_servers import Asked, WebServer, a_web_server, answer

pytestmark = pytest.mark.usefixtures("both_databases")

DOORS = RegistryHosts()  # its certificates take a moment to load
LOGIN = Login("ann", "s3cret")
CONFIG = json.dumps({"architecture": "amd64", "config": {"Env": ["NVIDIA_REQUIRE_CUDA=cuda>=12.4"]}}).encode()


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


MANIFEST = json.dumps(
    {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPES[0],
        "config": {"digest": digest_of(CONFIG), "size": len(CONFIG)},
        "layers": [],
    }
).encode()
DIGEST = digest_of(MANIFEST)


def named(server: WebServer, image: str = "team/x:1") -> ImageName:
    parsed = parse(f"{server.host}/{image}")
    assert parsed is not None
    return parsed


def good(asked: Asked) -> bytes:
    """A registry that holds one image."""
    if "/blobs/" in asked.path:
        return answer(200, CONFIG)
    if asked.path.endswith(("/manifests/1", f"/manifests/{DIGEST}")):
        return answer(200, MANIFEST, Docker_Content_Digest=DIGEST, Content_Type=MANIFEST_TYPES[0])
    return answer(404, {"errors": [{"code": "MANIFEST_UNKNOWN"}]})


async def failure_of(handle: Callable[[Asked], bytes | None], login: Login | None = None) -> RegistryFailure:
    """What is made of this registry; nothing it does may take long."""
    async with a_web_server(handle) as server:
        with pytest.raises(RegistryFailure) as caught:
            async with asyncio.timeout(20):
                await RegistryClient(DOORS).digest(named(server), login)
        assert server.host in caught.value.message
        return caught.value


async def test_digest_and_facts_of_one_image():
    async with a_web_server(good) as server:
        client = RegistryClient(DOORS)
        assert await client.digest(named(server), None) == DIGEST
        whole = named(server, f"team/x@{DIGEST}")
        assert await client.digest(whole, None) == DIGEST
        assert await client.facts(whole, None, ["amd64"]) == ImageFacts(("amd64",), "cuda>=12.4")
        before = len(server.asked)
        assert await client.facts(whole, None, ["amd64"]) == ImageFacts(("amd64",), "cuda>=12.4")
        assert len(server.asked) == before, "what a digest stands for never changes"
        with pytest.raises(RegistryFailure) as caught:
            await client.digest(named(server, "team/x:2"), None)
        assert caught.value.kind is FailureKind.ABSENT


@pytest.mark.parametrize("head", [200, 405, 501])
async def test_a_registry_that_does_not_tell_the_digest_is_read(head: int):
    def silent(asked: Asked) -> bytes:
        return answer(head) if asked.method == "HEAD" else answer(200, MANIFEST)

    async with a_web_server(silent) as server:
        assert await RegistryClient(DOORS).digest(named(server), None) == DIGEST
        with pytest.raises(RegistryFailure, match="something else"):
            await RegistryClient(DOORS).digest(named(server, "team/x@sha256:" + "1" * 64), None)


@pytest.mark.parametrize(
    ("status", "want", "definite"),
    [
        (401, FailureKind.DENIED, True),
        (403, FailureKind.DENIED, True),
        (404, FailureKind.ABSENT, True),
        (429, FailureKind.LIMITED, False),
        (500, FailureKind.UNREACHABLE, False),
        (503, FailureKind.UNREACHABLE, False),
        (418, FailureKind.STRANGE, False),
    ],
)
async def test_each_status_has_its_sentence(status: int, want: FailureKind, definite: bool):
    failure = await failure_of(lambda _: answer(status, b"<html>\x1b[2J secret of the inside"))
    assert (failure.kind, failure.definite) == (want, definite)
    assert "inside" not in failure.message, "what a stranger answers is never handed on"


EVIL: list[tuple[str, bytes | None]] = [
    ("no http at all", b"SSH-2.0-OpenSSH_9.2\r\n"),
    ("a line without end", b"HTTP/1.1 200 OK\r\nX: " + b"a" * 300_000),
    ("cut off", None),
    ("a digest that is none", answer(200, b"{}", Docker_Content_Digest="sha256:../../etc")),
    ("a body without end", answer(200, b"x" * (5 << 20))),
    ("a bomb", answer(200, b"\x1f\x8b" + b"\0" * 100, Content_Encoding="gzip")),
    ("moved in circles", answer(307, Location="/v2/team/x/manifests/1")),
    ("moved to a file", answer(307, Location="file:///etc/passwd")),
    ("moved to the metadata service", answer(307, Location="http://169.254.169.254/latest/meta-data")),
    ("moved nowhere", answer(307)),
    ("moved to a strange place", answer(307, Location="http://[::1")),
    ("a realm inside", answer(401, WWW_Authenticate='Bearer realm="http://169.254.169.254/token",service="x"')),
    ("a realm that is none", answer(401, WWW_Authenticate='Bearer realm="gopher://x",service="x"')),
    ("a realm with a password", answer(401, WWW_Authenticate='Bearer realm="http://u:p@127.0.0.1:1/t"')),
    ("a challenge of rubbish", answer(401, WWW_Authenticate="Bearer " + "a=," * 1000)),
]


@pytest.mark.parametrize(("what", "told"), EVIL, ids=[what for what, _ in EVIL])
async def test_an_evil_registry_is_a_sentence(what: str, told: bytes | None):
    silent_head = what in ("a body without end", "a bomb")

    def evil(asked: Asked) -> bytes | None:
        return answer(405) if silent_head and asked.method == "HEAD" else told

    failure = await failure_of(evil, LOGIN)
    assert failure.kind in (FailureKind.STRANGE, FailureKind.UNREACHABLE, FailureKind.NOT_HERE)


async def test_content_that_is_not_what_its_digest_says_is_not_believed():
    async with a_web_server(lambda asked: good(asked).replace(b"amd64", b"arm64")) as server:
        with pytest.raises(RegistryFailure, match="something else"):
            await RegistryClient(DOORS).facts(named(server, f"team/x@{DIGEST}"), None, [])


# -- who is let in, and where a password goes ---------------------------------------------------


def basic(login: Login) -> str:
    return "Basic " + base64.b64encode(f"{login.username}:{login.password}".encode()).decode()


async def test_a_password_goes_to_its_registry_and_to_no_other_host():
    async with a_web_server(good) as elsewhere:

        def moves(asked: Asked) -> bytes:
            if asked.headers.get("authorization") != basic(LOGIN):
                return answer(401, WWW_Authenticate='Basic realm="x"')
            return answer(307, Location=f"http://{elsewhere.host}{asked.path}", Set_Cookie="a=b")

        async with a_web_server(moves) as server:
            assert await RegistryClient(DOORS).digest(named(server), LOGIN) == DIGEST
        assert elsewhere.asked
        for asked in elsewhere.asked:
            assert not {"authorization", "cookie"} & set(asked.headers)


async def test_a_token_is_fetched_for_one_repository_and_shown():
    realm = ""

    def tokens(asked: Asked) -> bytes:
        if asked.path.startswith("/token"):
            assert "scope=repository%3Ateam%2Fx%3Apull" in asked.path
            assert "service=reg" in asked.path
            right = asked.headers.get("authorization") == basic(LOGIN)
            return answer(200, {"access_token": "t0ken"}) if right else answer(401)
        if asked.headers.get("authorization") != "Bearer t0ken":
            return answer(401, WWW_Authenticate=f'Bearer realm="{realm}",service="reg",scope="repository:all:push"')
        return good(asked)

    async with a_web_server(tokens) as server:
        realm = f"http://{server.host}/token"
        client = RegistryClient(DOORS)
        assert await client.digest(named(server), LOGIN) == DIGEST
        for login, want in ((None, FailureKind.DENIED), (Login("ann", "wrong"), FailureKind.WRONG_LOGIN)):
            with pytest.raises(RegistryFailure) as caught:
                await client.digest(named(server), login)
            assert caught.value.kind is want
            assert "wrong" not in caught.value.message


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX: y", 7, None, ["x"]])
async def test_a_token_that_is_none_is_not_sent(token: Any):
    realm = ""

    def tokens(asked: Asked) -> bytes:
        if asked.path.startswith("/token"):
            return answer(200, {"token": token})
        return answer(401, WWW_Authenticate=f'Bearer realm="{realm}"')

    async with a_web_server(tokens) as server:
        realm = f"http://{server.host}/token"
        with pytest.raises(RegistryFailure, match="no usable token"):
            await RegistryClient(DOORS).digest(named(server), LOGIN)


# -- which hosts are called ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("169.254.169.254", None),
        ("[fe80::1]:5000", None),
        ("[::ffff:169.254.169.254]:80", None),
        ("224.0.0.1:5000", None),
        ("0.0.0.0:5000", None),
        ("meta.example.org", ["169.254.169.254"]),
        ("inside.example.org", ["127.0.0.1"]),
        ("inside.example.org", ["::1", "fe80::1"]),
    ],
)
async def test_addresses_inside_are_not_called(
    monkeypatch: pytest.MonkeyPatch, host: str, addresses: Sequence[str] | None
):
    if addresses is not None:
        monkeypatch.setattr(hosts_module, "_look_up", lambda name, port: list(addresses))
    name = parse(f"{host}/x")
    assert name is not None
    with pytest.raises(RegistryFailure) as caught:
        await RegistryClient(DOORS).digest(name, LOGIN)
    assert caught.value.kind is FailureKind.NOT_HERE


async def test_only_the_registries_that_an_admin_named_are_asked():
    async with a_web_server(good) as server:
        other = RegistryClient(RegistryHosts(allowed=["docker.io"]))
        with pytest.raises(RegistryFailure) as caught:
            await other.digest(named(server), None)
        assert caught.value.kind is FailureKind.NOT_HERE
        assert "docker.io" in caught.value.message
        assert server.asked == []
        assert await RegistryClient(RegistryHosts(allowed=[server.host])).digest(named(server), None) == DIGEST


async def test_the_line_goes_to_the_address_that_was_checked_and_says_the_name(monkeypatch: pytest.MonkeyPatch):
    async with a_web_server(good) as server:
        port = server.host.partition(":")[2]
        looked_up: list[str] = []

        def look_up(name: str, port: int) -> list[str]:
            looked_up.append(name)
            # The first address does not answer: the next one is tried.
            return ["127.9.9.9", "127.0.0.1"]

        monkeypatch.setattr(hosts_module, "_look_up", look_up)
        host = f"reg.example.org:{port}"
        name = parse(f"{host}/team/x:1")
        assert name is not None
        assert await RegistryClient(RegistryHosts(insecure=[host])).digest(name, None) == DIGEST
        assert looked_up == ["reg.example.org"]
        assert server.asked[0].headers["host"] == host


async def test_plain_http_is_spoken_with_nobody_else(monkeypatch: pytest.MonkeyPatch):
    async with a_web_server(good) as server:
        port = server.host.partition(":")[2]
        monkeypatch.setattr(hosts_module, "_look_up", lambda name, port: ["127.0.0.1"])
        name = parse(f"reg.example.org:{port}/team/x:1")
        assert name is not None
        with pytest.raises(RegistryFailure, match="insecure_registries") as caught:
            await RegistryClient(RegistryHosts(allowed=[f"reg.example.org:{port}"])).digest(name, LOGIN)
        assert caught.value.kind is FailureKind.UNREACHABLE
        assert server.asked == []


async def test_a_certificate_that_nobody_trusts_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*self_signed(tmp_path))
    async with a_web_server(good, ssl=context) as server:
        port = server.host.partition(":")[2]
        monkeypatch.setattr(hosts_module, "_look_up", lambda name, port: ["127.0.0.1"])
        host = f"reg.example.org:{port}"
        name = parse(f"{host}/team/x:1")
        assert name is not None
        with pytest.raises(RegistryFailure, match="certificate is not trusted"):
            await RegistryClient(RegistryHosts(allowed=[host])).digest(name, None)
        trusting = RegistryHosts(allowed=[host])
        (await trusting.tls()).load_verify_locations(tmp_path / "cert.pem")
        assert await RegistryClient(trusting).digest(name, None) == DIGEST


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for reg.example.org and its key."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "reg.example.org")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("reg.example.org")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "cert.pem", folder / "key.pem"


# -- all names of a submit ----------------------------------------------------------------------


async def registries_of(folder: Path, clock: FakeClock) -> tuple[Database, Registries]:
    db = await Database.open(str(folder / "http.db"), room="httpserver")
    row = dict.fromkeys(("admin", "may_use_image_user", "may_use_high_priority"), False)
    values = {**row, "name": "ann", "password_hash": "", "uid": 20_001, "gid": 20_001, "enabled": True, "created_at": 0}
    await db.write(lambda conn: conn.execute(insert(accounts), values))
    registries = Registries(db, clock, Vault(folder / "key"), DOORS)
    await registries.load()
    return db, registries


async def test_a_silent_registry_costs_one_submit_its_time_and_the_next_ones_nothing(tmp_path: Path, clock: FakeClock):
    async def silent(asked: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    db, registries = await registries_of(tmp_path, clock)
    async with a_web_server(silent) as slow, a_web_server(good) as server:
        names = [named(slow, f"x:{n}") for n in range(40)]
        found = await registries.resolve("ann", [*names, named(server)], [], within_s=2)
        assert found[named(server)] == ResolvedRegistryImage(DIGEST, ImageFacts(("amd64",), "cuda>=12.4"))
        for name in names:
            failure = found[name]
            assert isinstance(failure, RegistryFailure)
            assert failure.kind is FailureKind.SLOW
        asked = len(slow.asked)
        assert 0 < asked <= 8, "no more at once than a registry bears"
        again = await registries.resolve("ann", names, [])
        assert isinstance(again[names[0]], RegistryFailure)
        assert len(slow.asked) == asked
        await clock.advance(61)
        await registries.resolve("ann", names[:1], [], within_s=0.5)
        assert len(slow.asked) == asked + 1
    await db.close()


async def test_a_digest_is_kept_though_the_rest_takes_too_long(tmp_path: Path, clock: FakeClock):
    async def tired(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.method != "HEAD":
            await asyncio.Event().wait()
        writer.write(answer(200, Docker_Content_Digest=DIGEST))

    db, registries = await registries_of(tmp_path, clock)
    async with a_web_server(tired) as server:
        found = await registries.resolve("ann", [named(server)], [], within_s=1)
        assert found == {named(server): ResolvedRegistryImage(DIGEST, ImageFacts())}
    await db.close()


async def test_a_registry_where_nobody_listens_is_asked_once_a_minute(tmp_path: Path, clock: FakeClock):
    db, registries = await registries_of(tmp_path, clock)
    name = parse(f"127.0.0.1:{free_port()}/x")
    assert name is not None
    failure = (await registries.resolve("ann", [name], []))[name]
    assert isinstance(failure, RegistryFailure)
    assert "nobody listens there" in failure.message
    async with a_web_server(good):
        assert (await registries.resolve("ann", [name], []))[name] is failure
    await db.close()


async def test_passwords_are_stored_encrypted_and_written_anew_under_a_new_key(tmp_path: Path, clock: FakeClock):
    from cryptography.fernet import Fernet

    db, registries = await registries_of(tmp_path, clock)
    await registries.put("ann", f"127.0.0.1:{free_port()}", "ann", "pa55word-one")
    host = (await registries.of("ann"))[0].registry
    assert "pa55word-one" not in (await registries.of("ann"))[0].password
    old = (tmp_path / "key").read_bytes()
    (tmp_path / "key").write_bytes(Fernet.generate_key() + b"\n" + old)
    turned = Registries(db, clock, Vault(tmp_path / "key"), DOORS)
    await turned.load()
    (tmp_path / "key").write_bytes((tmp_path / "key").read_bytes().splitlines()[0])
    alone = Registries(db, clock, Vault(tmp_path / "key"), DOORS)
    await alone.load()
    assert await alone.login("ann", host) == Login("ann", "pa55word-one")
    assert await alone.login("bob", host) is None
    await db.close()
