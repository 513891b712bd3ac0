"""The placement rule: on which nodes a task fits, and what the others lack. The same predicates decide and explain.

A task's GPUs, CPUs and memory come from one node. A GPU belongs to one task, unless its machine's admin shares it: then
tasks have shares of its memory, and none has it whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from headway.ids import NodeId
from headway.model.gpu_names import is_model, is_slice
from headway.model.gpu_shares import UNIT_BYTES
from headway.model.ulimits import UNLIMITED, exceeds, told
from headway.states import Admission, NodeHealth

from ..model import Gpu, Node, Shape
from . import cuda


class CpuTasks(StrEnum):
    """Whether tasks without GPUs may use nodes with GPUs."""

    LAST_RESORT = "last_resort"  # when no node without GPUs can take them
    ALWAYS = "always"
    NEVER = "never"


class Lack(StrEnum):
    """What a node lacks for a shape."""

    CPU = "cpu"
    MEMORY = "memory"
    GPU = "gpu"  # too few free cards of those that suit
    GPU_SHARE = "gpu_share"  # no shared card that suits has so much memory free
    GPU_MODEL = "gpu_model"  # too few free cards that suit, though enough other cards are free
    KEPT_FOR_GPU_TASKS = "kept_for_gpu_tasks"
    ARCHITECTURE = "architecture"  # its image is for another processor architecture
    DRIVER = "driver"  # its image needs a newer driver or another card
    ULIMIT = "ulimit"  # its engine gives no such limits
    OTHER_NODE = "other_node"  # its process is on another machine
    NAMED_GPU = "named_gpu"  # a card that it names is not free here
    IMAGE = "image"  # its image is not on this node's engine and can't be brought there


IMAGE_LACKS = frozenset({Lack.ARCHITECTURE, Lack.DRIVER, Lack.IMAGE})


@dataclass(frozen=True, slots=True)
class Shortage:
    """One lack in numbers: bytes of memory, hundredths of a CPU, or cards. ``words`` says what an image lacks."""

    lack: Lack
    asked: int
    free: int
    words: str = ""


@dataclass(slots=True)
class FreeResources:
    """What is free on a node. It belongs to one pass, which takes from it as it places tasks."""

    node: Node
    order: int  # its index in the list of nodes
    cpu_centi: int
    memory_bytes: int
    gpus: list[Gpu]  # those that are given out whole
    closed: str = ""  # why nothing may be placed here now; empty: the node is open
    shares: dict[str, int] = field(default_factory=dict)  # of each shared card that works: its free units
    held_unusable: frozenset[str] = frozenset()  # cards that can't be given out now, and that tasks still have

    def take(self, shape: Shape, gpu_uuids: Collection[str]) -> None:
        """Takes what a task of this shape holds, with these GPUs."""
        self.cpu_centi -= shape.cpu_centi
        self.memory_bytes -= shape.memory_bytes
        if gpu_uuids:
            self.gpus = [gpu for gpu in self.gpus if gpu.uuid not in gpu_uuids]
            for uuid in self.shares.keys() & set(gpu_uuids):
                left = self.shares[uuid] - shape.share_units if shape.gpu_share_bytes else 0
                self.shares = {**self.shares, uuid: left}

    def give_back(self, shape: Shape, gpus: Iterable[Gpu]) -> None:
        """Gives back what ``take`` took."""
        self.cpu_centi += shape.cpu_centi
        self.memory_bytes += shape.memory_bytes
        if shape.gpu_share_bytes:
            more = {gpu.uuid: self.shares.get(gpu.uuid, 0) + shape.share_units for gpu in gpus}
            self.shares = {**self.shares, **more}
        else:
            self.gpus.extend(gpus)


@dataclass(frozen=True, slots=True)
class ChosenGpus:
    """The node that was chosen for a task, and its cards there."""

    node_id: NodeId
    gpu_uuids: tuple[str, ...]


def full_capacity(node: Node, order: int = 0, *, also_sick: bool = False) -> FreeResources:
    """What the node would have free if nothing ran on it. With ``also_sick``, cards that don't work count too."""
    return _with_cards(node, order, [gpu for gpu in node.gpus if also_sick or gpu.usable])


def without_sick(node: Node) -> FreeResources:
    """What the node would have free if nothing ran on it, and no program outside used its cards."""
    return _with_cards(node, 0, [gpu for gpu in node.gpus if not gpu.sick])


def _with_cards(node: Node, order: int, gpus: Sequence[Gpu]) -> FreeResources:
    whole, shares = [gpu for gpu in gpus if not gpu.shared], {gpu.uuid: gpu.units for gpu in gpus if gpu.shared}
    return FreeResources(node, order, node.cpu_centi, node.memory_bytes, whole, why_closed(node), shares)


def why_closed(node: Node) -> str:
    """Why the node takes no work according to ResourceManager, as a clause; empty: it is open."""
    if node.health is not NodeHealth.READY:
        return f"{node.id} is {node.health.value}"
    if node.admission is not Admission.OPEN:
        return f"{node.id} is {node.admission.value}"
    for condition in node.conditions:
        if condition.blocks_work:
            return f"{node.id} takes no work: {condition.sentence or condition.word}"
    return ""


def suits(gpu: Gpu, shape: Shape) -> bool:
    """Whether the card is of a model and memory size that the shape accepts.

    A program sees one MIG slice at most. Several of them are only for tasks that name them. A shared card suits shares
    only, and only shares that fit when it is empty.
    """
    if gpu.memory_bytes < shape.gpu_memory_bytes or gpu.shared != (shape.gpu_share_bytes > 0):
        return False
    if gpu.shared and gpu.units < shape.share_units:
        return False
    if shape.gpu_models:
        return any(is_model(gpu.model, wanted) for wanted in shape.gpu_models)
    return shape.gpus <= 1 or not is_slice(gpu.model)


def takes_image(shape: Shape, node: Node) -> bool:
    """Whether the shape's image can run on the node. Facts that are not known count as met."""
    if shape.architecture and node.architecture and shape.architecture != node.architecture:
        return False
    if shape.needs_image_there and shape.image not in node.images:
        return False
    return not shape.require_cuda or _driver_serves(shape, node)


def gives_ulimits(shape: Shape, node: Node) -> bool:
    """Whether the node's engine can give the limits that the shape asks for. One that is not known counts as given."""
    most = dict(node.most_ulimits)
    return not any(exceeds(hard, most.get(name, UNLIMITED)) for name, hard in shape.ulimits)


def _driver_serves(shape: Shape, node: Node) -> bool:
    models = tuple(sorted({gpu.model for gpu in node.gpus if suits(gpu, shape)}))
    return cuda.is_served(shape.require_cuda, node.driver_version, node.cuda_version, models)


def fits(shape: Shape, free: FreeResources) -> bool:
    """Whether the shape fits into what is free on the node. Whether the node is open is not looked at."""
    if shape.cpu_centi > free.cpu_centi or shape.memory_bytes > free.memory_bytes:
        return False
    if shape.node_id and (shape.node_id != free.node.id or not has_named(shape, free.gpus)):
        return False
    if not shape.is_plain and not (takes_image(shape, free.node) and gives_ulimits(shape, free.node)):
        return False
    if shape.gpus == 0:
        return True
    if shape.gpu_share_bytes:
        return bool(shares_with_room(shape, free))
    return shape.gpus <= len(free.gpus) and shape.gpus <= sum(1 for gpu in free.gpus if suits(gpu, shape))


def shares_with_room(shape: Shape, free: FreeResources) -> list[Gpu]:
    """The shared cards that have room for the shape's share, the fullest first: large shares stay possible so."""
    found = [g for g in free.node.gpus if suits(g, shape) and free.shares.get(g.uuid, 0) >= shape.share_units]
    return sorted(found, key=lambda gpu: (free.shares[gpu.uuid], gpu.memory_bytes, gpu.index, gpu.uuid))


def has_named(shape: Shape, gpus: Iterable[Gpu]) -> bool:
    """Whether all cards that the shape names are among these."""
    return not shape.gpu_uuids or {gpu.uuid for gpu in gpus}.issuperset(shape.gpu_uuids)


def shortages(shape: Shape, free: FreeResources, cpu_tasks: CpuTasks = CpuTasks.LAST_RESORT) -> list[Shortage]:
    """All that the node lacks for the shape; empty exactly if a task of this shape may go there."""
    lacks = []
    if not shape.uses_gpus and free.node.gpus and cpu_tasks is CpuTasks.NEVER:
        lacks.append(Shortage(Lack.KEPT_FOR_GPU_TASKS, 0, 0))
    if shape.cpu_centi > free.cpu_centi:
        lacks.append(Shortage(Lack.CPU, shape.cpu_centi, free.cpu_centi))
    if shape.memory_bytes > free.memory_bytes:
        lacks.append(Shortage(Lack.MEMORY, shape.memory_bytes, free.memory_bytes))
    if shape.gpus:
        suitable = sum(1 for gpu in free.gpus if suits(gpu, shape))
        if suitable < shape.gpus:
            enough_others = len(free.gpus) >= shape.gpus
            lacks.append(Shortage(Lack.GPU_MODEL if enough_others else Lack.GPU, shape.gpus, suitable))
    if shape.gpu_share_bytes and not shares_with_room(shape, free):
        most = max((free.shares.get(gpu.uuid, 0) for gpu in free.node.gpus if suits(gpu, shape)), default=0)
        lacks.append(Shortage(Lack.GPU_SHARE, shape.gpu_share_bytes, max(0, most) * UNIT_BYTES))
    if shape.node_id and shape.node_id != free.node.id:
        lacks.append(Shortage(Lack.OTHER_NODE, 0, 0, f"it is for {shape.node_id}"))
    elif not lacks and not has_named(shape, free.gpus):
        count = sum(gpu.uuid in shape.gpu_uuids for gpu in free.gpus)
        lacks.append(Shortage(Lack.NAMED_GPU, shape.gpus, count))
    if not shape.is_plain:
        lacks.extend(image_lacks(shape, free.node))
        lacks.extend(ulimit_lacks(shape, free.node))
    return lacks


def distance(lacks: Sequence[Shortage]) -> float:
    """How far a node with these lacks is from taking the shape: their number, and how much of each is missing."""
    return sum(1.0 + (lack.asked - lack.free) / max(1, lack.asked) for lack in lacks)


def ulimit_lacks(shape: Shape, node: Node) -> list[Shortage]:
    """All limits that the node can't give as high as the shape asks for; empty exactly if ``gives_ulimits``."""
    most = dict(node.most_ulimits)
    return [
        Shortage(Lack.ULIMIT, hard, most[name], f"{node.id} gives {name} {told(name, most[name])}")
        for name, hard in shape.ulimits
        if exceeds(hard, most.get(name, UNLIMITED))
    ]


def image_lacks(shape: Shape, node: Node) -> list[Shortage]:
    """All that the shape's image lacks on the node; empty exactly if ``takes_image``."""
    lacks = []
    if shape.architecture and node.architecture and shape.architecture != node.architecture:
        lacks.append(Shortage(Lack.ARCHITECTURE, 0, 0, f"{node.id} is {node.architecture}"))
    if shape.require_cuda and not _driver_serves(shape, node):
        has = f"CUDA {node.cuda_version}" if node.cuda_version else "an older driver"
        driver = f" (driver {node.driver_version})" if node.driver_version else ""
        lacks.append(Shortage(Lack.DRIVER, 0, 0, f"{node.id} has {has}{driver}"))
    if shape.needs_image_there and shape.image not in node.images:
        lacks.append(Shortage(Lack.IMAGE, 0, 0, f"{node.id} does not have it"))
    return lacks


def choose(
    shape: Shape,
    free_resources: Iterable[FreeResources],
    *,
    avoid: Sequence[NodeId] = (),
    cpu_tasks: CpuTasks = CpuTasks.LAST_RESORT,
    last_used: Callable[[str], float] = lambda uuid: 0.0,
) -> ChosenGpus | None:
    """The node and cards for a shape; None: no node can take it now.

    Of the nodes on which it fits, the one that is in ``avoid`` least often is taken. Then the one with the fewest free
    suitable GPUs goes first (best fit), then one that has the image, then the order of the list. A share goes to the
    fullest card that has room for it. Tasks without GPUs go to nodes without, and to others as ``cpu_tasks`` says.
    On the node the smallest and least recently used cards are taken; ``last_used`` tells when each uuid was used last,
    in seconds.
    """
    best: FreeResources | None = None
    best_rank: tuple[int, bool, int, bool, int] | None = None
    for free in free_resources:
        if free.closed or not fits(shape, free):
            continue
        on_gpu_node = bool(free.node.gpus) and not shape.uses_gpus
        if on_gpu_node and cpu_tasks is CpuTasks.NEVER:
            continue
        free_gpus = sum(1 for gpu in free.gpus if suits(gpu, shape)) if shape.gpus else 0
        if shape.gpu_share_bytes:
            free_gpus = free.shares[shares_with_room(shape, free)[0].uuid]
        rank = (
            avoid.count(free.node.id),
            on_gpu_node and cpu_tasks is CpuTasks.LAST_RESORT,
            free_gpus,
            bool(shape.image) and shape.image not in free.node.images,
            free.order,
        )
        if best_rank is None or rank < best_rank:
            best, best_rank = free, rank
    if best is None:
        return None
    if shape.gpu_share_bytes:
        return ChosenGpus(best.node.id, (shares_with_room(shape, best)[0].uuid,))
    if shape.gpus == 0:
        return ChosenGpus(best.node.id, ())
    cards = sorted(
        (gpu for gpu in best.gpus if suits(gpu, shape) and (not shape.gpu_uuids or gpu.uuid in shape.gpu_uuids)),
        key=lambda gpu: (gpu.memory_bytes, last_used(gpu.uuid), gpu.index, gpu.uuid),
    )
    return ChosenGpus(best.node.id, tuple(gpu.uuid for gpu in cards[: shape.gpus]))


def could_ever_fit(shape: Shape, nodes: Sequence[Node], cpu_tasks: CpuTasks = CpuTasks.LAST_RESORT) -> bool:
    """Whether one of the nodes could run the shape if it were empty, open and healthy."""
    return any(not shortages(shape, full_capacity(node, also_sick=True), cpu_tasks) for node in nodes)
