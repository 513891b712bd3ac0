"""Stored reservations with promised starts: which of them still hold, and which tasks get one.

A plan that is made anew at each pass would change with every new task, retry and early end. So a stored reservation is
booked before anything else, and its task may only get an earlier one. This is what makes a promise hold.
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

SLACK_S = 1e-6  # the rounding error of a sum of seconds by the wall clock
PASS_S = 1.0  # the time for a pass, which is added to a promised start before people see it


@dataclass(frozen=True, slots=True)
class LostReservation:
    """A stored reservation that no longer holds as it was, and why, as a clause for people."""

    reservation: Reservation
    cause: str


@dataclass(frozen=True, slots=True)
class _Row:
    """A stored reservation as it is now.

    ``cause`` says why it can't hold, whatever else is booked; empty: it may hold. ``longer``: its own task takes more
    time than when it was stored. Such a reservation must not break those of other tasks.
    """

    task: Task
    reservation: Reservation
    cause: str
    longer: bool = False


def book_stored(
    snapshot: PassInput, timelines: NodeTimelines
) -> tuple[dict[TaskId, Reservation], dict[TaskId, LostReservation]]:
    """Books the stored reservations that still fit, in the order of the queue.

    Returns the booked ones, then those that no longer hold as they were. Of the latter, some are gone and some are
    booked a little later. Reservations of tasks that don't wait any more are in neither.
    """
    rows = [_looked_at(snapshot, timelines, task, snapshot.reservations[task.id]) for task in _in_order(snapshot)]
    lost = {row.task.id: LostReservation(snapshot.reservations[row.task.id], row.cause) for row in rows if row.cause}
    booked = {row.task.id: row.reservation for row in rows if not row.cause}
    # Nearly always all of them fit. Then they need not be tried one after the other.
    there = [row for row in rows if not row.cause and row.reservation.node_id in timelines.nodes]
    if timelines.add_all([(row.task, row.reservation) for row in there]):
        return booked, lost
    delayed_to_fit = _put_later(timelines, there, snapshot.settings.slack_s)
    if delayed_to_fit is not None:
        return booked | delayed_to_fit, lost
    as_before = [row for row in there if not row.longer]
    crowded = _put_by_node(timelines, as_before)
    gone = _put_what_fits(snapshot, timelines, crowded)
    moved = _moved_on(snapshot, timelines, crowded, gone) if gone else None
    changed = moved if moved is not None else gone
    changed |= _put_what_fits(snapshot, timelines, [row for row in there if row.longer])
    for task_id, (reservation, cause) in changed.items():
        lost[task_id] = LostReservation(snapshot.reservations[task_id], cause)
        if reservation is None:
            del booked[task_id]
        else:
            booked[task_id] = reservation
    return booked, lost


def _put_later(timelines: NodeTimelines, rows: list[_Row], most_s: float) -> dict[TaskId, Reservation] | None:
    """Books all of them, each with the shortest delay that makes it fit, and returns them as booked.

    None: one would need a delay above ``most_s``; then none is booked. Small delays are needed because times are stored
    and read by clocks that differ a little. So one reservation may begin just before another one has ended.
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


_Moves = dict[TaskId, tuple[Reservation | None, str]]  # the new reservation (None: it is gone), and why


def _put_by_node(timelines: NodeTimelines, rows: list[_Row]) -> list[_Row]:
    """Books the reservations on nodes where all of them fit; returns the others.

    Limits count over all nodes. If a limit counts any of these tasks, none is booked here: they must be tried in the
    order of the queue.
    """
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
    """Books those that fit unchanged, one after the other; returns the others as gone."""
    gone: _Moves = {}
    for row in rows:
        cause = _why_unfit(snapshot, timelines, row.task, row.reservation)
        if cause:
            gone[row.task.id] = (None, cause)
        else:
            timelines.add(row.task, row.reservation)
    return gone


def _moved_on(snapshot: PassInput, timelines: NodeTimelines, rows: list[_Row], gone: _Moves) -> _Moves | None:
    """Delays all reservations on the crowded nodes as little as makes them fit, if that is the smaller delay in all.

    The other way is to drop those that don't fit and to reserve anew around the rest. That may cost a day instead of a
    second. None: dropping is better.

    If nobody knows when a running task in the way ends, no start is promised anew. All reservations that would be
    delayed are dropped together then, so that they are booked again in the order of the queue.
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
    """Whether nothing foreseeable can keep the task from starting by its reservation."""
    node = timelines.nodes.get(reservation.node_id)
    closes_at = order_settled_at(snapshot, task)
    return (
        node is not None
        and node.outlived is None  # its end is a guess
        and node.end_unconfirmed is None
        and closes_at is not None
        and snapshot.steady_s >= closes_at - SLACK_S
    )


def order_settled_at(snapshot: PassInput, task: Task) -> float | None:
    """The moment from which no newly submitted task of equal priority sorts ahead; None: there is none.

    It is in seconds by the steady clock.
    """
    policy = snapshot.queue.effective_policy
    if not policy.static or snapshot.queue.failure:
        return None
    try:
        closes_at = policy.closes_at(task, snapshot.settings.limits.min_timeout_s)
        return None if closes_at is None else finite_number(closes_at)
    except BaseException as error:
        # Without an answer no start is promised, and the order of the queue is the same.
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
    # The timeout or the platform's limits may have changed. A start that is overdue is due now.
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
    """Whether no task should wait for the node: it is down, or an admin closed it. Other causes pass by themselves."""
    node = free.node
    return bool(why_closed(node)) and (node.health is NodeHealth.DOWN or node.admission is not Admission.OPEN)


def _why_unfit(snapshot: PassInput, timelines: NodeTimelines, task: Task, reservation: Reservation) -> str:
    node, slack_s = timelines.nodes[reservation.node_id], snapshot.settings.slack_s
    if timelines.has_room(task, reservation, slack_s):
        if timelines.allows(task, reservation, slack_s):
            return ""
        return "a limit allows less than when the start was promised"
    if node.outlived is not None:
        return f"{node.outlived} on {node.id} runs longer than was booked for it"
    if node.end_unconfirmed is not None:
        ended = f"{node.end_unconfirmed} must have ended"
        return f"{ended}, but {node.id} has not confirmed it since Headway's scheduler started or lost contact with it"
    for booking in snapshot.running:
        runs = snapshot.tasks.get(booking.task_id) if booking.node_id == node.id else None
        more_s = 0.0 if runs is None else booking.timeout_s - runs.timeout_s
        if more_s > 0 and booking.until_s - more_s <= reservation.start_s + slack_s < booking.until_s:
            return f"{booking.task_id} on {node.id} was given more time"
    if reservation.gpus and not all(gpu.usable for gpu in node.free_now.node.gpus):
        return f"a GPU of {node.id} can't be used now"
    return f"{node.id} offers less than when the start was promised, or the task asks for more"
