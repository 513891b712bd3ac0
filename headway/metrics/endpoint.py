"""A small HTTP server for ``GET /metrics`` alone, for services that have no other.

It answers one request a connection. Whoever is slow is cut off, and so is whoever comes while a few others are served.
So no client keeps the service from its work.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
from http import HTTPStatus
from typing import TYPE_CHECKING

from ..config.values import split_address
from ..errors import PortTaken

if TYPE_CHECKING:
    from ..lifecycle import Service
    from .process import Metrics

_PATH = "/metrics"
_METHODS = ("GET", "HEAD")
_MOST_HEAD_BYTES = 8_192
_MOST_AT_ONCE = 8
_REQUEST_S = 5.0
_ANSWER_S = 10.0
_PLAIN = "text/plain; charset=utf-8"


class MetricsEndpoint:
    """Listens at ``listen`` (HOST:PORT; port 0 picks one, see ``port``) for as long as ``service`` runs."""

    def __init__(self, service: Service, metrics: Metrics, listen: str) -> None:
        self._name = service.name
        self._metrics = metrics
        self._listen = listen
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0
        service.on_open(self.start)
        service.on_stop(self.stop)

    async def start(self) -> None:
        """Listens.

        Raises:
            PortTaken: someone else listens there.
        """
        host, port = split_address(self._listen)
        try:
            self._server = await asyncio.start_server(self._serve, host, port, limit=_MOST_HEAD_BYTES, backlog=16)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            why = "another program does" if taken else (error.strerror or str(error)).lower()
            raise PortTaken(
                f"{self._name} can't listen for metrics at {self._listen}: {why}. Stop that program or set another "
                "`metrics_listen`."
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Closes the port and all connections. Safe twice, and without a start."""
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if len(self._writers) > _MOST_AT_ONCE:
                return
            async with asyncio.timeout(_REQUEST_S):
                head = await _head(reader)
            writer.write(await self._answer(head))
            async with asyncio.timeout(_ANSWER_S):
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError):
            pass
        finally:
            # What the client has not read by now, it does not get.
            writer.transport.abort()
            self._writers.discard(writer)

    async def _answer(self, head: bytes | None) -> bytes:
        if head is None:
            return _answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        method, path = _request(head)
        if not method:
            return _answer(HTTPStatus.BAD_REQUEST)
        if path.partition("?")[0] != _PATH:
            return _answer(HTTPStatus.NOT_FOUND, f"Metrics are at {_PATH}.\n".encode(), head_only=method == "HEAD")
        if method not in _METHODS:
            return _answer(HTTPStatus.METHOD_NOT_ALLOWED, allow=True)
        body, media_type = await self._metrics.as_text()
        return _answer(HTTPStatus.OK, body, media_type=media_type, head_only=method == "HEAD")


async def _head(reader: asyncio.StreamReader) -> bytes | None:
    """What comes before the body; None: it is too long."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        return None


def _request(head: bytes) -> tuple[str, str]:
    """Method and path; two empty texts for what is no request."""
    with contextlib.suppress(UnicodeDecodeError, ValueError):
        method, path, version = head.split(b"\r\n", 1)[0].decode("ascii").split(" ")
        if method.isalpha() and path.startswith("/") and version.startswith("HTTP/1."):
            return method, path
    return "", ""


def _answer(
    status: HTTPStatus, body: bytes = b"", *, media_type: str = _PLAIN, head_only: bool = False, allow: bool = False
) -> bytes:
    body = body or f"{status.phrase}\n".encode()
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {media_type}",
        f"Content-Length: {len(body)}",
        *([f"Allow: {', '.join(_METHODS)}"] if allow else []),
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    head = "\r\n".join(lines).encode("ascii") + b"\r\n\r\n"
    return head if head_only else head + body
