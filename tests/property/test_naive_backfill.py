"""Starts under `conservative`, `easy`, `strict` and `greedy` beside a plain reading of docs/scheduling.md.

One node of GPUs and no promises, so that a list of booked spans is the whole state, looked through from end to end.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from task_manager.simulate import cluster, command, workload
from task_manager.simulate.records import Record

GPUS = 8
KEYS: dict[str, Callable[[Waiting], float]] = {
    "fifo": lambda task: task.submit_s,
    "sjf": lambda task: task.timeout_s,
    "ljf": lambda task: -task.timeout_s,
    "aging_sjf": lambda task: task.timeout_s + task.submit_s,
}


@dataclass(frozen=True)
class Waiting:
    number: int
    submit_s: float
    run_s: float  # until it ends or is killed
    timeout_s: float
    gpus: int


@dataclass(frozen=True)
class Span:
    start_s: float
    end_s: float
    gpus: int


def free_over(spans: list[Span], start_s: float, end_s: float) -> int:
    """The fewest GPUs that are free at any moment of a span."""
    moments = [start_s, *(span.start_s for span in spans if start_s < span.start_s < end_s)]
    return min(GPUS - sum(s.gpus for s in spans if s.start_s <= moment < s.end_s) for moment in moments)


def earliest(spans: list[Span], task: Waiting, now: float) -> float:
    moments = sorted({now, *(span.end_s for span in spans if span.end_s > now)})
    return next(at for at in moments if free_over(spans, at, at + task.timeout_s) >= task.gpus)


def naive(tasks: list[Waiting], key: Callable[[Waiting], float], discipline: str) -> dict[int, float]:
    starts: dict[int, float] = {}
    running: dict[int, tuple[float, Span]] = {}  # when it really ends, and what is booked for it
    ahead = sorted(tasks, key=lambda task: (task.submit_s, task.number))
    waiting: list[Waiting] = []
    while ahead or waiting:
        now = min([task.submit_s for task in ahead[:1]] + [end_s for end_s, _ in running.values()])
        running = {number: run for number, run in running.items() if run[0] > now}
        while ahead and ahead[0].submit_s <= now:
            waiting.append(ahead.pop(0))
        waiting.sort(key=lambda task: (key(task), task.submit_s, task.number))
        booked = [span for _, span in running.values()]
        reserved = False
        for task in list(waiting):
            at = earliest(booked, task, now)
            if at > now:
                if discipline == "strict":
                    break
                if discipline == "conservative" or (discipline == "easy" and not reserved):
                    booked.append(Span(at, at + task.timeout_s, task.gpus))
                    reserved = True
                continue
            span = Span(now, now + task.timeout_s, task.gpus)
            booked.append(span)
            running[task.number] = (now + task.run_s, span)
            starts[task.number] = now
            waiting.remove(task)
    return starts


def a_stream(chance: random.Random, count: int) -> list[Waiting]:
    tasks, now = [], 0.0
    for number in range(count):
        now += chance.expovariate(1 / 60)
        run_s = round(10 ** chance.uniform(1, 3), 2)
        timeout_s = round(run_s * chance.choice([1, 1, 1.5, 3, 0.7]), 2)
        gpus = chance.choice([1, 1, 1, 2, 2, 4, 8])
        tasks.append(Waiting(number, round(now, 2), min(run_s, timeout_s), timeout_s, gpus))
    return tasks


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("discipline", ["conservative", "easy", "strict", "greedy"])
def test_starts_are_those_of_the_plain_reading(discipline: str, seed: int) -> None:
    tasks = a_stream(random.Random(seed), 120)
    records = [
        Record(
            label=str(task.number), where="", row=task.number, submit_s=task.submit_s, runtime_s=task.run_s,
            timeout_s=task.timeout_s, gpus=task.gpus,
        )
        for task in tasks
    ]  # fmt: skip
    machines = cluster.parse(f"1x{GPUS}")
    items = workload.build(records, machines)
    contests = command.parse_contests(list(KEYS), [discipline])
    simulation = command.Simulation(items, tuple(range(len(items))), machines, contests, promises=False)
    for name, result in zip(KEYS, simulation.run(), strict=True):
        found = {number: life.start_s for number, life in enumerate(result.outcome.lives)}
        want = naive(tasks, KEYS[name], discipline)
        assert found == pytest.approx(want, abs=1e-6), name
