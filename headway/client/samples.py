"""What attempts used: calls beside :class:`Client`'s own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, BinaryIO
from urllib.parse import urlencode

import httpx

from ..backoff import Backoff
from .answers import parsed
from .errors import NoService, Refused
from .events import lines_of
from .http import Client
from .names import path_part

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
# The server sends something each 15 seconds. A line that is silent for longer is dead.
_SILENT_S = 60.0


class SampleClient:
    """Each method may raise :class:`NoService` or :class:`Refused`. ``attempt``: a number, or `latest`."""

    def __init__(self, client: Client, job_id: str, task: str, attempt: int | str = "latest") -> None:
        self._client = client
        parts = (path_part(job_id, "job"), path_part(task, "task"), path_part(str(attempt), "attempt"))
        self._path = "/jobs/{}/tasks/{}/attempts/{}/metrics".format(*parts)

    def points(self, *, points: int = 500, since: float | None = None) -> Any:
        """Lines of a plot, sums, and asked against used."""
        params: dict[str, Any] = {"points": points} | ({} if since is None else {"since": since})
        return self._client.ask("GET", self._path, params=params)

    def write(self, form: str, target: BinaryIO) -> int:
        """Every sample as ``csv``, or plots as ``svg``; returns how many bytes."""
        return self._client.download(f"{self._path}?{urlencode({'format': form})}", target)

    def follow(self) -> Iterator[tuple[str, Any]]:
        """Events (head, sample, end) until the attempt's end. A line that breaks is taken up where it broke."""
        pauses = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        since: float | None = None
        line = self._connect(since)  # a wrong name or token is told at once
        headed = False
        while True:
            try:
                with closing(line):
                    for name, data in _events_of(line):
                        pauses.reset()
                        if name == "head" and headed:
                            continue
                        headed = headed or name == "head"
                        if name == "sample" and since is not None and data["at"] <= since:
                            continue  # moments are rounded, so the one before may come once more
                        since = data["at"] if name == "sample" else since
                        yield name, data
                        if name == "end":
                            return
            except httpx.TransportError:
                pass
            time.sleep(pauses.next_s())
            line = self._again(since, pauses)

    def _connect(self, since: float | None) -> httpx.Response:
        params = {} if since is None else {"since": since}
        return self._client.stream(f"/api/v1{self._path}/follow", params, silent_s=_SILENT_S)

    def _again(self, since: float | None, pauses: Backoff) -> httpx.Response:
        while True:
            try:
                return self._connect(since)
            except NoService:
                pass
            except Refused as refused:
                if refused.status not in (429, 502, 503, 504):
                    raise
            time.sleep(pauses.next_s())


def _events_of(line: httpx.Response) -> Iterator[tuple[str, Any]]:
    name, data = "", list[str]()
    for text in lines_of(line.iter_bytes()):
        key, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if key == "event":
            name = value
        elif key == "data":
            data.append(value)
        if not text and data:
            yield name, parsed("\n".join(data), line)
            name, data = "", []
