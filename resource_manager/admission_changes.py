"""A node once somebody, or its own drain, has changed whether it takes work. Pure."""

from __future__ import annotations

from dataclasses import replace

from headway.states import Admission

from . import drain, node_events
from .drain import DrainWish
from .inventory import Node
from .node_admission import ADMISSION, AdmissionEvent
from .node_events import KeptNodeEvent, NodeEventWord


def said(
    node: Node, event: AdmissionEvent, note: str, by: str, wish: DrainWish, *, now: float, monotonic: float
) -> Node:
    """The node once an operator has said this.

    Raises:
        InvalidInput: it would open before it is empty.
    """
    after = ADMISSION.after(node.admission, event)
    moved = after is not node.admission
    wanted = None
    if event is AdmissionEvent.DRAIN:
        known = node.drain if node.admission in (Admission.DRAINING, Admission.DRAINED) else None
        wanted = drain.wished(known, wish, now=now, by=by, live=node.status.live_attempts)
    events: list[KeptNodeEvent] = []
    if wanted is not None and wanted != node.drain:
        events.append(KeptNodeEvent(now, NodeEventWord.DRAIN, drain.sentence(wanted, by)))
    elif moved:
        is_open = after is Admission.OPEN
        word = NodeEventWord.OPENED if is_open else NodeEventWord.CLOSED
        events.append(KeptNodeEvent(now, word, f"{by or 'An operator'} {'opened' if is_open else 'closed'} it."))
    return replace(
        node,
        admission=after,
        note="" if after is Admission.OPEN else note or node.note,
        drain=wanted,
        admission_since=monotonic if moved else node.admission_since,
        events=node_events.added(node.events, *events),
    )


def opened(node: Node, why: str, *, now: float, monotonic: float) -> Node:
    """The node once it has opened by itself, as its drain said."""
    return replace(
        node,
        admission=Admission.OPEN,
        note="",
        drain=None,
        admission_since=monotonic,
        events=node_events.added(node.events, KeptNodeEvent(now, NodeEventWord.RETURNED, why)),
    )
