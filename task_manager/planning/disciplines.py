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
from ..order.queue import id_of
from . import promises
from .bookings import Place
from .candidates import Candidates
from .node_timelines import Board, Slot
from .pass_model import Discipline, Dropped, Estimate, PassInput, Placement, Plan, Rough, Wait, Why

_EASY_FILLED = 200


class Walk:
    """One pass under way."""

    def __init__(self, inp: PassInput) -> None:
        self.inp = inp
        self.settings = inp.settings
        self.now_s = inp.now_s
        self.board = Board(
            inp.now_s, inp.rooms, inp.running, limits=inp.settings.limits, gpus=inp.view.gpus,
            cpu_tasks=inp.settings.cpu_tasks, last_used=inp.last_used,
        )  # fmt: skip
        self.placements: dict[TaskId, Placement] = {}
        self.reservations: dict[TaskId, Place] = {}
        self.waits: dict[TaskId, Wait] = {}
        self.no_room: dict[int, Shape] = {}  # by id, since hashing a shape takes longer
        self.keys: list[Key] = []  # looked at for a reservation
        self.stand, self.lost = promises.standing(inp, self.board)  # stored places that nobody has looked at yet
        self._candidates = Candidates(
            inp, self.board, self.placements, self.reservations, self.stand, self.waits, self.no_room
        )
        self._kept: list[Key] = []  # of tasks behind all of these that have a stored place
        self._more = False  # so many have started that the rest is left to the next pass
        self._cut = False  # others might have started, had there been time to look at them
        self._freed = False  # room that was kept has come free
        self._floor_s = inp.now_s  # `strict`: nobody starts earlier
        self._ahead: TaskId | None = None
        self._behind: Key | None = None

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
                self._behind = self.keys[-1] if self.keys else None
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
        self._keep_places()

    def _in_turn(self) -> Iterator[Task]:
        """Who is looked at for a reservation. `strict`: nobody whom a limit keeps from a start; it blocks nobody."""
        if self.settings.discipline is Discipline.STRICT and self.settings.limits.hold_some:
            return self._candidates.behind(None, all_shapes=True)
        return (self.inp.tasks[id_of(key)] for key in self.inp.queue.ready_keys())

    def _keep_places(self) -> None:
        """Starts, moves up or keeps those that have a stored place and that nobody has looked at yet, in order."""
        if self._more:  # nobody's place is made better before it is the turn of those ahead
            for task_id, place in self.stand.items():
                self._explain(self.inp.tasks[task_id], place.node_id, place.duration_s, place)
                self.reservations[task_id] = place
            return
        self._kept += sorted(self._key(task_id) for task_id in self.stand)
        for key in self._kept:
            if id_of(key) in self.stand:
                self._reserve(self.inp.tasks[id_of(key)])

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
        return not self.settings.estimates and not any(self.board.fits_now(s) for s in self.inp.queue.shelves)

    def _reserve(self, task: Task) -> None:
        """Starts or books one task, where it can have a place."""
        board, duration_s = self.board, self.settings.duration_s(task)
        old = self.stand.pop(task.id, None)
        if old is not None and old.node_id in board.nodes:
            if old.start_s > self.now_s and not board.might_move_up(task, old, duration_s):
                self._explain(task, old.node_id, duration_s, old)
                self._keep(task, old)
                return
            board.remove(task, old)
        spread = self.settings.discipline is Discipline.EASY
        slot = board.earliest(task, duration_s, after_s=self._floor_s, spread=spread)
        if old is not None and (slot is None or slot.start_s >= old.start_s):
            self._stay(task, old)
            return
        if slot is None:
            limited = board.limit_on(task, duration_s) if board.can_hold(task.shape) else None
            self.waits[task.id] = limited.wait if limited is not None else Wait(Why.NO_NODE)
            return
        if old is not None:
            self._freed = True
        if slot.start_s <= self.now_s:
            self._start(task, slot, duration_s)
            return
        self._explain(task, slot.node.id, duration_s)
        place = board.book(task, slot, duration_s)
        if old is not None:
            place = replace(place, promised_s=place.start_s, given_at=old.given_at)
        self._keep(task, place)

    def _keep(self, task: Task, place: Place) -> None:
        """It has this reservation. `strict`: nobody behind it starts earlier, unless a limit keeps it from a start."""
        self.reservations[task.id] = place
        if self.settings.discipline is not Discipline.STRICT:
            return
        own = place if place.node_id in self.board.nodes else None
        if self.board.limit_on(task, place.duration_s, own) is None:
            self._floor_s = max(self._floor_s, place.start_s, math.nextafter(self.now_s, math.inf))
            self._ahead = self._ahead or task.id

    def _stay(self, task: Task, place: Place) -> None:
        """Nothing earlier: it starts at its own place, or keeps it."""
        node = self.board.nodes.get(place.node_id)
        if node is None:
            self.waits[task.id] = Wait(Why.NO_ROOM, place.node_id)
        elif place.start_s <= self.now_s and self.board.is_free_now(task, place):
            self._start(task, Slot(node, self.now_s), place.duration_s, place)
            return
        else:
            self._explain(task, node.id, place.duration_s)
            self.board.put(task, place)
        self._keep(task, place)

    def _start(self, task: Task, slot: Slot, duration_s: float, place: Place | None = None) -> None:
        self.placements[task.id] = self.board.start(task, slot, duration_s, place)
        self.waits.pop(task.id, None)

    def _explain(self, task: Task, node_id: NodeId, duration_s: float, own: Place | None = None) -> None:
        """Why it does not start now, by the predicates that decided. ``own``: what is kept for it already."""
        if self._ahead is not None:
            wait = Wait(Why.BEHIND, node_id, self._ahead)
        elif not self.board.fits_now(task.shape):
            wait = Wait(Why.NO_ROOM, node_id)
            self.no_room[id(task.shape)] = task.shape
        elif limited := self.board.limit_on(task, duration_s, own if node_id in self.board.nodes else None):
            wait = replace(limited.wait, node_id=node_id)
        else:
            wait = Wait(Why.RESERVED, *(self.board.blocker(task) or (node_id, None)))
        self.waits[task.id] = wait

    # -- behind them ------------------------------------------------------------------------------

    def _fill_up(self, limit: float) -> None:
        """Fills; where a promised task left a place that was kept for it, also with those that have a reservation."""
        last = self.keys[-1] if self.keys else None
        while not self._is_full():
            self.fill(last, limit)
            if not self._freed:
                return
            self._freed, self._behind = False, None  # there may be room again for what was passed over
            for key in (*self.keys, *self._kept):
                place = self.reservations.get(id_of(key))
                if place is not None and self._starts_now(self.inp.tasks[id_of(key)], place):
                    del self.reservations[id_of(key)]
            if not self._freed:
                return

    def _starts_now(self, task: Task, place: Place) -> bool:
        """Starts a task that has a place now if that delays nobody; if not, its place stays."""
        board, duration_s, is_due = self.board, self.settings.duration_s(task), place.start_s <= self.now_s
        if not (is_due or board.fits_now(task.shape)) or not board.might_start(task, place, duration_s):
            return False
        is_open = place.node_id in board.nodes
        if is_open:
            board.remove(task, place)
        slot, own = None, None
        if is_due and is_open and board.is_free_now(task, place):
            slot, own = Slot(board.nodes[place.node_id], self.now_s), place
        elif board.limit_on(task, duration_s) is None:
            slot = board.at_once(task, duration_s)
        if slot is None:
            if is_open:
                board.put(task, place)
            return False
        self._start(task, slot, duration_s, own)
        self._freed = True
        return True

    def _start_all(self) -> None:
        """`greedy`: starts all that fits beside stored places, a task's own aside, in order."""
        while True:
            self.fill(None, math.inf)
            self._keep_places()
            if not self._freed or self._more:
                return
            self._freed = False  # where a place was kept there may be room for others
            self.stand.update(self.reservations)
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
            kept = self.stand.get(task.id)
            if kept is not None:
                if self._starts_now(task, kept):
                    del self.stand[task.id]
                continue
            duration_s = self.settings.duration_s(task)
            slot = None
            if not failed.covers(task, duration_s):
                slot = self.board.at_once(task, duration_s)
            if slot is not None:
                self._start(task, slot, duration_s)
            else:
                tried += 1
                failed.add(task, duration_s)
                node_id, blocker = self.board.blocker(task) or (None, None)
                self.waits[task.id] = Wait(Why.RESERVED, node_id, blocker)

    # -- the plan ---------------------------------------------------------------------------------

    def _plan(self) -> Plan:
        inp, greedy = self.inp, self.settings.discipline is Discipline.GREEDY
        binding = self.settings.discipline in (Discipline.CONSERVATIVE, Discipline.EASY)
        places = {task_id: place for task_id, place in self.reservations.items() if place.promised_s is not None}
        wakes: list[float] = []
        if binding and self.settings.estimates:
            wakes += self._promise(places)
        wakes += [place.start_s for place in places.values() if place.start_s > inp.now_s]
        return Plan(
            placements=tuple(self.placements.values()),
            no_room=frozenset(self.no_room.values()),
            places=places,
            reservations={} if greedy else self.reservations,
            estimates={t: Estimate(place.start_s, rough=greedy) for t, place in self.reservations.items()},
            rough=rough(inp),
            waits=self.waits,
            dropped=tuple(self._dropped(places)),
            more=self._more,
            next_wake_s=min(wakes, default=None),
            policy_failed=inp.queue.failure,
            # What starts makes way for others among the first.
            behind=None if self._freed or self.placements else self._behind,
            cut=self._cut,
            rest=None if self._ahead is None else Wait(Why.BEHIND, None, self._ahead),
            limit_on=self.board.limits_left(self.settings.duration_s),
        )

    def _promise(self, places: dict[TaskId, Place]) -> list[float]:
        """Promises what can be promised now; returns when more can be."""
        inp = self.inp
        later = []
        for task_id, place in self.reservations.items():
            if place.promised_s is not None:
                continue
            task = inp.tasks[task_id]
            if not promises.may_be_promised(inp, self.board, task, place):
                closes_at = promises.closing(inp, task)
                if closes_at is not None and closes_at > inp.steady_s + promises.SLACK_S:
                    later.append(inp.now_s + closes_at - inp.steady_s)
            elif len(places) < self.settings.promised:
                given = replace(place, promised_s=place.start_s, given_at=inp.wall_s)
                places[task_id] = self.reservations[task_id] = given
        return later

    def _dropped(self, places: dict[TaskId, Place]) -> Iterator[Dropped]:
        for task_id, lost in self.lost.items():
            if lost.place.promised_s is None:
                continue
            now_s = places[task_id].promised_s if task_id in places else None
            if task_id in self.placements:
                now_s = self.now_s
            if now_s is None or now_s > lost.place.promised_s:
                yield Dropped(task_id, lost.cause, lost.place.promised_s, now_s)


def rough(inp: PassInput) -> Rough | None:
    """When tasks without a reservation may start, from the work ahead of them alone; None: nothing waits."""
    waiting, now_s = len(inp.queue), inp.now_s
    if not waiting:
        return None
    left = [(b.shape, b.until_s - now_s) for b in inp.running if b.until_s > now_s]
    nodes = [room.node for room in inp.rooms]
    gpu_s, cpu_s, memory_s = inp.queue.waiting_work

    def spread(there: float, running: float, waits: float) -> tuple[float, float] | None:
        return (now_s + running / there, waits / waiting / there) if there else None

    cpus, memory = sum([node.cpu_centi for node in nodes]), sum([node.memory_bytes for node in nodes])
    return Rough(
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
