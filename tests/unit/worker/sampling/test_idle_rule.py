"""When the rule against idle GPUs warns, and when it ends."""

from __future__ import annotations

import pytest

from headway.model.gpu_readings import GpuReadings
from worker.sampling.idle_rule import (
    FORGIVEN_S,
    IdleMode,
    IdleRule,
    IdleSpan,
    IdleStep,
    end_sentence,
    warning_sentence,
    would_end_sentence,
)

RULE = IdleRule(IdleMode.ON, below=0.05, for_s=400.0)
GAP_S = 3.0


class Attempt:
    """Two GPUs, looked at every second."""

    def __init__(self) -> None:
        self.span, self.at = IdleSpan(RULE, GAP_S), 1_000.0
        self.told: list[tuple[float, IdleStep]] = []

    def look(self, seconds: int, *used: float | None) -> None:
        for _ in range(seconds):
            self.at += 1
            step = self.span.add(self.at, [GpuReadings(utilisation=one) for one in used])
            if step is not IdleStep.NONE:
                self.told.append((self.at - 1_001, step))

    @property
    def steps(self) -> list[IdleStep]:
        return [step for _, step in self.told]


@pytest.fixture
def attempt() -> Attempt:
    return Attempt()


def test_two_warnings_come_before_the_end_and_each_once(attempt: Attempt) -> None:
    attempt.look(1_000, 0.0, 0.049)
    assert attempt.told == [(200, IdleStep.HALF), (300, IdleStep.THREE_QUARTERS), (400, IdleStep.OVER)]


def test_one_gpu_that_works_is_enough(attempt: Attempt) -> None:
    attempt.look(1_000, 0.0, 0.05)
    assert attempt.told == []
    attempt.look(399, 0.0, 0.0)
    attempt.look(1, 0.9, 0.0)
    attempt.look(399, 0.0, 0.0)
    assert attempt.steps == [IdleStep.HALF, IdleStep.THREE_QUARTERS] * 2


def test_unknown_time_never_counts_as_idle(attempt: Attempt) -> None:
    attempt.look(2_000, 0.0, None)
    assert attempt.told == []
    attempt.look(2_000, None, None)
    assert attempt.told == []
    assert attempt.span.idle_s == 0


def test_a_short_gap_stops_the_window_and_a_long_one_begins_it_anew(attempt: Attempt) -> None:
    attempt.look(151, 0.0, 0.0)
    attempt.at += FORGIVEN_S - 1
    attempt.look(50, 0.0, 0.0)  # the first of them ends the gap
    assert attempt.told == []
    attempt.look(1, 0.0, 0.0)
    assert attempt.steps == [IdleStep.HALF]
    attempt.at += FORGIVEN_S
    attempt.look(350, 0.0, 0.0)
    assert attempt.steps == [IdleStep.HALF, IdleStep.HALF, IdleStep.THREE_QUARTERS]


def test_short_gaps_that_follow_each_other_are_a_long_one(attempt: Attempt) -> None:
    attempt.look(200, 0.0, 0.0)
    for _ in range(20):  # never two readings in a row
        attempt.at += 4
        attempt.look(1, 0.0, 0.0)
    assert attempt.span.idle_s == 0


def test_a_clock_that_is_set_back_is_no_idle_time(attempt: Attempt) -> None:
    attempt.look(101, 0.0, 0.0)
    attempt.at -= 5_000
    attempt.look(1, 0.0, 0.0)
    assert attempt.span.idle_s == 100


def test_an_attempt_without_gpus_is_never_idle(attempt: Attempt) -> None:
    attempt.look(1_000)
    assert attempt.told == []


def test_sentences_name_the_numbers() -> None:
    assert warning_sentence(RULE, 1, 200) == (
        "Its GPU has been used less than 5 % for 3m20s. If that lasts 6m40s, it is ended, so that others can use it."
    )
    assert "it would be ended where this rule is on" in warning_sentence(IdleRule(IdleMode.DRY_RUN, 0.05, 400), 2, 200)
    assert "Here it goes on." in would_end_sentence(RULE, 2, 400)
    assert end_sentence(RULE, 2, 3_600.2) == ("All of its 2 GPUs were used less than 5 % for 1h, so Headway ended it.")
