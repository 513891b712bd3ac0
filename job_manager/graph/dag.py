"""Checks that tasks make a DAG; finds an order in which they may run, and what lies below each of them.

Pure and never recursive: a chain of 3,000 tasks, 10,000 tasks and 200,000 edges are ordinary input.
"""

from __future__ import annotations

import difflib
import itertools
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import networkx as nx

from headway.errors import Problem
from headway.jobfile.spec import NeedOn

MAX_PROBLEMS = 200
"""More than a person reads; what is left out is counted in the last one."""

# A strongly connected part of at most so many tasks is small enough to name several of its cycles. A part can hold
# exponentially many, so there is a limit for it too.
_SMALL_PART = 50
_CYCLES_A_PART = 10
# Edges looked at in search of the shortest cycle of a large part; beyond it the shortest one seen so far stands.
_SEARCH_BUDGET = 600_000
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
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(tasks)))
    graph.add_edges_from((need, task) for task, of_task in enumerate(needs) for need, _ in of_task)
    try:
        # The key makes the order that of submission wherever the edges leave a choice.
        order = tuple(nx.lexicographical_topological_sort(graph, key=lambda task: task))
    except nx.NetworkXUnfeasible:
        problems.extend(_cycle_problem(tasks, path) for path in _cycles(graph))
    if problems:
        return None, _bounded(problems)
    names = tuple(task.name for task in tasks)
    return Dag(names, needs, order, _tails(tasks, needs, order)), []


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


def _cycles(graph: nx.DiGraph) -> Iterable[list[int]]:
    """Each cycle of a small part, one shortest of a large one; as needed-first paths, earliest task first."""
    parts = [part for part in nx.strongly_connected_components(graph) if len(part) > 1]
    found = [[task] for task in graph if task in graph[task]]
    for part in parts:
        inner = nx.DiGraph(edge for edge in graph.edges(part) if edge[1] in part)
        inner.remove_edges_from([(task, task) for task in part])
        if inner.number_of_edges() == len(part) or len(part) <= _SMALL_PART:
            found.extend(itertools.islice(nx.simple_cycles(inner), _CYCLES_A_PART))
        else:
            found.append(_shortest_cycle(inner))
    return sorted((_from_earliest(path) for path in found), key=lambda path: (path[0], len(path), path))


def _shortest_cycle(part: nx.DiGraph) -> list[int]:
    best: list[int] = []
    budget = _SEARCH_BUDGET
    for start in sorted(part):
        path, looked = _cycle_through(part, start, len(best))
        best = path or best
        budget -= looked
        if len(best) == 2 or budget <= 0:
            break
    return best


def _cycle_through(part: nx.DiGraph, start: int, shorter_than: int) -> tuple[list[int], int]:
    """The shortest cycle through ``start`` if it has fewer tasks than ``shorter_than`` (0: any), and the work done."""
    came_from = {start: start}
    depth = {start: 1}
    queue = deque([start])
    looked = 0
    while queue:
        task = queue.popleft()
        if shorter_than and depth[task] >= shorter_than:
            break
        for below in part[task]:
            looked += 1
            if below == start:
                path = [task]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return path[::-1], looked
            if below not in came_from:
                came_from[below] = task
                depth[below] = depth[task] + 1
                queue.append(below)
    return [], looked


def _from_earliest(path: list[int]) -> list[int]:
    first = path.index(min(path))
    return path[first:] + path[:first]


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
