"""What goes out packed, and what never does."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from httpserver.asgi.compression import LEAST_BYTES, Compressed
from httpserver.asgi.static_files import StaticPage
from httpserver.http.encodings import takes_gzip

LARGE = json.dumps([{"name": f"job {i}"} for i in range(500)]).encode()
JSON = {"content-type": "application/json"}


async def ask(
    path: str = "/api/v1/jobs",
    *pieces: bytes,
    method: str = "GET",
    accept: str | None = "gzip, deflate, br",
    headers: dict[str, str] = JSON,
    status: int = 200,
) -> tuple[dict[str, str], bytes, list[bytes]]:
    """Headers, whole body and pieces of an app's answer, as they go out."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raw = [(k.encode(), v.encode()) for k, v in headers.items()]
        if len(pieces) == 1:
            raw.append((b"content-length", str(len(pieces[0])).encode()))
        await send({"type": "http.response.start", "status": status, "headers": raw})
        for number, piece in enumerate(pieces):
            await send({"type": "http.response.body", "body": piece, "more_body": number + 1 < len(pieces)})

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("nobody reads the request")

    asked = [] if accept is None else [(b"accept-encoding", accept.encode())]
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "headers": asked}
    await Compressed(app)(scope, receive, send)
    assert [message["type"] for message in sent[:1]] == ["http.response.start"]
    assert [message.get("more_body", False) for message in sent[1:]] == [True] * (len(sent) - 2) + [False]
    told = {k.decode().lower(): v.decode() for k, v in sent[0]["headers"]}
    out = [message["body"] for message in sent[1:]]
    return told, b"".join(out), out


async def test_a_large_answer_is_packed_with_its_true_length() -> None:
    headers, body, _ = await ask("/api/v1/jobs", LARGE)
    assert headers["content-encoding"] == "gzip"
    assert headers["vary"] == "Accept-Encoding"
    assert int(headers["content-length"]) == len(body) < len(LARGE) / 5
    assert gzip.decompress(body) == LARGE


async def test_an_answer_in_pieces_is_packed_as_it_comes() -> None:
    pieces = [LARGE[i : i + 1000] for i in range(0, len(LARGE), 1000)]
    headers, body, out = await ask("/api/v1/jobs/j1", *pieces, b"")
    assert headers["content-encoding"] == "gzip"
    assert "content-length" not in headers
    assert gzip.decompress(body) == LARGE
    assert all(out[:-1]), "no empty piece but the last"


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/api/v1/events", {"headers": {"content-type": "text/event-stream", "cache-control": "no-transform"}}),
        (
            "/api/v1/jobs/j/tasks/t/attempts/1/logs/both",
            {"headers": {"content-type": "text/plain", "x-log-offset": "0"}},
        ),
        ("/api/v1/files/a.json", {"headers": JSON | {"content-disposition": "attachment", "accept-ranges": "bytes"}}),
        ("/api/v1/files/a.json", {"headers": JSON | {"content-range": "bytes 0-9/99"}, "status": 206}),
        ("/api/v1/images/a/b/archive", {"headers": {"content-type": "application/x-tar"}}),
        ("/api/v1/jobs/j/logs.zip", {"headers": {"content-type": "application/zip"}}),
        ("/api/v1/jobs", {"headers": JSON | {"content-encoding": "br"}}),
        # What holds a new token or a password: its packed length would tell of it.
        ("/api/v1/session", {"method": "POST"}),
        ("/api/v1/tokens", {"method": "POST"}),
        ("/api/v1/tokens", {}),
        ("/api/v1/me", {}),
        ("/api/v1/users/ann/password", {"method": "POST"}),
        ("/api/v1/jobs", {"headers": JSON | {"set-cookie": "headway_session=x"}}),
        ("/api/v1/jobs/j/cancel", {"method": "POST"}),
        ("/api/v1/uploads/images", {"method": "PATCH"}),
        ("/api/v1/jobs", {"accept": None}),
        ("/api/v1/jobs", {"accept": "br, gzip;q=0"}),
        ("/healthz", {}),
    ],
)
async def test_what_stays_as_it_is(path: str, more: dict[str, Any]) -> None:
    headers, body, _ = await ask(path, LARGE, **more)
    assert body == LARGE
    assert headers.get("content-encoding") == more.get("headers", {}).get("content-encoding")
    assert headers["content-length"] == str(len(LARGE))


async def test_a_small_answer_stays_as_it_is_but_a_cache_is_told() -> None:
    headers, body, _ = await ask("/api/v1/jobs", b"x" * (LEAST_BYTES - 1))
    assert (body, headers["vary"]) == (b"x" * (LEAST_BYTES - 1), "Accept-Encoding")
    assert "content-encoding" not in headers


async def test_what_only_asks_gets_a_large_answer_packed() -> None:
    headers, _, _ = await ask("/api/v1/jobs", LARGE, method="POST")
    assert headers["content-encoding"] == "gzip"


@pytest.mark.parametrize(
    ("header", "want"),
    [
        ("gzip", True), ("GZIP;Q=0.5", True), ("br, *;q=0.1", True), ("x-gzip", True),
        ("", False), ("gzip;q=0", False), ("identity", False), ("gzip;q=x", False), ("*;q=0", False), (";;,,=", False),
    ],
)  # fmt: skip
def test_what_a_client_takes(header: str, want: bool) -> None:
    assert takes_gzip(header) is want


def page(folder: Path, files: Iterable[tuple[str, bytes]]) -> StaticPage:
    for name, content in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return StaticPage(folder, folder / "no-docs")


def test_the_page_goes_out_packed_and_is_asked_for_by_its_tag(tmp_path: Path) -> None:
    script, picture = b"console.log(1);\n" * 500, bytes(range(256)) * 20
    found = page(tmp_path, [("index.html", b"<p>" * 500), ("assets/a-1.js", script), ("assets/b-1.png", picture)])
    for path in ("/assets/a-1.js", "/jobs/j1"):
        plain, small = found.respond(path), found.respond(path, {"accept-encoding": "gzip"})
        assert gzip.decompress(bytes(small.body)) == plain.body
        assert (small.headers["content-encoding"], small.headers["vary"]) == ("gzip", "Accept-Encoding")
        assert plain.headers["vary"] == "Accept-Encoding"
        assert small.headers["etag"] != plain.headers["etag"]
        assert small.headers["content-length"] == str(len(small.body))
        same = found.respond(path, {"accept-encoding": "gzip", "if-none-match": f'"x", W/{small.headers["etag"]}'})
        assert (same.status_code, same.body, same.headers["etag"]) == (304, b"", small.headers["etag"])
        assert found.respond(path, {"if-none-match": small.headers["etag"]}).status_code == 200
    assert "immutable" in found.respond("/assets/a-1.js").headers["cache-control"]
    assert found.respond("/").headers["cache-control"] == "no-cache"
    image = found.respond("/assets/b-1.png", {"accept-encoding": "gzip"})
    assert image.body == picture
    assert "content-encoding" not in image.headers
