"""Free TCP ports on the loopback interface."""

from __future__ import annotations

import socket

# Ports handed out by this process: the kernel may name one again as soon as its probe socket is closed.
_given: set[int] = set()


def free_port() -> int:
    """A port that nobody listens on now, and that this test run has not been given before."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if port not in _given:
            _given.add(port)
            return port


def free_ports(count: int) -> list[int]:
    """``count`` different free ports."""
    return [free_port() for _ in range(count)]
