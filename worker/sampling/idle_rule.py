"""The rule against idle GPUs: how long an attempt's GPUs were hardly used, and what follows. Pure.

A reading speaks for the time since the reading before it. Time that nobody looked at, or of which a GPU tells nothing,
never counts as idle. After a longer one the window begins anew, since the GPUs may have worked meanwhile.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from headway.model.gpu_readings import GpuReadings
from headway.units import format_duration

FORGIVEN_S = 60.0  # time without readings that lasts longer begins the window anew


class IdleMode(enum.StrEnum):
    """As in the configuration."""

    OFF = "off"
    DRY_RUN = "dry_run"  # it only says what it would do
    ON = "on"


class IdleStep(enum.IntEnum):
    """How far the window is. Each step is told once."""

    NONE = 0
    HALF = 1
    THREE_QUARTERS = 2
    OVER = 3


@dataclass(frozen=True, slots=True)
class IdleRule:
    """``below``: of utilisation, 0 to 1. ``for_s``: the window."""

    mode: IdleMode
    below: float
    for_s: float

    def step(self, idle_s: float) -> IdleStep:
        """The step that is reached after so much idle time."""
        if idle_s >= self.for_s:
            return IdleStep.OVER
        if idle_s >= 0.75 * self.for_s:
            return IdleStep.THREE_QUARTERS
        return IdleStep.HALF if idle_s >= 0.5 * self.for_s else IdleStep.NONE


class IdleSpan:
    """How long all GPUs of one attempt have been idle by now.

    ``longest_gap_s``: readings farther apart have a gap between them.
    """

    def __init__(self, rule: IdleRule, longest_gap_s: float) -> None:
        self._rule = rule
        self._longest_gap_s = longest_gap_s
        self._before: float | None = None
        self._unknown_s = 0.0
        self._told = IdleStep.NONE
        self.idle_s = 0.0

    def add(self, at: float, gpus: Sequence[GpuReadings]) -> IdleStep:
        """The step that these readings reach first; NONE: no new one. ``at`` is in seconds of any clock."""
        before, self._before = self._before, at
        span_s = max(0.0, at - before) if before is not None else 0.0
        used = [gpu.utilisation for gpu in gpus]
        if not used or any(one is not None and one >= self._rule.below for one in used):
            self._begin_anew()
            return IdleStep.NONE
        if span_s > self._longest_gap_s or any(one is None for one in used):
            self._unknown_s += span_s
            if self._unknown_s > FORGIVEN_S:
                self._begin_anew()
            return IdleStep.NONE
        self._unknown_s = 0.0
        self.idle_s += span_s
        step = self._rule.step(self.idle_s)
        if step <= self._told:
            return IdleStep.NONE
        self._told = step
        return step

    def go_on(self) -> None:
        """All readings before a restart are added, and their steps count as told.

        A window that was over then has ended nothing, so this rule did not hold yet. Its second half begins anew:
        warnings come first.
        """
        if self._told is IdleStep.OVER:
            self.idle_s = self._rule.for_s / 2
            self._told = IdleStep.NONE

    def _begin_anew(self) -> None:
        self.idle_s = self._unknown_s = 0.0
        self._told = IdleStep.NONE


def warning_sentence(rule: IdleRule, gpus: int, idle_s: float) -> str:
    """Half of the window, or three quarters, are over."""
    seen = _seen(rule, gpus, idle_s)
    if rule.mode is IdleMode.DRY_RUN:
        return f"{seen}. If that lasted {_time(rule.for_s)}, it would be ended where this rule is on."
    return f"{seen}. If that lasts {_time(rule.for_s)}, it is ended, so that others can use {_them(gpus)}."


def would_end_sentence(rule: IdleRule, gpus: int, idle_s: float) -> str:
    """The window is over, but the rule only says what it would do."""
    return f"{_seen(rule, gpus, idle_s)}. It would be ended now where this rule is on. Here it goes on."


def end_sentence(rule: IdleRule, gpus: int, idle_s: float) -> str:
    """Why it was ended, for its owner."""
    every = "Its GPU was" if gpus == 1 else f"All of its {gpus} GPUs were"
    return f"{every} used less than {_share(rule.below)} for {_time(idle_s)}, so Headway ended it."


def _seen(rule: IdleRule, gpus: int, idle_s: float) -> str:
    every = "Its GPU has been" if gpus == 1 else f"All of its {gpus} GPUs have been"
    return f"{every} used less than {_share(rule.below)} for {_time(idle_s)}"


def _them(gpus: int) -> str:
    return "it" if gpus == 1 else "them"


def _share(share: float) -> str:
    return f"{share * 100:g} %"


def _time(seconds: float) -> str:
    return format_duration(round(seconds))
