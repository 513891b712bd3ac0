"""Stored reservations with promised starts: which of them still hold, and which tasks get one.

A plan that is made anew at each pass would change with every new task, retry and early end. So a stored reservation is
booked before anything else, and its task may only get an earlier one. This is what makes a promise hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from headway.ids import TaskId
from headway.states import Admission, NodeHealth

from ..model import Task
from ..order.guard import finite_number, reraise_ctrl_c
from . import changes
from .bookings import Reservation
from .node_timelines import NodeTimelines
from .pass_model import PassInput
from .placement import FreeResources, why_closed

SLACK_S = 1e-6  # the rounding error of a sum of seconds by the wall clock
PASS_S = 1.0  # the time for a pass, which is added to a promised start before people see it
_FALL_S = 60.0  # less is no news


@dataclass(frozen=True, slots=True)
class LostReservation:
    """A stored reservation that no longer holds as it was, and why, as a clause for people."""

    reservation: Reservation
    cause: str


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A stored reservation: ``before`` as it was stored, ``reservation`` as it is now.

    ``cause`` says why it can't hold, whatever else is booked; empty: it may hold. ``longer``: its own task takes more
    time than when it was stored. Such a reservation must not break those of other tasks.
    """

    task: Task
    before: Reservation
    reservation: Reservation
    cause: str
    longer: bool = False


def timelines_of(snapshot: PassInput) -> NodeTimelines:
    """The timelines of a pass, with all that runs."""
    return NodeTimelines(
        snapshot.now_s, snapshot.free_resources, snapshot.running, limits=snapshot.settings.limits,
        gpus=snapshot.view.gpus, cpu_tasks=snapshot.settings.cpu_tasks, last_used=snapshot.last_used,
    )  # fmt: skip


def rows(snapshot: PassInput, timelines: NodeTimelines) -> list[StoredRow]:
    """The stored reservations of tasks that still wait, in the order of the queue."""
    return [_looked_at(snapshot, timelines, task, snapshot.reservations[task.id]) for task in _in_order(snapshot)]


def book_stored(
    snapshot: PassInput, timelines: NodeTimelines
) -> tuple[dict[TaskId, Reservation], dict[TaskId, LostReservation]] | None:
    """Books the stored reservations; None: not all of them fit, and none is booked (`delays` mends that).

    Returns the booked ones, then those that are gone for a cause of their own. Reservations of tasks that don't wait
    any more are in neither.
    """
    looked = rows(snapshot, timelines)
    lost = {row.task.id: LostReservation(row.before, row.cause) for row in looked if row.cause}
    booked = {row.task.id: row.reservation for row in looked if not row.cause}
    there = [row for row in looked if not row.cause and row.reservation.node_id in timelines.nodes]
    put = put_all(timelines, there, snapshot.settings.slack_s)
    return None if put is None else (booked | put, lost)


def put_all(timelines: NodeTimelines, there: list[StoredRow], slack_s: float) -> dict[TaskId, Reservation] | None:
    """Books all of them, those that need it later by at most ``slack_s``; None: they don't fit, and none is booked."""
    # Nearly always all of them fit. Then they need not be tried one after the other.
    if timelines.add_all([(row.task, row.reservation) for row in there]):
        return {}
    return put_later(timelines, there, slack_s)


def put_later(timelines: NodeTimelines, there: Iterable[StoredRow], most_s: float) -> dict[TaskId, Reservation] | None:
    """Books all of them, each with the shortest delay that makes it fit, and returns them as booked.

    None: one would need a delay above ``most_s``; then none is booked. Small delays are needed because times are stored
    and read by clocks that differ a little. So one reservation may begin just before another one has ended.
    """
    booked: list[tuple[Task, Reservation]] = []
    for row in sorted(there, key=lambda row: row.reservation.start_s):
        moved = timelines.delayed_to_fit(row.task, row.reservation, most_s)
        if moved is None:
            for task, reservation in booked:
                timelines.remove(task, reservation)
            return None
        timelines.add(row.task, moved)
        booked.append((row.task, moved))
    return {task.id: reservation for task, reservation in booked}


def fits(snapshot: PassInput, timelines: NodeTimelines, row: StoredRow) -> bool:
    """Whether the reservation fits unchanged beside what is booked."""
    slack_s = snapshot.settings.slack_s
    return timelines.has_room(row.task, row.reservation, slack_s) and timelines.allows(
        row.task, row.reservation, slack_s
    )


def why_unfit(timelines: NodeTimelines, row: StoredRow) -> str:
    """Why a reservation does not fit as it was, if no event since the last pass explains it."""
    node = timelines.nodes[row.reservation.node_id]
    if node.outlived is not None:
        return changes.outlived(node.outlived, node.id)
    if node.end_unconfirmed is not None:
        return changes.unconfirmed(node.end_unconfirmed, node.id)
    if timelines.has_room(row.task, row.reservation, 0.0):
        return "a limit allows less than when the start was promised"
    return f"{node.id} has less room than when the start was promised"


def may_be_promised(snapshot: PassInput, timelines: NodeTimelines, task: Task, reservation: Reservation) -> bool:
    """Whether nothing foreseeable can keep the task from starting by its reservation."""
    node = timelines.nodes.get(reservation.node_id)
    closes_at = order_settled_at(snapshot, task)
    return (
        node is not None
        and not task.shape.gpu_uuids  # reservations count cards, and don't say which
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


def shown_first_promise(reservation: Reservation, *, now: float, mono: float) -> float | None:
    """What was promised first, shown likewise; None: the promise has not fallen by a minute since."""
    first_s, promised_s = reservation.first_promised_s, reservation.promised_s
    if first_s is None or promised_s is None or first_s < promised_s + _FALL_S:
        return None
    return shown_promise(replace(reservation, promised_s=first_s), now=now, mono=mono)


def _looked_at(snapshot: PassInput, timelines: NodeTimelines, task: Task, before: Reservation) -> StoredRow:
    reservation = before
    cause = _why_not_waiting(snapshot, task) or _why_node_gone(snapshot, timelines, reservation)
    if cause:
        return StoredRow(task, before, reservation, cause)
    # The timeout or the platform's limits may have changed. A start that is overdue is due now.
    start_s, duration_s = max(reservation.start_s, snapshot.now_s), snapshot.settings.duration_s(task)
    longer = duration_s > reservation.duration_s
    if (start_s, duration_s) != (reservation.start_s, reservation.duration_s):
        reservation = replace(reservation, start_s=start_s, duration_s=duration_s)
    node = timelines.nodes.get(reservation.node_id)
    if node is not None and timelines.request_for(task.shape).on(node) is None:
        cause = f"{node.id} can't run it any more"
    return StoredRow(task, before, reservation, cause, longer)


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
        # The sentence stays while the new start is later, though the node may be open again by then.
        return free.closed.replace(f"{free.node.id} is ", f"{free.node.id} was ", 1)
    return ""


def _closed_for_good(free: FreeResources) -> bool:
    """Whether no task should wait for the node: it is down, or an admin closed it. Other causes pass by themselves."""
    node = free.node
    return bool(why_closed(node)) and (node.health is NodeHealth.DOWN or node.admission is not Admission.OPEN)
