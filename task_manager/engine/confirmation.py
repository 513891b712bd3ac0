"""Nodes whose free GPUs may not be free: an attempt that was given up may still run there.

What is given up is booked nowhere any more. So its node takes nothing until its Worker has been heard, and has none of
what was given up any more: only the Worker knows when the old containers have ended. Doubts are no facts of the
database: they are taken back by nothing but a heartbeat, and after a start they are there anew.
"""

from __future__ import annotations

from headway.ids import NodeId
from headway.states import NodeHealth

from ..settings import TaskManagerSettings
from . import leases
from .state import EngineState


def require_confirmation(book: EngineState, node_id: NodeId) -> None:
    """Attempts of a node were given up, or the node itself: from now on it is to be heard first."""
    _set(book, node_id, f"{node_id} was given up and has not been heard since")


def on_heartbeat(book: EngineState, node_id: NodeId, still_there: int) -> None:
    """A heartbeat came; ``still_there``: how many attempts it lists that were given up here."""
    if still_there:
        what = "an attempt that was" if still_there == 1 else f"{still_there} attempts that were"
        _set(book, node_id, f"{node_id} still has to end {what} given up")
    else:
        _set(book, node_id, "")


def is_answering(book: EngineState, settings: TaskManagerSettings, node_id: NodeId) -> bool:
    """Whether a node is there, as far as anybody knows: its heartbeats come, or ResourceManager says so."""
    lease, node = book.leases.get(node_id), book.nodes.get(node_id)
    silent = leases.is_silent(
        lease, started_s=book.first_seen(node_id), now_s=book.mono, settings=settings.leases
    )  # fmt: skip
    if lease is not None and lease.heard and not silent:
        return True
    # ResourceManager's word of another day proves nothing, once there was time to hear the node itself.
    return node is not None and node.health is NodeHealth.READY and (book.nodes_live or not silent)


def _set(book: EngineState, node_id: NodeId, sentence: str) -> None:
    if book.doubts.get(node_id, "") == sentence:
        return
    if sentence:
        book.doubts[node_id] = sentence
    else:
        del book.doubts[node_id]
    book.pass_needed = True
