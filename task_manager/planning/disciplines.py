"""The disciplines: which tasks have a reservation, and which others may start before them (backfill).

All four go through the queue once. The first tasks are booked at the earliest start that delays nothing booked before;
a task that is booked at ``now`` starts. `conservative` books many tasks, `easy` only the first, `greedy` none. Under
`strict` no task starts before the one ahead. Then the tasks behind are tried: each starts if it fits now, for its whole
duration, beside everything booked.

`easy` is the backfilling of Lifka (1995). `conservative` is the backfilling that Mu'alem and Feitelson (2001) describe.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from headway.ids import NodeId, TaskId

from ..model import Shape, Task
from ..order.policy import Key
from ..order.queue import task_id_of
from . import promises
from .bookings import Reservation
from .candidates import Candidates
from .node_timelines import EarliestStart
from .pass_model import (
    Discipline,
    DroppedPromise,
    Estimate,
    PassInput,
    Placement,
    Plan,
    Wait,
    WaitCause,
)
from .rough import rough_estimates

_EASY_FILLED = 200


class PassRunner:
    """One pass while it runs. ``run`` may be called once."""

    def __init__(self, snapshot: PassInput, lost: Mapping[TaskId, promises.LostReservation] | None = None) -> None:
        """``lost``: stored reservations that were delayed or dropped before this pass (`delays`)."""
        self.snapshot = snapshot
        self.settings = snapshot.settings
        self.now_s = snapshot.now_s
        self.timelines = promises.timelines_of(snapshot)
        self.placements: dict[TaskId, Placement] = {}
        self.reservations: dict[TaskId, Reservation] = {}
        self.waits: dict[TaskId, Wait] = {}
        self.no_room: dict[int, Shape] = {}  # by id, since hashing a shape is slow
        self.keys: list[Key] = []  # of the tasks that were looked at for a reservation
        # Stored reservations that were not looked at yet, and those that were lost.
        booked = promises.book_stored(snapshot, self.timelines)
        self.all_fit = booked is not None  # if not, the pass must not run
        self.stored, gone = booked or ({}, {})
        self.lost = {**gone, **(lost or {})}
        self._owed = {task_id: place for task_id, place in self.stored.items() if place.promised_s is None}
        self._candidates = Candidates(
            snapshot, self.timelines, self.placements, self.reservations, self.stored, self.waits, self.no_room
        )
        self._kept: list[Key] = []  # of tasks behind all of these that have a stored reservation
        self._more = False  # so many tasks have started that the rest is left to the next pass
        self._unsearched: Collection[TaskId] = ()  # booked, but where an earlier pass found a place
        self._cut = False  # more tasks might have started, but the pass looks at a limited number
        self._freed = False  # resources that were kept for a task have come free
        self._floor_s = snapshot.now_s  # `strict`: no task behind may start earlier
        self._ahead: TaskId | None = None
        self._looked_up_to: Key | None = None

    def run(self) -> Plan:
        """The plan of this pass."""
        discipline, settings = self.settings.discipline, self.settings
        if discipline is Discipline.GREEDY:
            self._start_all()
            if settings.estimates and not self._more:
                self.reserve(settings.reserved)
        elif discipline is Discipline.STRICT:
            self.reserve(settings.reserved)
            self._more = self._more or self._freed  # tasks ahead of the one that freed them may start earlier now
        elif discipline is Discipline.EASY:
            self._reserve_owed()
            self.reserve(1)
            self._fill_up(min(settings.filled, _EASY_FILLED))
        else:
            self._reserve_owed()
            self.reserve(settings.reserved)
            self._fill_up(settings.filled)
        return self._plan()

    # -- reservations -----------------------------------------------------------------------------

    def reserve(self, limit: int) -> None:
        """Starts what can start in order; reserves for the first ``limit`` of the others and for all promised tasks."""
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
                    self._floor_s = math.inf  # no task behind may pass those that are not looked at
                break
            if task.id in self.reservations:
                booked += 1
                continue
            self.keys.append(self._key(task.id))
            self._reserve(task)
            if task.id not in self.placements:  # a task that starts does not count against the limit
                looked += 1
                booked += task.id in self.reservations
        self._keep_stored()

    def _reserve_owed(self) -> None:
        """Those who lost a promise to an attempt that ran on are looked at first, in the order of their places."""
        for task_id in sorted(self._owed, key=lambda task_id: (self._owed[task_id].start_s, task_id)):
            self._reserve(self.snapshot.tasks[task_id])

    def _in_turn(self) -> Iterator[Task]:
        """The tasks that may get a reservation, in order.

        Under `strict` a task that a limit keeps from a start is left out, so it does not block the tasks behind it.
        """
        if self.settings.discipline is Discipline.STRICT and self.settings.limits.may_hold_tasks:
            return self._candidates.behind(None, all_shapes=True)
        return (self.snapshot.tasks[task_id_of(key)] for key in self.snapshot.queue.ready_keys())

    def _keep_stored(self) -> None:
        """Starts tasks with stored reservations that were not looked at yet, or makes these earlier, or keeps them."""
        if self._more:  # no reservation becomes earlier before the tasks ahead have had their turn
            for task_id, reservation in self.stored.items():
                self._explain(self.snapshot.tasks[task_id], reservation.node_id, reservation.duration_s, reservation)
                self.reservations[task_id] = reservation
            return
        self._kept += sorted(self._key(task_id) for task_id in self.stored)
        for key in self._kept:
            if task_id_of(key) in self.stored:
                self._reserve(self.snapshot.tasks[task_id_of(key)])

    def _key(self, task_id: TaskId) -> Key:
        key = self.snapshot.queue.key_of(task_id)
        assert key is not None, f"{task_id} has a reservation and is not in the queue"
        return key

    def _is_full(self) -> bool:
        """Whether this pass has started as many tasks as it may."""
        self._more = self._more or len(self.placements) >= self.settings.starts
        return self._more

    def _nothing_more(self) -> bool:
        """Whether the rest of the pass would only give estimates, and none are asked for."""
        return not self.settings.estimates and not any(
            self.timelines.fits_now(s) for s in self.snapshot.queue.ready_by_shape
        )

    def _reserve(self, task: Task) -> None:
        """Starts one task or reserves for it, if any node can hold it."""
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
        if old is not None and not self._is_better(earliest, old):
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
        self._keep(task, reservation if old is None else self._with_promise(reservation, old))

    def _with_promise(self, reservation: Reservation, old: Reservation) -> Reservation:
        """An earlier reservation of a task that had one. A promise so falls."""
        return replace(
            old,
            node_id=reservation.node_id,
            gpus=reservation.gpus,
            start_s=reservation.start_s,
            duration_s=reservation.duration_s,
            promised_s=None if old.promised_s is None else reservation.start_s,
        )

    def _is_better(self, earliest: EarliestStart | None, old: Reservation) -> bool:
        """Whether a task leaves its stored reservation for this start."""
        return earliest is not None and earliest.start_s < old.start_s

    def _keep(self, task: Task, reservation: Reservation) -> None:
        """Notes the task's reservation. Under `strict` no task behind starts earlier, unless a limit holds this one."""
        self.reservations[task.id] = reservation
        if self.settings.discipline is not Discipline.STRICT:
            return
        own = reservation if reservation.node_id in self.timelines.nodes else None
        if self.timelines.limit_on(task, reservation.duration_s, own) is None:
            self._floor_s = max(self._floor_s, reservation.start_s, math.nextafter(self.now_s, math.inf))
            self._ahead = self._ahead or task.id

    def _stay(self, task: Task, reservation: Reservation) -> None:
        """Starts the task by its own reservation if it is due, or keeps that: no earlier start was found."""
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
        """Notes why the task does not start now, by the predicates that decided. ``own`` is its own reservation."""
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
        """Starts tasks behind the reservations (backfill).

        If a promised task started and so freed its reservation, tasks with a reservation of their own are tried too.
        """
        last = self.keys[-1] if self.keys else None
        while not self._is_full():
            self.fill(last, limit)
            if not self._freed:
                return
            self._freed, self._looked_up_to = False, None  # tasks that were skipped may fit now
            for key in (*self.keys, *self._kept):
                reservation = self.reservations.get(task_id_of(key))
                if reservation is not None and self._starts_now(self.snapshot.tasks[task_id_of(key)], reservation):
                    del self.reservations[task_id_of(key)]
            if not self._freed:
                return

    def _starts_now(self, task: Task, reservation: Reservation) -> bool:
        """Starts a task with a reservation now if that delays no other task; if not, its reservation stays."""
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
        """`greedy`: starts in order all that fits beside the stored reservations of other tasks."""
        while True:
            self.fill(None, math.inf)
            self._keep_stored()
            if not self._freed or self._more:
                return
            self._freed = False  # others may fit where resources were kept
            self.stored.update(self.reservations)
            self.reservations.clear()

    def fill(self, after: Key | None, limit: float) -> None:
        """Tries the tasks behind the key ``after``, in order, until ``limit`` of them could not start.

        Two kinds of tasks are skipped and don't count, so they hide no task that could start. No node has room for the
        shape of the first kind; a limit holds the second.
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
        binding = self.settings.discipline in (Discipline.CONSERVATIVE, Discipline.EASY)
        promised = {
            task_id: reservation
            for task_id, reservation in self.reservations.items()
            if reservation.promised_s is not None
        }
        wakes: list[float] = []
        if binding and self.settings.estimates:
            wakes += self._promise(promised)
        return self._made(promised, wakes)

    def _made(self, promised: dict[TaskId, Reservation], wakes: list[float], *, all_promised: bool = False) -> Plan:
        """The plan with these promises. ``wakes``: when another pass is due besides the starts of their places."""
        snapshot, greedy = self.snapshot, self.settings.discipline is Discipline.GREEDY
        owed = {t: place for t, place in self.reservations.items() if t in self._owed and t not in promised}
        stored = (*promised.values(), *owed.values())
        wakes += [reservation.start_s for reservation in stored if reservation.start_s > snapshot.now_s]
        return Plan(
            placements=tuple(self.placements.values()),
            no_room=frozenset(self.no_room.values()),
            promised=promised,
            owed=owed,
            reservations={} if greedy else self.reservations,
            estimates={
                task_id: Estimate(reservation.start_s, rough=greedy or task_id in self._unsearched)
                for task_id, reservation in self.reservations.items()
            },
            rough=rough_estimates(snapshot),
            waits=self.waits,
            dropped=tuple(self._dropped(promised)),
            more=self._more,
            next_wake_s=min(wakes, default=None),
            policy_failed=snapshot.queue.failure,
            # After a start other tasks are among the first ones.
            looked_up_to=None if self._freed or self.placements else self._looked_up_to,
            cut=self._cut,
            rest=None if self._ahead is None else Wait(WaitCause.BEHIND, None, self._ahead),
            all_promised=all_promised,
            limit_on=self.timelines.limit_beside_bookings(self.settings.duration_s),
        )

    def _promise(self, promised: dict[TaskId, Reservation]) -> list[float]:
        """Promises the starts that can be promised now. Returns the moments at which more can be promised."""
        snapshot = self.snapshot
        later = []
        for task_id, reservation in self.reservations.items():
            if reservation.promised_s is not None:
                continue
            task = snapshot.tasks[task_id]
            if not promises.may_be_promised(snapshot, self.timelines, task, reservation):
                closes_at = promises.order_settled_at(snapshot, task)
                if closes_at is not None and closes_at > snapshot.steady_s + promises.SLACK_S:
                    later.append(snapshot.now_s + closes_at - snapshot.steady_s)
            elif len(promised) < self.settings.promised:
                first_at = reservation.first_promised_at or snapshot.wall_s
                given = replace(reservation, promised_s=reservation.start_s, first_promised_at=first_at)
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


class _Failed:
    """Remembers tasks that did not fit. One of the same shape that takes as long or longer need not be tried."""

    def __init__(self) -> None:
        self._shapes: dict[int, tuple[Shape, float]] = {}  # by id, since hashing a shape is slower than trying it

    def covers(self, task: Task, duration_s: float) -> bool:
        found = self._shapes.get(id(task.shape))
        return found is not None and duration_s >= found[1]

    def add(self, task: Task, duration_s: float) -> None:
        known = self._shapes.get(id(task.shape))
        if known is None or duration_s < known[1]:
            self._shapes[id(task.shape)] = (task.shape, duration_s)
