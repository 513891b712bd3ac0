"""Jobs of a chaos run: DAGs of tasks that end well, fail, run out of time, or are cancelled. Pure."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

LINE_BYTES = 16
LARGE_LINES = 5 * (1 << 20) // LINE_BYTES
SCRIPTED_LINES = 64  # what the scripted runtime prints; its text travels with the job
_NEEDS = ("success", "success", "success", "any", "failure")

Kind = Literal["well", "fails", "late"]


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """One task: what it does, and so how it has to end. ``name`` is unique in the run; its output holds ``mark``."""

    name: str
    kind: Kind
    run_ms: int
    timeout_s: int
    exit_code: int = 0
    retries: int = 0
    out_lines: int = 0
    err_lines: int = 0
    gpus: int = 0
    mark: str = "000000"
    flags: str = "-"
    needs: Mapping[str, str] = field(default_factory=dict)

    def printed(self, stream: str, *, scripted: bool) -> bytes:
        """All that it prints to ``stdout`` or ``stderr``."""
        lines = self.out_lines if stream == "stdout" else self.err_lines
        count = min(lines, SCRIPTED_LINES) if scripted else lines
        return b"".join(b"%s %08x\n" % (self.mark.encode(), number) for number in range(count))

    def field(self, image: str) -> dict[str, Any]:
        """It in a job file."""
        numbers = (self.run_ms, self.exit_code, self.out_lines, self.err_lines)
        scripted = {
            "HEADWAY_SCRIPTED_RUN_S": str(self.run_ms / 1000),
            "HEADWAY_SCRIPTED_EXIT": str(self.exit_code),
            "HEADWAY_SCRIPTED_OUTPUT": self.printed("stdout", scripted=True).decode(),
            "HEADWAY_SCRIPTED_STDERR": self.printed("stderr", scripted=True).decode(),
        }
        return {
            "name": self.name,
            "image": image,
            "command": ["/task", self.name, *map(str, numbers), self.mark, self.flags],
            "env": scripted,
            "needs": dict(self.needs),
            "timeout": f"{self.timeout_s}s",
            "grace": "2s",
            "retries": self.retries,
            "network": "none",
            "resources": {"cpus": 0.25, "memory": "32MiB", "gpus": self.gpus},
        }


@dataclass(frozen=True, slots=True)
class JobPlan:
    """One job. ``sure``: it is submitted until there is an answer; else once."""

    name: str
    submit_at_s: float
    sure: bool
    tasks: tuple[TaskPlan, ...]
    cancel_at_s: float | None = None

    def file(self, image: str) -> bytes:
        """It as a job file."""
        return json.dumps(
            {"version": 1, "name": self.name, "tasks": [task.field(image) for task in self.tasks]}
        ).encode()


def draw_jobs(dice: random.Random, seconds: float) -> tuple[JobPlan, ...]:
    """About a job every five seconds."""
    jobs: list[JobPlan] = []
    at = 0.5
    while at < seconds - 5:
        jobs.append(_draw_job(dice, len(jobs), round(at, 2)))
        at += dice.uniform(2, 8)
    return tuple(jobs)


def _draw_job(dice: random.Random, number: int, at: float) -> JobPlan:
    tasks: list[TaskPlan] = []
    for place in range(dice.choice((1, 2, 3, 4, 6))):
        before = [task.name for task in tasks]
        needs = dice.sample(before, min(len(before), dice.choice((0, 0, 1, 1, 2))))
        tasks.append(_draw_task(dice, f"j{number}t{place}", {name: dice.choice(_NEEDS) for name in needs}))
    cancel = round(at + dice.uniform(1, 15), 2) if dice.random() < 0.15 else None
    return JobPlan(f"chaos-{number}", at, dice.random() < 0.8, tuple(tasks), cancel)


def _draw_task(dice: random.Random, name: str, needs: Mapping[str, str]) -> TaskPlan:
    kind: Kind = dice.choices(("well", "fails", "late"), (8, 1, 1))[0]
    large = dice.random() < 0.12
    run_ms = dice.choice((200, 1_000, 3_000, 8_000, 20_000))
    return TaskPlan(
        name=name,
        kind=kind,
        run_ms=600_000 if kind == "late" else run_ms,
        timeout_s=dice.choice((2, 4)) if kind == "late" else 300,
        exit_code=dice.choice((1, 3, 70)) if kind == "fails" else 0,
        retries=dice.choice((0, 0, 1, 2)),
        out_lines=LARGE_LINES if large and kind != "late" else dice.choice((0, 1, 500, 20_000)),
        err_lines=dice.choice((0, 1, 300)),
        gpus=dice.choices((0, 1, 2), (5, 3, 1))[0],
        mark=f"{dice.randrange(1 << 24):06x}",
        flags=dice.choice(("-", "m", "m", "t")),
        needs=needs,
    )
