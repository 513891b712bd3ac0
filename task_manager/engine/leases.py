"""When may an attempt on a silent machine be called lost?

The launcher inside each container ends it when its lease passes; the Worker renews the leases with each heartbeat.
An attempt may be given away only after its old container must have ended, so everything here leans to the late side:

* A node's leases count from the last moment at which it could have been granted one: the last heartbeat answered, or
  the last launch sent there.
* Leases are suspended (the files say ``none``) with one worker, while a Worker stops as planned, and after a planned
  stop of TaskManager. Whether a node's files *may* say none is remembered on disk before the answer that permits it
  is sent, and until the Worker has confirmed that they say otherwise. As long as they may, silence proves nothing:
  only an operator's word, or the machine's own return without the attempt, ends it.
* Silence is measured by the boot clock from TaskManager's own start at the earliest: what happened while it was away
  is nobody's silence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headway.ids import AttemptId, NodeId


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """In seconds. An attempt is lost ``lease_s + margin_s`` after the last grant. The launcher stops it well before
    ``lease_s`` (the configuration sees to that); the margin is for clocks that run at slightly different speeds."""

    lease_s: float = 120.0
    margin_s: float = 2.0
    heartbeat_s: float = 10.0
    missing_grace_s: float = 8.0  # a machine that is back but does not list an attempt may still report its end

    @property
    def silence_s(self) -> float:
        """After so long without a heartbeat a node gets no new work, and people are told that it does not answer."""
        return 3.5 * self.heartbeat_s


@dataclass(frozen=True, slots=True)
class NodeLease:
    """What heartbeats told about one node. ``heard_s`` is by TaskManager's boot clock."""

    incarnation: int
    address: str
    heard_s: float
    suspended: bool = True  # its lease files may say `none`; kept on disk
    granted: bool = False  # what the last answer said: enforced or not
    stopping: bool = False  # it stops as planned
    heard: bool = False  # a heartbeat came since TaskManager started


@dataclass(frozen=True, slots=True)
class LeaseGrant:
    """What is answered to a heartbeat."""

    lease: NodeLease
    enforced: bool


def renew(
    before: NodeLease | None,
    *,
    incarnation: int,
    address: str,
    stopping: bool,
    files_suspended: bool,
    other_workers: bool,
    planned_stop: bool,
    now_s: float,
) -> LeaseGrant:
    """Renews a node's leases. ``files_suspended`` is what the Worker says its lease files hold now."""
    enforced = other_workers and not stopping and not planned_stop
    # Proven enforced only if the files hold deadlines, and no answer that may still be under way says otherwise:
    # the previous answer is the last that can have been applied, this one is the next.
    settled = enforced and not files_suspended and before is not None and before.granted
    suspended = not settled and (not enforced or files_suspended or before is None or before.suspended)
    lease = NodeLease(incarnation, address, now_s, suspended, enforced, stopping, heard=True)
    return LeaseGrant(lease, enforced)


def suspend(lease: NodeLease) -> NodeLease:
    """Before a planned stop of TaskManager is told to the Workers."""
    return replace(lease, suspended=True, granted=False)


@dataclass(frozen=True, slots=True)
class AttemptLease:
    """A live attempt as far as leases care; ``launched_s``: when a launch of it was last under way."""

    attempt: AttemptId
    node_id: NodeId
    launched_s: float


def expired_attempts(
    attempts: Iterable[AttemptLease],
    nodes: dict[NodeId, NodeLease],
    *,
    started_s: float,
    now_s: float,
    settings: LeaseSettings,
) -> list[AttemptId]:
    """The attempts whose containers must have ended by themselves: they may run elsewhere."""
    bound_s = settings.lease_s + settings.margin_s
    lost = []
    for live in attempts:
        node = nodes.get(live.node_id)
        if node is None or node.suspended:
            continue
        if now_s - max(node.heard_s, live.launched_s, started_s) > bound_s:
            lost.append(live.attempt)
    return lost


def is_silent(lease: NodeLease | None, *, started_s: float, now_s: float, settings: LeaseSettings) -> bool:
    """Whether a node has not been heard for so long that it gets no new work."""
    heard_s = started_s if lease is None else max(lease.heard_s, started_s)
    return now_s - heard_s > settings.silence_s


def is_gone(missing_since_s: float | None, *, now_s: float, settings: LeaseSettings) -> bool:
    """Whether an attempt that a living machine did not list since then is gone for good."""
    return missing_since_s is not None and now_s - missing_since_s >= settings.missing_grace_s
