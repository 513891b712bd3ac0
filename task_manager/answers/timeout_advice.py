"""What past runs say of a timeout. It advises; nobody applies it but the person whose task it is.

Which runs count: those that succeeded give run times. One that its own timeout ended ran at least so long, and what it
would have needed is not known: it counts among the runs that a timeout may kill, and pulls the advice up where its
limit lay within reach of the run times. All others (failed early, cancelled, lost) say nothing of how long the work
takes. Where several were ended by their timeouts, and more than succeeded (or hardly any did), that alone is said, and
no timeout is suggested: any figure would be a guess.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from headway.units import format_duration

FEWEST = 3  # runs that succeeded (or that a timeout ended), else nothing is said
LATEST = 200  # runs looked at
_MANY = 20  # from here on the longest few may be odd ones
_QUANTILE = 0.95
_MARGIN, _WIDE_MARGIN = 1.2, 1.5
_REACH = 2.0  # a limit up to so many times the longest run time cut off work that went well
_MUCH = 1.5  # more than so many times the advice is worth a word
# Up to (seconds) in steps of (seconds): timeouts that people write.
_STEPS = ((120, 10), (600, 60), (1_800, 120), (3_600, 300), (10_800, 900), (43_200, 1_800), (172_800, 3_600))
_LAST_STEP = 21_600


class AdviceBasis(StrEnum):
    """What the runs have in common with the task, all by the same account."""

    COMMAND = "command"  # image and command
    TASK = "task"  # the name


@dataclass(frozen=True, slots=True)
class PastRun:
    """A past run: how long it took, or the timeout that ended it."""

    seconds: float
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class RunTimeStatistics:
    """What the latest runs say, whatever is asked for now. Times in seconds, of those that succeeded."""

    runs: tuple[PastRun, ...]
    suggested_s: float
    succeeded: int
    timed_out: int
    shortest_s: float
    median_s: float
    longest_s: float
    usual_s: float  # nearly all of them took no longer

    def killed_share(self, timeout_s: float) -> float:
        """Of all runs, which share this timeout would have ended for certain; 0 to 1."""
        return self.killed(timeout_s) / len(self.runs)

    def killed(self, timeout_s: float) -> int:
        """How many of them."""
        return sum(run.seconds >= timeout_s if run.timed_out else run.seconds > timeout_s for run in self.runs)

    def unknown(self, timeout_s: float) -> int:
        """How many more it may have ended: a shorter timeout ended them before, and what they needed is not known."""
        return sum(run.timed_out and run.seconds < timeout_s for run in self.runs)


@dataclass(frozen=True, slots=True)
class MostlyTimedOut:
    """Most of the latest runs were ended by their timeouts: how long they need is not known. Times in seconds."""

    succeeded: int
    timed_out: int
    longest_limit_s: float


def learn(runs: Iterable[PastRun]) -> RunTimeStatistics | MostlyTimedOut | None:
    """What the runs say; None: too little."""
    runs = tuple(runs)
    times = sorted(run.seconds for run in runs if not run.timed_out)
    cut_off = [run.seconds for run in runs if run.timed_out]
    if len(cut_off) >= FEWEST and (len(times) < FEWEST or len(cut_off) > len(times)):
        return MostlyTimedOut(len(times), len(cut_off), max(cut_off))
    if len(times) < FEWEST:
        return None
    usual_s = times[math.ceil(_QUANTILE * len(times)) - 1] if len(times) >= _MANY else times[-1]
    # One that hung until a limit far off says nothing; one that was cut off near the others' times would have gone on.
    near = [limit for limit in cut_off if limit <= _REACH * times[-1]]
    needed_s = max(usual_s, *near) * _WIDE_MARGIN if near else usual_s * _MARGIN
    return RunTimeStatistics(
        runs, rounded_up(needed_s), len(times), len(cut_off), times[0], times[(len(times) - 1) // 2], times[-1], usual_s
    )


def rounded_up(seconds: float) -> float:
    """To a timeout that a person would write, at least 10 s."""
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
    """The advice for people. ``seniority_per_s``: how many seconds of waiting one second of timeout costs, where the
    queue's rule is such; ``task``: the name that the runs share."""
    what = _what(basis, task)
    suggested = format_duration(experience.suggested_s)
    words = [f"{experience.succeeded} runs of {what} by you took {_took(experience)}"]
    if experience.timed_out:
        ended = "1 more was" if experience.timed_out == 1 else f"{experience.timed_out} more were"
        limit = _said(max(run.seconds for run in experience.runs if run.timed_out))
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
    """For people, where no timeout can be suggested."""
    ended = f"{cut_short.timed_out} runs of {_what(basis)} by you were ended by a timeout of up to "
    ended += f"{_said(cut_short.longest_limit_s)} before they were done"
    done = f"only {cut_short.succeeded} succeeded" if cut_short.succeeded else "none succeeded"
    words = f"{ended} and {done}, so how long it needs is not known."
    if asked_s <= cut_short.longest_limit_s:
        words += f" It asks for {format_duration(asked_s)} now, which was too little then."
    return words


def _what(basis: AdviceBasis, task: str = "") -> str:
    if basis is AdviceBasis.COMMAND:
        return "this command"
    return f"tasks named {task}" if task else "tasks of this name"


def _took(experience: RunTimeStatistics) -> str:
    shortest, usual, longest = (_said(s) for s in (experience.shortest_s, experience.usual_s, experience.longest_s))
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


def _said(seconds: float) -> str:
    """As exact as it matters to people: tenths up to ten seconds, seconds up to an hour, then minutes."""
    if seconds < 10:
        return format_duration(max(0.1, round(seconds, 1)))
    return format_duration(round(seconds) if seconds < 3_600 else 60 * round(seconds / 60))
