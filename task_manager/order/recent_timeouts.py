"""The mean timeout of the tasks that came last. `log_aging` takes its constant from it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

WINDOW = 2_000
FEWEST = 25  # the mean of fewer says nothing
_MICRO = 1_000_000


class RecentTimeouts:
    """The timeouts of the last ``most`` tasks that came, the oldest first. The sum is of whole numbers, so exact."""

    def __init__(self, timeouts: Iterable[float] = (), most: int = WINDOW) -> None:
        self._most = most
        self._timeouts = deque((_micros(timeout_s) for timeout_s in timeouts), maxlen=most)
        self._sum = sum(self._timeouts)

    def add(self, timeout_s: float) -> int | None:
        """A task came. Returns what fell out of the window, for ``take_back``."""
        fallen = self._timeouts.popleft() if len(self._timeouts) == self._most else None
        self._timeouts.append(_micros(timeout_s))
        self._sum += self._timeouts[-1] - (fallen or 0)
        return fallen

    def take_back(self, fallen: int | None) -> None:
        """Undoes the last ``add``, which returned ``fallen``."""
        self._sum -= self._timeouts.pop() - (fallen or 0)
        if fallen is not None:
            self._timeouts.appendleft(fallen)

    @property
    def mean_s(self) -> float:
        """The mean in seconds; 0: not known yet, since too few came."""
        return self._sum / len(self._timeouts) / _MICRO if len(self._timeouts) >= FEWEST else 0.0

    def copy(self) -> RecentTimeouts:
        """One for what-ifs."""
        made = RecentTimeouts(most=self._most)
        made._timeouts, made._sum = self._timeouts.copy(), self._sum
        return made


def _micros(timeout_s: float) -> int:
    return round(timeout_s * _MICRO)
