"""Random interleavings of a whole cluster in which everything may die at any step, and how many went wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.support.interleavings import Result, find_violation
from tests.support.interleavings.breakages import BREAKAGES

from .measure import Figure
from .services import cores

COUNT = 10_000
PART = 100
BITES_WITHIN = 500
_FIRST_SEED = 1_000_000
_FIRST_SEED_OF_BROKEN = 5_000


def interleavings() -> Iterator[Figure]:
    """10,000 of the product as it is. Then broken versions of it, which must go wrong soon."""
    began = time.perf_counter()
    with ProcessPoolExecutor(cores()) as pool:
        parts = [range(first, first + PART) for first in range(_FIRST_SEED, _FIRST_SEED + COUNT, PART)]
        results = list(pool.map(_run, parts))
        took_s = time.perf_counter() - began
        for result in results:
            if result.violation:
                print(f"seed {result.seed}:\n{result.violation}\n", flush=True)
        note = f"{took_s / 60:.0f} min on {cores()} cores"
        yield Figure("interleavings: run", sum(r.run for r in results), "", COUNT, at_most=False, note=note)
        yield Figure("interleavings: violations", sum(r.violations for r in results), "", 0)
        unnoticed = []
        for breakage, result in zip(BREAKAGES, pool.map(_bite, range(len(BREAKAGES))), strict=True):
            print(f"     {breakage.name}: {_told(result)}", flush=True)
            if not result.violations:
                unnoticed.append(breakage.name)
        note = f"of {len(BREAKAGES)} broken versions"
        yield Figure(f"interleavings: unnoticed within {BITES_WITHIN}", len(unnoticed), "", 0, note=note)


def _told(result: Result) -> str:
    if not result.violations:
        return f"nothing in {result.run} interleavings"
    return f"after {result.run}: {result.violation.splitlines()[0]}"


def _run(seeds: Sequence[int]) -> Result:
    """All of them, also after one went wrong."""
    first: Result | None = None
    violations = 0
    for seed in seeds:
        result = find_violation(range(seed, seed + 1))
        violations += result.violations
        first = first or (result if result.violations else None)
    return Result(len(seeds), violations, first.seed if first else None, first.violation if first else "")


def _bite(number: int) -> Result:
    breakage = BREAKAGES[number]
    with breakage.applied():
        return find_violation(range(_FIRST_SEED_OF_BROKEN, _FIRST_SEED_OF_BROKEN + BITES_WITHIN), broken=breakage.world)
