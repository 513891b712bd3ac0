"""Servers on loopback that answer exactly the bytes that a test wants, and note what they were asked."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]  # names in small letters


@dataclass
class WebServer:
    """A running one."""

    host: str  # 127.0.0.1:PORT
    asked: list[Asked] = field(default_factory=list)


Handler = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


def answer(status: int, body: bytes | Any = b"", **headers: str) -> bytes:
    """A whole answer; what is no bytes goes as JSON. Underscores in names of headers become dashes."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    if "content-length" not in {name.replace("_", "-").lower() for name in headers}:
        lines.append(f"Content-Length: {len(content)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


@asynccontextmanager
async def a_web_server(
    handle: Callable[[Asked], bytes | None] | Handler, *, ssl: Any = None
) -> AsyncIterator[WebServer]:
    """``handle`` gives the answer to each request (None: the line is cut), or writes it itself."""
    server: WebServer
    serving: set[asyncio.Task[Any]] = set()

    async def one(asked: Asked, writer: asyncio.StreamWriter) -> bool:
        server.asked.append(asked)
        if inspect.iscoroutinefunction(handle):
            await handle(asked, writer)
        else:
            told = handle(asked)  # type: ignore[call-arg]
            if told is None:
                return False
            assert isinstance(told, bytes)
            writer.write(told if asked.method != "HEAD" else told.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
        await writer.drain()
        return True

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        # What ends a line, or this server, is nothing to tell about.
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            first = await reader.readexactly(1)
            if first == b"\x16":  # TLS
                writer.write(answer(400, b"Client sent an HTTPS request to an HTTP server"))
                await writer.drain()
            else:
                while await one(_parsed(first + await reader.readuntil(b"\r\n\r\n")), writer):
                    first = await reader.readexactly(1)
        writer.close()
        serving.discard(task)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=ssl)
    server = WebServer(f"127.0.0.1:{listening.sockets[0].getsockname()[1]}")
    try:
        yield server
    finally:
        listening.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving)


def _parsed(head: bytes) -> Asked:
    lines = head.decode("latin-1").split("\r\n")
    method, path, _ = lines[0].split(" ")
    pairs = (line.partition(":") for line in lines[1:] if line)
    return Asked(method, path, {name.lower(): value.strip() for name, _, value in pairs})
