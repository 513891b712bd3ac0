"""What is known of the nodes, and which changes are published. Pure.

A node's status stays the message that its Worker sent. Nothing here decides by more than a few of its fields;
everything else passes through to those who show it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headway.errors import InvalidInput
from headway.rpc.v1 import resource_manager_pb2
from headway.states import Admission

from . import drain as drains
from . import health, node_events
from .drain import Drain
from .health import HealthState
from .node_events import KeptNodeEvent

Status = resource_manager_pb2.NodeStatus

_INCARNATION_AT_MOST = 2**63 - 1
# All nodes are told in one message of 4 MiB: what one Worker says must not take it. 500 images need some 200 KiB.
_MOST_BYTES = 512 * 1024
_MOST_OF_ADDRESS = 300
_MOST_OF_LABELS = 16 * 1024

# More than an answer can be under way.
_SKEW_S = 30.0


@dataclass(frozen=True, slots=True)
class Node:
    """One machine. Instants in epoch seconds of this service's clock, except in ``health_state``."""

    id: str
    incarnation: int
    address: str
    status: Status  # never changed in place
    health_state: HealthState
    registered_at: float
    seen_at: float
    admission: Admission = Admission.OPEN
    admission_since: float = 0.0  # monotonic: a status asked for earlier says nothing about a drain
    note: str = ""
    version: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    worker_uuid: str = ""  # of its Worker's state folder; empty: an older Worker
    boot_id: str = ""  # of its machine when its Worker registered last
    drain: Drain | None = None
    events: tuple[KeptNodeEvent, ...] = ()  # oldest first
    may_be_replaced: bool = False  # the next Worker of this name is taken, whatever folder it has


def check_status(status: Status) -> None:
    """
    Raises:
        InvalidInput: it is so large that it would keep others from hearing of other nodes.
    """
    if status.ByteSize() > _MOST_BYTES:
        raise InvalidInput(f"A status has {status.ByteSize()} bytes; {_MOST_BYTES} are allowed.")


def check_request(request: resource_manager_pb2.RegisterNodeRequest) -> None:
    """
    Raises:
        InvalidInput: no name, no address, an incarnation out of range, or something far too long.
    """
    if not request.node_id or not request.address:
        raise InvalidInput("A node registers with its name and the address of its Worker.")
    if len(request.address) > _MOST_OF_ADDRESS or len(request.version) > _MOST_OF_ADDRESS:
        raise InvalidInput(f"A Worker's address and version have at most {_MOST_OF_ADDRESS} characters.")
    if sum(len(key) + len(value) for key, value in request.labels.items()) > _MOST_OF_LABELS:
        raise InvalidInput(f"The labels of a node have at most {_MOST_OF_LABELS} characters.")
    if not 0 < request.incarnation <= _INCARNATION_AT_MOST:
        raise InvalidInput(f"The number of a start lies between 1 and {_INCARNATION_AT_MOST}.")
    check_status(request.status)


def registered(
    known: Node | None,
    request: resource_manager_pb2.RegisterNodeRequest,
    *,
    now: float,
    monotonic: float,
) -> Node:
    """The node once its Worker has registered. What operators said of it outlives its restarts.

    ``known``: the node as it was, under this name or the one before. ``identity`` has judged that it may register.
    """
    return Node(
        id=request.node_id,
        incarnation=request.incarnation,
        address=request.address,
        status=_own(request.status, request.node_id, request.incarnation, now),
        health_state=health.on_registered(monotonic),
        registered_at=now,
        seen_at=now,
        admission=known.admission if known is not None else Admission.OPEN,
        admission_since=known.admission_since if known is not None else 0.0,
        note=known.note if known is not None else "",
        version=request.version,
        labels=tuple(sorted(request.labels.items())),
        worker_uuid=request.status.worker_uuid or (known.worker_uuid if known is not None else ""),
        boot_id=request.status.boot_id or (known.boot_id if known is not None else ""),
        drain=known.drain if known is not None else None,
        events=known.events if known is not None else (),
    )


def answered(node: Node, status: Status, *, now: float, monotonic: float) -> Node | None:
    """The node once its Worker has answered a poll; None when the answer is of an older incarnation.

    A newer one is taken as it is: its Worker was restarted while this service was away, and registers soon.
    """
    if status.incarnation < node.incarnation:
        return None
    return replace(
        node,
        incarnation=status.incarnation,
        status=_own(status, node.id, status.incarnation, now),
        health_state=health.on_answer(node.health_state, monotonic),
        seen_at=now,
    )


def reported(node: Node, status: Status, *, now: float) -> Node:
    """The node once its Worker has told of a change by itself. That proves nothing about being reachable."""
    return replace(node, status=_own(status, node.id, node.incarnation, now))


# What counts as a change of a card for those who watch; a new reading changes nothing for them.
_WATCHED_OF_GPU = (
    "uuid", "model", "memory_bytes", "index", "pci_bus_id", "simulated", "sick", "busy_outside", "fault",
)  # fmt: skip
# Of the machine as a whole, beside its cards.
_WATCHED_OF_CAPACITY = (
    "cpu_centi", "memory_bytes", "architecture", "engine_version", "driver_version", "cuda_version", "runtime",
)  # fmt: skip


def watched_facts(node: Node) -> bytes:
    """What others plan with. Watchers hear of a node only when this has changed.

    It is a list of what counts. A field that is new in the messages stays out until somebody plans with it.
    """
    kept = resource_manager_pb2.Node(
        id=node.id,
        incarnation=node.incarnation,
        address=node.address,
        health=node.health_state.health.value,
        admission=node.admission.value,
        note=node.note,
        version=node.version,
        labels=dict(node.labels),
        drain=drains.to_pb(node.drain) if node.drain is not None else None,
        events=[node_events.to_pb(event) for event in node.events],
    )
    capacity = node.status.capacity
    for name in _WATCHED_OF_CAPACITY:
        setattr(kept.status.capacity, name, getattr(capacity, name))
    kept.status.capacity.most_ulimits.extend(capacity.most_ulimits)
    for gpu in capacity.gpus:
        # Tasks that wait for a card are told who uses it.
        note = gpu.note if gpu.busy_outside else ""
        kept.status.capacity.gpus.add(note=note, **{name: getattr(gpu, name) for name in _WATCHED_OF_GPU})
    for condition in node.status.conditions:
        # Tasks that wait for GPUs are told its sentence, which has no numbers that change all the time.
        told = condition.sentence if condition.word == "gpu_unavailable" else ""
        kept.status.conditions.add(word=condition.word, blocks_work=condition.blocks_work, sentence=told)
    kept.status.images.extend(sorted(node.status.images))
    for image in sorted(node.status.engine_images, key=lambda image: image.id):
        kept.status.engine_images.add(id=image.id, repo_digests=sorted(image.repo_digests))
    return kept.SerializeToString(deterministic=True)


def blocking(status: Status) -> tuple[str, ...]:
    """Sentences of what keeps the Worker from taking work."""
    return tuple(c.sentence or c.word.replace("_", " ") for c in status.conditions if c.blocks_work)


def to_pb(node: Node, monotonic: float) -> resource_manager_pb2.Node:
    """The node as its message shows it."""
    return resource_manager_pb2.Node(
        id=node.id,
        incarnation=node.incarnation,
        address=node.address,
        health=node.health_state.health.value,
        admission=node.admission.value,
        status=node.status,
        registered_at=node.registered_at,
        seen_at=node.seen_at,
        note=node.note,
        version=node.version,
        labels=dict(node.labels),
        health_sentence=health.sentence(node.health_state, monotonic, blocking(node.status)),
        drain=drains.to_pb(node.drain) if node.drain is not None else None,
        events=[node_events.to_pb(event) for event in node.events],
    )


def _own(status: Status, node_id: str, incarnation: int, now: float) -> Status:
    """A copy under the node's own name and at this service's time: a Worker's clock may be anything."""
    own = Status()
    own.CopyFrom(status)
    own.node_id = node_id
    own.incarnation = incarnation
    own.at = now
    ahead_s = status.at - now
    if status.at and abs(ahead_s) > _SKEW_S:
        # Nothing here depends on it, but its logs and the times of its attempts will look odd.
        way = "ahead of" if ahead_s > 0 else "behind"
        sentence = f"Its clock is {abs(ahead_s):.0f} s {way} the server's; set up time synchronisation."
        own.conditions.add(word="clock_skew", sentence=sentence, since=now, blocks_work=False)
    return own
