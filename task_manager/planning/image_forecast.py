"""Which images should be brought to which nodes before the tasks that need them start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.ids import NodeId

from ..model import Shape
from .placement import CpuTasks, FreeResources, fits, full_capacity, shortages, suits

HEADS_LOOKED_AT = 50  # how many waiting tasks are looked at, from the first on
_ALL_UP_TO = 4  # up to so many suitable nodes all get the image
_LIKELIEST = 3  # if there are more, so many get it
_MOST_ON_A_NODE = 50


@dataclass(frozen=True, slots=True)
class ForecastImage:
    """An image that a Worker is asked to prepare. ``source`` is the number of `ImageSource` in common.proto."""

    name: str
    digest: str
    source: int
    account: str


@dataclass(frozen=True, slots=True)
class QueueHead:
    """A waiting task near the head of the queue, and its image."""

    shape: Shape
    image: ForecastImage
    node_id: NodeId | None = None  # where it has a reservation


def images_needed(
    heads: Sequence[QueueHead], free_resources: Sequence[FreeResources], cpu_tasks: CpuTasks = CpuTasks.LAST_RESORT
) -> Mapping[NodeId, tuple[ForecastImage, ...]]:
    """For each node the images that it will probably need, most likely first.

    Images that a node has already are on its list too: the Worker does not remove what is listed. If a task could run
    on at most four nodes, all of them get its image. Otherwise three do: the one where the task has a reservation, then
    others by the placement rule.
    """
    lists: dict[NodeId, dict[str, ForecastImage]] = {}
    seen: set[tuple[Shape, str, NodeId | None]] = set()
    for head in heads:
        alike = (head.shape, head.image.digest, head.node_id)
        if alike in seen:
            continue
        seen.add(alike)
        suitable = [
            free
            for free in free_resources
            if not free.closed and not shortages(head.shape, full_capacity(free.node), cpu_tasks)
        ]
        if len(suitable) > _ALL_UP_TO:
            suitable = sorted(suitable, key=lambda free: _rank(head, free, cpu_tasks))[:_LIKELIEST]
        for free in suitable:
            images = lists.setdefault(free.node.id, {})
            if len(images) < _MOST_ON_A_NODE:
                images.setdefault(head.image.digest, head.image)
    return {node_id: tuple(images.values()) for node_id, images in lists.items()}


def _rank(head: QueueHead, free: FreeResources, cpu_tasks: CpuTasks) -> tuple[bool, bool, bool, int, bool, int]:
    shape = head.shape
    on_gpu_node = bool(free.node.gpus) and not shape.uses_gpus
    return (
        free.node.id != head.node_id,
        not fits(shape, free),
        on_gpu_node and cpu_tasks is CpuTasks.LAST_RESORT,
        sum(1 for gpu in free.node.gpus if suits(gpu, shape))
        if shape.gpu_share_bytes
        else sum(1 for gpu in free.gpus if suits(gpu, shape))
        if shape.gpus
        else 0,
        shape.image not in free.node.images,
        free.order,
    )
