"""Which nodes keep a task from starting after a loss of data."""

from __future__ import annotations

import pytest

from headway.ids import NodeId
from task_manager.engine.comparing.gates import (
    COMPARE_PATIENCE_S,
    GateNodes,
    Gates,
    blocking_nodes,
    open_gates,
    why_closed,
)
from task_manager.engine.leases import LeaseSettings, NodeLease
from tests.unit.task_manager.rig import tid

LEASES = LeaseSettings(lease_s=120, margin_s=2)
N1, N2 = NodeId("n1"), NodeId("n2")
T = tid("t")


def lease(heard_s: float | None, *, suspended: bool = False) -> NodeLease:
    at_s = float("-inf") if heard_s is None else heard_s
    return NodeLease(1, "n:1", at_s, suspended, not suspended, heartbeat_seen=heard_s is not None)


@pytest.mark.parametrize(
    ("found", "now_s", "blocks"),
    [
        (lease(101.0), 102.0, False),
        (lease(99.0), 102.0, True),  # heard before
        (lease(None), 102.0, True),
        (lease(None), 222.0, True),  # one lease and its margin
        (lease(None), 222.1, False),
        (lease(None, suspended=True), 10_000.0, True),
        (None, 10_000.0, True),
    ],
)
def test_when_a_node_that_may_have_the_task_is_cleared(found: NodeLease | None, now_s: float, blocks: bool) -> None:
    gates = Gates()
    gates.close(T, 100.0, N1)
    nodes = GateNodes((), {} if found is None else {N1: found}, nodes_live=True)
    assert blocking_nodes(gates, nodes, task_id=T, now_s=now_s, settings=LEASES) == ([N1] if blocks else [])


def test_a_node_without_a_sign_of_the_task_blocks_for_one_lease_at_most() -> None:
    gates = Gates()
    gates.close(T, 100.0)
    nodes = GateNodes((N1,), {N1: lease(None, suspended=True)}, nodes_live=True)
    assert blocking_nodes(gates, nodes, task_id=T, now_s=222.0, settings=LEASES) == [N1]
    assert open_gates(gates, nodes, now_s=222.1, settings=LEASES)
    assert not gates.is_closed(T)


def test_a_node_that_lists_the_task_blocks_it_though_it_was_heard() -> None:
    gates = Gates()
    gates.close(T, 100.0)
    gates.listed[N1] = frozenset({T})
    nodes = GateNodes((N1,), {N1: lease(101.0)}, nodes_live=True)
    assert not open_gates(gates, nodes, now_s=10_000.0, settings=LEASES)
    assert "n1" in why_closed(gates, nodes, T, now_s=10_000.0, settings=LEASES)
    gates.listed[N1] = frozenset()
    assert open_gates(gates, nodes, now_s=10_000.0, settings=LEASES)


def test_a_node_of_the_database_counts_until_resource_manager_has_told_which_there_are() -> None:
    gates = Gates(agreed=True, at_start_s=100.0)
    leases = {N1: lease(101.0), N2: lease(None)}
    assert not open_gates(gates, GateNodes((N1,), leases, nodes_live=False), now_s=102.0, settings=LEASES)
    assert open_gates(gates, GateNodes((N1,), leases, nodes_live=True), now_s=102.0, settings=LEASES)


def test_job_manager_is_waited_for_only_so_long() -> None:
    gates = Gates(at_start_s=100.0)
    nodes = GateNodes((N1,), {N1: lease(101.0)}, nodes_live=True)
    assert not open_gates(gates, nodes, now_s=99.9 + COMPARE_PATIENCE_S, settings=LEASES)
    assert "which tasks there are" in why_closed(gates, nodes, T, now_s=101.0, settings=LEASES)
    assert open_gates(gates, nodes, now_s=100 + COMPARE_PATIENCE_S, settings=LEASES)
    assert why_closed(gates, nodes, T, now_s=200.0, settings=LEASES) == ""


def test_a_node_that_was_declared_lost_is_cleared() -> None:
    gates = Gates(declared_lost_s={N1: 101.0})
    gates.close(T, 100.0, N1)
    assert open_gates(gates, GateNodes((), {}, nodes_live=True), now_s=102.0, settings=LEASES)
