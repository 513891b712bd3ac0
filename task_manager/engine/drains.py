"""Machines that are emptied by a deadline: who is told, who is stopped, and how it is said. Pure.

Without a deadline nothing that runs is interrupted. With one, what still runs then is stopped with its grace. Its task
waits again, keeps its age and loses no retry.
"""

from __future__ import annotations

from collections.abc import Iterable

from headway.ids import NodeId
from headway.model.reasons import EndReason, EndWord
from headway.when import shown_at

from ..model import Node

STOP = "drained"  # the word of the stop order; a Worker that does not know it says ``platform_error``


def warning(node: Node | None) -> str:
    """What the owner of an attempt on this node is to know while it runs; empty: nothing."""
    if node is None or not node.drain_until_at:
        return ""
    why = f" ({node.drain_note.rstrip('.')})" if node.drain_note else ""
    return (
        f"The machine {node.id} is emptied at {shown_at(node.drain_until_at)}{why}. The task is run again elsewhere if "
        "it has not ended by then."
    )


def news(before: Node | None, after: Node | None) -> str:
    """What is new for the owners of what runs on a node; empty: nothing."""
    was, now = warning(before), warning(after)
    if was == now:
        return ""
    if now:
        return now
    node = after or before
    return f"The machine {node.id if node is not None else ''} is not emptied any more. The task may go on."


def due_s(until_at: float, *, now: float, mono: float) -> float:
    """A deadline by the boot clock, converted once: nobody who sets the wall clock later moves it."""
    return mono + (until_at - now)


def end_reason(reported: EndReason, node: Node | None, node_id: NodeId) -> EndReason:
    """Why an attempt ended that was stopped for a drain. One that ended by itself meanwhile keeps its own reason."""
    if reported.word not in (EndWord.DRAINED, EndWord.PLATFORM_ERROR, EndWord.CANCELLED):
        return reported
    why = f" ({node.drain_note.rstrip('.')})" if node is not None and node.drain_note else ""
    detail = f"The machine {node_id} was emptied{why}, and it had not ended by the deadline."
    return EndReason(EndWord.DRAINED, reported.exit_code, reported.signal, detail)


class Deadlines:
    """When each node is to be empty, by the boot clock."""

    def __init__(self) -> None:
        self._due: dict[NodeId, tuple[float, float]] = {}

    def past(self, nodes: Iterable[Node], *, now: float, mono: float) -> list[NodeId]:
        """The nodes whose deadline is over."""
        found = []
        for node in nodes:
            if not node.drain_until_at:
                self._due.pop(node.id, None)
                continue
            known = self._due.get(node.id)
            if known is None or known[0] != node.drain_until_at:
                known = self._due[node.id] = (node.drain_until_at, due_s(node.drain_until_at, now=now, mono=mono))
            if known[1] <= mono:
                found.append(node.id)
        return found
