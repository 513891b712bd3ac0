"""Suggests a timeout from past runs. It only advises: the owner of the task decides.

Runs that succeeded give run times. A run that its timeout ended ran at least that long, and how long it needed is not
known. It counts among the runs that a timeout may kill. It raises the suggestion if its timeout was near the run times.
All other runs (failed early, cancelled, lost) say nothing about how long the work takes. If timeouts ended several
runs, and more than succeeded, no timeout is suggested: any figure would be a guess.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from headway.units import format_duration

FEWEST = 3  # runs that succeeded (or that a timeout ended); with fewer there is no advice
LATEST = 200  # so many past runs count
GONE = " Runs of jobs that were removed are not known any more."
_MANY = 20  # from so many runs on, the longest few are left out as exceptions
_QUANTILE = 0.95
_MARGIN, _WIDE_MARGIN = 1.2, 1.5
_REACH = 2.0  # a timeout up to so many times the longest run time probably ended healthy work
_MUCH = 1.5  # from so many times the suggestion on, the sentence says that less would do
# (up to, step) in seconds: suggestions are rounded to timeouts that people write.
_STEPS = ((120, 10), (600, 60), (1_800, 120), (3_600, 300), (10_800, 900), (43_200, 1_800), (172_800, 3_600))
_LAST_STEP = 21_600


class AdviceBasis(StrEnum):
    """What the runs have in common with the task; all are of the same account."""

    COMMAND = "command"  # image and command
    TASK = "task"  # the name


@dataclass(frozen=True, slots=True)
class PastRun:
    """A past run: how long it took, or the timeout that ended it."""

    seconds: float
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class RunTimeStatistics:
    """The run times of the latest runs. Times in seconds, of the runs that succeeded."""

    runs: tuple[PastRun, ...]
    suggested_s: float
    succeeded: int
    timed_out: int
    shortest_s: float
    median_s: float
    longest_s: float
    usual_s: float  # nearly all runs took no longer

    def killed_share(self, timeout_s: float) -> float:
        """Which share of all runs this timeout would surely have ended; 0 to 1."""
        return self.killed(timeout_s) / len(self.runs)

    def killed(self, timeout_s: float) -> int:
        """How many runs this timeout would surely have ended."""
        return sum(run.seconds >= timeout_s if run.timed_out else run.seconds > timeout_s for run in self.runs)

    def unknown(self, timeout_s: float) -> int:
        """How many more it might have ended: a shorter timeout ended them, so what they needed is not known."""
        return sum(run.timed_out and run.seconds < timeout_s for run in self.runs)


@dataclass(frozen=True, slots=True)
class MostlyTimedOut:
    """Timeouts ended most of the latest runs, so how long they need is not known. Times in seconds."""

    succeeded: int
    timed_out: int
    longest_limit_s: float


def learn(runs: Iterable[PastRun]) -> RunTimeStatistics | MostlyTimedOut | None:
    """Statistics of these runs; None: there are too few."""
    runs = tuple(runs)
    times = sorted(run.seconds for run in runs if not run.timed_out)
    cut_off = [run.seconds for run in runs if run.timed_out]
    if len(cut_off) >= FEWEST and (len(times) < FEWEST or len(cut_off) > len(times)):
        return MostlyTimedOut(len(times), len(cut_off), max(cut_off))
    if len(times) < FEWEST:
        return None
    usual_s = times[math.ceil(_QUANTILE * len(times)) - 1] if len(times) >= _MANY else times[-1]
    # A run that hung until a far timeout says nothing. One that was ended near the others' run times needed more time.
    near = [limit for limit in cut_off if limit <= _REACH * times[-1]]
    needed_s = max(usual_s, *near) * _WIDE_MARGIN if near else usual_s * _MARGIN
    return RunTimeStatistics(
        runs, rounded_up(needed_s), len(times), len(cut_off), times[0], times[(len(times) - 1) // 2], times[-1], usual_s
    )


def rounded_up(seconds: float) -> float:
    """Rounds up to a timeout that a person would write, at least 10 s."""
    step = next((step for most, step in _STEPS if seconds <= most), _LAST_STEP)
    return float(max(1, math.ceil(seconds / step)) * step)


def sentence(
    experience: RunTimeStatistics,
    basis: AdviceBasis,
    asked_s: float,
    *,
    task: str = "",
    seniority_per_s: float | None = None,
) -> str:
    """The advice as a sentence. ``seniority_per_s``: how many seconds of waiting one second of timeout costs, if the
    policy works like that. ``task``: the name that the runs share."""
    what = _what(basis, task)
    suggested = format_duration(experience.suggested_s)
    words = [f"{experience.succeeded} runs of {what} by you took {_run_times(experience)}"]
    if experience.timed_out:
        ended = "1 more was" if experience.timed_out == 1 else f"{experience.timed_out} more were"
        limit = _rounded(max(run.seconds for run in experience.runs if run.timed_out))
        words.append(f", {ended} ended by a timeout of up to {limit} before they were done")
    words.append(f"; {suggested} would have killed {_share(experience, experience.suggested_s)}.")
    if asked_s > _MUCH * experience.suggested_s:
        words.append(f" This one asks for {format_duration(asked_s)}")
        gained_s = (asked_s - experience.suggested_s) * (seniority_per_s or 0.0)
        if gained_s >= 1:
            gained = format_duration(math.floor(gained_s))
            words.append(f"; with {suggested} it would have its turn as if submitted {gained} earlier")
        words.append(".")
    elif asked_s < experience.suggested_s and experience.killed(asked_s):
        words.append(
            f" The {format_duration(asked_s)} that it asks for would have killed {_share(experience, asked_s)}."
        )
    return "".join(words)


def warning(cut_short: MostlyTimedOut, basis: AdviceBasis, asked_s: float) -> str:
    """The sentence where no timeout can be suggested."""
    ended = f"{cut_short.timed_out} runs of {_what(basis)} by you were ended by a timeout of up to "
    ended += f"{_rounded(cut_short.longest_limit_s)} before they were done"
    done = f"only {cut_short.succeeded} succeeded" if cut_short.succeeded else "none succeeded"
    words = f"{ended} and {done}, so how long it needs is not known."
    if asked_s <= cut_short.longest_limit_s:
        words += f" It asks for {format_duration(asked_s)} now, which was too little then."
    return words


def _what(basis: AdviceBasis, task: str = "") -> str:
    if basis is AdviceBasis.COMMAND:
        return "this command"
    return f"tasks named {task}" if task else "tasks of this name"


def _run_times(experience: RunTimeStatistics) -> str:
    shortest, usual, longest = (_rounded(s) for s in (experience.shortest_s, experience.usual_s, experience.longest_s))
    if shortest == longest:
        return f"about {longest}"
    if usual != longest:
        return f"{shortest} to {longest}, {100 * _QUANTILE:.0f} % of them at most {usual}"
    return f"{shortest} to {longest}"


def _share(experience: RunTimeStatistics, timeout_s: float) -> str:
    count = experience.killed(timeout_s)
    percent = 100 * experience.killed_share(timeout_s)
    shown = "under 1" if 0 < percent < 1 else f"{percent:.0f}"
    among = f"all {len(experience.runs)}" if experience.timed_out else "them"
    unknown = experience.unknown(timeout_s)
    perhaps = f", and perhaps {unknown} of those that were cut short before that" if unknown else ""
    return f"{count or 'none'} of {among} ({shown} %){perhaps}"


def _rounded(seconds: float) -> str:
    """A rounded duration: tenths up to ten seconds, seconds up to an hour, then minutes."""
    if seconds < 10:
        return format_duration(max(0.1, round(seconds, 1)))
    return format_duration(round(seconds) if seconds < 3_600 else 60 * round(seconds / 60))
