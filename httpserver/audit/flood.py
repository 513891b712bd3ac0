"""How many lines those leave who are not signed in: who tries passwords all day must not fill the disk. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MOST_PLACES: Final = 5_000
_BURST: Final = 20
_EVERY_S: Final = 10.0
_BURST_OF_ALL: Final = 200
_EVERY_S_OF_ALL: Final = 1.0


@dataclass(slots=True)
class _Bucket:
    level: float
    at: float
    left_out: int = 0


class FloodGate:
    """Lets a burst through, of one address and of all together, and then a line now and then.

    A line that comes through says how many of its address were left out before.
    """

    def __init__(self) -> None:
        self._all = _Bucket(0.0, 0.0)
        self._of: dict[str, _Bucket] = {}

    def admit(self, address: str, now: float) -> int | None:
        """How many lines were left out before this one; None: this one is left out, too. ``now`` is monotonic."""
        mine = self._of.pop(address, None) or _Bucket(0.0, now)
        self._of[address] = mine
        while len(self._of) > _MOST_PLACES:
            del self._of[next(iter(self._of))]
        full = _level(mine, now, _EVERY_S) > _BURST - 1 or _level(self._all, now, _EVERY_S_OF_ALL) > _BURST_OF_ALL - 1
        if full:
            mine.left_out += 1
            return None
        _add(mine, now, _EVERY_S)
        _add(self._all, now, _EVERY_S_OF_ALL)
        left_out, mine.left_out = mine.left_out, 0
        return left_out


def _level(bucket: _Bucket, now: float, every_s: float) -> float:
    return max(0.0, bucket.level - (now - bucket.at) / every_s)


def _add(bucket: _Bucket, now: float, every_s: float) -> None:
    bucket.level, bucket.at = _level(bucket, now, every_s) + 1, now
