"""Job events: calls beside :class:`Client`'s own."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

import httpx

from ..backoff import Backoff
from .answers import parsed
from .errors import NoService, Refused
from .http import Client

_PAGE = 500
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
# The server sends something each 15 seconds. A line that is silent for longer is dead.
_SILENT_S = 60.0
_PATH = "/api/v1/job-events/stream"


class EventClient:
    """Each method may raise :class:`NoService` or :class:`Refused`. ``owner``: an account, `me`, or empty for all that
    one may see; ``kinds`` empty: all."""

    def __init__(self, client: Client, *, owner: str = "", job: str = "", kinds: Sequence[str] = ()) -> None:
        self._client = client
        given = {"owner": owner, "job": job, "kind": list(kinds)}
        self._params: dict[str, Any] = {key: value for key, value in given.items() if value}
        self.cursor = ""  # behind which it goes on

    def past(self, after: str = "", *, most: int = 0) -> Iterator[dict[str, Any]]:
        """Events that are there, oldest first, from behind the cursor ``after``; ``most`` 0: all."""
        self.cursor = after
        left = most
        while True:
            page = {"limit": min(left, _PAGE) if most else _PAGE, **({"after": self.cursor} if self.cursor else {})}
            found = self._client.ask("GET", "/job-events", params=self._params | page)
            for event in found.rows("events"):
                yield event
                self.cursor = event["cursor"]
            self.cursor = found["cursor"]
            left -= len(found.rows("events"))
            if not found["more"] or (most and left <= 0):
                return

    def follow(self, after: str = "") -> Iterator[dict[str, Any]]:
        """Events as they happen, without an end, from behind the cursor ``after`` (empty: from now on). A line that
        breaks is taken up where it broke, so none is missed."""
        self.cursor = after
        pauses = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        line = self._connect()  # a wrong address or token is told at once
        while True:
            try:
                with closing(line):
                    for event in self._events_of(line):
                        pauses.reset()
                        if event is not None:
                            yield event
            except httpx.TransportError:
                pass
            time.sleep(pauses.next_s())
            line = self._again(pauses)

    def _connect(self) -> httpx.Response:
        params = self._params | ({"after": self.cursor} if self.cursor else {})
        return self._client.stream(_PATH, params, silent_s=_SILENT_S)

    def _again(self, pauses: Backoff) -> httpx.Response:
        while True:
            try:
                return self._connect()
            except NoService:
                pass
            except Refused as refused:
                if refused.status not in (502, 503, 504):
                    raise
            time.sleep(pauses.next_s())

    def _events_of(self, line: httpx.Response) -> Iterator[dict[str, Any] | None]:
        """What one connection brings; None for a sign of life."""
        data: list[str] = []
        cursor = self.cursor
        for text in lines_of(line.iter_bytes()):
            name, _, value = text.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                data.append(value)
            elif name == "id":
                cursor = value
            if text:
                continue
            yield parsed("\n".join(data), line) if data else None
            # It moves on only once the reader has come back for more: what was not dealt with comes again.
            self.cursor = cursor
            data = []


def lines_of(chunks: Iterable[bytes]) -> Iterator[str]:
    """The lines of server-sent events as they come. Only CR, LF and CRLF end one, and no other character does."""
    rest, half = b"", False
    for chunk in chunks:
        # After a CR at the end of one chunk, a LF at the beginning of the next makes no line of its own.
        fresh = chunk.removeprefix(b"\n") if half else chunk
        half = fresh.endswith(b"\r") or (half and not chunk)
        *lines, rest = (rest + fresh).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        yield from (text.decode("utf-8", "replace") for text in lines)
