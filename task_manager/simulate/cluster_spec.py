"""The nodes of a simulation, read from text such as ``2x8xA100,1x4``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from headway.ids import NodeId
from headway.states import Admission, NodeHealth
from headway.units import BadValue, parse_cpus, parse_size

from ..model import Gpu, Node

FORM = "NODESxGPUS[xMODEL][:cpus=N][:memory=SIZE], several separated by commas, for instance 2x8xA100,1x4"

# The model of cards without a stated model. If other cards have one, every task accepts this one too.
ANY_MODEL = "any"

_MAX_NODES = 10_000
_MAX_GPUS_PER_NODE = 1_024
_MAX_GPUS = 100_000
# CPUs and memory that are not stated never run out.
_BOUNDLESS = 10**15

_COUNTS = re.compile(r"([0-9]{1,9})x([0-9]{1,9})(?:x(.*))?", re.IGNORECASE)
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,62}")


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """The nodes, and which of a task's resources count on them."""

    text: str
    nodes: tuple[Node, ...]
    kinds: tuple[Node, ...]  # one node of each group; the others of the group are equal
    models_stated: bool
    cpus_stated: bool
    memory_stated: bool

    @property
    def gpus(self) -> int:
        """How many GPUs there are."""
        return sum(node.whole_gpus for node in self.nodes)

    @property
    def cpu_centi(self) -> int:
        """Hundredths of a CPU of all nodes that state theirs."""
        return sum(node.cpu_centi for node in self.nodes if node.cpu_centi != _BOUNDLESS)


def parse_cluster(text: str) -> ClusterSpec:
    """The cluster that ``text`` describes.

    Raises:
        BadValue: the text is wrong; the message says which part, and what the form is.
    """
    nodes: list[Node] = []
    kinds: list[Node] = []
    models = cpus = memory = False
    total = 0
    for group in text.split(","):
        count, gpus, model, cpu_centi, memory_bytes = _group(group.strip())
        if len(nodes) + count > _MAX_NODES:
            raise BadValue(f"{text!r} has more than {_MAX_NODES:,} nodes")
        total += count * gpus
        if total > _MAX_GPUS:
            raise BadValue(f"{text!r} has more than {_MAX_GPUS:,} GPUs")
        models |= bool(model)
        cpus |= cpu_centi is not None
        memory |= memory_bytes is not None
        first = len(nodes)
        nodes.extend(_node(first + i, gpus, model, cpu_centi, memory_bytes) for i in range(count))
        kinds.append(nodes[first])
    return ClusterSpec(text, tuple(nodes), tuple(kinds), models, cpus, memory)


def _group(group: str) -> tuple[int, int, str, int | None, int | None]:
    counts, *settings = group.split(":")
    match = _COUNTS.fullmatch(counts.strip())
    if match is None:
        raise BadValue(f"{group!r} is not a group of nodes: the form is {FORM}")
    count, gpus, model = int(match[1]), int(match[2]), (match[3] or "").strip()
    if count == 0:
        raise BadValue(f"{group!r} has no nodes")
    if gpus > _MAX_GPUS_PER_NODE:
        raise BadValue(f"{group!r} has {gpus:,} GPUs a node; at most {_MAX_GPUS_PER_NODE:,} are possible")
    if match[3] is not None and not _MODEL.fullmatch(model):
        raise BadValue(f"{group!r}: {model!r} is not the name of a GPU model")
    if model and not gpus:
        raise BadValue(f"{group!r} names a GPU model for nodes without GPUs")
    found: dict[str, int] = {}
    for setting in settings:
        key, equals, value = (part.strip() for part in setting.partition("="))
        if key not in ("cpus", "memory") or not equals:
            raise BadValue(f"{group!r}: {setting!r} is neither cpus=N nor memory=SIZE")
        if key in found:
            raise BadValue(f"{group!r} states {key} twice")
        try:
            found[key] = parse_cpus(value) if key == "cpus" else parse_size(value)
        except BadValue as error:
            raise BadValue(f"{group!r}: {key} {error}") from error
    return count, gpus, model, found.get("cpus"), found.get("memory")


def _node(number: int, gpus: int, model: str, cpu_centi: int | None, memory_bytes: int | None) -> Node:
    name = f"node-{number + 1}"
    cards = tuple(Gpu(f"{name}/gpu-{i}", model or ANY_MODEL, 0, index=i) for i in range(gpus))
    return Node(
        id=NodeId(name),
        incarnation=1,
        address="",
        health=NodeHealth.READY,
        admission=Admission.OPEN,
        cpu_centi=_BOUNDLESS if cpu_centi is None else cpu_centi,
        memory_bytes=_BOUNDLESS if memory_bytes is None else memory_bytes,
        gpus=cards,
    )
