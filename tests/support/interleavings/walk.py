"""Random walks through the world: which things happen, and in which order, comes from a seed."""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .acts import ACTS, arm, enqueue
from .stage import OneThreadLoop
from .world import Violation, World

STEPS = 14


@dataclass(frozen=True, slots=True)
class Result:
    """Of many interleavings. ``violation`` is the story of the first one that failed; its seed is ``seed``."""

    run: int
    violations: int
    seed: int | None = None
    violation: str = ""


@contextlib.contextmanager
def one_thread() -> Iterator[OneThreadLoop]:
    """An event loop of the model. The product's logs are silent meanwhile."""
    loop = OneThreadLoop()
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield loop
    finally:
        logging.disable(before)
        loop.close()


def walk(seed: int, *, steps: int = STEPS, **options: Any) -> None:
    """One interleaving. Raises Violation."""
    with one_thread() as loop:
        loop.run_until_complete(_walk(seed, steps, options))


async def _walk(seed: int, steps: int, options: dict[str, Any]) -> None:
    world = await World.begin(seed, **options)
    chance = random.Random(seed + 1)
    try:
        # Each walk has its own liking: a few kinds of acts come often, some never.
        weights = [act.weight * chance.choice([0.0, 0.3, 1.0, 1.0, 4.0]) for act in ACTS]
        for _ in range(chance.choice([0, 0, 1, 2, 3])):
            await arm(world, chance)
        await enqueue(world, chance)
        for _ in range(steps):
            act = chance.choices(ACTS, weights)[0] if any(weights) else ACTS[0]
            await act.do(world, chance)
            await world.advance(chance.choice([0.0, 0.01, 0.05, 0.2, 1.0, 3.0, 8.0, 20.0]))
        await world.heal()
    finally:
        await world.close()


def find_violation(seeds: range, *, walk: Callable[..., None] = walk, **options: Any) -> Result:
    """Runs interleavings until one fails."""
    for run, seed in enumerate(seeds, 1):
        try:
            walk(seed, **options)
        except Violation as error:
            return Result(run, 1, seed, str(error))
    return Result(len(seeds), 0)
