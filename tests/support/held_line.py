"""A line to a server that carries so many bytes of a request and then holds, until a test lets it go on."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

_PIECE = 1 << 16


class HeldLine:
    """A proxy on loopback; ``url`` leads through it to ``port``. What is held is held in the midst of a request."""

    def __init__(self, port: int, after: int) -> None:
        self._port, self._left = port, after
        self._lock = threading.Lock()
        self._open = threading.Event()
        self.held = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def release(self) -> None:
        """From now on all goes through."""
        self._open.set()

    def close(self) -> None:
        self._open.set()
        self._listening.close()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        # Nobody listens there while the server is down: the client sees its line cut.
        with (
            client,
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", self._port)) as server,
        ):
            back = threading.Thread(target=_copy, args=(server, client), daemon=True)
            back.start()
            while data := client.recv(_PIECE):
                self._wait(len(data))
                server.sendall(data)
            server.shutdown(socket.SHUT_WR)
            back.join()

    def _wait(self, count: int) -> None:
        with self._lock:
            self._left -= count
            over = self._left < 0
        if over:
            self.held.set()
            self._open.wait()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_PIECE):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def a_held_line(port: int, *, after: int) -> Iterator[HeldLine]:
    """Gone at the end."""
    line = HeldLine(port, after)
    try:
        yield line
    finally:
        line.close()
