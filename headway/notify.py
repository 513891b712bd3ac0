"""What a service tells the one who started it: `headway up` through a socket, systemd through its own."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import socket
from collections.abc import Callable

from .errors import HeadwayError

SUPERVISOR_FD = "HEADWAY_SUPERVISOR_FD"


class Supervision:
    """The other end of the socket that `headway up` hands to each service.

    It tells `up` without a poll when the service is ready. It tells the service when `up` was killed: then the service
    stops in good order instead of holding its port and database for ever.
    """

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(False)

    def watch(self, gone: Callable[[], None]) -> Callable[[], None]:
        """Calls `gone()` once the other end is closed; returns what ends the watch."""
        loop = asyncio.get_running_loop()
        watching = True

        def stop() -> None:
            nonlocal watching
            if watching:
                watching = False
                loop.remove_reader(self._socket.fileno())

        def readable() -> None:
            try:
                data = self._socket.recv(64)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                stop()
                gone()

        loop.add_reader(self._socket.fileno(), readable)
        return stop

    def send(self, line: str) -> None:
        """Tells it one line; nothing if it is gone."""
        with contextlib.suppress(OSError):
            self._socket.send(f"{line}\n".encode())


@functools.cache
def inherited_supervisor() -> Supervision | None:
    """The socket to `headway up`; None where something else started this process."""
    fd = os.environ.pop(SUPERVISOR_FD, "")
    if not fd.isdigit():
        return None
    os.set_inheritable(int(fd), False)
    return Supervision(int(fd))


def notify(line: str) -> None:
    """Tells `headway up` and systemd (Type=notify) one `KEY=value` line; nothing where neither listens."""
    supervisor = inherited_supervisor()
    if supervisor is not None:
        supervisor.send(line)
    path = os.environ.get("NOTIFY_SOCKET", "")
    if path:
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect("\0" + path[1:] if path.startswith("@") else path)
            sender.sendall(line.encode())


def notify_failure(error: BaseException) -> None:
    """Tells them why the service could not start or go on, in one line."""
    sentence = str(error) if isinstance(error, HeadwayError) else repr(error)
    notify(f"STATUS={' '.join(sentence.split())[:1000]}")
