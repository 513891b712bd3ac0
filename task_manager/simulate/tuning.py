"""What each policy and constant would have given on one's own trace, beside the present one (`--tune`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .comparison import ContestantResult, Simulation, parse_contestants

# Without those that a person never chooses: the longest first, and `sjf`, under which the longest may wait for ever.
CANDIDATES = (
    "fifo",
    *(f"aging_sjf:beta={beta}" for beta in ("0.25", "0.5", "1", "2", "4")),
    "log_aging:c=800",
    *(f"log_aging:means={means}" for means in ("2", "4", "8", "12", "16", "24")),
    "hrrn",
    "adaptive",
)
_OF_USERS = ("fair",)
# Less is noise: the last digit of a mean must not decide.
_NOISE = 1e-6


def to_tune(simulation: Simulation) -> Simulation:
    """The simulation with all that is tried: its own policies, the present one first, and the usual ones.

    Promised starts are always counted, since they are part of what a policy costs.
    """
    named = [one.policy for one in simulation.contestants]
    discipline = simulation.contestants[0].discipline
    users = any(item.task.owner for item in simulation.tasks)
    known = {_plain(name) for name in named}
    more = [name for name in (*CANDIDATES, *(_OF_USERS if users else ())) if _plain(name) not in known]
    contestants = parse_contestants([*named, *more], [discipline.value])
    return replace(simulation, contestants=contestants, count_promises=True)


def mean_timeout_s(simulation: Simulation) -> float:
    """The mean timeout of all tasks, from which the constants of `log_aging` come."""
    return math.fsum(item.task.timeout_s for item in simulation.tasks) / len(simulation.tasks)


def _plain(name: str) -> str:
    """The name without parameters that it has anyway."""
    return {"aging_sjf:beta=1": "aging_sjf", "log_aging:means=12": "log_aging"}.get(name, name)


@dataclass(frozen=True, slots=True)
class TunedRow:
    """One policy, and whether it would have been no worse than the present one."""

    result: ContestantResult
    present: bool
    no_worse: bool  # neither in the mean nor in the longest wait

    @property
    def promised_share(self) -> float:
        """The share of the tasks that waited whose start was promised."""
        waited = sum(1 for life in self.result.outcome.lives if life.wait_s > 0)
        return self.result.outcome.promised / waited if waited else 0.0

    def to_json(self) -> dict[str, Any]:
        """The result as plain JSON."""
        return {
            **self.result.to_json(),
            "promised_share": self.promised_share,
            "present": self.present,
            "no_worse_than_present": self.no_worse,
        }


def tuned(results: Sequence[ContestantResult]) -> list[TunedRow]:
    """The results beside that of the present policy, which is the first. A policy that failed is never no worse."""
    base = results[0].measures
    rows = []
    for i, result in enumerate(results):
        mine = result.measures
        no_worse = (
            not result.outcome.policy_failed
            and mine.mean_wait_s <= base.mean_wait_s + _NOISE
            and mine.max_wait_s <= base.max_wait_s + _NOISE
        )
        rows.append(TunedRow(result, i == 0, no_worse))
    return rows


def verdict(rows: Sequence[TunedRow]) -> str:
    """One sentence: which would have been no worse in mean and maximum."""
    name = rows[0].result.contestant.name
    better = [row.result.contestant.name for row in rows[1:] if row.no_worse]
    if not better:
        return f"None of the others is no worse than {name} in both the mean and the longest wait."
    return f"No worse than {name} in both the mean and the longest wait: {', '.join(better)}."
