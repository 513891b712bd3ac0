"""Uploads that outlive a cut line, a killed server and an end of this program: tus 1.0.0 from the sender's side.

    upload(client, "files", Path("data.tar"), {"path": "data.tar"}, bar.update)

Where the upload of a file lies is remembered below ``$XDG_STATE_HOME/headway/uploads`` until it is over. The same file,
sent again with the same metadata, goes on where it was.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import httpx

from ..backoff import Backoff
from ..errors import Conflict
from .answers import read_json
from .errors import NoService, Refused
from .http import Client

_API = "/api/v1/uploads"
_VERSION = {"Tus-Resumable": "1.0.0"}
_TYPE = "application/offset+octet-stream"
_PIECE_BYTES = 64 << 20
_STREAM_PIECE_BYTES = 16 << 20  # kept in memory, since a pipe can't be read twice
_READ_BYTES = 1 << 18
_PATIENCE_S = 300.0  # without one byte more
_FIRST_PAUSE_S = 0.5
_MOST_PAUSE_S = 15.0
_POLL_S = 0.2
_MOST_POLL_S = 2.0
_PASSES = frozenset({408, 409, 423, 429, 460, 500, 502, 503, 504})
_OVER = frozenset({404, 410})
_ENDED = frozenset({"done", "failed", "choose"})

Progress = Callable[[int], None]


def upload(
    client: Client,
    kind: str,
    source: Path | BinaryIO,
    metadata: Mapping[str, str],
    on_progress: Progress,
    *,
    resume: bool = True,
) -> dict[str, Any]:
    """Sends all of ``source`` and waits for what becomes of it: the upload, in the state done, failed or choose.

    ``on_progress`` takes the bytes of each step; what an earlier run had sent comes as one step. A pipe is sent, too,
    but nothing is remembered of it. ``resume=False`` begins anew.

    Raises:
        Refused: by the server, in its words; after a 507 the same call goes on once there is room.
        NoService: no byte got through for minutes.
        Conflict: the file changed while it was sent.
    """
    if isinstance(source, Path):
        with source.open("rb") as file:
            return _Sending(client, kind, file, metadata, on_progress, _memory(client, kind, file, metadata)).run(
                resume
            )
    return _Sending(client, kind, source, metadata, on_progress, None).run(resume)


class _Sending:
    def __init__(
        self,
        client: Client,
        kind: str,
        file: BinaryIO,
        metadata: Mapping[str, str],
        on_progress: Progress,
        memory: Path | None,
    ) -> None:
        self._client = client
        self._kind = kind
        self._file = file
        self._metadata = metadata
        self._on_progress = on_progress
        self._memory = memory
        self._shown = 0
        self._start = file.tell() if file.seekable() else 0
        self._length = _rest(file)
        self._before = _identity(file)

    def run(self, resume: bool) -> dict[str, Any]:
        found = self._remembered() if resume else None
        if found is None:
            path = self._create()
        else:
            path = f"{_API}/{self._kind}/{found['id']}"
        try:
            ended = self._go_on(path, found)
        except Refused as refused:
            if refused.status in _OVER:
                self._forget()
            raise
        if ended["state"] != "choose":
            self._forget()
        return ended

    def _go_on(self, path: str, found: dict[str, Any] | None) -> dict[str, Any]:
        if found is None or found["state"] == "receiving":
            self._show(offset := 0 if found is None else int(found["offset"]))
            if self._length is None:
                self._send_stream(path)
            else:
                self._send_file(path, offset, self._length)
            if _identity(self._file) != self._before:
                self._client._send("DELETE", path, headers=_VERSION)
                self._forget()
                raise Conflict("The file changed while it was sent: nothing was stored; send it again.")
        elif found["state"] == "choose" and self._metadata.get("choose"):
            self._client._send("POST", path, params={"op": "choose"}, json={"choice": self._metadata["choose"]})
        return self._wait(path)

    def _create(self) -> str:
        pairs = (f"{key} {_base64(value)}" for key, value in self._metadata.items())
        length = {"Upload-Defer-Length": "1"} if self._length is None else {"Upload-Length": str(self._length)}
        headers = {**_VERSION, **length, "Upload-Metadata": ",".join(pairs)}
        answer = self._client._send("POST", f"{_API}/{self._kind}", headers=headers)
        path = httpx.URL(answer.headers["location"]).path
        if self._memory is not None:
            self._memory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary = self._memory.with_suffix(f".{os.getpid()}.new")
            temporary.write_text(json.dumps({"path": path}), encoding="utf-8")
            temporary.replace(self._memory)
        return path

    def _send_file(self, path: str, offset: int, length: int) -> None:
        trouble = _Trouble()
        while offset < length:
            end = min(length, offset + _PIECE_BYTES)
            try:
                offset = self._patch(path, offset, end - offset, self._pieces(offset, end))
                trouble = _Trouble()
            except (NoService, Refused) as error:
                trouble.wait(error)
                before, offset = offset, self._ask_offset(path, trouble)
                if offset > before:
                    trouble = _Trouble()

    def _send_stream(self, path: str) -> None:
        offset, data = 0, self._file.read(_STREAM_PIECE_BYTES)
        while data:
            trouble, end = _Trouble(), offset + len(data)
            while offset < end:
                rest = data[len(data) - (end - offset) :]
                try:
                    offset = self._patch(path, offset, len(rest), self._shown_pieces(offset, io.BytesIO(rest)))
                except (NoService, Refused) as error:
                    trouble.wait(error)
                    offset = self._ask_offset(path, trouble)
            data = self._file.read(_STREAM_PIECE_BYTES)
        trouble = _Trouble()
        while True:
            try:
                self._patch(path, offset, 0, iter(()), {"Upload-Length": str(offset)})
                return
            except (NoService, Refused) as error:
                trouble.wait(error)

    def _patch(
        self, path: str, offset: int, count: int, body: Iterator[bytes], more: Mapping[str, str] | None = None
    ) -> int:
        headers = {
            **_VERSION,
            "Upload-Offset": str(offset),
            "Content-Type": _TYPE,
            "Content-Length": str(count),
            **(more or {}),
        }
        answer = self._client._send(
            "PATCH", path, content=body, headers=headers, repeat=False, timeout=httpx.Timeout(60.0, connect=5.0)
        )
        return int(answer.headers["upload-offset"])

    def _pieces(self, offset: int, end: int) -> Iterator[bytes]:
        self._file.seek(self._start + offset)
        while offset < end:
            data = self._file.read(min(_READ_BYTES, end - offset))
            if not data:
                raise Conflict("The file became shorter while it was sent.")
            yield data
            offset += len(data)
            self._show(offset)

    def _shown_pieces(self, offset: int, data: BinaryIO) -> Iterator[bytes]:
        while piece := data.read(_READ_BYTES):
            yield piece
            offset += len(piece)
            self._show(offset)

    def _show(self, offset: int) -> None:
        # What is sent a second time is no progress.
        if offset > self._shown:
            self._on_progress(offset - self._shown)
            self._shown = offset

    def _ask_offset(self, path: str, trouble: _Trouble) -> int:
        while True:
            try:
                return int(self._client._send("HEAD", path, headers=_VERSION, repeat=False).headers["upload-offset"])
            except (NoService, Refused) as error:
                trouble.wait(error)

    def _wait(self, path: str) -> dict[str, Any]:
        pauses = Backoff(_POLL_S, _MOST_POLL_S, factor=1.5)
        while True:
            found: dict[str, Any] = self._client.patiently(lambda: read_json(self._client._send("GET", path)))
            if found["state"] in _ENDED:
                return found
            time.sleep(pauses.next_s())

    # -- what an earlier run left ---------------------------------------------------------------

    def _remembered(self) -> dict[str, Any] | None:
        if self._memory is None:
            return None
        try:
            path = str(json.loads(self._memory.read_text("utf-8"))["path"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        try:
            found: dict[str, Any] = read_json(self._client._send("GET", path))
        except Refused as refused:
            if refused.status not in _OVER:
                raise
            found = {"state": "failed"}
        if found["state"] == "failed" or found.get("length") != self._length:
            self._forget()
            return None
        return found

    def _forget(self) -> None:
        if self._memory is not None:
            self._memory.unlink(missing_ok=True)


class _Trouble:
    """How long nothing got through."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._pauses = Backoff(_FIRST_PAUSE_S, _MOST_PAUSE_S)

    def wait(self, error: NoService | Refused) -> None:
        """Pauses, longer each time.

        Raises:
            NoService, Refused: ``error``, when waiting does not help, or did not for minutes.
        """
        if isinstance(error, Refused) and error.status not in _PASSES:
            raise error
        pause_s = self._pauses.next_s()
        if time.monotonic() - self._since + pause_s > _PATIENCE_S:
            raise error
        time.sleep(pause_s)


def _memory(client: Client, kind: str, file: BinaryIO, metadata: Mapping[str, str]) -> Path | None:
    identity = _identity(file)
    if identity is None:
        return None
    # Which of several images is meant is told after the bytes are there.
    said = sorted((key, value) for key, value in metadata.items() if key != "choose")
    key = json.dumps([client.profile.url, client.profile.user, kind, identity, said])
    base = os.environ.get("XDG_STATE_HOME")
    folder = (Path(base) if base else Path.home() / ".local" / "state") / "headway" / "uploads"
    return folder / f"{hashlib.sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}.json"


def _identity(file: BinaryIO) -> list[int] | None:
    """What tells this content of a plain file from another; None for anything else."""
    with contextlib.suppress(OSError, io.UnsupportedOperation):
        info = os.fstat(file.fileno())
        if file.seekable():
            return [info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns]
    return None


def _rest(file: BinaryIO) -> int | None:
    """How many bytes follow; None for a pipe."""
    if not file.seekable():
        return None
    here = file.tell()
    end = file.seek(0, io.SEEK_END)
    file.seek(here)
    return end - here


def _base64(value: str) -> str:
    return base64.b64encode(value.encode("utf-8", "surrogateescape")).decode("ascii")
