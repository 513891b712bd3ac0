"""Stored places: which of them still stand, and who is given one.

A stored place is what makes a promise hold. A plan that is made afresh at each pass moves with every child, retry and
early end; a place is booked before anything else is, and its task may only move to an earlier one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from headway.ids import NodeId, TaskId
from headway.states import Admission, NodeHealth

from ..model import Task
from ..order.guard import finite_number, reraise_ctrl_c
from .bookings import Reservation
from .node_timelines import NodeTimelines
from .pass_model import PassInput
from .placement import FreeResources, why_closed

# Sums of the same seconds of the wall clock may differ by so much.
SLACK_S = 1e-6
# A pass, and the way to it, may take so long on top of a promised start.
PASS_S = 1.0


@dataclass(frozen=True, slots=True)
class LostReservation:
    """A place that no longer stands where it was, and why, in words."""

    reservation: Reservation
    cause: str


@dataclass(frozen=True, slots=True)
class _Row:
    """A stored place as it is by now. ``cause``: why it can't stand whatever else is booked; empty: it may. ``longer``:
    its own task asks for more time than when it was stored, which costs nobody else a promise."""

    task: Task
    reservation: Reservation
    cause: str
    longer: bool = False


def book_stored(
    snapshot: PassInput, timelines: NodeTimelines
) -> tuple[dict[TaskId, Reservation], dict[TaskId, LostReservation]]:
    """Books the stored places that still fit, in the order of the queue; returns these, and those that don't stand as
    they were: gone, or in the former a little later.

    A place of a task that has gone (it started, ended, was cancelled) is nobody's any more and in neither.
    """
    rows = [_looked_at(snapshot, timelines, task, snapshot.reservations[task.id]) for task in _in_order(snapshot)]
    lost = {row.task.id: LostReservation(snapshot.reservations[row.task.id], row.cause) for row in rows if row.cause}
    stand = {row.task.id: row.reservation for row in rows if not row.cause}
    # All of them have room but for bad luck; then there is no need to ask one after the other.
    there = [row for row in rows if not row.cause and row.reservation.node_id in timelines.nodes]
    if timelines.add_all([(row.task, row.reservation) for row in there]):
        return stand, lost
    delayed_to_fit = _put_later(timelines, there, snapshot.settings.slack_s)
    if delayed_to_fit is not None:
        return stand | delayed_to_fit, lost
    as_before = [row for row in there if not row.longer]
    crowded = _put_by_node(timelines, as_before)
    gone = _put_what_fits(snapshot, timelines, crowded)
    moved = _moved_on(snapshot, timelines, crowded, gone) if gone else None
    changed = moved if moved is not None else gone
    changed |= _put_what_fits(snapshot, timelines, [row for row in there if row.longer])
    for task_id, (reservation, cause) in changed.items():
        lost[task_id] = LostReservation(snapshot.reservations[task_id], cause)
        if reservation is None:
            del stand[task_id]
        else:
            stand[task_id] = reservation
    return stand, lost


def _put_later(timelines: NodeTimelines, rows: list[_Row], most_s: float) -> dict[TaskId, Reservation] | None:
    """Books all of them, those that would overlap others as little later as makes them fit, and returns where; None:
    ``most_s`` is too little for one, and none is booked.

    Where times went to disk and back by clocks that were some moments apart, one begins just before another has ended;
    to a third that spans both there would be less than nothing free for that moment.
    """
    booked: list[tuple[Task, Reservation]] = []
    for row in sorted(rows, key=lambda row: row.reservation.start_s):
        moved = timelines.delayed_to_fit(row.task, row.reservation, most_s)
        if moved is None:
            _take_back(timelines, booked)
            return None
        timelines.add(row.task, moved)
        booked.append((row.task, moved))
    return {task.id: reservation for task, reservation in booked}


def _take_back(timelines: NodeTimelines, booked: Iterable[tuple[Task, Reservation]]) -> None:
    for task, reservation in booked:
        timelines.remove(task, reservation)


_Moves = dict[TaskId, tuple[Reservation | None, str]]  # where to (None: it is gone) and why


def _put_by_node(timelines: NodeTimelines, rows: list[_Row]) -> list[_Row]:
    """Books those on nodes that have room for all that is kept there; returns the others. Limits hold over all nodes:
    where there are any, it is asked in the order of the queue who keeps what they leave."""
    if any(timelines.is_limited(row.task) for row in rows):
        return rows
    here: dict[NodeId, list[_Row]] = {}
    for row in rows:
        here.setdefault(row.reservation.node_id, []).append(row)
    full = {
        node_id
        for node_id, there in here.items()
        if not timelines.add_all([(row.task, row.reservation) for row in there])
    }
    return [row for row in rows if row.reservation.node_id in full]


def _put_what_fits(snapshot: PassInput, timelines: NodeTimelines, rows: list[_Row]) -> _Moves:
    """Books those that fit as they are, one after the other; returns the others."""
    gone: _Moves = {}
    for row in rows:
        cause = _why_unfit(snapshot, timelines, row.task, row.reservation)
        if cause:
            gone[row.task.id] = (None, cause)
        else:
            timelines.add(row.task, row.reservation)
    return gone


def _moved_on(snapshot: PassInput, timelines: NodeTimelines, rows: list[_Row], gone: _Moves) -> _Moves | None:
    """All of the places moved on by as little as makes them fit, where that is less delay in all than to let go of
    those that don't fit and to go around the rest, which may be a day instead of a second. None: it is not.

    Where nobody knows when what is in the way ends, no promise is made anew: those that would be moved are let go of
    all together, so that they are booked again in the order of the queue.
    """
    crowded = {row.reservation.node_id for row in rows if row.task.id in gone}
    rows = [row for row in rows if row.reservation.node_id in crowded]
    around_s = 0.0
    tried: list[tuple[Task, Reservation]] = []
    for row in rows:
        if row.task.id in gone:
            earliest = timelines.earliest_start(row.task, row.reservation.duration_s, after_s=snapshot.now_s)
            around_s += math.inf if earliest is None else max(0.0, earliest.start_s - row.reservation.start_s)
            if earliest is not None:
                tried.append((row.task, timelines.book(row.task, earliest, row.reservation.duration_s)))
    _take_back(timelines, tried)
    kept = [(row.task, row.reservation) for row in rows if row.task.id not in gone]
    _take_back(timelines, kept)
    later = _put_later(timelines, rows, math.inf)
    if later is None or sum(later[row.task.id].start_s - row.reservation.start_s for row in rows) >= around_s:
        if later is not None:
            _take_back(timelines, [(row.task, later[row.task.id]) for row in rows])
        for task, reservation in kept:
            timelines.add(task, reservation)
        return None
    causes = {row.reservation.node_id: gone[row.task.id][1] for row in rows if row.task.id in gone}
    moved: _Moves = {}
    for row in rows:
        reservation, node = later[row.task.id], timelines.nodes[row.reservation.node_id]
        if reservation.start_s <= row.reservation.start_s + snapshot.settings.slack_s:
            continue
        cause = causes[node.id]
        if node.outlived is not None or node.end_unconfirmed is not None or reservation.promised_s is None:
            timelines.remove(row.task, reservation)
            moved[row.task.id] = (None, cause)
        else:
            moved[row.task.id] = (replace(reservation, promised_s=reservation.start_s), cause)
    return moved


def may_be_promised(snapshot: PassInput, timelines: NodeTimelines, task: Task, reservation: Reservation) -> bool:
    """Whether nothing that can be foreseen could keep the task from starting at its place."""
    node = timelines.nodes.get(reservation.node_id)
    closes_at = order_settled_at(snapshot, task)
    return (
        node is not None
        and node.outlived is None  # when that one ends is a guess
        and node.end_unconfirmed is None
        and closes_at is not None
        and snapshot.steady_s >= closes_at - SLACK_S
    )


def order_settled_at(snapshot: PassInput, task: Task) -> float | None:
    """From when on (steady clock) no task of equal priority that is submitted sorts ahead; None: never."""
    policy = snapshot.queue.effective_policy
    if not policy.static or snapshot.queue.failure:
        return None
    try:
        said = policy.closes_at(task, snapshot.settings.limits.min_timeout_s)
        return None if said is None else finite_number(said)
    except BaseException as error:
        # Without an answer there is no promise, and the order is unharmed.
        reraise_ctrl_c(error)
        return None


def shown_promise(reservation: Reservation, *, now: float, mono: float) -> float | None:
    """A promised start as people see it: in epoch seconds by the wall clock, rounded up; None: nothing is promised.

    ``now`` and ``mono`` are one moment by the wall clock and by the pass's clock, in seconds.
    """
    if reservation.promised_s is None:
        return None
    return math.ceil(now + reservation.promised_s - mono) + PASS_S


def _looked_at(snapshot: PassInput, timelines: NodeTimelines, task: Task, reservation: Reservation) -> _Row:
    cause = _why_not_waiting(snapshot, task) or _why_node_gone(snapshot, timelines, reservation)
    if cause:
        return _Row(task, reservation, cause)
    # Its timeout may have been changed, or the platform's limits; one that is due is due now.
    start_s, duration_s = max(reservation.start_s, snapshot.now_s), snapshot.settings.duration_s(task)
    longer = duration_s > reservation.duration_s
    if (start_s, duration_s) != (reservation.start_s, reservation.duration_s):
        reservation = replace(reservation, start_s=start_s, duration_s=duration_s)
    node = timelines.nodes.get(reservation.node_id)
    if node is not None and timelines.request_for(task.shape).on(node) is None:
        cause = f"{node.id} can't run it any more"
    return _Row(task, reservation, cause, longer)


def _in_order(snapshot: PassInput) -> list[Task]:
    found = []
    for task_id in snapshot.reservations:
        task = snapshot.tasks.get(task_id)
        if task is not None and task.waiting:
            key = snapshot.queue.key_of(task_id)
            found.append((key is None, key or (), task_id, task))
    return [task for _, _, _, task in sorted(found, key=lambda row: row[:3])]


def _why_not_waiting(snapshot: PassInput, task: Task) -> str:
    if task.held:
        return "it was put on hold"
    if not snapshot.queue.is_runnable(task.id):
        return "it waits for its next try"
    return ""


def _why_node_gone(snapshot: PassInput, timelines: NodeTimelines, reservation: Reservation) -> str:
    free = timelines.free_resources.get(reservation.node_id)
    if free is None:
        return f"{reservation.node_id} has left the cluster"
    if not free.closed:
        return ""
    if _closed_for_good(free) or reservation.start_s <= snapshot.now_s:
        return f"{free.closed}"
    return ""


def _closed_for_good(free: FreeResources) -> bool:
    """Whether nobody should wait for it: it is down, or an admin closed it. Silence, a full disk, a refusal pass."""
    node = free.node
    return bool(why_closed(node)) and (node.health is NodeHealth.DOWN or node.admission is not Admission.OPEN)


def _why_unfit(snapshot: PassInput, timelines: NodeTimelines, task: Task, reservation: Reservation) -> str:
    node, slack_s = timelines.nodes[reservation.node_id], snapshot.settings.slack_s
    if timelines.has_room(task, reservation, slack_s):
        if timelines.allows(task, reservation, slack_s):
            return ""
        return "a limit gives less than when the start was promised"
    if node.outlived is not None:
        return f"{node.outlived} on {node.id} has outlived its booking"
    if node.end_unconfirmed is not None:
        return f"{node.id} has yet to say, since TaskManager started or lost sight of it, that {node.end_unconfirmed} is over"
    for booking in snapshot.running:
        runs = snapshot.tasks.get(booking.task_id) if booking.node_id == node.id else None
        more_s = 0.0 if runs is None else booking.timeout_s - runs.timeout_s
        if more_s > 0 and booking.until_s - more_s <= reservation.start_s + slack_s < booking.until_s:
            return f"{booking.task_id} on {node.id} was given more time"
    if reservation.gpus and not all(gpu.usable for gpu in node.free_now.node.gpus):
        return f"a GPU of {node.id} went out"
    return f"{node.id} gives less than when the start was promised, or the task asks for more"
