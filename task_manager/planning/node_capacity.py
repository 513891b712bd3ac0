"""Nodes as a pass counts them: kinds of cards in rows, and what is left of a node from its attempts' ends alone.

Worked out once for a node, or once for what runs there, and looked up by the passes behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count

from ..model import Gpu, Node
from .bookings import kind_of
from .placement import FreeResources
from .step_functions import Cards, Change, Steps, steps_from, time_of


@dataclass(frozen=True, slots=True, eq=False)
class NodeCapacity:
    """What a node is, whatever runs there."""

    node: Node
    kinds: dict[str, int]  # of its cards, with their places in rows; the least specific in front
    usable: dict[str, int]  # the cards that work, and their kinds' places
    alike: int  # equal for nodes that can hold the same shapes when empty, images aside; never given anew
    _counted: dict[tuple[str, ...], Cards] = field(default_factory=dict)
    _last: list[tuple[list[object], Steps]] = field(default_factory=list)  # what `steps` was asked for, and its answer

    def steps(self, free: FreeResources, now_s: float, ends: list[Change]) -> Steps:
        """What is free from now on, with nothing booked but what runs; ``ends`` are all to come.

        From pass to pass little changes on most nodes, so the last answer is often right but for its first moment.
        """
        asked = [free.cpu_centi, free.memory_bytes, free.gpus, ends]
        known = self._last[0] if self._last else None
        if known is None or known[0] != asked:
            counts = Counter(kind_of(gpu) for gpu in free.gpus)
            first = (now_s, free.cpu_centi, free.memory_bytes, [counts[kind] for kind in self.kinds])
            known = (
                [free.cpu_centi, free.memory_bytes, free.gpus.copy(), ends],
                steps_from(first, sorted(ends, key=time_of)),
            )
            self._last[:] = [known]
        times, cpus, memories, cards = known[1]
        return [now_s, *times[1:]], cpus.copy(), memories.copy(), [row.copy() for row in cards]

    def cards(self, gpu_uuids: tuple[str, ...]) -> Cards:
        """How many of each kind these are; those that don't work are left out."""
        found = self._counted.get(gpu_uuids)
        if found is None:
            if len(self._counted) >= _SETS_KEPT:
                self._counted.clear()
            kinds = Counter(self.usable[uuid] for uuid in gpu_uuids if uuid in self.usable)
            found = self._counted[gpu_uuids] = tuple(kinds.items())
        return found


_capacities: dict[int, NodeCapacity] = {}  # by the id of the node: a node's value never changes, so neither does this
_CAPACITIES_KEPT = 4096
_SETS_KEPT = 1024
_alike: dict[tuple[object, ...], int] = {}
_numbers = count()


def capacity_of(node: Node) -> NodeCapacity:
    """Looked up again at each pass, worked out once."""
    found = _capacities.get(id(node))
    if found is None or found.node is not node:
        if len(_capacities) >= _CAPACITIES_KEPT:
            _capacities.clear()
            _alike.clear()
        kinds = kinds_of(node.gpus)
        alike = (
            tuple(sorted(kind_of(gpu) for gpu in node.gpus if gpu.usable)),
            tuple(kinds),
            (node.architecture, node.driver_version, node.cuda_version, node.cpu_centi, node.memory_bytes),
        )
        found = _capacities[id(node)] = NodeCapacity(
            node,
            kinds,
            {gpu.uuid: kinds[kind_of(gpu)] for gpu in node.gpus if gpu.usable},
            _alike.setdefault(alike, next(_numbers)),
        )
    return found


def kinds_of(gpus: Sequence[Gpu]) -> dict[str, int]:
    """The kinds of a node's cards with their places in rows; the least specific in front."""
    ordered = sorted({(gpu.memory_bytes, gpu.model, kind_of(gpu)) for gpu in gpus})
    return {kind: i for i, (_, _, kind) in enumerate(ordered)}
