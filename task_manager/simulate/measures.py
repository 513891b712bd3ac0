"""The measures of a simulation. All times are in seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

# The usual bound of the bounded slowdown (Feitelson et al., 1997). It keeps very short tasks from dominating the mean.
SLOWDOWN_BOUND_S = 10.0


@dataclass(frozen=True, slots=True)
class TaskLife:
    """When one task was queued, started and ended, in seconds by the simulation's clock."""

    queued_s: float  # from when it could start: its submission, or the end of the last task that it needs
    start_s: float
    end_s: float
    gpus: int
    cpu_centi: int
    job: str
    submit_s: float  # of its job
    timed_out: bool = False

    @property
    def wait_s(self) -> float:
        """From queued to started."""
        return self.start_s - self.queued_s

    @property
    def run_s(self) -> float:
        """From started to ended."""
        return self.end_s - self.start_s

    @property
    def finished_s(self) -> float:
        """From queued to ended: wait and run."""
        return self.end_s - self.queued_s


@dataclass(frozen=True, slots=True)
class Measures:
    """The measures of all tasks; ``finished`` is wait + run.

    Percentiles are interpolated between the two nearest values. Utilisation is a share from 0 to 1.
    """

    tasks: int
    timed_out: int
    mean_wait_s: float
    median_wait_s: float
    p95_wait_s: float
    max_wait_s: float
    mean_finished_s: float
    median_finished_s: float
    p95_finished_s: float
    max_finished_s: float
    mean_bounded_slowdown: float
    longest_decile_max_wait_s: float
    jobs: int
    mean_job_finished_s: float
    makespan_s: float
    utilisation: float

    def to_json(self) -> dict[str, Any]:
        """All measures by name."""
        return asdict(self)


def measure(lives: Sequence[TaskLife], *, gpus: int, cpu_centi: int = 0) -> Measures:
    """The measures of a simulation on a cluster of so many GPUs (and hundredths of a CPU, where it has no GPUs).

    Raises:
        ValueError: there are no tasks.
    """
    if not lives:
        raise ValueError("nothing was simulated")
    waits = sorted(life.wait_s for life in lives)
    finished = sorted(life.finished_s for life in lives)
    makespan_s = max(life.end_s for life in lives) - min(life.submit_s for life in lives)
    jobs: dict[str, float] = {}
    for life in lives:
        jobs[life.job] = max(jobs.get(life.job, 0.0), life.end_s - life.submit_s)
    return Measures(
        tasks=len(lives),
        timed_out=sum(life.timed_out for life in lives),
        mean_wait_s=_mean(waits),
        median_wait_s=percentile(waits, 50),
        p95_wait_s=percentile(waits, 95),
        max_wait_s=waits[-1],
        mean_finished_s=_mean(finished),
        median_finished_s=percentile(finished, 50),
        p95_finished_s=percentile(finished, 95),
        max_finished_s=finished[-1],
        mean_bounded_slowdown=_mean([bounded_slowdown(life) for life in lives]),
        longest_decile_max_wait_s=longest_decile_max_wait_s(lives),
        jobs=len(jobs),
        mean_job_finished_s=_mean(list(jobs.values())),
        makespan_s=makespan_s,
        utilisation=_utilisation(lives, makespan_s, gpus, cpu_centi),
    )


def percentile(ordered: Sequence[float], percent: float) -> float:
    """A percentile of values in ascending order, interpolated between two neighbours as numpy and spreadsheets do."""
    at = (len(ordered) - 1) * percent / 100
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (at - below)


def bounded_slowdown(life: TaskLife) -> float:
    """(wait + run) / run, where a run counts as at least 10 s; never below 1 (Feitelson et al., 1997)."""
    return max(1.0, life.finished_s / max(life.run_s, SLOWDOWN_BOUND_S))


def longest_decile_max_wait_s(lives: Sequence[TaskLife]) -> float:
    """The longest wait among the tenth of the tasks that ran longest (at least one task)."""
    count = max(1, len(lives) // 10)
    longest = sorted(lives, key=lambda life: life.run_s, reverse=True)[:count]
    return max(life.wait_s for life in longest)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _utilisation(lives: Sequence[TaskLife], makespan_s: float, gpus: int, cpu_centi: int) -> float:
    """The share of GPU-seconds that tasks held between the first submission and the last end.

    In a cluster without GPUs, CPU-seconds count.
    """
    held, there = math.fsum(life.gpus * life.run_s for life in lives), gpus
    if not gpus:
        held, there = math.fsum(life.cpu_centi * life.run_s for life in lives), cpu_centi
    return held / (there * makespan_s) if there and makespan_s else 0.0
