"""Answers of JSON and YAML go out as gzip where the client takes it: a list of jobs is a tenth as large then.

Bytes that must stay as they are do: streams that never end, logs, files, archives and ranges of them. So do answers
that hold a new secret. Beside text that somebody else chose, the packed length would tell of it (BREACH).
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..http.encodings import packed, packer, takes_gzip
from .request_guard import API

# Less is not worth it: it is one packet anyway.
LEAST_BYTES = 1000
# More is packed in a thread: other requests go on meanwhile.
_AT_ONCE_BYTES = 256 * 1024

_TYPES = frozenset({"application/json", "application/problem+json", "application/yaml"})
# Where new tokens and passwords are told, and whatever else belongs to accounts.
_SECRET = tuple(f"{API}/{name}" for name in ("session", "sessions", "tokens", "me", "users", "registries"))
# Calls that change something answer little; these two only ask, and a large file gets a large answer.
_ASKING_POSTS = frozenset({f"{API}/jobs", f"{API}/queue/preview"})
# With one of these the client counts on the bytes as they are.
_EXACT = ("content-encoding", "content-range", "content-disposition", "accept-ranges", "etag", "set-cookie")


class Compressed:
    """See the module."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not _may_be(scope["method"], scope["path"]):
            await self._app(scope, receive, send)
            return
        takes = takes_gzip(",".join(Headers(scope=scope).getlist("accept-encoding")))
        await self._app(scope, receive, _Answer(send, takes=takes).send)


def _may_be(method: str, path: str) -> bool:
    if not path.startswith(API) or any(path == secret or path.startswith(f"{secret}/") for secret in _SECRET):
        return False
    return method == "GET" or (method == "POST" and path in _ASKING_POSTS)


class _Answer:
    def __init__(self, send: Send, *, takes: bool) -> None:
        self._send = send
        self._takes = takes
        self._start: Message | None = None  # held back until it is known how large the answer is
        self._packer: Any = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            if not _is_packable(Headers(raw=message["headers"])):
                await self._send(message)
                return
            MutableHeaders(raw=message["headers"]).add_vary_header("Accept-Encoding")
            if not self._takes:
                await self._send(message)
                return
            self._start = message
        elif self._start is not None:
            await self._first(self._start, message)
        elif self._packer is not None:
            await self._next(message)
        else:
            await self._send(message)

    async def _first(self, start: Message, message: Message) -> None:
        self._start = None
        body, more = message.get("body", b""), message.get("more_body", False)
        if not more and len(body) < LEAST_BYTES:
            await self._send(start)
            await self._send(message)
            return
        headers = MutableHeaders(raw=start["headers"])
        headers["Content-Encoding"] = "gzip"
        if not more:
            small = packed(body) if len(body) < _AT_ONCE_BYTES else await asyncio.to_thread(packed, body)
            headers["Content-Length"] = str(len(small))
            await self._send(start)
            await self._send({**message, "body": small})
            return
        if "content-length" in headers:
            del headers["content-length"]
        self._packer = packer()
        await self._send(start)
        await self._next(message)

    async def _next(self, message: Message) -> None:
        more = message.get("more_body", False)
        data = self._packer.compress(message.get("body", b""))
        if not more:
            data += self._packer.flush()
        # What the packer keeps for later is no piece: an empty one would end nothing and cost a write.
        if data or not more:
            await self._send({**message, "body": data})


def _is_packable(headers: Headers) -> bool:
    if headers.get("content-type", "").partition(";")[0].strip() not in _TYPES:
        return False
    if "no-transform" in headers.get("cache-control", ""):
        return False
    return not any(name in headers for name in _EXACT)
