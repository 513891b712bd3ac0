"""Clients that never finish, against a real HttpServer."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from httpserver.asgi import protocol, request_guard
from tests.integration.http_rig import Rig, a_rig

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path_factory.mktemp("slow")) as rig:
        yield rig


async def until_cut(rig: Rig, sent: bytes, *, then: bytes = b"", every_s: float = 0.1) -> bytes:
    """What the server answers until it closes, while ``then`` is sent again and again."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(rig.url.rpartition(":")[2]))
    writer.write(sent)

    async def go_on() -> None:
        while then:
            writer.write(then)
            await writer.drain()
            await asyncio.sleep(every_s)

    sending = asyncio.create_task(go_on())
    answer = b""
    try:
        async with asyncio.timeout(20):
            # Piece by piece: what is sent into a line that was just cut resets it, and a reader that waits for the end
            # then loses what had come before.
            try:
                while piece := await reader.read(1 << 16):
                    answer += piece
            except ConnectionError:
                pass
        return answer
    finally:
        sending.cancel()
        writer.close()


async def test_a_head_that_never_ends_is_cut(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    """Such connections used to stay for ever, without anybody having signed in."""
    monkeypatch.setattr(protocol, "HEAD_S", 0.5)
    start = b"GET /api/v1/me HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: "
    assert await until_cut(rig, b"") == b""
    assert await until_cut(rig, start, then=b"x") == b""
    # Also the second request of a connection. Its first one must be heard within that time, on a busy machine too.
    monkeypatch.setattr(protocol, "HEAD_S", 3.0)
    whole = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    assert (await until_cut(rig, whole + start, then=b"x")).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "line", [b"x" * 10_000, b"X-Some: " + b"y" * 50 + b"\r\n"], ids=["one long header", "many headers"]
)
async def test_headers_without_end_are_refused_before_they_fill_the_memory(rig: Rig, line: bytes):
    start = b"GET /api/v1/me HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: "
    answer = await until_cut(rig, start, then=line * 20, every_s=0.0)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 431")
    body = b"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    trailers = body + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX-A: "
    answer = await until_cut(rig, trailers, then=line * 20, every_s=0.0)
    assert answer == b"" or b" 431 " in answer or b" 4" in answer[:13]


async def test_a_body_that_stops_coming_is_answered(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(request_guard, "BODY_PAUSE_S", 0.5)
    answer = await until_cut(
        rig,
        b"POST /api/v1/session HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: 500\r\n\r\n{",
    )
    assert answer.startswith(b"HTTP/1.1 408"), answer
    assert b"too-slow" in answer


async def test_an_idle_stream_is_none_that_stops_coming(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(request_guard, "BODY_PAUSE_S", 0.2)
    monkeypatch.setattr(protocol, "HEAD_S", 0.2)
    ann = await rig.client("ann")
    async with ann.stream("GET", "/events") as stream:
        lines = stream.aiter_lines()
        assert await anext(lines)
        await asyncio.sleep(1.0)
        job = (await ann.post("/jobs", json=JOB)).json()["id"]
        async with asyncio.timeout(10):
            async for text in lines:
                if job in text:
                    break


JOB = {"version": 1, "name": "x", "tasks": [{"name": "a", "image": "i", "command": "true", "timeout": "1m"}]}


@pytest.mark.parametrize("leaves", ["closed", "reset", "stays"])
@pytest.mark.parametrize("first", [b"", b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"], ids=["new", "kept"])
async def test_what_a_client_asked_of_a_server_that_hung_is_not_done_once_it_has_gone(
    rig: Rig, leaves: str, first: bytes, caplog: pytest.LogCaptureFixture
):
    """A press of Cancel used to count minutes later, although its page was closed long ago."""
    ann = await rig.client("ann")
    name = f"{leaves} {len(first)}"
    body = b'{"name": "%s"}' % name.encode()
    request = (
        b"POST /api/v1/tokens HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s"
    ) % ((await rig.account("ann")).encode(), len(body), body)
    with socket.create_connection(("127.0.0.1", int(rig.url.rpartition(":")[2]))) as line:
        if first:
            line.sendall(first)
            assert await asyncio.to_thread(line.recv, 1 << 16)
        # The server shares this loop, so until the next `await` it hangs.
        line.sendall(request)
        if leaves == "reset":
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if leaves != "stays":
            line.close()

        async def made() -> bool:
            return name in [token["name"] for token in (await ann.get("/tokens")).json()["tokens"]]

        for _ in range(20):
            if await made():
                break
            await asyncio.sleep(0.02)
        assert await made() is (leaves == "stays")
    assert "without starting response" not in caplog.text
