"""Tasks that may not start yet, since an attempt that this TaskManager does not know may run.

A database can lose its last commits: it was restored from a copy, or its log was cut. Then TaskManager may have
forgotten attempts that still run. Two gates keep their tasks from starting a second time:

* At a start the gate is closed for all tasks of the database. It opens once every node has been heard, and JobManager
  and TaskManager have compared what they hold. Both have a limit, so that a dead node or service blocks nothing for
  ever. A node that is silent for longer than a lease has ended its attempts.
* A task that was lost, or whose numbers were behind, has a gate of its own. It opens once no node can have the task any
  more. There the node that JobManager names counts until it is heard, if its leases may be suspended.

Gates are in memory only: the gate of a start covers all tasks of the database.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

from headway.ids import AttemptId, NodeId, TaskId

from ..leases import LeaseSettings, NodeLease

COMPARE_PATIENCE_S = 30.0  # so long JobManager is waited for after a start


@dataclass(frozen=True, slots=True)
class TaskGate:
    """``since_s``: a node that was heard since then, by the boot clock, and did not list the task, does not have it.
    ``suspects``: nodes that are known to have had it."""

    since_s: float
    suspects: frozenset[NodeId] = frozenset()


@dataclass(slots=True)
class Gates:
    """All gates. ``agreed``: JobManager and TaskManager have compared since the start."""

    agreed: bool = False
    at_start_s: float | None = None  # boot clock: since when the gate of the start is closed; None: it is open
    fresh: set[TaskId] = field(default_factory=set)  # came after the start, so nobody has run them
    of_tasks: dict[TaskId, TaskGate] = field(default_factory=dict)
    listed: dict[NodeId, frozenset[TaskId]] = field(default_factory=dict)  # unknown attempts of the last heartbeat
    declared_lost_s: dict[NodeId, float] = field(default_factory=dict)
    doubted: dict[NodeId, set[AttemptId]] = field(default_factory=dict)  # listed as live, though their end is stored

    def awaits_comparison(self, now_s: float) -> bool:
        """Whether JobManager may still tell what this TaskManager has lost."""
        return not self.agreed and self.at_start_s is not None and now_s - self.at_start_s < COMPARE_PATIENCE_S

    def is_closed(self, task_id: TaskId) -> bool:
        """Whether the task may not start yet."""
        return task_id in self.of_tasks or (self.at_start_s is not None and task_id not in self.fresh)

    def came(self, task_id: TaskId) -> None:
        """Notes a task that was handed over for the first time."""
        if self.at_start_s is not None:
            self.fresh.add(task_id)

    def close(self, task_id: TaskId, since_s: float, suspect: NodeId | None = None) -> None:
        """Keeps a task from starting until no node can have it."""
        before = self.of_tasks.get(task_id)
        suspects = frozenset((suspect,)) if suspect else frozenset()
        if before is not None:
            since_s, suspects = max(since_s, before.since_s), suspects | before.suspects
        self.of_tasks[task_id] = TaskGate(since_s, suspects)


@dataclass(frozen=True, slots=True)
class GateNodes:
    """What is known of the nodes. ``known``: by ResourceManager."""

    known: Collection[NodeId]
    leases: dict[NodeId, NodeLease]
    nodes_live: bool  # ``known`` is as ResourceManager says now


def blocking_nodes(
    gates: Gates, nodes: GateNodes, *, task_id: TaskId | None, now_s: float, settings: LeaseSettings
) -> list[NodeId]:
    """The nodes that may have the task; with None those that keep the gate of the start closed."""
    gate = TaskGate(gates.at_start_s or 0.0) if task_id is None else gates.of_tasks[task_id]
    there = {*nodes.known, *gate.suspects}
    if not nodes.nodes_live:
        there |= nodes.leases.keys()
    return sorted(
        node_id
        for node_id in there
        if (task_id is not None and task_id in gates.listed.get(node_id, ()))
        or not _is_cleared(gates, gate, node_id, nodes.leases.get(node_id), now_s, settings)
    )


def _is_cleared(
    gates: Gates, gate: TaskGate, node_id: NodeId, lease: NodeLease | None, now_s: float, settings: LeaseSettings
) -> bool:
    heard_s = lease.last_heartbeat_s if lease is not None and lease.heartbeat_seen else -math.inf
    if heard_s >= gate.since_s or gates.declared_lost_s.get(node_id, -math.inf) >= gate.since_s:
        return True
    # Suspended leases end nothing. Without a sign that this node has the task, one lease is enough all the same: a
    # node that never comes back must not block the queue.
    counts = node_id not in gate.suspects or (lease is not None and not lease.suspended)
    return counts and now_s - gate.since_s > settings.lease_s + settings.margin_s


def open_gates(gates: Gates, nodes: GateNodes, *, now_s: float, settings: LeaseSettings) -> bool:
    """Opens what may be opened; returns whether something was."""
    opened = False
    starting = gates.at_start_s is not None and not gates.awaits_comparison(now_s)
    if starting and not blocking_nodes(gates, nodes, task_id=None, now_s=now_s, settings=settings):
        gates.at_start_s, opened = None, True
        gates.fresh.clear()
    for task_id in list(gates.of_tasks):
        if not blocking_nodes(gates, nodes, task_id=task_id, now_s=now_s, settings=settings):
            del gates.of_tasks[task_id]
            opened = True
    return opened


def why_closed(gates: Gates, nodes: GateNodes, task_id: TaskId, *, now_s: float, settings: LeaseSettings) -> str:
    """Why a task may not start yet, for people; empty: it may."""
    if task_id in gates.of_tasks:
        blocking = blocking_nodes(gates, nodes, task_id=task_id, now_s=now_s, settings=settings)
        if blocking:
            return f"It may still run on {_names(blocking)}. It starts once that is ruled out."
    if gates.at_start_s is None or task_id in gates.fresh:
        return ""
    if gates.awaits_comparison(now_s):
        return "Headway's scheduler was started, and first checks which tasks there are."
    blocking = blocking_nodes(gates, nodes, task_id=None, now_s=now_s, settings=settings)
    return (
        f"Headway's scheduler was started, and waits until {_names(blocking)} has told what it runs."
        if blocking
        else ""
    )


def _names(nodes: list[NodeId]) -> str:
    return ", ".join(nodes[:3]) + (f" and {len(nodes) - 3} more" if len(nodes) > 3 else "")
