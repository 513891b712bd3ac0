"""How a state looks: one tone for each word, from which the command line and the page take their colours."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from ..states import Admission, AttemptState, JobState, NodeHealth, TaskState


class Tone(StrEnum):
    GOOD = "good"
    BAD = "bad"
    LIVE = "live"  # work goes on
    WAIT = "wait"
    MUTED = "muted"


_TONES: Final[Mapping[str, Tone]] = {
    "PENDING": Tone.WAIT,
    "BLOCKED": Tone.MUTED,
    "QUEUED": Tone.WAIT,
    "PLACED": Tone.WAIT,
    "PULLING": Tone.LIVE,
    "STARTING": Tone.LIVE,
    "RUNNING": Tone.LIVE,
    "STOPPING": Tone.WAIT,
    "SUCCEEDED": Tone.GOOD,
    "FAILED": Tone.BAD,
    "TIMED_OUT": Tone.BAD,
    "OUT_OF_MEMORY": Tone.BAD,
    "LOST": Tone.BAD,
    "CANCELLED": Tone.MUTED,
    "SKIPPED": Tone.MUTED,
    "READY": Tone.GOOD,
    "SUSPECT": Tone.WAIT,
    "DOWN": Tone.BAD,
    "OPEN": Tone.GOOD,
    "CORDONED": Tone.WAIT,
    "DRAINING": Tone.WAIT,
    "DRAINED": Tone.MUTED,
}
STATES: Final[tuple[type[StrEnum], ...]] = (JobState, TaskState, AttemptState, NodeHealth, Admission)
"""All that has a tone. A word in several of these means the same in each."""


def tones_of(states: type[StrEnum]) -> dict[str, Tone]:
    """The tone of each state.

    Raises:
        KeyError: one has none.
    """
    return {state.value: _TONES[state.value] for state in states}


def tone_of(word: str) -> Tone:
    """The tone of a state's word; one of a newer version is muted."""
    return _TONES.get(word, Tone.MUTED)
