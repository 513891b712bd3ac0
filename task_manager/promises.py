"""Stored places: which of them still stand, and who is given one.

A stored place is what makes a promise hold. A plan that is made afresh at each pass moves with every child, retry and
early end; a place is booked before anything else is, and its task may only move to an earlier one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from headway.ids import TaskId
from headway.states import Admission, NodeHealth

from .board import Board
from .model import Task
from .passes import PassInput
from .placement import Room, why_closed
from .places import Place
from .strangers import let_ours_pass, number

# Sums of the same seconds of the wall clock may differ by so much.
_SLACK_S = 1e-6


@dataclass(frozen=True, slots=True)
class Lost:
    """A place that no longer stands, and why, in words."""

    place: Place
    cause: str


def standing(inp: PassInput, board: Board) -> tuple[dict[TaskId, Place], dict[TaskId, Lost]]:
    """Books the stored places that still fit, in the order of the queue; returns these, and those that don't.

    A place of a task that has gone (it started, ended, was cancelled) is nobody's any more and in neither.
    """
    stand: dict[TaskId, Place] = {}
    lost: dict[TaskId, Lost] = {}
    rows = [(task, *_looked_at(inp, board, task, inp.places[task.id])) for task in _in_order(inp)]
    # All of them have room but for bad luck; then there is no need to ask one after the other.
    there = [(task, place) for task, place, cause in rows if not cause and place.node_id in board.nodes]
    nudged = {} if board.put_all(there) else _put_nudged(board, there, inp.settings.slack_s)
    for task, kept, cause in rows:
        place = kept if nudged is None else nudged.get(task.id, kept)
        # On a node that is closed for the moment there is no telling yet.
        if not cause and nudged is None and place.node_id in board.nodes:
            cause = _why_unfit(inp, board, task, place)
            if not cause:
                board.put(task, place)
        if cause:
            lost[task.id] = Lost(inp.places[task.id], cause)
        else:
            stand[task.id] = place
    return stand, lost


def _put_nudged(board: Board, rows: list[tuple[Task, Place]], most_s: float) -> dict[TaskId, Place] | None:
    """Books all of them, those that would overlap others a little later, and returns where; None: they don't fit so,
    and none is booked.

    Where times went to disk and back by clocks that were some moments apart, one begins just before another has ended;
    to a third that spans both there would be less than nothing free for that moment.
    """
    booked: list[tuple[Task, Place]] = []
    for task, place in sorted(rows, key=lambda row: row[1].start_s):
        moved = board.nudged(task, place, most_s)
        if moved is None:
            for other, other_place in booked:
                board.remove(other, other_place)
            return None
        board.put(task, moved)
        booked.append((task, moved))
    return {task.id: place for task, place in booked}


def may_be_promised(inp: PassInput, board: Board, task: Task, place: Place) -> bool:
    """Whether nothing that can be foreseen could keep the task from starting at its place."""
    node = board.nodes.get(place.node_id)
    closes_at = closing(inp, task)
    return (
        node is not None
        and node.outlived is None  # when that one ends is a guess
        and node.awaited is None
        and closes_at is not None
        and inp.steady_s >= closes_at - _SLACK_S
    )


def closing(inp: PassInput, task: Task) -> float | None:
    """From when on (steady clock) no task of equal priority that is submitted sorts ahead; None: never."""
    policy = inp.queue.acting
    if not policy.static or inp.queue.failure:
        return None
    try:
        said = policy.closes_at(task, inp.settings.limits.min_timeout_s)
        return None if said is None else number(said)
    except BaseException as error:
        # Without an answer there is no promise, and the order is unharmed.
        let_ours_pass(error)
        return None


def _looked_at(inp: PassInput, board: Board, task: Task, place: Place) -> tuple[Place, str]:
    """The place as it is by now, and why it can't stand whatever else is booked."""
    cause = _why_not_waiting(inp, task) or _why_node_gone(inp, board, place)
    if cause:
        return place, cause
    # Its timeout may have been changed, or the platform's limits; one that is due is due now.
    start_s, duration_s = max(place.start_s, inp.now_s), inp.settings.duration_s(task)
    if (start_s, duration_s) != (place.start_s, place.duration_s):
        place = replace(place, start_s=start_s, duration_s=duration_s)
    node = board.nodes.get(place.node_id)
    if node is not None and board.wanted(task.shape).on(node) is None:
        cause = f"{node.id} can't run it any more"
    return place, cause


def _in_order(inp: PassInput) -> list[Task]:
    found = []
    for task_id in inp.places:
        task = inp.tasks.get(task_id)
        if task is not None and task.waiting:
            key = inp.queue.key_of(task_id)
            found.append((key is None, key or (), task_id, task))
    return [task for _, _, _, task in sorted(found, key=lambda row: row[:3])]


def _why_not_waiting(inp: PassInput, task: Task) -> str:
    if task.held:
        return "it was put on hold"
    if not inp.queue.is_runnable(task.id):
        return "it waits for its next try"
    return ""


def _why_node_gone(inp: PassInput, board: Board, place: Place) -> str:
    room = board.rooms.get(place.node_id)
    if room is None:
        return f"{place.node_id} has left the cluster"
    if not room.closed:
        return ""
    if _closed_for_good(room) or place.start_s <= inp.now_s:
        return f"{room.closed}"
    return ""


def _closed_for_good(room: Room) -> bool:
    """Whether nobody should wait for it: it is down, or an admin closed it. Silence, a full disk, a refusal pass."""
    node = room.node
    return bool(why_closed(node)) and (node.health is NodeHealth.DOWN or node.admission is not Admission.OPEN)


def _why_unfit(inp: PassInput, board: Board, task: Task, place: Place) -> str:
    node = board.nodes[place.node_id]
    if board.holds(task, place, inp.settings.slack_s):
        return ""
    if node.outlived is not None:
        return f"{node.outlived} on {node.id} has outlived its booking"
    if node.awaited is not None:
        return f"{node.id} has yet to say, since TaskManager started or lost sight of it, that {node.awaited} is over"
    for booking in inp.running:
        runs = inp.tasks.get(booking.task_id) if booking.node_id == node.id else None
        if runs is not None and booking.timeout_s > runs.timeout_s and booking.until_s > place.start_s:
            return f"{booking.task_id} on {node.id} was given more time"
    if place.gpus and not all(gpu.usable for gpu in node.room.node.gpus):
        return f"a GPU of {node.id} went out"
    return f"{node.id} or a limit gives less than when the start was promised, or the task asks for more"
