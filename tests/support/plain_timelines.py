"""The timelines of a pass without any short cut: the oracle for those that plan live.

Every node is searched at every moment, all places are booked one by one, and a place is taken out before it is moved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from headway.ids import NodeId
from task_manager.model import Task
from task_manager.planning.bookings import Reservation
from task_manager.planning.node_profile import NodeProfile, ProfileDemand
from task_manager.planning.node_timelines import EarliestStart, NodeTimelines, ResourceRequest
from task_manager.planning.step_functions import latest_in


class PlainTimelines(NodeTimelines):
    """Timelines that forget nothing and remember nothing."""

    def might_start(self, task: Task, reservation: Reservation, duration_s: float) -> bool:
        return True

    def might_start_earlier(self, task: Task, reservation: Reservation, duration_s: float) -> bool:
        return True

    def start_now(self, task: Task, duration_s: float) -> EarliestStart | None:
        request = self.request_for(task.shape)
        found = self._search(request, duration_s, self.now_s, task.avoid, spread=False)
        return found if found is not None and found.start_s == self.now_s else None

    def add_all(self, reservations: Sequence[tuple[Task, Reservation]]) -> bool:
        booked: list[tuple[Task, Reservation]] = []
        for task, place in reservations:
            node = self.nodes[place.node_id]
            if self._cards(place, node) is None or not (
                self.has_room(task, place, 0.0) and self.allows(task, place, 0.0)
            ):
                for known in booked:
                    self.remove(*known)
                return False
            self.add(task, place)
            booked.append((task, place))
        return True

    def push_back(self, task: Task, reservation: Reservation, until_s: float) -> Reservation:
        node, shape = self.nodes[reservation.node_id], task.shape
        cards = self._cards(reservation, node)
        assert cards is not None
        self.remove(task, reservation)
        windows = [node.spans_with(shape.cpu_centi, shape.memory_bytes, cards, until_s)]
        windows += [allowance.spans_with(shape.gpus, until_s) for allowance in self._allowances.of(task)]
        start_s = latest_in(windows, reservation.duration_s, until_s)
        if start_s is not None and start_s > reservation.start_s:
            reservation = replace(reservation, start_s=start_s)
        self.add(task, reservation)
        return reservation

    def _search(
        self, request: ResourceRequest, duration_s: float, after_s: float, avoid: Sequence[NodeId], spread: bool
    ) -> EarliestStart | None:
        starts = {
            node.id: _earliest(node, demand, duration_s, after_s)
            for node in self.nodes.values()
            if (demand := request.on(node)) is not None
        }
        best = min(starts.values(), default=math.inf)
        if best == math.inf:
            return None
        ties = [self.nodes[node_id] for node_id, start_s in starts.items() if start_s == best]
        return EarliestStart(self._preferred(ties, request, best, avoid, spread=spread and best > self.now_s), best)


def _earliest(node: NodeProfile, demand: ProfileDemand, duration_s: float, after_s: float) -> float:
    for at_s in sorted({max(after_s, time) for time in node._times}):
        held = sum(count for _, count in node.cards_for(demand, at_s, at_s + duration_s)) if demand.gpus else 0
        if held >= demand.gpus and node.has_free(demand.cpu_centi, demand.memory_bytes, (), at_s, at_s + duration_s):
            return at_s
    return math.inf
