"""tus 1.0.0 over a real HttpServer, rule by rule, with its official client and with lines that break."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import os
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from tusclient.client import TusClient

from httpserver.asgi import request_guard
from httpserver.uploads import receiving
from tests.integration.http_rig import PASSWORD, Rig, a_rig
from tests.support.small_disks import small_disks
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

TUS = {"Tus-Resumable": "1.0.0"}
PIECE = {**TUS, "Content-Type": "application/offset+octet-stream"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path_factory.mktemp("uploads"), upload_max_bytes=1 << 30) as rig:
        yield rig


def b64(value: str | bytes) -> str:
    return base64.b64encode(value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape")).decode()


def said(**metadata: str) -> dict[str, str]:
    return {"Upload-Metadata": ",".join(f"{key} {b64(value)}" for key, value in metadata.items())}


async def create(client: httpx.AsyncClient, path: str, length: int | None, **metadata: str) -> str:
    """The new upload's address below /api/v1."""
    size = {"Upload-Defer-Length": "1"} if length is None else {"Upload-Length": str(length)}
    answer = await client.post("/uploads/files", headers={**TUS, **size, **said(path=path, **metadata)})
    assert answer.status_code == 201, answer.text
    return str(answer.headers["location"]).removeprefix("/api/v1")


async def patch(client: httpx.AsyncClient, at: str, offset: int, data: Any, **headers: str) -> httpx.Response:
    more = {key.replace("_", "-"): value for key, value in headers.items()}
    return await client.patch(at, content=data, headers={**PIECE, "Upload-Offset": str(offset), **more})


async def offset(client: httpx.AsyncClient, at: str) -> int:
    return int((await client.head(at, headers=TUS)).headers["upload-offset"])


async def ended(client: httpx.AsyncClient, at: str) -> dict[str, Any]:
    async def over() -> dict[str, Any] | None:
        found: dict[str, Any] = (await client.get(at)).json()
        return found if found["state"] in ("done", "failed", "choose") else None

    return await eventually(over)


def home(rig: Rig, name: str) -> Path:
    return rig.layout.home(name)


def halves(rig: Rig, name: str) -> list[Path]:
    folder = home(rig, name) / ".headway-uploads"
    return list(folder.iterdir()) if folder.exists() else []


# -- the protocol, rule by rule -------------------------------------------------------------------


async def test_options_tell_what_is_spoken(rig: Rig):
    ann = await rig.client("ann")
    for headers in ({}, {"Tus-Resumable": "0.1"}):
        answer = await ann.options("/uploads/files", headers=headers)
        assert answer.status_code == 204
        assert answer.headers["tus-version"] == "1.0.0"
        assert set(answer.headers["tus-extension"].split(",")) == {
            "creation",
            "creation-with-upload",
            "creation-defer-length",
            "checksum",
            "termination",
            "expiration",
        }
        assert answer.headers["tus-max-size"] == str(1 << 30)
        assert answer.headers["tus-checksum-algorithm"] == "sha1,sha256,md5"
    assert (await ann.options("/uploads/others")).status_code == 404


async def test_an_upload_from_creation_to_its_file(rig: Rig):
    ann = await rig.client("ann")
    answer = await ann.post("/uploads/files", headers={**TUS, "Upload-Length": "10", **said(path="a/b.txt")})
    assert (answer.status_code, answer.content) == (201, b"")
    assert answer.headers["location"].startswith("/api/v1/uploads/files/")
    assert answer.headers["tus-resumable"] == "1.0.0"
    assert parsedate_to_datetime(answer.headers["upload-expires"]).timestamp() > rig.parts.clock.now() + 80_000
    at = answer.headers["location"].removeprefix("/api/v1")
    head = await ann.head(at, headers=TUS)
    assert (head.status_code, head.headers["upload-offset"], head.headers["upload-length"]) == (200, "0", "10")
    assert head.headers["cache-control"] == "no-store"
    assert head.headers["upload-metadata"] == said(path="a/b.txt")["Upload-Metadata"]
    answer = await patch(ann, at, 0, b"01234")
    assert (answer.status_code, answer.headers["upload-offset"], answer.content) == (204, "5", b"")
    assert "upload-expires" in answer.headers
    assert not (home(rig, "ann") / "a").exists(), "nothing is seen before all is there"
    answer = await patch(ann, at, 5, b"56789")
    assert (answer.status_code, answer.headers["upload-offset"]) == (204, "10")
    assert "upload-expires" not in answer.headers
    done = await ended(ann, at)
    assert (done["state"], done["result"], done["problem"]) == ("done", {"path": "a/b.txt"}, None)
    path = home(rig, "ann") / "a" / "b.txt"
    assert path.read_bytes() == b"0123456789"
    assert path.stat().st_nlink == 1
    if os.geteuid() == 0:
        assert path.stat().st_uid == path.parent.stat().st_uid == home(rig, "ann").stat().st_uid != 0
    assert not (home(rig, "ann") / ".headway-uploads").exists()
    assert await offset(ann, at) == 10, "told also of what is over"


@pytest.mark.parametrize("method", ["POST", "HEAD", "PATCH", "DELETE"])
@pytest.mark.parametrize("version", [None, "0.2.2"])
async def test_another_version_is_refused_and_nothing_happens(rig: Rig, method: str, version: str | None):
    ann = await rig.client("vera")
    at = await create(ann, "version", 4)
    headers = {"Upload-Offset": "0", "Upload-Length": "4", **said(path="x"), "Content-Type": PIECE["Content-Type"]}
    if version is not None:
        headers["Tus-Resumable"] = version
    content = b"" if method == "HEAD" else b"abcd"
    answer = await ann.request(method, "/uploads/files" if method == "POST" else at, headers=headers, content=content)
    assert answer.status_code == 412
    assert answer.headers["tus-version"] == answer.headers["tus-resumable"] == "1.0.0"
    assert await offset(ann, at) == 0
    await ann.delete(at, headers=TUS)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 400),
        ({"Upload-Length": "-1"}, 400),
        ({"Upload-Length": "4", "Upload-Defer-Length": "1"}, 400),
        ({"Upload-Defer-Length": "2"}, 400),
        ({"Upload-Length": "4", "Upload-Concat": "partial"}, 400),
        ({"Upload-Length": str((1 << 30) + 1)}, 413),
        ({"Upload-Length": "4", "Upload-Metadata": "path !"}, 400),
        ({"Upload-Length": "4", "Upload-Metadata": "path eA==,path eA=="}, 400),
        ({"Upload-Length": "4", "Upload-Metadata": ""}, 400),
        ({"Upload-Length": "4", **said(path="x", sha256="no")}, 400),
        ({"Upload-Length": "4", **said(path="x", overwrite="maybe")}, 400),
        ({"Upload-Length": "4", **said(path="x", modified_at="yesterday")}, 400),
        ({"Upload-Length": "4", **said(path="../x")}, 400),
        ({"Upload-Length": "4", **said(path="a\0b")}, 400),
        ({"Upload-Length": "4", **said(path="x" * 256)}, 400),
        ({"Upload-Length": "4", **said(path="/")}, 400),
        ({"Upload-Length": "4", **said(path=".headway-uploads/x")}, 400),
        ({"Upload-Length": "4", **said(path="x", account="bob")}, 403),
        ({"Upload-Length": "4", **said(path="folder")}, 409),
        ({"Upload-Length": "4", **said(path="file/x")}, 409),
        ({"Upload-Length": "4", **said(path="file", overwrite="false")}, 409),
        ({"Upload-Length": "4", **said(path="out/x")}, 403),
        ({"Upload-Length": "4", **said(path="x"), "Content-Type": "application/json"}, 415),
        ({"Upload-Length": "4", **said(path="x"), "Upload-Checksum": "crc32 AAAA"}, 400),
    ],
)
async def test_what_can_not_become_an_upload_is_refused_before_a_byte(rig: Rig, headers: dict[str, str], status: int):
    ann = await rig.client("rob")
    await rig.account("bob")
    await ann.put("/files/file", content=b"x")
    await ann.post("/files/folder", params={"op": "mkdir"})
    if not (home(rig, "rob") / "out").is_symlink():
        (home(rig, "rob") / "out").symlink_to("/tmp")
    content = b"abcd" if "Content-Type" in headers else b""
    answer = await ann.post("/uploads/files", headers={**TUS, **headers}, content=content)
    assert answer.status_code == status, answer.text
    assert answer.headers["tus-resumable"] == "1.0.0"
    assert answer.json()["detail"]
    assert halves(rig, "rob") == []
    assert (await ann.post("/uploads/nothing", headers={**TUS, "Upload-Length": "1"})).status_code == 404


async def test_a_creation_may_bring_bytes(rig: Rig):
    ann = await rig.client("cora")
    headers = {**PIECE, "Upload-Length": "6", **said(path="with")}
    answer = await ann.post("/uploads/files", headers=headers, content=b"abc")
    assert (answer.status_code, answer.headers["upload-offset"]) == (201, "3")
    at = answer.headers["location"].removeprefix("/api/v1")
    assert (await patch(ann, at, 3, b"def")).status_code == 204
    await ended(ann, at)
    assert (home(rig, "cora") / "with").read_bytes() == b"abcdef"
    before = len((await ann.get("/uploads/files")).json()["uploads"])
    answer = await ann.post(
        "/uploads/files", headers={**headers, "Upload-Checksum": f"sha1 {b64(bytes(20))}"}, content=b"abc"
    )
    assert answer.status_code == 460
    assert halves(rig, "cora") == [], "nobody knows its address"
    assert len((await ann.get("/uploads/files")).json()["uploads"]) == before


async def test_an_empty_file_is_there_at_once(rig: Rig):
    ann = await rig.client("ann")
    at = await create(ann, "empty", 0)
    assert (await ended(ann, at))["state"] == "done"
    assert (home(rig, "ann") / "empty").read_bytes() == b""


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Upload-Offset": "3"}, 409),
        ({"Upload-Offset": "1"}, 409),
        ({"Upload-Offset": "-2"}, 400),
        ({"Upload-Offset": ""}, 400),
        ({"Content-Type": "application/octet-stream"}, 415),
        ({"Content-Type": ""}, 415),
        ({"Upload-Checksum": "crc32 AAAA"}, 400),
        ({"Upload-Checksum": "sha1 AAAA"}, 400),
        ({"Upload-Checksum": f"sha1 {b64(bytes(20))}"}, 460),
        ({"Upload-Checksum": f"md5 {b64(bytes(16))}"}, 460),
        ({"Upload-Length": "9"}, 400),
    ],
)
async def test_a_piece_that_is_refused_changes_nothing(rig: Rig, headers: dict[str, str], status: int):
    ann = await rig.client("ann")
    at = await create(ann, "refused", 6)
    await patch(ann, at, 0, b"ab")
    answer = await ann.patch(at, content=b"cd", headers={**PIECE, "Upload-Offset": "2", **headers})
    assert answer.status_code == status, answer.text
    assert await offset(ann, at) == 2
    assert (await patch(ann, at, 2, b"cdef")).status_code == 204
    await ended(ann, at)
    assert (home(rig, "ann") / "refused").read_bytes() == b"abcdef"


async def test_more_than_the_length_is_refused(rig: Rig):
    ann = await rig.client("ann")
    at = await create(ann, "more", 4)
    assert (await patch(ann, at, 0, b"abcde")).status_code == 413

    async def in_chunks() -> AsyncIterator[bytes]:
        yield b"abc"
        yield b"de"

    assert (await patch(ann, at, 0, in_chunks())).status_code == 413
    assert await offset(ann, at) == 0


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "md5"])
async def test_a_checksum_that_is_right(rig: Rig, algorithm: str):
    ann = await rig.client("ann")
    at = await create(ann, "checked", 4)
    digest = b64(hashlib.new(algorithm, b"abcd").digest())
    answer = await patch(ann, at, 0, b"abcd", Upload_Checksum=f"{algorithm} {digest}")
    assert answer.status_code == 204
    assert (await ended(ann, at))["state"] == "done"


async def test_the_checksum_of_the_whole_file(rig: Rig):
    ann = await rig.client("sue")
    for digest, state in ((hashlib.sha256(b"abcd").hexdigest(), "done"), ("ab" * 32, "failed")):
        at = await create(ann, f"whole-{state}", 4, sha256=digest)
        await patch(ann, at, 0, b"ab")
        await patch(ann, at, 2, b"cd")
        found = await ended(ann, at)
        assert found["state"] == state
        assert (home(rig, "sue") / f"whole-{state}").exists() is (state == "done")
    assert found["problem"]["slug"] == "checksum"
    assert halves(rig, "sue") == []
    assert (await ann.head(at, headers=TUS)).status_code == 410
    assert (await patch(ann, at, 4, b"")).status_code == 410


async def test_a_length_that_comes_later(rig: Rig):
    ann = await rig.client("ann")
    at = await create(ann, "later", None)
    head = await ann.head(at, headers=TUS)
    assert head.headers["upload-defer-length"] == "1"
    assert "upload-length" not in head.headers
    await patch(ann, at, 0, b"abc")
    assert (await patch(ann, at, 3, b"def", Upload_Length="6")).status_code == 204
    head = await ann.head(at, headers=TUS)
    assert head.headers["upload-length"] == "6"
    assert "upload-defer-length" not in head.headers
    await ended(ann, at)
    assert (home(rig, "ann") / "later").read_bytes() == b"abcdef"


async def test_a_deleted_upload_is_gone_and_its_file_stays_once_done(rig: Rig):
    ann = await rig.client("dee")
    at = await create(ann, "deleted", 4)
    await patch(ann, at, 0, b"ab")
    answer = await ann.delete(at, headers=TUS)
    assert (answer.status_code, answer.headers["tus-resumable"]) == (204, "1.0.0")
    assert halves(rig, "dee") == []
    assert (await ann.head(at, headers=TUS)).status_code == 404
    assert (await patch(ann, at, 2, b"cd")).status_code == 404
    assert (await ann.delete(at, headers=TUS)).status_code == 404
    at = await create(ann, "kept", 0)
    await ended(ann, at)
    assert (await ann.delete(at, headers=TUS)).status_code == 204
    assert (home(rig, "dee") / "kept").exists()


async def test_the_method_may_come_in_a_header(rig: Rig):
    ann = await rig.client("ann")
    at = await create(ann, "override", 4)
    headers = {**PIECE, "Upload-Offset": "0", "X-HTTP-Method-Override": "PATCH"}
    answer = await ann.post(at, content=b"ab", headers=headers)
    assert (answer.status_code, answer.headers["upload-offset"]) == (204, "2")
    answer = await ann.post(at, headers={**TUS, "X-HTTP-Method-Override": "HEAD"})
    assert (answer.status_code, answer.headers["upload-offset"], answer.content) == (200, "2", b"")
    wrong = await ann.post(f"{at}x", headers={**TUS, "X-HTTP-Method-Override": "HEAD"})
    assert (wrong.status_code, wrong.json()["slug"]) == (404, "not-found")
    answer = await ann.post(at, headers={**TUS, "X-HTTP-Method-Override": "DELETE"})
    assert answer.status_code == 204
    # What it really is does not matter: with a cookie it must come from this very page.
    at = await create(ann, "override", 4)
    browser = await rig.browser("ann")
    answer = await browser.get(at, headers={**TUS, "X-HTTP-Method-Override": "DELETE", "Sec-Fetch-Site": "cross-site"})
    assert answer.status_code == 403
    assert await offset(ann, at) == 0


# -- who, and from where ----------------------------------------------------------------------------


async def test_the_page_uploads_with_its_cookie_and_no_other_page_does(rig: Rig):
    browser = await rig.browser("ann")
    headers = {**TUS, "Upload-Length": "2", **said(path="page")}
    for foreign in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {}):
        assert (await browser.post("/uploads/files", headers={**headers, **foreign})).status_code == 403
    ours = {"Sec-Fetch-Site": "same-origin"}
    answer = await browser.post("/uploads/files", headers={**headers, **ours})
    assert answer.status_code == 201
    at = answer.headers["location"].removeprefix("/api/v1")
    foreign = {**PIECE, "Upload-Offset": "0", "Sec-Fetch-Site": "cross-site"}
    assert (await browser.patch(at, content=b"ab", headers=foreign)).status_code == 403
    assert (await browser.delete(at, headers={**TUS, "Sec-Fetch-Site": "cross-site"})).status_code == 403
    assert (await browser.patch(at, content=b"ab", headers={**PIECE, "Upload-Offset": "0", **ours})).status_code == 204
    await ended(await rig.client("ann"), at)


async def test_an_upload_of_others_is_not_there(rig: Rig):
    ann, bob, nobody = await rig.client("ann"), await rig.client("bob"), await rig.client()
    at = await create(ann, "mine", 4)
    for client, status in ((bob, 404), (nobody, 401)):
        assert (await client.head(at, headers=TUS)).status_code == status
        assert (await client.get(at)).status_code == status
        assert (await patch(client, at, 0, b"abcd")).status_code == status
        assert (await client.delete(at, headers=TUS)).status_code == status
        assert (await client.post(at, params={"op": "choose"}, json={"choice": "x"})).status_code == status
    assert at.rpartition("/")[2] not in (await bob.get("/uploads/files")).text
    assert at.rpartition("/")[2] in (await ann.get("/uploads/files")).text
    root = await rig.client("chief", admin=True)
    assert await offset(root, at) == 0
    assert (await ann.post(at, params={"op": "choose"}, json={"choice": "x"})).status_code == 409


async def test_an_admin_uploads_into_anothers_space_as_that_account(rig: Rig):
    root = await rig.client("chief", admin=True)
    await rig.account("bob")
    at = await create(root, "given", 2, account="bob", modified_at="1234567890.5")
    await patch(root, at, 0, b"ab")
    assert (await ended(root, at))["state"] == "done"
    info = (home(rig, "bob") / "given").stat()
    assert info.st_mtime == 1234567890.5
    if os.geteuid() == 0:
        assert info.st_uid == home(rig, "bob").stat().st_uid


async def test_a_session_that_ends_in_the_middle_throws_nothing_away(rig: Rig):
    """Used to: the token was checked at the end of a long upload, and all was thrown away."""
    kim = await rig.client("kim")
    at = await create(kim, "long", 8)
    gone_on, began = asyncio.Event(), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b"abcd"
        began.set()
        await gone_on.wait()
        yield b"efgh"

    sending = asyncio.create_task(patch(kim, at, 0, slowly()))
    await began.wait()
    await eventually(lambda: rig.parts.uploads._uploads[at.rpartition("/")[2]].holder is not None)
    assert (await kim.delete("/session")).status_code == 204
    gone_on.set()
    assert (await sending).status_code == 204
    assert (await kim.get(at)).status_code == 401
    await eventually((home(rig, "kim") / "long").exists)


# -- lines that break ---------------------------------------------------------------------------------


async def open_line(rig: Rig, name: str, at: str, start: int, length: int) -> tuple[Any, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(rig.url.rpartition(":")[2]))
    writer.write(
        f"PATCH /api/v1{at} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {await rig.account(name)}\r\n"
        f"Tus-Resumable: 1.0.0\r\nUpload-Offset: {start}\r\nContent-Length: {length}\r\n"
        "Content-Type: application/offset+octet-stream\r\n\r\n".encode()
    )
    return reader, writer


async def test_a_line_cut_in_the_middle_of_a_piece_loses_nothing(rig: Rig):
    ann = await rig.client("ann")
    data = os.urandom(3_000_000)
    at = await create(ann, "cut", len(data), sha256=hashlib.sha256(data).hexdigest())
    at_bytes = 0
    for share in (0.2, 0.6, 0.61):
        _, writer = await open_line(rig, "ann", at, at_bytes, len(data) - at_bytes)
        end = int(len(data) * share)
        writer.write(data[at_bytes:end])
        await writer.drain()
        writer.close()

        async def all_stored(end: int = end) -> bool:
            return await offset(ann, at) == end

        await eventually(all_stored)
        at_bytes = end
    await eventually(lambda: rig.parts.uploads._uploads[at.rpartition("/")[2]].holder is None)
    token = await rig.account("ann")
    client = TusClient(f"{rig.url}/api/v1/uploads/files", headers={"Authorization": f"Bearer {token}"})

    def go_on() -> int:
        uploader = client.uploader(file_stream=io.BytesIO(data), url=f"{rig.url}/api/v1{at}", chunk_size=500_000)
        began = uploader.offset
        uploader.upload()
        return int(began)

    assert await asyncio.to_thread(go_on) == int(len(data) * 0.61)
    assert (await ended(ann, at))["state"] == "done"
    assert (home(rig, "ann") / "cut").read_bytes() == data


async def test_two_at_once_and_a_line_that_went_dead(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(receiving, "PATIENCE_S", 0.4)
    ann = await rig.client("ann")
    at = await create(ann, "two", 1000)
    upload = rig.parts.uploads._uploads[at.rpartition("/")[2]]
    _, writer = await open_line(rig, "ann", at, 0, 1000)
    sent = 0

    async def trickle() -> None:
        nonlocal sent
        while True:
            writer.write(b"a")
            sent += 1
            await asyncio.sleep(0.05)

    alive = asyncio.create_task(trickle())
    await eventually(lambda: upload.holder is not None)
    answer = await patch(ann, at, 0, b"x" * 1000)
    assert (answer.status_code, answer.json()["slug"]) == (423, "upload-locked")
    alive.cancel()
    # Its line is open still, and will never bring a byte again.
    begins, answer = sent, None
    answer = await patch(ann, at, begins, b"b" * (1000 - begins))
    if answer.status_code == 409:  # of the last bytes of the old line, some came after the offset was looked at
        begins = await offset(ann, at)
        answer = await patch(ann, at, begins, b"b" * (1000 - begins))
    assert answer.status_code == 204, answer.text
    assert (await ended(ann, at))["state"] == "done"
    assert (home(rig, "ann") / "two").read_bytes() == b"a" * begins + b"b" * (1000 - begins)
    writer.close()


async def test_a_line_that_stops_is_told_and_what_came_is_kept(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(request_guard, "BODY_PAUSE_S", 0.4)
    ann = await rig.client("ann")
    at = await create(ann, "stops", 1000)
    reader, writer = await open_line(rig, "ann", at, 0, 1000)
    writer.write(b"a" * 600)
    assert (await reader.read()).startswith(b"HTTP/1.1 408")
    assert await offset(ann, at) == 600
    writer.close()


async def test_ten_uploads_that_break_at_60_percent_leave_nothing(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    """Used to: each left its half behind; after some tries the disk was full."""
    ann = await rig.client("dropper")
    for number in range(10):
        at = await create(ann, f"drop-{number}", 100_000)
        _, writer = await open_line(rig, "dropper", at, 0, 100_000)
        writer.write(b"a" * 60_000)
        await writer.drain()
        writer.close()

        async def kept(at: str = at) -> bool:
            return await offset(ann, at) == 60_000

        await eventually(kept)
    uploads = rig.parts.uploads
    await eventually(lambda: all(u.holder is None for u in uploads._uploads.values()))
    assert len(halves(rig, "dropper")) == 10
    assert [entry["name"] for entry in (await ann.get("/files/")).json()["entries"]] == []
    monkeypatch.setattr(uploads, "_expires_s", 0.0)
    await uploads.expire()
    assert list(home(rig, "dropper").iterdir()) == []
    assert (await ann.get("/uploads/files")).json() == {"uploads": []}


# -- the official client --------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [None, 7_000])
@pytest.mark.parametrize("checksum", [False, True])
async def test_the_official_client(rig: Rig, chunk: int | None, checksum: bool):
    token = await rig.account("ann")
    client = TusClient(f"{rig.url}/api/v1/uploads/files", headers={"Authorization": f"Bearer {token}"})
    data = os.urandom(50_000)
    name = f"official ü {chunk} {checksum}"

    def send(data: bytes, name: str) -> str:
        sizes = {} if chunk is None else {"chunk_size": chunk}
        metadata = {"path": name, "filename": name}
        uploader = client.uploader(file_stream=io.BytesIO(data), metadata=metadata, upload_checksum=checksum, **sizes)
        uploader.upload()
        return str(uploader.url)

    ann = await rig.client("ann")
    for content, place in ((data, name), (b"", f"{name} empty")):
        url = await asyncio.to_thread(send, content, place)
        assert (await ended(ann, url.rpartition("/api/v1")[2]))["state"] == "done"
        assert (home(rig, "ann") / place).read_bytes() == content


# -- disks that are full ----------------------------------------------------------------------------------


@pytest.mark.root
async def test_a_small_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """Used to: uploads larger than a small file system ended in 400 and 'error parsing the body'."""
    with small_disks((tmp_path / "mount", 64)) as (disk,):
        async with a_rig(tmp_path) as rig:
            ann = await rig.client("ann")
            headers = {**TUS, "Upload-Length": str(200 << 20), **said(path="large")}
            answer = await ann.post("/uploads/files", headers=headers)
            assert (answer.status_code, answer.json()["slug"]) == (507, "disk-full")
            assert "200.0 MiB are to come" in answer.json()["detail"]
            # A length that is not known can't be checked; then the disk ends in the middle.
            at = await create(ann, "unknown", None)
            answer = await patch(ann, at, 0, bytes(80 << 20))
            assert answer.status_code == 507
            assert "make room, then go on" in answer.json()["detail"]
            stored = await offset(ann, at)
            assert 30 << 20 < stored < 64 << 20
            assert halves(rig, "ann")[0].stat().st_size == stored
            await ann.delete(at, headers=TUS)
            assert halves(rig, "ann") == []
            # What was announced and then finds the disk full goes on once there is room.
            data = os.urandom(8 << 20)
            at = await create(ann, "known", len(data), sha256=hashlib.sha256(data).hexdigest())
            assert (await patch(ann, at, 0, data[: 1 << 20])).status_code == 204
            disk.fill()
            answer = await patch(ann, at, 1 << 20, data[1 << 20 :])
            assert answer.status_code == 507
            disk.make_room()
            stored = await offset(ann, at)
            assert (await patch(ann, at, stored, data[stored:])).status_code == 204
            assert (await ended(ann, at))["state"] == "done"
            assert (home(rig, "ann") / "known").read_bytes() == data
    assert [r.getMessage() for r in caplog.records].count("upload.no_room") == 3, "the log has the cause"


async def test_a_space_that_is_full_is_said_at_the_beginning(rig: Rig):
    await rig.parts.accounts.create("small", PASSWORD, by="test")
    await rig.parts.accounts.update("small", {"quota_bytes": 1_000_000}, by="chief")
    small = await rig.client("small")
    headers = {**TUS, "Upload-Length": "2000000", **said(path="x")}
    answer = await small.post("/uploads/files", headers=headers)
    assert (answer.status_code, answer.json()["slug"]) == (507, "disk-full")
    at = await create(small, "fits", 600_000)
    answer = await small.post("/uploads/files", headers={**headers, "Upload-Length": "600000"})
    assert answer.status_code == 507, "what is under way counts"
    await small.delete(at, headers=TUS)
    await create(small, "fits", 600_000)
