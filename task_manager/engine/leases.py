"""When may an attempt on a silent node be called lost?

The launcher inside each container ends it when its lease expires; the Worker renews the leases with each heartbeat.
A task may start elsewhere only after its old container must have ended. So everything here prefers to be too late:

* A node's leases count from the last moment at which it could have got one. That is the last answered heartbeat or
  the last launch sent there.
* Leases are suspended (the files say ``none``) with a single worker, while a Worker stops as planned, and after a
  planned stop of TaskManager. Before an answer permits that, the disk notes that the node's files may say ``none``.
  The note stays until the Worker confirms that the files say otherwise. Until then silence proves nothing. The attempt
  then ends only if an operator declares the node lost, or if the node comes back without the attempt.
* Silence is measured by the boot clock, from TaskManager's own start at the earliest. TaskManager's own absence must
  not count as silence of a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from headway.ids import AttemptId, NodeId


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """In seconds. An attempt is lost ``lease_s + margin_s`` after the last grant. The launcher stops it well before
    ``lease_s``, as the configuration ensures. The margin is for clocks that run at slightly different speeds."""

    lease_s: float = 120.0
    margin_s: float = 0.5  # clocks that are kept by NTP differ by 0.06 s in two minutes at most
    heartbeat_s: float = 10.0
    missing_grace_s: float = 8.0  # a node that is back and does not list an attempt may still report its end

    @property
    def silence_s(self) -> float:
        """After so long without a heartbeat a node gets no new work, and pages say that it does not answer."""
        return 3.5 * self.heartbeat_s


@dataclass(frozen=True, slots=True)
class NodeLease:
    """What heartbeats say about one node. ``last_heartbeat_s`` is by TaskManager's boot clock."""

    incarnation: int
    address: str
    last_heartbeat_s: float
    suspended: bool = True  # its lease files may say `none`; stored
    granted: bool = False  # what the last answer said: enforced or not
    stopping: bool = False  # it stops as planned
    heartbeat_seen: bool = False  # a heartbeat came since TaskManager started


@dataclass(frozen=True, slots=True)
class LeaseGrant:
    """The lease that a heartbeat gets."""

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
    # Leases are surely enforced only if the files hold deadlines, and no answer under way says otherwise. The Worker
    # can have applied the previous answer at most; this one is the next.
    settled = enforced and not files_suspended and before is not None and before.granted
    suspended = not settled and (not enforced or files_suspended or before is None or before.suspended)
    lease = NodeLease(incarnation, address, now_s, suspended, enforced, stopping, heartbeat_seen=True)
    return LeaseGrant(lease, enforced)


def suspend(lease: NodeLease) -> NodeLease:
    """The lease once a planned stop of TaskManager is about to be announced to the Workers."""
    return replace(lease, suspended=True, granted=False)


@dataclass(frozen=True, slots=True)
class AttemptLease:
    """What leases need to know of a live attempt. ``launched_s``: when a launch of it was last under way."""

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
    """The attempts whose containers must have ended by themselves: their tasks may start elsewhere."""
    return [live.attempt for live, end_s in _ends(attempts, nodes, started_s, settings) if now_s > end_s]


def next_end_s(
    attempts: Iterable[AttemptLease],
    nodes: dict[NodeId, NodeLease],
    *,
    started_s: float,
    settings: LeaseSettings,
) -> float | None:
    """When the next of them will have expired if no heartbeat comes, by the boot clock; None: never."""
    return min([end_s for _, end_s in _ends(attempts, nodes, started_s, settings)], default=None)


def _ends(
    attempts: Iterable[AttemptLease], nodes: dict[NodeId, NodeLease], started_s: float, settings: LeaseSettings
) -> Iterator[tuple[AttemptLease, float]]:
    bound_s = settings.lease_s + settings.margin_s
    for live in attempts:
        node = nodes.get(live.node_id)
        if node is not None and not node.suspended:
            yield live, max(node.last_heartbeat_s, live.launched_s, started_s) + bound_s


def is_silent(lease: NodeLease | None, *, started_s: float, now_s: float, settings: LeaseSettings) -> bool:
    """Whether a node has sent no heartbeat for so long that it gets no new work."""
    heard_s = started_s if lease is None else max(lease.last_heartbeat_s, started_s)
    return now_s - heard_s > settings.silence_s


def is_gone(missing_since_s: float | None, *, now_s: float, settings: LeaseSettings) -> bool:
    """Whether an attempt is gone for good that its node, though it answers, has not listed since then."""
    return missing_since_s is not None and now_s - missing_since_s >= settings.missing_grace_s
