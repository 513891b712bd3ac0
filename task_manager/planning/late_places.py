"""Promised starts for all: every runnable task gets one in the first pass that sees it (`PromiseRule.LATE`).

A promise has slack: it lies behind the start that was found. What is stored is a *late place*, the latest start on a
node that still keeps the promise. All late places fit beside all that runs. So the room before them is open to whatever
ends in time, and no promise can be missed:

1. The timelines hold all that runs and all late places.
2. In the order of the queue, a task's own late place is taken out, and the task is booked at its earliest start. Its
   place was free, so that is no later. What is booked at this moment starts.
3. A new promise is that start and the slack. A known one falls to that start and the slack that is left, if that is
   earlier.
4. The latest promise first, each booking is pushed to the latest start that keeps the promise. That is stored.

Slack-based backfilling: Talby and Feitelson (1999).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from headway.ids import TaskId

from ..model import Task
from .bookings import Reservation
from .disciplines import PassRunner
from .node_timelines import EarliestStart
from .pass_model import PassInput, PassSettings, Plan
from .promises import LostReservation


def slack_left_s(place: Reservation, task: Task, settings: PassSettings, now_s: float) -> float:
    """How far a promise may lie behind its task's start: the share of the first promised wait that is still ahead.

    It is a whole number, so that a simulation which counts in whole ticks stays exact.
    """
    if place.first_promised_s is None or place.first_wait_s <= 0:
        return 0.0
    share = min(1.0, max(0.0, (place.first_promised_s - now_s) / place.first_wait_s))
    return _slack_s(task, settings, share)


def _slack_s(task: Task, settings: PassSettings, share: float = 1.0) -> int:
    return math.floor(settings.promise_slack * settings.duration_s(task) * share)


class LatePassRunner(PassRunner):
    """One pass of `conservative` with late places."""

    def __init__(self, snapshot: PassInput, lost: Mapping[TaskId, LostReservation] | None = None) -> None:
        super().__init__(snapshot, lost)
        self._rest: dict[TaskId, Reservation] = {}  # late places of tasks that were not searched

    def run(self) -> Plan:
        """The plan of this pass."""
        self._reserve_owed()
        self.reserve(self.settings.reserved)
        self._reserve_newcomers()
        self._fill_up(self.settings.filled)
        self._rest = dict(self.stored)
        for task_id, place in self._rest.items():
            self._explain(self.snapshot.tasks[task_id], place.node_id, place.duration_s, place)
        places = self._pushed_back(self._promised_now())
        places.update(self._rest)
        self.reservations.update(self._rest)
        self._unsearched = self._rest.keys()  # they may well start long before their late places
        return self._made(places, [], all_promised=len(places) < self.settings.placed)

    def _keep_stored(self) -> None:
        """The tasks behind the first ones keep their places, or start by them if they are due."""
        for task_id, place in list(self.stored.items()):
            if place.start_s <= self.now_s:
                del self.stored[task_id]
                task = self.snapshot.tasks[task_id]
                if place.node_id in self.timelines.nodes:
                    self.timelines.remove(task, place)
                self._stay(task, place)

    def _reserve_newcomers(self) -> None:
        """Tasks behind the first ones are searched once, when they have no place yet."""
        tasks, known = self.snapshot.tasks, (self.stored, self.reservations, self.placements, self.waits)
        for task_id in self._behind():
            if self._is_full() or len(self.stored) + len(self.reservations) >= self.settings.placed:
                return
            if not any(task_id in one for one in known):
                self._reserve(tasks[task_id])

    def _behind(self) -> Iterator[TaskId]:
        return iter(()) if self._looked_up_to is None else self.snapshot.queue.ready_behind(self._looked_up_to)

    def _is_better(self, earliest: EarliestStart | None, old: Reservation) -> bool:
        """No place is left for one behind an attempt whose end is a guess, unless the task starts there now."""
        if earliest is None or earliest.start_s >= old.start_s:
            return False
        return earliest.start_s <= self.now_s or earliest.node.is_sure

    def _with_promise(self, reservation: Reservation, old: Reservation) -> Reservation:
        return replace(old, node_id=reservation.node_id, gpus=reservation.gpus, start_s=reservation.start_s,
                       duration_s=reservation.duration_s)  # fmt: skip

    def _promised_now(self) -> dict[TaskId, Reservation]:
        """The bookings of this pass with what is promised."""
        found, snapshot = {}, self.snapshot
        for task_id, booked in self.reservations.items():
            task = snapshot.tasks[task_id]
            if booked.promised_s is not None:
                falls_to_s = booked.start_s + slack_left_s(booked, task, self.settings, self.now_s)
                found[task_id] = replace(booked, promised_s=min(booked.promised_s, falls_to_s))
                continue
            node = self.timelines.nodes.get(booked.node_id)
            if node is None or not node.is_sure or task.shape.gpu_uuids:
                continue  # its end is a guess, or which cards will be free
            if task_id in self._owed:
                # It had a promise before: slack is given once.
                found[task_id] = replace(booked, promised_s=booked.start_s)
                continue
            lost = self.lost.get(task_id)
            if lost is not None and lost.reservation.promised_s is not None:
                # It moves by no more than it must.
                promised_s = max(lost.reservation.promised_s, booked.start_s)
                found[task_id] = self._with_promise(booked, replace(lost.reservation, promised_s=promised_s))
                continue
            promised_s = booked.start_s + _slack_s(task, self.settings)
            found[task_id] = replace(
                booked, promised_s=promised_s, first_promised_s=promised_s,
                first_wait_s=promised_s - self.now_s, first_promised_at=snapshot.wall_s,
            )  # fmt: skip
        self.reservations.update(found)
        return found

    def _pushed_back(self, booked: dict[TaskId, Reservation]) -> dict[TaskId, Reservation]:
        """The same, each as late as its promise allows."""
        timelines, places = self.timelines, {}
        timelines.end_searches()
        for task_id in sorted(booked, key=lambda task_id: (-(booked[task_id].promised_s or 0.0), task_id)):
            place, task = booked[task_id], self.snapshot.tasks[task_id]
            if place.node_id in timelines.nodes and place.promised_s is not None and place.start_s < place.promised_s:
                timelines.remove(task, place)
                place = timelines.pushed_back(task, place, place.promised_s)
                timelines.add(task, place)
            places[task_id] = place
        return places
