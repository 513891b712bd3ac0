"""The decision log as it grows: which frame follows which, and when a whole one is due."""

from __future__ import annotations

from dataclasses import dataclass

from .frames import Frame

_CHAIN = 64  # so many frames at most follow a whole one
_WHOLE_EVERY_S = 3_600.0


@dataclass(frozen=True, slots=True)
class FrameRecord:
    """One frame on its way to disk, as it differs from ``before``."""

    id: int
    base: int
    at: float
    frame: Frame
    before: Frame | None


class FrameRecorder:
    """Keeps the last frame that is on disk, and nothing else."""

    def __init__(self) -> None:
        self._next_id = 1
        self._base = 0
        self._base_at = 0.0
        self._last: Frame | None = None

    def start(self, last_id: int) -> None:
        """The next frame is whole; ids go on behind ``last_id``."""
        self._next_id = last_id + 1
        self._last = None

    def record(self, frame: Frame, now: float) -> FrameRecord:
        """What to write for a frame; nothing counts before ``wrote``."""
        number = self._next_id
        whole = self._last is None or number - self._base >= _CHAIN or abs(now - self._base_at) >= _WHOLE_EVERY_S
        return FrameRecord(number, number if whole else self._base, now, frame, None if whole else self._last)

    def committed(self, record: FrameRecord) -> None:
        """It is on disk."""
        self._next_id = record.id + 1
        self._last = record.frame
        if record.base == record.id:
            self._base, self._base_at = record.id, record.at
