"""Whose Worker it is that registers under a name. Pure.

A Worker's state folder has an id of its own, made once. The name says which node it is; the id says which folder. So a
copied folder, a machine that was set up anew and one that was renamed are told apart. What can't be decided yet is
answered ``Conflict``: the Worker asks again. What is wrong for good is ``Fenced``: the Worker ends with the sentence.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from headway.errors import Conflict, Fenced
from headway.model.gpu_faults import GpuFaultWord
from headway.rpc.v1 import resource_manager_pb2 as pb
from headway.states import NodeHealth
from headway.units import counted, format_size

from . import admission_changes, drain, inventory, node_events
from .inventory import Node
from .node_events import KeptNodeEvent, NodeEventWord

_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Claim:
    """A registration, beside what is known. ``renamed_from``: the node that had this state folder before."""

    request: pb.RegisterNodeRequest
    known: Node | None
    renamed_from: Node | None = None

    @property
    def node_id(self) -> str:
        return self.request.node_id

    @property
    def uuid(self) -> str:
        return self.request.status.worker_uuid

    @property
    def to_probe(self) -> Node | None:
        """The node whose old address must be asked whether its Worker still runs there; None: nobody.

        An older Worker, which tells no id of its folder, is believed as it always was.
        """
        if not self.uuid:
            return None
        if self.renamed_from is not None:
            return self.renamed_from if self.renamed_from.address != self.request.address else None
        if self.known is None or self.known.address == self.request.address:
            return None
        return self.known if self.request.incarnation > self.known.incarnation else None


def claim(request: pb.RegisterNodeRequest, nodes: Iterable[Node]) -> Claim:
    """The registration with the nodes that it concerns."""
    known = other = None
    uuid = request.status.worker_uuid
    for node in nodes:
        if node.id == request.node_id:
            known = node
        elif uuid and node.worker_uuid == uuid:
            other = node
    return Claim(request, known, other)


def is_same_worker(node: Node, status: pb.NodeStatus) -> bool:
    """Whether a status is of the Worker that has registered as this node, in this life or another."""
    if status.node_id and status.node_id != node.id:
        return False
    return not (status.worker_uuid and node.worker_uuid) or status.worker_uuid == node.worker_uuid


def is_same_place(one: Node | None, other: Node | None) -> bool:
    """Whether the same life of a Worker was to be asked: then what it answered still counts."""
    if one is None or other is None:
        return one is other
    return (one.id, one.address, one.incarnation) == (other.id, other.address, other.incarnation)


def check(claim: Claim, *, old_answers: bool) -> None:
    """Refuses a Worker that must not have the name. ``old_answers``: the Worker of ``to_probe`` runs at its address.

    Raises:
        Fenced: for good: a copied folder, or an older start.
        Conflict: for now: the name or the folder is another's, who may still be alive.
    """
    request, known, other = claim.request, claim.known, claim.renamed_from
    if other is not None:
        _check_renamed(request, other, old_answers=old_answers)
    if known is None:
        return
    if claim.uuid and known.worker_uuid and claim.uuid != known.worker_uuid:
        _check_other_folder(request, known, old_answers=old_answers)
        return
    if request.incarnation < known.incarnation:
        raise Fenced(
            f"Node {request.node_id} has registered with a later start of its worker ({known.incarnation}) from "
            f"{known.address}; this one is at {request.address}. If two machines use this name, give one of them "
            "another `worker.node_id`. If the state folder was copied, empty `worker.folder` on the copy too."
        )
    if old_answers:
        raise Fenced(_copied(request, known))


def _check_renamed(request: pb.RegisterNodeRequest, other: Node, *, old_answers: bool) -> None:
    if old_answers:
        raise Fenced(_copied(request, other))
    if other.address != request.address and other.health_state.health is not NodeHealth.DOWN:
        raise Conflict(
            f"The state folder of {request.node_id} at {request.address} is that of {other.id} at {other.address}, "
            f"which is not DOWN yet. If the machine was renamed, wait: the name {request.node_id} is taken once "
            f"{other.id} counts as DOWN. If the folder was copied, stop this worker and empty its `worker.folder`."
        )


def _check_other_folder(request: pb.RegisterNodeRequest, known: Node, *, old_answers: bool) -> None:
    if old_answers:
        raise Fenced(
            f"The name {request.node_id} belongs to a worker that runs at {known.address}; this one, at "
            f"{request.address}, has another state folder. Give this machine another `worker.node_id`."
        )
    if known.health_state.health is not NodeHealth.DOWN and not known.may_be_replaced:
        raise Conflict(
            f"The name {request.node_id} belongs to the worker at {known.address}, which has another state folder and "
            f"is not DOWN yet. If the machine was set up anew, wait, or run `headway nodes replace {request.node_id}`. "
            "If there are two machines, give this one another `worker.node_id`."
        )
    if request.incarnation <= known.incarnation:
        raise Fenced(
            f"The worker of {request.node_id} at {request.address} was started before the one that it replaces, by its "
            "own clock. Set the machine's clock right, then start the worker again."
        )


def _copied(request: pb.RegisterNodeRequest, node: Node) -> str:
    return (
        f"The worker of {node.id} runs at {node.address} with this same state folder; a second one at "
        f"{request.address} is refused. The folder was copied, perhaps with the machine's disk: stop the worker there, "
        "empty its `worker.folder`, and give the machine a `worker.node_id` of its own."
    )


def admitted(claim: Claim, *, now: float, monotonic: float) -> Node:
    """The node once its Worker was taken, with what that tells. It opens if its drain awaited a restart."""
    before = claim.known if claim.known is not None else claim.renamed_from
    node = inventory.registered(before, claim.request, now=now, monotonic=monotonic)
    node = replace(node, events=node_events.added(node.events, *events_of(claim, now=now)))
    if before is not None and drain.opens_when_back(before.drain, before.boot_id, node.boot_id):
        why = "It was restarted, as was wished, and is open."
        return admission_changes.opened(node, why, now=now, monotonic=monotonic)
    return node


def events_of(claim: Claim, *, now: float) -> list[KeptNodeEvent]:
    """What a registration that was taken tells of its node."""
    request, known, other = claim.request, claim.known, claim.renamed_from
    found: list[tuple[NodeEventWord, str]] = []
    if other is not None:
        found.append((NodeEventWord.RENAMED, f"Its machine was called {other.id} before; that node is forgotten."))
    before = known if known is not None else other
    if before is None:
        return []
    if known is not None and claim.uuid and known.worker_uuid and claim.uuid != known.worker_uuid:
        found.append((NodeEventWord.REPLACED, f"It was set up anew at {request.address}: its state folder is new."))
    elif known is not None and known.address != request.address:
        found.append((NodeEventWord.MOVED, f"It moved from {known.address} to {request.address}."))
    if before.boot_id and request.status.boot_id not in ("", before.boot_id):
        found.append((NodeEventWord.REBOOTED, "Its machine was restarted."))
    if hardware := hardware_change(before.status.capacity, request.status.capacity):
        found.append((NodeEventWord.HARDWARE, hardware))
    return [KeptNodeEvent(now, word, sentence) for word, sentence in found]


def hardware_change(before: pb.Capacity, after: pb.Capacity) -> str:
    """With what else a machine came back, in a sentence; empty: with the same."""
    had, has = _there(before), _there(after)
    gone = [had[uuid] for uuid in had if uuid not in has]
    new = [has[uuid] for uuid in has if uuid not in had]
    parts = []
    if gone:
        parts.append(f"{counted(len(gone), 'GPU')} gone: {_named(gone)}")
    if new:
        parts.append(f"{counted(len(new), 'GPU')} new: {_named(new)}")
    if before.cpu_centi and before.cpu_centi != after.cpu_centi:
        parts.append(f"CPUs {before.cpu_centi / 100:g} before, {after.cpu_centi / 100:g} now")
    if before.memory_bytes and _far(before.memory_bytes, after.memory_bytes):
        parts.append(f"memory {format_size(before.memory_bytes)} before, {format_size(after.memory_bytes)} now")
    return f"It came back changed. {'; '.join(parts)}." if parts else ""


def _there(capacity: pb.Capacity) -> dict[str, pb.Gpu]:
    """Cards that are in the machine: a Worker goes on listing one that vanished."""
    return {gpu.uuid: gpu for gpu in capacity.gpus if gpu.fault != GpuFaultWord.VANISHED.value}


def _named(gpus: list[pb.Gpu]) -> str:
    told = ", ".join(f"{gpu.uuid} ({gpu.model})" for gpu in gpus[:_SHOWN])
    return told + (f" and {len(gpus) - _SHOWN} more" if len(gpus) > _SHOWN else "")


def _far(one: int, other: int) -> bool:
    """Whether two sizes differ by more than what a kernel takes for itself."""
    return abs(one - other) > max(one, other) // 50
