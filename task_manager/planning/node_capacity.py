"""What a node has, in the form in which a pass counts: a row for each kind of cards, and what running attempts leave.

It is worked out once for a node, or once for what runs there, and later passes look it up.
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
    """What a node has, whatever runs there."""

    node: Node
    kinds: dict[str, int]  # the kinds of its cards and their row numbers; the least specific first
    usable: dict[str, int]  # the cards that work, by uuid, and the row numbers of their kinds
    shared: dict[str, int]  # the shared cards that work, by uuid, and their units
    whole: tuple[int, ...]  # the row numbers of cards that are given out whole
    alike: int  # equal for nodes that can hold the same shapes when empty, images aside; never used again
    _counted: dict[tuple[str, ...], Cards] = field(default_factory=dict)
    _last: list[tuple[list[object], Steps]] = field(default_factory=list)  # the last arguments and result of `steps`

    def steps(self, free: FreeResources, now_s: float, ends: list[Change]) -> Steps:
        """What is free from now on if only the running attempts are booked. ``ends`` are their ends, all in the future.

        From pass to pass little changes on most nodes. Then the last result is right except for its first moment.
        """
        asked = [free.cpu_centi, free.memory_bytes, free.gpus, ends, free.shares]
        known = self._last[0] if self._last else None
        if known is None or known[0] != asked:
            counts = Counter(kind_of(gpu) for gpu in free.gpus)
            cards_now = [counts[kind] for kind in self.kinds]
            for uuid in self.shared:
                cards_now[self.usable[uuid]] = free.shares.get(uuid, 0)
            first = (now_s, free.cpu_centi, free.memory_bytes, cards_now)
            known = (
                [free.cpu_centi, free.memory_bytes, free.gpus.copy(), ends, free.shares.copy()],
                steps_from(first, sorted(ends, key=time_of)),
            )
            self._last[:] = [known]
        times, cpus, memories, cards = known[1]
        return [now_s, *times[1:]], cpus.copy(), memories.copy(), [row.copy() for row in cards]

    def cards(self, gpu_uuids: tuple[str, ...]) -> Cards:
        """How many cards of each kind these are, held whole. Cards that don't work are left out."""
        found = self._counted.get(gpu_uuids)
        if found is None:
            if len(self._counted) >= _SETS_KEPT:
                self._counted.clear()
            kinds: Counter[int] = Counter()
            for uuid in gpu_uuids:
                if uuid in self.usable:
                    kinds[self.usable[uuid]] += self.shared.get(uuid, 1)
            found = self._counted[gpu_uuids] = tuple(kinds.items())
        return found

    def share(self, gpu_uuids: tuple[str, ...], units: int) -> Cards:
        """The same of a share, which has so many units of its card.

        Of a card that is not shared any more it holds nothing here: that is free once the last share has ended.
        """
        return tuple((self.usable[uuid], units) for uuid in gpu_uuids if uuid in self.shared)


_capacities: dict[int, NodeCapacity] = {}  # by the id of the `Node` object, which never changes
_CAPACITIES_KEPT = 4096
_SETS_KEPT = 1024
_alike: dict[tuple[object, ...], int] = {}
_numbers = count()


def capacity_of(node: Node) -> NodeCapacity:
    """The capacity of a node, worked out once and kept for later passes."""
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
            node.most_ulimits,
        )
        found = _capacities[id(node)] = NodeCapacity(
            node,
            kinds,
            {gpu.uuid: kinds[kind_of(gpu)] for gpu in node.gpus if gpu.usable},
            {gpu.uuid: gpu.units for gpu in node.gpus if gpu.usable and gpu.shared},
            tuple(sorted({kinds[kind_of(gpu)] for gpu in node.gpus if not gpu.shared})),
            _alike.setdefault(alike, next(_numbers)),
        )
    return found


def kinds_of(gpus: Sequence[Gpu]) -> dict[str, int]:
    """The kinds of a node's cards and their row numbers; the least specific (smallest) first."""
    ordered = sorted({(gpu.memory_bytes, gpu.model, kind_of(gpu)) for gpu in gpus})
    return {kind: i for i, (_, _, kind) in enumerate(ordered)}
