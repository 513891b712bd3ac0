"""`python -m benchmarks guards`: the baseline, then one run of tests for each guard, two at a time."""

from __future__ import annotations

import queue
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from . import guard_list
from .checkout import CheckoutCopy, TestRun
from .guard_list import BadList, Guard

_ROOT = Path(__file__).resolve().parents[2]
_COPIES = 2
_LIMIT_S = 300.0  # for the tests of one guard
_SHOWN = 3_000
_T = TypeVar("_T")
_R = TypeVar("_R")


class Verdict(StrEnum):
    """What became of a guard that was taken away."""

    KILLED = "killed"  # a test failed: the guard is held
    SURVIVED = "SURVIVED"  # all tests passed
    ACCEPTED = "accepted"  # all passed, and the list says why that is right
    TOO_LONG = "TOO LONG"  # the tests did not end
    BROKEN = "BROKEN"  # the tests could not run: this says nothing about the guard


_FINE = frozenset({Verdict.KILLED, Verdict.ACCEPTED})


@dataclass(frozen=True, slots=True)
class Outcome:
    guard: Guard
    verdict: Verdict
    took_s: float
    detail: str


def main(
    arguments: Sequence[str], *, root: Path = _ROOT, lists: Path = guard_list.HERE, limit_s: float = _LIMIT_S
) -> int:
    """Checks the guards whose name or file has one of the words, or all. Answers the exit status.

    0: each is held, or has a reason. 1: one is not. 2: the tests or the lists are broken, so nothing is known.
    """
    began = time.monotonic()
    try:
        guards = guard_list.chosen(guard_list.load(lists), arguments)
        if not guards:
            raise BadList("No guard has such a name or file.")
        with tempfile.TemporaryDirectory(prefix="headway-guards-") as scratch:
            copies = [CheckoutCopy(root, Path(scratch) / str(number)) for number in range(_COPIES)]
            if not _baseline_passes(copies, guards, limit_s):
                return 2
            outcomes = _on_copies(copies, lambda copy, guard: _told(_check(copy, guard, limit_s)), guards)
    except BadList as error:
        print(f"guards: {error}", file=sys.stderr)
        return 2
    return _summary(outcomes, time.monotonic() - began)


def _baseline_passes(copies: list[CheckoutCopy], guards: Sequence[Guard], limit_s: float) -> bool:
    """Runs every command of tests once with all guards in place. If that fails, failures prove nothing."""
    commands = list(dict.fromkeys(guard.tests for guard in guards))
    print(f"baseline: {len(commands)} commands of tests, for {len(guards)} guards", flush=True)

    def run(copy: CheckoutCopy, tests: tuple[str, ...]) -> TestRun:
        return copy.test(tests, limit_s=limit_s)

    fine = True
    for tests, done in zip(commands, _on_copies(copies, run, commands), strict=True):
        if done.code != 0:
            fine = False
            print(f"baseline fails: pytest {' '.join(tests)} (exit status {done.code})\n{done.output[-_SHOWN:]}")
    return fine


def _check(copy: CheckoutCopy, guard: Guard, limit_s: float) -> Outcome:
    try:
        with copy.without(guard):
            done = copy.test(guard.tests, limit_s=limit_s)
    except BadList as error:
        return Outcome(guard, Verdict.BROKEN, 0.0, str(error))
    if done.code == 1:
        return Outcome(guard, Verdict.KILLED, done.took_s, done.first_failure)
    if done.code == 0:
        verdict = Verdict.ACCEPTED if guard.survives else Verdict.SURVIVED
        return Outcome(guard, verdict, done.took_s, guard.survives or f"{guard.file}: {guard.promise}")
    if done.code is None:
        return Outcome(guard, Verdict.TOO_LONG, done.took_s, f"{guard.file}: {guard.promise}")
    # 2: the tests could not even be read. 3 to 5: pytest itself failed, or found no test.
    return Outcome(guard, Verdict.BROKEN, done.took_s, f"pytest ended with {done.code}\n{done.output[-_SHOWN:]}")


def _told(outcome: Outcome) -> Outcome:
    print(f"{outcome.verdict:9} {outcome.took_s:6.1f} s  {outcome.guard.name:34} {outcome.detail}", flush=True)
    return outcome


def _summary(outcomes: Sequence[Outcome], took_s: float) -> int:
    counts = {verdict: sum(1 for one in outcomes if one.verdict is verdict) for verdict in Verdict}
    told = ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)
    print(f"{len(outcomes)} guards in {took_s / 60:.1f} min: {told}")
    for outcome in outcomes:
        if outcome.verdict is Verdict.KILLED and outcome.guard.survives:
            print(f"{outcome.guard.name}: a test fails without it now; remove the reason beside it")
    if counts[Verdict.BROKEN]:
        return 2
    return 0 if all(outcome.verdict in _FINE for outcome in outcomes) else 1


def _on_copies(copies: Sequence[CheckoutCopy], work: Callable[[CheckoutCopy, _T], _R], items: Sequence[_T]) -> list[_R]:
    """Does ``work`` for each item, each copy for one at a time. The answers are in the order of the items."""
    free: queue.SimpleQueue[CheckoutCopy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def one(item: _T) -> _R:
        copy = free.get()
        try:
            return work(copy, item)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(len(copies)) as pool:
        return list(pool.map(one, items))
