"""What is known in memory only: of the launches of live attempts, and of nodes that refused work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..model import Node


@dataclass(slots=True)
class AttemptTracking:
    """What is known about the launch of a live attempt. It is never stored: Workers tell it again after a start."""

    sent: bool = False  # a launch may have left: the Worker may know of it
    uncertain: bool = False  # a launch had no answer
    confirmed_s: float | None = None  # boot clock: from then on its node can have reported its end
    placed_s: float = 0.0  # boot clock: when it was placed, or TaskManager's start if that was later
    booked_s: float = 0.0  # boot clock: when it was placed; after a reboot derived from the wall clock
    running_s: float | None = None  # boot clock: since when its process is known to run
    launched_s: float = 0.0  # boot clock: when a launch was last under way
    missing_since_s: float | None = None  # boot clock: since when its node does not list it
    stop_delivered: bool = False
    notice: str = ""  # what its owner was told last while it runs


@dataclass(frozen=True, slots=True)
class UnfitNode:
    """A node that refused work. It gets none until its status changes or the time is over."""

    node: Node | None  # as it was when it refused
    until_s: float  # boot clock
    sentence: str


def may_accept_work_again(before: Node | None, now: Node | None) -> bool:
    """Whether a node that refused work has changed in a way that is a reason to ask it again."""
    if before is None or now is None:
        return before is not now
    return _facts_that_count(before) != _facts_that_count(now)


def _facts_that_count(node: Node) -> tuple[Any, ...]:
    # An image that came or went is no reason: images come and go all the time.
    return (
        node.incarnation, node.address, node.health, node.admission, node.cpu_centi, node.memory_bytes, node.gpus,
        node.conditions, node.architecture, node.driver_version, node.cuda_version,
        node.most_ulimits,
    )  # fmt: skip
