"""The platform log: short lines about what Headway did with one attempt, for the task's owner."""

from __future__ import annotations

import time


def platform_log_line(at: float, text: str) -> bytes:
    """One line. ``at`` is epoch seconds, shown in UTC. Line breaks in ``text`` become spaces."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))
    return f"{stamp}.{int(at % 1 * 1000):03d}Z {' '.join(text.split())}\n".encode("utf-8", "replace")
