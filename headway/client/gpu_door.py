"""The Worker of this machine, by its Unix socket: which machine this is, what was granted, when it has to end.

Only the standard library: a program that waits for a GPU must start at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from glob import glob
from typing import Any, ClassVar

from ..errors import HeadwayError, InvalidInput

SOCKET_VARIABLE = "HEADWAY_GPU_SOCKET"
_SHARED = "/run/headway/*.sock"
_CONNECT_S = 2.0
_RESTART_S = 15.0
_LINE_BYTES = 1 << 20


class NoWorkerHere(HeadwayError):
    """This machine has no Worker that can be reached."""

    code: ClassVar[str] = "UNAVAILABLE"
    http_status: ClassVar[int] = 503
    slug: ClassVar[str] = "no-worker-here"


class Door:
    """One connection to the Worker."""

    def __init__(self, path: str, sock: socket.socket, hello: Mapping[str, Any], rest: bytes) -> None:
        self.path = path
        self.node, self.cluster = str(hello.get("node", "")), str(hello.get("cluster", ""))
        self._socket = sock
        self._rest = rest

    def send(self, message: Mapping[str, Any]) -> bool:
        """False: nobody is there any more."""
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            return False
        return True

    def receive(self, within_s: float, wake: int | None = None) -> list[dict[str, Any]] | None:
        """What has come, perhaps nothing. None: the Worker has closed. ``wake``: a descriptor that ends the wait."""
        watched = [self._socket.fileno()] if wake is None else [self._socket.fileno(), wake]
        ready, _, _ = select.select(watched, [], [], max(0.0, within_s))
        if self._socket.fileno() not in ready:
            return []
        try:
            data = self._socket.recv(1 << 16)
        except OSError:
            return None
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [found for line in lines if isinstance(found := _json(line), dict)]

    def close(self) -> None:
        self._socket.close()


def open_door(path: str) -> Door | None:
    """None: no Worker answers there."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(_CONNECT_S)
        sock.connect(path)
        data = b""
        while b"\n" not in data:
            more = sock.recv(4096)
            if not more or len(data) > _LINE_BYTES:
                raise OSError("no hello")
            data += more
        line, _, rest = data.partition(b"\n")
        hello = _json(line)
        if not isinstance(hello, dict):
            raise OSError("no hello")
    except OSError:
        sock.close()
        return None
    return Door(path, sock, hello, rest)


def find_door(node: str, environ: Mapping[str, str]) -> Door:
    """The Worker of this machine; with several, the one of ``node``.

    Raises:
        NoWorkerHere: there is none.
        InvalidInput: it is not clear which.
    """
    paths = list(_paths(environ))
    doors = [door for path in paths if (door := open_door(path)) is not None]
    give_up_at = time.monotonic() + _RESTART_S
    while not doors and any(map(os.path.exists, paths)) and time.monotonic() < give_up_at:
        time.sleep(0.1)  # its socket is there, so it is being restarted
        doors = [door for path in paths if (door := open_door(path)) is not None]
    if not doors:
        raise NoWorkerHere(
            "No worker of Headway answers on this machine, so its GPUs can't be asked for here. Run this on a GPU "
            "machine of the cluster; from elsewhere `headway run --gpus 1 -- COMMAND` runs it in a container there."
            + (f" ({SOCKET_VARIABLE} names {paths[0]}.)" if environ.get(SOCKET_VARIABLE) else "")
        )
    wanted = [door for door in doors if node in ("", door.node)]
    for door in doors:
        if len(wanted) != 1 or door is not wanted[0]:
            door.close()
    names = ", ".join(sorted(door.node for door in doors))
    if not wanted:
        raise InvalidInput(f"This machine is {names}, and not {node}: leave out the name, or go to {node}.")
    if len(wanted) > 1:
        raise InvalidInput(f"Several workers run on this machine ({names}): name one with --node.")
    return wanted[0]


def _paths(environ: Mapping[str, str]) -> Iterator[str]:
    if named := environ.get(SOCKET_VARIABLE):
        yield named
        return
    yield from sorted(glob(_SHARED))
    if own := environ.get("XDG_RUNTIME_DIR"):
        yield from sorted(glob(f"{own}/headway/*.sock"))


def _json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def marked(hold: str, variable: str) -> Sequence[int]:
    """The processes of this user that were started with this hold, as far as they can be seen."""
    mark, found = f"{variable}={hold}".encode(), []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
                if mark in file.read().split(b"\0"):
                    found.append(int(name))
    return found
