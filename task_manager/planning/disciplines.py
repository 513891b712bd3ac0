"""The disciplines: who has a reservation, and who may start beside them.

All four are one walk over the queue. The first tasks are booked at the earliest start that delays nothing booked
before; booked at ``now`` is started. `strict` lets no start be earlier than that of the task ahead, `easy` books the
first task alone, `greedy` none. Then the tasks behind them are tried: each starts if it fits now for its whole
duration beside everything booked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from headway.ids import NodeId, TaskId

from ..model import Shape, Task
from ..order.policy import Key
from ..order.queue import task_id_of
from . import promises
from .bookings import Reservation
from .candidates import Candidates
from .node_timelines import EarliestStart, NodeTimelines
from .pass_model import (
    Discipline,
    DroppedPromise,
    Estimate,
    PassInput,
    Placement,
    Plan,
    RoughEstimates,
    Wait,
    WaitCause,
)

_EASY_FILLED = 200


class PassRunner:
    """One pass under way."""

    def __init__(self, inp: PassInput) -> None:
        self.inp = inp
        self.settings = inp.settings
        self.now_s = inp.now_s
        self.timelines = NodeTimelines(
            inp.now_s, inp.free_resources, inp.running, limits=inp.settings.limits, gpus=inp.view.gpus,
            cpu_tasks=inp.settings.cpu_tasks, last_used=inp.last_used,
        )  # fmt: skip
        self.placements: dict[TaskId, Placement] = {}
        self.reservations: dict[TaskId, Reservation] = {}
        self.waits: dict[TaskId, Wait] = {}
        self.no_room: dict[int, Shape] = {}  # by id, since hashing a shape takes longer
        self.keys: list[Key] = []  # looked at for a reservation
        self.stored, self.lost = promises.book_stored(
            inp, self.timelines
        )  # stored places that nobody has looked at yet
        self._candidates = Candidates(
            inp, self.timelines, self.placements, self.reservations, self.stored, self.waits, self.no_room
        )
        self._kept: list[Key] = []  # of tasks behind all of these that have a stored place
        self._more = False  # so many have started that the rest is left to the next pass
        self._cut = False  # others might have started, had there been time to look at them
        self._freed = False  # room that was kept has come free
        self._floor_s = inp.now_s  # `strict`: nobody starts earlier
        self._ahead: TaskId | None = None
        self._looked_up_to: Key | None = None

    def run(self) -> Plan:
        discipline, settings = self.settings.discipline, self.settings
        if discipline is Discipline.GREEDY:
            self._start_all()
            if settings.estimates and not self._more:
                self.reserve(settings.reserved)
        elif discipline is Discipline.STRICT:
            self.reserve(settings.reserved)
            self._more = self._more or self._freed  # those ahead of it may start earlier now
        elif discipline is Discipline.EASY:
            self.reserve(1)
            self._fill_up(min(settings.filled, _EASY_FILLED))
        else:
            self.reserve(settings.reserved)
            self._fill_up(settings.filled)
        return self._plan()

    # -- reservations -----------------------------------------------------------------------------

    def reserve(self, limit: int) -> None:
        """Starts what can start, books the first ``limit`` of the others and the promised ones behind, in order."""
        booked = looked = 0
        for task in self._in_turn():
            if task.id in self.placements:
                continue
            if self._is_full():
                break
            if booked >= limit or looked >= limit + self.settings.filled or self._nothing_more():
                self._looked_up_to = self.keys[-1] if self.keys else None
                self._cut = self._cut or looked >= limit + self.settings.filled
                if self.settings.discipline is Discipline.STRICT:
                    self._floor_s = math.inf  # nobody moves up past those that are not looked at
                break
            if task.id in self.reservations:
                booked += 1
                continue
            self.keys.append(self._key(task.id))
            self._reserve(task)
            if task.id not in self.placements:  # what starts takes nobody's reservation
                looked += 1
                booked += task.id in self.reservations
        self._keep_stored()

    def _in_turn(self) -> Iterator[Task]:
        """Who is looked at for a reservation. `strict`: nobody whom a limit keeps from a start; it blocks nobody."""
        if self.settings.discipline is Discipline.STRICT and self.settings.limits.may_hold_tasks:
            return self._candidates.behind(None, all_shapes=True)
        return (self.inp.tasks[task_id_of(key)] for key in self.inp.queue.ready_keys())

    def _keep_stored(self) -> None:
        """Starts, moves up or keeps those that have a stored place and that nobody has looked at yet, in order."""
        if self._more:  # nobody's place is made better before it is the turn of those ahead
            for task_id, reservation in self.stored.items():
                self._explain(self.inp.tasks[task_id], reservation.node_id, reservation.duration_s, reservation)
                self.reservations[task_id] = reservation
            return
        self._kept += sorted(self._key(task_id) for task_id in self.stored)
        for key in self._kept:
            if task_id_of(key) in self.stored:
                self._reserve(self.inp.tasks[task_id_of(key)])

    def _key(self, task_id: TaskId) -> Key:
        key = self.inp.queue.key_of(task_id)
        assert key is not None, f"{task_id} has a place and is not in the queue"
        return key

    def _is_full(self) -> bool:
        """Whether this pass has started all that it may."""
        self._more = self._more or len(self.placements) >= self.settings.starts
        return self._more

    def _nothing_more(self) -> bool:
        """Whether the rest of the walk could tell nothing but estimates, and nobody wants them."""
        return not self.settings.estimates and not any(
            self.timelines.fits_now(s) for s in self.inp.queue.ready_by_shape
        )

    def _reserve(self, task: Task) -> None:
        """Starts or books one task, where it can have a place."""
        timelines, duration_s = self.timelines, self.settings.duration_s(task)
        old = self.stored.pop(task.id, None)
        if old is not None and old.node_id in timelines.nodes:
            if old.start_s > self.now_s and not timelines.might_start_earlier(task, old, duration_s):
                self._explain(task, old.node_id, duration_s, old)
                self._keep(task, old)
                return
            timelines.remove(task, old)
        spread = self.settings.discipline is Discipline.EASY
        earliest = timelines.earliest_start(task, duration_s, after_s=self._floor_s, spread=spread)
        if old is not None and (earliest is None or earliest.start_s >= old.start_s):
            self._stay(task, old)
            return
        if earliest is None:
            limited = timelines.limit_on(task, duration_s) if timelines.can_hold(task.shape) else None
            self.waits[task.id] = limited.wait if limited is not None else Wait(WaitCause.NO_NODE)
            return
        if old is not None:
            self._freed = True
        if earliest.start_s <= self.now_s:
            self._start(task, earliest, duration_s)
            return
        self._explain(task, earliest.node.id, duration_s)
        reservation = timelines.book(task, earliest, duration_s)
        if old is not None:
            reservation = replace(reservation, promised_s=reservation.start_s, first_promised_at=old.first_promised_at)
        self._keep(task, reservation)

    def _keep(self, task: Task, reservation: Reservation) -> None:
        """It has this reservation. `strict`: nobody behind it starts earlier, unless a limit keeps it from a start."""
        self.reservations[task.id] = reservation
        if self.settings.discipline is not Discipline.STRICT:
            return
        own = reservation if reservation.node_id in self.timelines.nodes else None
        if self.timelines.limit_on(task, reservation.duration_s, own) is None:
            self._floor_s = max(self._floor_s, reservation.start_s, math.nextafter(self.now_s, math.inf))
            self._ahead = self._ahead or task.id

    def _stay(self, task: Task, reservation: Reservation) -> None:
        """Nothing earlier: it starts at its own place, or keeps it."""
        node = self.timelines.nodes.get(reservation.node_id)
        if node is None:
            self.waits[task.id] = Wait(WaitCause.NO_ROOM, reservation.node_id)
        elif reservation.start_s <= self.now_s and self.timelines.is_free_now(task, reservation):
            self._start(task, EarliestStart(node, self.now_s), reservation.duration_s, reservation)
            return
        else:
            self._explain(task, node.id, reservation.duration_s)
            self.timelines.add(task, reservation)
        self._keep(task, reservation)

    def _start(
        self, task: Task, earliest: EarliestStart, duration_s: float, reservation: Reservation | None = None
    ) -> None:
        self.placements[task.id] = self.timelines.start(task, earliest, duration_s, reservation)
        self.waits.pop(task.id, None)

    def _explain(self, task: Task, node_id: NodeId, duration_s: float, own: Reservation | None = None) -> None:
        """Why it does not start now, by the predicates that decided. ``own``: what is kept for it already."""
        if self._ahead is not None:
            wait = Wait(WaitCause.BEHIND, node_id, self._ahead)
        elif not self.timelines.fits_now(task.shape):
            wait = Wait(WaitCause.NO_ROOM, node_id)
            self.no_room[id(task.shape)] = task.shape
        elif limited := self.timelines.limit_on(task, duration_s, own if node_id in self.timelines.nodes else None):
            wait = replace(limited.wait, node_id=node_id)
        else:
            wait = Wait(WaitCause.RESERVED, *(self.timelines.blocker(task) or (node_id, None)))
        self.waits[task.id] = wait

    # -- behind them ------------------------------------------------------------------------------

    def _fill_up(self, limit: float) -> None:
        """Fills; where a promised task left a place that was kept for it, also with those that have a reservation."""
        last = self.keys[-1] if self.keys else None
        while not self._is_full():
            self.fill(last, limit)
            if not self._freed:
                return
            self._freed, self._looked_up_to = False, None  # there may be room again for what was passed over
            for key in (*self.keys, *self._kept):
                reservation = self.reservations.get(task_id_of(key))
                if reservation is not None and self._starts_now(self.inp.tasks[task_id_of(key)], reservation):
                    del self.reservations[task_id_of(key)]
            if not self._freed:
                return

    def _starts_now(self, task: Task, reservation: Reservation) -> bool:
        """Starts a task that has a place now if that delays nobody; if not, its place stays."""
        timelines, duration_s, is_due = (
            self.timelines,
            self.settings.duration_s(task),
            reservation.start_s <= self.now_s,
        )
        if not (is_due or timelines.fits_now(task.shape)) or not timelines.might_start(task, reservation, duration_s):
            return False
        is_open = reservation.node_id in timelines.nodes
        if is_open:
            timelines.remove(task, reservation)
        earliest, own = None, None
        if is_due and is_open and timelines.is_free_now(task, reservation):
            earliest, own = EarliestStart(timelines.nodes[reservation.node_id], self.now_s), reservation
        elif timelines.limit_on(task, duration_s) is None:
            earliest = timelines.start_now(task, duration_s)
        if earliest is None:
            if is_open:
                timelines.add(task, reservation)
            return False
        self._start(task, earliest, duration_s, own)
        self._freed = True
        return True

    def _start_all(self) -> None:
        """`greedy`: starts all that fits beside stored places, a task's own aside, in order."""
        while True:
            self.fill(None, math.inf)
            self._keep_stored()
            if not self._freed or self._more:
                return
            self._freed = False  # where a place was kept there may be room for others
            self.stored.update(self.reservations)
            self.reservations.clear()

    def fill(self, after: Key | None, limit: float) -> None:
        """Tries the tasks behind ``after``, in order, until ``limit`` of them could not start.

        Tasks of shapes that no node has room for now are passed over and do not count, so none of them hides a task
        that could start; nor do those that a limit holds.
        """
        tried = 0
        failed = _Failed()
        for task in self._candidates.behind(after):
            if tried >= limit or self._is_full():
                self._cut = self._cut or tried >= limit
                return
            kept = self.stored.get(task.id)
            if kept is not None:
                if self._starts_now(task, kept):
                    del self.stored[task.id]
                continue
            duration_s = self.settings.duration_s(task)
            earliest = None
            if not failed.covers(task, duration_s):
                earliest = self.timelines.start_now(task, duration_s)
            if earliest is not None:
                self._start(task, earliest, duration_s)
            else:
                tried += 1
                failed.add(task, duration_s)
                node_id, blocker = self.timelines.blocker(task) or (None, None)
                self.waits[task.id] = Wait(WaitCause.RESERVED, node_id, blocker)

    # -- the plan ---------------------------------------------------------------------------------

    def _plan(self) -> Plan:
        inp, greedy = self.inp, self.settings.discipline is Discipline.GREEDY
        binding = self.settings.discipline in (Discipline.CONSERVATIVE, Discipline.EASY)
        promised = {
            task_id: reservation
            for task_id, reservation in self.reservations.items()
            if reservation.promised_s is not None
        }
        wakes: list[float] = []
        if binding and self.settings.estimates:
            wakes += self._promise(promised)
        wakes += [reservation.start_s for reservation in promised.values() if reservation.start_s > inp.now_s]
        return Plan(
            placements=tuple(self.placements.values()),
            no_room=frozenset(self.no_room.values()),
            promised=promised,
            reservations={} if greedy else self.reservations,
            estimates={t: Estimate(reservation.start_s, rough=greedy) for t, reservation in self.reservations.items()},
            rough=rough_estimates(inp),
            waits=self.waits,
            dropped=tuple(self._dropped(promised)),
            more=self._more,
            next_wake_s=min(wakes, default=None),
            policy_failed=inp.queue.failure,
            # What starts makes way for others among the first.
            looked_up_to=None if self._freed or self.placements else self._looked_up_to,
            cut=self._cut,
            rest=None if self._ahead is None else Wait(WaitCause.BEHIND, None, self._ahead),
            limit_on=self.timelines.limit_beside_bookings(self.settings.duration_s),
        )

    def _promise(self, promised: dict[TaskId, Reservation]) -> list[float]:
        """Promises what can be promised now; returns when more can be."""
        inp = self.inp
        later = []
        for task_id, reservation in self.reservations.items():
            if reservation.promised_s is not None:
                continue
            task = inp.tasks[task_id]
            if not promises.may_be_promised(inp, self.timelines, task, reservation):
                closes_at = promises.order_settled_at(inp, task)
                if closes_at is not None and closes_at > inp.steady_s + promises.SLACK_S:
                    later.append(inp.now_s + closes_at - inp.steady_s)
            elif len(promised) < self.settings.promised:
                given = replace(reservation, promised_s=reservation.start_s, first_promised_at=inp.wall_s)
                promised[task_id] = self.reservations[task_id] = given
        return later

    def _dropped(self, promised: dict[TaskId, Reservation]) -> Iterator[DroppedPromise]:
        for task_id, lost in self.lost.items():
            if lost.reservation.promised_s is None:
                continue
            now_s = promised[task_id].promised_s if task_id in promised else None
            if task_id in self.placements:
                now_s = self.now_s
            if now_s is None or now_s > lost.reservation.promised_s:
                yield DroppedPromise(task_id, lost.cause, lost.reservation.promised_s, now_s)


def rough_estimates(inp: PassInput) -> RoughEstimates | None:
    """When tasks without a reservation may start, from the work ahead of them alone; None: nothing waits."""
    waiting, now_s = len(inp.queue), inp.now_s
    if not waiting:
        return None
    left = [(b.shape, b.until_s - now_s) for b in inp.running if b.until_s > now_s]
    nodes = [free.node for free in inp.free_resources]
    gpu_s, cpu_s, memory_s = inp.queue.waiting_work

    def spread(there: float, running: float, waits: float) -> tuple[float, float] | None:
        return (now_s + running / there, waits / waiting / there) if there else None

    cpus, memory = sum([node.cpu_centi for node in nodes]), sum([node.memory_bytes for node in nodes])
    return RoughEstimates(
        spread(inp.view.gpus, sum([shape.gpus * s for shape, s in left]), gpu_s),
        spread(cpus, sum([shape.cpu_centi * s for shape, s in left]), cpu_s),
        spread(memory, sum([shape.memory_bytes * s for shape, s in left]), memory_s),
    )


class _Failed:
    """Tasks that did not fit: one of the same shape need not be tried for as long or longer."""

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[Shape, float]] = {}  # by id, since hashing a shape takes longer than trying

    def covers(self, task: Task, duration_s: float) -> bool:
        found = self._shapes.get(id(task.shape))
        return found is not None and duration_s >= found[1]

    def add(self, task: Task, duration_s: float) -> None:
        known = self._shapes.get(id(task.shape))
        if known is None or duration_s < known[1]:
            self._shapes[id(task.shape)] = (task.shape, duration_s)
