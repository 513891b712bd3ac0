"""Free TCP ports on the loopback interface."""

from __future__ import annotations

import os
import random
import socket

# Ports handed out by this process: one may be free again as soon as its probe socket is closed.
_given: set[int] = set()
# Test processes that run side by side draw from ranges of their own, below those that kernels give out by themselves:
# a port is often used some seconds after it was found free.
_RANGE = 2_000
_FIRST = 12_000 + _RANGE * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 10)


def free_port() -> int:
    """A port that nobody listens on now, and that this test run has not been given before."""
    while True:
        port = random.randrange(_FIRST, _FIRST + _RANGE)
        if port in _given and len(_given) < _RANGE // 2:
            continue
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port


def free_ports(count: int) -> list[int]:
    """``count`` different free ports."""
    return [free_port() for _ in range(count)]
