"""HTTP as no good client speaks it: bytes into a socket, bytes out."""

from __future__ import annotations

import socket
from dataclasses import dataclass


@dataclass(frozen=True)
class RawAnswer:
    """What came back; ``head`` is the status line and headers as they were sent."""

    head: bytes
    body: bytes

    @property
    def status(self) -> int:
        return int(self.head.split(b" ", 2)[1])

    def header(self, name: str) -> list[bytes]:
        """All values of one header."""
        pairs = [line.partition(b":") for line in self.head.split(b"\r\n")[1:]]
        return [value.strip() for key, _, value in pairs if key.strip().lower() == name.lower().encode()]


def exchange(port: int, sent: bytes, *, timeout_s: float = 30.0) -> RawAnswer:
    """Sends ``sent`` as it is, and reads until the server closes (ask for it with ``Connection: close``)."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_s) as line:
        line.sendall(sent)
        received = bytearray()
        while data := line.recv(1 << 16):
            received += data
    head, _, body = bytes(received).partition(b"\r\n\r\n")
    return RawAnswer(head, body)


def get(port: int, target: str | bytes, token: str = "", *headers: str, method: str = "GET") -> RawAnswer:
    """One request with the target exactly as given."""
    target = target.encode() if isinstance(target, str) else target
    lines = [f"Host: 127.0.0.1:{port}", "Connection: close", *headers]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    return exchange(
        port, method.encode() + b" " + target + b" HTTP/1.1\r\n" + "\r\n".join(lines).encode() + b"\r\n\r\n"
    )
