"""The Unix socket of the Worker for people's own processes on this machine. Each message is one line of JSON.

The kernel says which process is at the other end, so nobody can be somebody else's holder. What a process has to show
besides is the key that it made when it asked for the GPUs.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headway.logs import get_logger

from . import processes
from .keeper import Holds
from .record import Holder

log = get_logger(__name__)

_LINE_BYTES = 1 << 16
_JOB_CHARS = 64
_MOST_LINES = 1_024
_MOST_LINES_OF_USER = 256  # nobody shuts the others out


class _Client:
    """One connection."""

    def __init__(self, peer: Holder, writer: asyncio.StreamWriter) -> None:
        self.peer = peer
        self._writer = writer

    def send(self, message: Mapping[str, Any]) -> None:
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")


class HoldDoor:
    """See the module. Where the socket can't be made, the Worker works on without."""

    def __init__(self, path: Path, holds: Holds, *, node_id: str, cluster: str) -> None:
        self._path = path
        self._holds = holds
        self._hello = {"node": node_id, "cluster": cluster}
        self._server: asyncio.Server | None = None
        self._lines: dict[asyncio.StreamWriter, int] = {}  # with the user at the other end
        self._made = 0

    async def open(self) -> None:
        """Safe after a killed Worker, whose socket still lies there."""
        try:
            if not self._path.parent.exists():
                self._path.parent.mkdir(parents=True)
                self._path.parent.chmod(0o755)  # whatever the umask is: ordinary users must reach it
            if await asyncio.to_thread(_answers, self._path):
                raise OSError(errno.EADDRINUSE, "another worker listens there: set worker.gpu_socket")
            self._path.unlink(missing_ok=True)
            self._server = await asyncio.start_unix_server(self._serve, self._path, limit=_LINE_BYTES)
            self._made = self._path.stat().st_ino
            self._path.chmod(0o666)  # everybody on this machine may ask; each has to show its key
            self._holds.hear_all()
        except OSError as error:
            log.warning("holds.no_socket", path=str(self._path), reason=error.strerror or str(error))

    async def close(self) -> None:
        """Safe twice. Clients come back to the next Worker."""
        self._holds.hear_nobody()  # all lines close now, and nobody has died
        if self._server is not None:
            self._server.close()
            self._server = None
            for writer in list(self._lines):
                writer.close()
            with contextlib.suppress(OSError):
                if self._path.stat().st_ino == self._made:
                    self._path.unlink()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = _peer_of(writer)
        if peer is None or not self._has_room(peer.uid):
            self._holds.hear_all()  # not this one: so it must not be taken for dead
            writer.close()
            return
        client = _Client(peer, writer)
        self._lines[writer] = peer.uid
        client.send(self._hello)
        try:
            while line := await reader.readline():
                self._take(client, json.loads(line))
                await writer.drain()  # who does not read is not heard either
        except (ValueError, TypeError, KeyError, AttributeError, OSError):
            pass  # no client of ours, or it is gone
        finally:
            del self._lines[writer]
            self._holds.gone(client)
            writer.close()

    def _has_room(self, uid: int) -> bool:
        of_user = sum(other == uid for other in self._lines.values())
        return of_user < _MOST_LINES_OF_USER and len(self._lines) < _MOST_LINES

    def _take(self, client: _Client, message: Any) -> None:
        if not isinstance(message, dict):
            raise ValueError("no message")
        if "key" in message:
            self._holds.wait_for(client, str(message["key"]), str(message.get("job") or "")[:_JOB_CHARS])
        elif "job" in message:
            self._holds.name(client, str(message["job"])[:_JOB_CHARS])
        elif "done" in message:
            self._holds.give_back(client, _small(message["done"]), _small(message.get("signal")))
        self._holds.beat(client)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def _small(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value <= 255 else None


def _peer_of(writer: asyncio.StreamWriter) -> Holder | None:
    sock = writer.get_extra_info("socket")
    pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    ticks = processes.start_ticks(pid)
    return None if ticks is None else Holder(pid, ticks, uid)


def socket_path(setting: str, node_id: str) -> Path | None:
    """Where ordinary users reach it. None: nowhere."""
    if setting:
        return None if setting == "off" else Path(setting)
    if os.geteuid() == 0:
        return Path("/run/headway") / f"{node_id}.sock"
    own = os.environ.get("XDG_RUNTIME_DIR", "")
    return Path(own) / "headway" / f"{node_id}.sock" if own else None
