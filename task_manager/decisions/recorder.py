"""Numbers the frames of the decision log, and decides when a whole frame is due."""

from __future__ import annotations

from dataclasses import dataclass

from .frames import Frame

_CHAIN = 64  # at most so many frames follow a whole one
_WHOLE_EVERY_S = 3_600.0


@dataclass(frozen=True, slots=True)
class FrameRecord:
    """One frame to be stored, as the difference from ``before``."""

    id: int
    base: int
    at: float
    frame: Frame
    before: Frame | None


class FrameRecorder:
    """Remembers only the last frame that is on disk."""

    def __init__(self) -> None:
        self._next_id = 1
        self._base = 0
        self._base_at = 0.0
        self._last: Frame | None = None

    def start(self, last_id: int) -> None:
        """Starts with a whole frame; ids continue after ``last_id``."""
        self._next_id = last_id + 1
        self._last = None

    def record(self, frame: Frame, now: float) -> FrameRecord:
        """What to store for a frame; call ``committed`` once it is on disk."""
        number = self._next_id
        whole = self._last is None or number - self._base >= _CHAIN or abs(now - self._base_at) >= _WHOLE_EVERY_S
        return FrameRecord(number, number if whole else self._base, now, frame, None if whole else self._last)

    def committed(self, record: FrameRecord) -> None:
        """Notes that a record is on disk."""
        self._next_id = record.id + 1
        self._last = record.frame
        if record.base == record.id:
            self._base, self._base_at = record.id, record.at
