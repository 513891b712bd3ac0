"""Pauses that grow with each failed try. Pure: the caller sleeps."""

from __future__ import annotations

_MOST_STEPS = 64  # far behind any cap, and no power overflows


def grown_s(times: int, *, first_s: float, most_s: float, factor: float = 2.0) -> float:
    """A pause of `first_s` seconds that has grown so many times; it is never above `most_s`."""
    return min(most_s, first_s * factor ** min(times, _MOST_STEPS))


class Backoff:
    """The pauses of one loop: `first_s` seconds, then `factor` times as long each time, up to `most_s`."""

    def __init__(self, first_s: float, most_s: float, *, factor: float = 2.0) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._factor = factor
        self._taken = 0

    def next_s(self) -> float:
        """The pause before the next try; the one after it is longer."""
        pause_s = grown_s(self._taken, first_s=self._first_s, most_s=self._most_s, factor=self._factor)
        self._taken += 1
        return pause_s

    def reset(self) -> None:
        """A try went well: the next pause is the first one again."""
        self._taken = 0
