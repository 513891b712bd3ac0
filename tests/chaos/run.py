"""One chaos run on a lab: the schedule, the settling, the facts, the findings."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from headway.client import NoService, Refused
from tests.support.machines.lab import SCRIPTED, Lab

from .checks import findings
from .conductor import Conductor
from .evidence import collect, left_over, not_ended
from .faults import ALL
from .journal import Journal
from .schedule import Schedule

# Generous: a busy machine takes long, and only what never comes is a finding.
_READY_S = 240.0
_ENDED_S = 420.0
_CLEAN_S = 180.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """``findings`` are broken promises, ``problems`` faults of the tests themselves; ``notes`` are neither."""

    findings: list[str]
    problems: list[str]
    notes: list[str]

    @property
    def good(self) -> bool:
        return not self.findings and not self.problems


def run(schedule: Schedule, lab: Lab, kept: Path, *, aloud: bool = False) -> Outcome:
    """Runs it. What tells of it is kept in ``kept``: schedule, journal, logs."""
    kept.mkdir(parents=True, exist_ok=True)
    schedule.write(kept / "schedule.json")
    (kept / "journal").unlink(missing_ok=True)
    journal = Journal(kept / "journal", aloud=aloud)
    conductor = Conductor(lab, schedule, journal, key=f"{schedule.seed}-{time.time_ns()}")
    try:
        conductor.run()
        return _outcome(lab, conductor, journal)
    finally:
        for name in ALL:
            shutil.copy(lab.machines[name].log("headway"), kept / f"{name}.log")
        shutil.copytree(lab.witness, kept / "witness", dirs_exist_ok=True)
        journal.close()


def _outcome(lab: Lab, conductor: Conductor, journal: Journal) -> Outcome:
    problems = conductor.problems
    try:
        lab.wait_ready(_READY_S)
    except AssertionError as error:
        told = f"not all takes work {_READY_S:g} s after the last fault: {error} {error.__cause__ or ''}"
        return Outcome([told], problems, conductor.deaths)
    journal.note("all is well again")
    waiting = _until_none(lambda: not_ended(lab), _ENDED_S)
    if waiting:
        return Outcome([f"{one}, {_ENDED_S:g} s after the last fault" for one in waiting], problems, conductor.deaths)
    journal.note("all jobs have ended")
    left = _until_none(lambda: left_over(lab), _CLEAN_S)
    journal.note("settled")
    facts = collect(lab, conductor, left)
    found = findings(conductor.schedule.jobs, facts, frozenset({SCRIPTED}))
    attempts = [attempt for job in facts.jobs for task in job.tasks for attempt in task.attempts]
    counted = (
        f"{len(conductor.schedule.faults)} faults, {len(facts.jobs)} jobs, {len(attempts)} attempts, "
        f"{sum(a.state == 'LOST' for a in attempts)} of them lost, "
        f"{sum(map(len, facts.witness.values()))} lines of witnesses"
    )
    for one in found:
        journal.note("finding", text=one)
    return Outcome(found, problems, [counted, *conductor.deaths])


def _until_none(look: Callable[[], list[str]], within_s: float) -> list[str]:
    """Looks until nothing is found any more; what is found still when the time is over."""
    give_up_at = time.monotonic() + within_s
    while True:
        try:
            found = look()
        except (NoService, Refused) as error:
            found = [f"the API does not answer: {error}"]
        if not found or time.monotonic() > give_up_at:
            return found
        time.sleep(1.0)
