"""Nodes that are closed until their Worker confirms that an attempt, which was declared lost, has ended.

An attempt that was declared lost holds no booking any more, but its container may still run. Only the Worker knows when
that container has ended. So the node takes no work until a heartbeat lists none of the lost attempts. The database does
not store which nodes are unconfirmed: a start derives it from the attempts, and only a heartbeat removes it.
"""

from __future__ import annotations

from headway.ids import NodeId
from headway.states import NodeHealth

from ..settings import TaskManagerSettings
from . import leases
from .state import EngineState


def require_confirmation(state: EngineState, node_id: NodeId) -> None:
    """Closes a node on which attempts were declared lost, until its next heartbeat."""
    _set(state, node_id, f"{node_id} was declared lost and has not answered since")


def on_heartbeat(state: EngineState, node_id: NodeId, still_there: int, unknown: int = 0) -> None:
    """Takes a heartbeat. ``still_there``: how many attempts it lists that were declared lost here. ``unknown``: how
    many of which nobody has told yet whether they count."""
    if still_there:
        what = "an attempt that was" if still_there == 1 else f"{still_there} attempts that were"
        _set(state, node_id, f"{node_id} still has to end {what} declared lost")
    elif unknown:
        _set(state, node_id, f"{node_id} runs what the scheduler does not know and has yet to find the job of")
    else:
        _set(state, node_id, "")


def is_answering(state: EngineState, settings: TaskManagerSettings, node_id: NodeId) -> bool:
    """Whether a node is up: its heartbeats arrive, or ResourceManager says so."""
    lease, node = state.leases.get(node_id), state.nodes.get(node_id)
    silent = leases.is_silent(
        lease, started_s=state.first_seen(node_id), now_s=state.mono, settings=settings.leases
    )  # fmt: skip
    if lease is not None and lease.heartbeat_seen and not silent:
        return True
    # An old status from ResourceManager proves nothing once the node itself has had time to send a heartbeat.
    return node is not None and node.health is NodeHealth.READY and (state.nodes_live or not silent)


def _set(state: EngineState, node_id: NodeId, sentence: str) -> None:
    if state.unconfirmed.get(node_id, "") == sentence:
        return
    if sentence:
        state.unconfirmed[node_id] = sentence
    else:
        del state.unconfirmed[node_id]
    state.pass_needed = True
