"""What happens in a chaos run, and when: drawn from a seed, or read from a file. Pure but for the file."""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .faults import KINDS, Fault
from .workload import JobPlan, TaskPlan, draw_jobs

AT_ONCE = 3  # faults
_APART_S = 3.0  # between two faults of one part: what healed has a moment to be well
_FIRST_S = 4.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """One whole run of so many seconds."""

    seed: int
    seconds: float
    jobs: tuple[JobPlan, ...]
    faults: tuple[Fault, ...]

    def write(self, path: Path) -> None:
        """Keeps it for a replay."""
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", "utf-8")


def draw(seed: int, seconds: float) -> Schedule:
    """The run of a seed: the same seed and length make the same run."""
    return Schedule(
        seed,
        seconds,
        draw_jobs(random.Random(f"jobs {seed}"), seconds),
        _draw_faults(random.Random(f"faults {seed}"), seconds),
    )


def read(path: Path) -> Schedule:
    """A run that :meth:`Schedule.write` kept.

    Raises:
        ValueError: the file holds none.
    """
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        faults = tuple(Fault(**fault) for fault in found["faults"])
        jobs = tuple(_job(job) for job in found["jobs"])
        schedule = Schedule(int(found["seed"]), float(found["seconds"]), jobs, faults)
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} holds no schedule of a chaos run ({error}).") from error
    unknown = sorted({fault.kind for fault in faults} - KINDS.keys())
    if unknown:
        raise ValueError(f"{path} names the fault {unknown[0]!r}, which does not exist; there are {', '.join(KINDS)}.")
    return schedule


def _job(found: dict[str, Any]) -> JobPlan:
    return JobPlan(**{**found, "tasks": tuple(TaskPlan(**task) for task in found["tasks"])})


def _draw_faults(dice: random.Random, seconds: float) -> tuple[Fault, ...]:
    names = list(KINDS)
    weights = [KINDS[name].weight for name in names]
    faults: list[Fault] = []
    at = _FIRST_S
    while at < seconds - 2:
        fault = _draw_fault(dice, dice.choices(names, weights)[0], round(at, 2))
        if fault.ends_s <= seconds and _has_room(faults, fault):
            faults.append(fault)
            at += dice.uniform(0.5, 5)
        else:
            at += 0.25
    return tuple(faults)


def _draw_fault(dice: random.Random, name: str, at: float) -> Fault:
    kind = KINDS[name]
    return Fault(name, dice.choice(kind.places), at, round(dice.uniform(*kind.lasts_s), 2), dice.randint(*kind.detail))


def _has_room(faults: list[Fault], new: Fault) -> bool:
    during = [fault for fault in faults if fault.ends_s > new.begins_s]
    lately = [fault for fault in faults if fault.ends_s + _APART_S > new.begins_s]
    return len(during) < AT_ONCE and not any(fault.parts & new.parts for fault in lately)
