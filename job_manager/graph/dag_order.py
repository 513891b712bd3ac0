"""The order of tasks that need each other, and the cycles among them, by networkx."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable

import networkx as nx

from .dag_progress import Needs

# A strongly connected part of at most so many tasks is small enough to name several of its cycles. A part can hold
# exponentially many, so there is a limit for it too.
_SMALL_PART = 50
_CYCLES_A_PART = 10
# Edges looked at in search of the shortest cycle of a large part; beyond it the shortest one seen so far stands.
_SEARCH_BUDGET = 600_000


def ordered(needs: Needs) -> tuple[tuple[int, ...], list[list[int]]]:
    """An order in which each task comes after what it needs, or the cycles that stand against one.

    ``needs`` are the needed tasks of each task, by their places.
    """
    graph = nx.DiGraph()
    graph.add_nodes_from(range(len(needs)))
    graph.add_edges_from((need, task) for task, of_task in enumerate(needs) for need, _ in of_task)
    try:
        # The key makes the order that of submission wherever the edges leave a choice.
        return tuple(nx.lexicographical_topological_sort(graph, key=lambda task: task)), []
    except nx.NetworkXUnfeasible:
        return (), list(_cycles(graph))


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
