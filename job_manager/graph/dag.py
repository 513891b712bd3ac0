"""Checks that tasks make a DAG; finds an order in which they may run, and what lies below each of them.

Pure and never recursive: a chain of 3,000 tasks, 10,000 tasks and 200,000 edges are ordinary input.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from headway.errors import Problem
from headway.jobfile.spec import NeedOn

from .dag_progress import Needs

MAX_PROBLEMS = 200
"""More than a person reads; what is left out is counted in the last one."""

_SUGGESTIONS = 50
_NAMES_LISTED = 20
_PATH_SHOWN = 40


@dataclass(frozen=True, slots=True)
class DagTask:
    """What the graph needs to know of a task; ``timeout_s`` in seconds."""

    name: str
    needs: tuple[tuple[str, NeedOn], ...]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Dag:
    """A checked graph; tasks are named by their place in the submitted list."""

    names: tuple[str, ...]
    needs: tuple[tuple[tuple[int, NeedOn], ...], ...]
    order: tuple[int, ...]  # topological; tasks free of each other stand as submitted
    tail_timeout_s: tuple[float, ...]  # longest path of timeouts below each task, its own not counted


def check(tasks: Sequence[DagTask]) -> tuple[Dag | None, list[Problem]]:
    """The graph, or all that is wrong with it: repeated names, unknown needs, and cycles as their paths.

    The pointers count tasks from 0 and name needs by the needed task: ``/tasks/3/needs/prepar``.
    """
    index, problems = _index(tasks)
    if problems:
        # With two tasks of one name an edge could mean either, so nothing more can be said.
        return None, _bounded(problems)
    needs, problems = _edges(tasks, index)
    order, cycles = _order(needs)
    problems.extend(_cycle_problem(tasks, path) for path in cycles)
    if problems:
        return None, _bounded(problems)
    names = tuple(task.name for task in tasks)
    return Dag(names, needs, order, _tails(tasks, needs, order)), []


def _order(needs: Needs) -> tuple[tuple[int, ...], list[list[int]]]:
    """A topological order, or the cycles that stand against one."""
    if not any(needs):
        return tuple(range(len(needs))), []
    # Only here: most jobs are one task, and what it loads takes eleven megabytes.
    from . import dag_order

    return dag_order.ordered(needs)


def _index(tasks: Sequence[DagTask]) -> tuple[dict[str, int], list[Problem]]:
    index: dict[str, int] = {}
    problems = []
    for place, task in enumerate(tasks):
        first = index.setdefault(task.name, place)
        if first != place:
            problems.append(
                Problem(
                    f"/tasks/{place}/name",
                    f"Two tasks are called {task.name!r}: numbers {first + 1} and {place + 1}. "
                    "Each needs a name of its own.",
                    word=task.name,
                )
            )
    return index, problems


def _edges(
    tasks: Sequence[DagTask], index: dict[str, int]
) -> tuple[tuple[tuple[tuple[int, NeedOn], ...], ...], list[Problem]]:
    problems: list[Problem] = []
    edges = []
    for place, task in enumerate(tasks):
        of_task: dict[int, NeedOn] = {}
        for name, on in task.needs:
            need = index.get(name)
            if need is None:
                problems.append(_unknown_need(place, task.name, name, index, guess=len(problems) < _SUGGESTIONS))
            elif of_task.setdefault(need, on) is not on:
                problems.append(
                    Problem(
                        f"/tasks/{place}/needs/{_escaped(name)}",
                        f"Task {task.name!r} needs {name!r} twice, with different ends. Name it once.",
                        word=name,
                    )
                )
        edges.append(tuple(of_task.items()))
    return tuple(edges), problems


def _unknown_need(place: int, task: str, need: str, index: dict[str, int], *, guess: bool) -> Problem:
    near = difflib.get_close_matches(need, index, n=1, cutoff=0.6) if guess else []
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return Problem(
        f"/tasks/{place}/needs/{_escaped(need)}",
        f"Task {task!r} needs {need!r}, but no task has that name.{hint}",
        word=need,
        allowed=tuple(itertools.islice((name for name in index if name != task), _NAMES_LISTED)),
        suggestion=near[0] if near else "",
    )


def _cycle_problem(tasks: Sequence[DagTask], path: list[int]) -> Problem:
    # The path runs along the edges, from what is needed to what needs it.
    place, needed = path[0], path[-1]
    names = [tasks[task].name for task in path]
    pointer = f"/tasks/{place}/needs/{_escaped(names[-1])}"
    if place == needed:
        return Problem(pointer, f"Task {names[0]!r} needs itself: {names[0]} → {names[0]}.", word=names[0])
    return Problem(
        pointer,
        f"These tasks wait for each other in a circle: {_shown([*names, names[0]])}.",
        word=names[-1],
    )


def _shown(path: list[str]) -> str:
    if len(path) > _PATH_SHOWN:
        half = _PATH_SHOWN // 2
        path = [*path[:half], f"({len(path) - 2 * half} more)", *path[-half:]]
    return " → ".join(path)


def _tails(
    tasks: Sequence[DagTask], needs: Sequence[Sequence[tuple[int, NeedOn]]], order: Sequence[int]
) -> tuple[float, ...]:
    tails = [0.0] * len(tasks)
    for task in reversed(order):
        through = tails[task] + tasks[task].timeout_s
        for need, _ in needs[task]:
            tails[need] = max(tails[need], through)
    return tuple(tails)


def _bounded(problems: list[Problem]) -> list[Problem]:
    if len(problems) <= MAX_PROBLEMS:
        return problems
    kept = problems[: MAX_PROBLEMS - 1]
    rest = len(problems) - len(kept)
    return [*kept, Problem("/tasks", f"{rest} more problems of this kind are not shown.")]


def _escaped(name: str) -> str:
    """A name as a part of a JSON pointer."""
    return name.replace("~", "~0").replace("/", "~1")
