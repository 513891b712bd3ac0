"""HTTP on one connection, with limits on the size of a request's head and on the time that it takes.

uvicorn with its fast parser limits neither. A client that never finishes its headers would hold its connection for
ever. One that sends header lines without end would fill the memory, signed in or not.
"""

from __future__ import annotations

import asyncio
import resource
import select
from typing import Any

from uvicorn._types import ASGIReceiveEvent
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from headway.logs import get_logger

log = get_logger(__name__)

HEAD_S = 30.0  # from the first byte (or the connection) to the last header
HEAD_BYTES = 64 * 1024  # that may come without completing a head or a piece of a body; trailers are bounded by it too

_KEPT_FILES = 256  # descriptors that are left to the database, other services and files of people


def most_connections() -> int:
    """How many connections may be open at once. Without free descriptors the service could not ask other services."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return files - min(_KEPT_FILES, files // 4)


_BODY = b'{"status": 431, "slug": "too-large", "title": "The headers of this request are too large"}'
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Type: application/problem+json\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(_BODY), _BODY)
)


class _KeepingCycle(RequestResponseCycle):
    """Hands out what had come before the connection broke. uvicorn drops it, so uploads would have to send it again."""

    async def receive(self) -> ASGIReceiveEvent:
        message = await super().receive()
        if message["type"] == "http.disconnect" and self.body and not self.response_complete:
            message = {"type": "http.request", "body": bytes(self.body), "more_body": self.more_body}
            self.body = bytearray()
        return message


class LimitedHttpProtocol(HttpToolsProtocol):
    """See the module."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._late: asyncio.TimerHandle | None = None
        self._steps = 0  # heads and pieces of bodies that were complete
        self._without_step = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            transport.abort()
            return
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_is_done()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self._steps
        super().data_received(data)
        self._without_step = self._without_step + len(data) if self._steps == before else 0
        if self._without_step > HEAD_BYTES and not self.transport.is_closing():
            log.info("http.head_too_large", bytes=self._without_step)
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._late is None:
            self._expect_head()

    def on_headers_complete(self) -> None:
        self._steps += 1
        self._head_is_done()
        super().on_headers_complete()
        self.scope["headway.gone"] = self._client_is_gone  # type: ignore[typeddict-unknown-key]
        if type(self.cycle) is RequestResponseCycle:
            self.cycle.__class__ = _KeepingCycle  # its task has not begun yet

    def on_body(self, body: bytes) -> None:
        self._steps += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._steps += 1
        super().on_message_complete()

    def _client_is_gone(self) -> bool:
        """Whether the client has closed its end. The system knows before the loop has read all that came before."""
        socket = self.transport.get_extra_info("socket")
        if socket is None or self.transport.is_closing() or socket.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(socket.fileno(), select.POLLRDHUP)
        return bool(poll.poll(0))

    def _expect_head(self) -> None:
        self._late = self.loop.call_later(HEAD_S, self._too_late)

    def _head_is_done(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _too_late(self) -> None:
        self._late = None
        if not self.transport.is_closing():
            log.info("http.head_too_slow", limit_s=HEAD_S)
            self.transport.close()
