"""What happened to a node, for those who wonder later. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum

from headway.rpc.v1 import resource_manager_pb2 as pb

KEPT = 20


class NodeEventWord(StrEnum):
    """What kind of thing happened."""

    DRAIN = "drain"  # it is being emptied, or how has changed
    CLOSED = "closed"
    OPENED = "opened"  # by a person
    RETURNED = "returned"  # by itself, as its drain said
    REBOOTED = "rebooted"  # its machine was restarted
    HARDWARE = "hardware"  # it came back with other GPUs, CPUs or memory
    MOVED = "moved"  # it came back at another address
    REPLACED = "replaced"  # a Worker with another state folder took the name
    REFUSED = "refused"  # a second Worker was turned away
    RENAMED = "renamed"  # its state folder was another node's before


@dataclass(frozen=True, slots=True)
class KeptNodeEvent:
    """``at`` in epoch seconds."""

    at: float
    word: str
    sentence: str


def added(events: Sequence[KeptNodeEvent], *new: KeptNodeEvent) -> tuple[KeptNodeEvent, ...]:
    """The latest of them. One that says again what the last one said only renews its time."""
    kept = list(events)
    for event in new:
        if kept and (kept[-1].word, kept[-1].sentence) == (event.word, event.sentence):
            kept.pop()
        kept.append(event)
    return tuple(kept[-KEPT:])


def to_pb(event: KeptNodeEvent) -> pb.NodeEvent:
    return pb.NodeEvent(at=event.at, word=event.word, sentence=event.sentence)


def to_text(events: Sequence[KeptNodeEvent]) -> str:
    return json.dumps([asdict(event) for event in events])


def from_text(text: str) -> tuple[KeptNodeEvent, ...]:
    return tuple(KeptNodeEvent(**one) for one in json.loads(text or "[]"))
