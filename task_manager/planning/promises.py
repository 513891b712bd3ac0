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
from ..order.guard import let_ours_pass, number
from .bookings import Place
from .node_timelines import Board
from .pass_model import PassInput
from .placement import Room, why_closed

# Sums of the same seconds of the wall clock may differ by so much.
SLACK_S = 1e-6


@dataclass(frozen=True, slots=True)
class Lost:
    """A place that no longer stands where it was, and why, in words."""

    place: Place
    cause: str


@dataclass(frozen=True, slots=True)
class _Row:
    """A stored place as it is by now. ``cause``: why it can't stand whatever else is booked; empty: it may. ``longer``:
    its own task asks for more time than when it was stored, which costs nobody else a promise."""

    task: Task
    place: Place
    cause: str
    longer: bool = False


def standing(inp: PassInput, board: Board) -> tuple[dict[TaskId, Place], dict[TaskId, Lost]]:
    """Books the stored places that still fit, in the order of the queue; returns these, and those that don't stand as
    they were: gone, or in the former a little later.

    A place of a task that has gone (it started, ended, was cancelled) is nobody's any more and in neither.
    """
    rows = [_looked_at(inp, board, task, inp.places[task.id]) for task in _in_order(inp)]
    lost = {row.task.id: Lost(inp.places[row.task.id], row.cause) for row in rows if row.cause}
    stand = {row.task.id: row.place for row in rows if not row.cause}
    # All of them have room but for bad luck; then there is no need to ask one after the other.
    there = [row for row in rows if not row.cause and row.place.node_id in board.nodes]
    if board.put_all([(row.task, row.place) for row in there]):
        return stand, lost
    nudged = _put_later(board, there, inp.settings.slack_s)
    if nudged is not None:
        return stand | nudged, lost
    as_before = [row for row in there if not row.longer]
    crowded = _put_by_node(board, as_before)
    gone = _put_what_fits(inp, board, crowded)
    moved = _moved_on(inp, board, crowded, gone) if gone else None
    changed = moved if moved is not None else gone
    changed |= _put_what_fits(inp, board, [row for row in there if row.longer])
    for task_id, (place, cause) in changed.items():
        lost[task_id] = Lost(inp.places[task_id], cause)
        if place is None:
            del stand[task_id]
        else:
            stand[task_id] = place
    return stand, lost


def _put_later(board: Board, rows: list[_Row], most_s: float) -> dict[TaskId, Place] | None:
    """Books all of them, those that would overlap others as little later as makes them fit, and returns where; None:
    ``most_s`` is too little for one, and none is booked.

    Where times went to disk and back by clocks that were some moments apart, one begins just before another has ended;
    to a third that spans both there would be less than nothing free for that moment.
    """
    booked: list[tuple[Task, Place]] = []
    for row in sorted(rows, key=lambda row: row.place.start_s):
        moved = board.nudged(row.task, row.place, most_s)
        if moved is None:
            _take_back(board, booked)
            return None
        board.put(row.task, moved)
        booked.append((row.task, moved))
    return {task.id: place for task, place in booked}


def _take_back(board: Board, booked: Iterable[tuple[Task, Place]]) -> None:
    for task, place in booked:
        board.remove(task, place)


_Moves = dict[TaskId, tuple[Place | None, str]]  # where to (None: it is gone) and why


def _put_by_node(board: Board, rows: list[_Row]) -> list[_Row]:
    """Books those on nodes that have room for all that is kept there; returns the others. Limits hold over all nodes:
    where there are any, it is asked in the order of the queue who keeps what they leave."""
    if any(board.is_limited(row.task) for row in rows):
        return rows
    here: dict[NodeId, list[_Row]] = {}
    for row in rows:
        here.setdefault(row.place.node_id, []).append(row)
    full = {node_id for node_id, there in here.items() if not board.put_all([(row.task, row.place) for row in there])}
    return [row for row in rows if row.place.node_id in full]


def _put_what_fits(inp: PassInput, board: Board, rows: list[_Row]) -> _Moves:
    """Books those that fit as they are, one after the other; returns the others."""
    gone: _Moves = {}
    for row in rows:
        cause = _why_unfit(inp, board, row.task, row.place)
        if cause:
            gone[row.task.id] = (None, cause)
        else:
            board.put(row.task, row.place)
    return gone


def _moved_on(inp: PassInput, board: Board, rows: list[_Row], gone: _Moves) -> _Moves | None:
    """All of the places moved on by as little as makes them fit, where that is less delay in all than to let go of
    those that don't fit and to go around the rest, which may be a day instead of a second. None: it is not.

    Where nobody knows when what is in the way ends, no promise is made anew: those that would be moved are let go of
    all together, so that they are booked again in the order of the queue.
    """
    crowded = {row.place.node_id for row in rows if row.task.id in gone}
    rows = [row for row in rows if row.place.node_id in crowded]
    around_s = 0.0
    tried: list[tuple[Task, Place]] = []
    for row in rows:
        if row.task.id in gone:
            slot = board.earliest(row.task, row.place.duration_s, after_s=inp.now_s)
            around_s += math.inf if slot is None else max(0.0, slot.start_s - row.place.start_s)
            if slot is not None:
                tried.append((row.task, board.book(row.task, slot, row.place.duration_s)))
    _take_back(board, tried)
    kept = [(row.task, row.place) for row in rows if row.task.id not in gone]
    _take_back(board, kept)
    later = _put_later(board, rows, math.inf)
    if later is None or sum(later[row.task.id].start_s - row.place.start_s for row in rows) >= around_s:
        if later is not None:
            _take_back(board, [(row.task, later[row.task.id]) for row in rows])
        for task, place in kept:
            board.put(task, place)
        return None
    causes = {row.place.node_id: gone[row.task.id][1] for row in rows if row.task.id in gone}
    moved: _Moves = {}
    for row in rows:
        place, node = later[row.task.id], board.nodes[row.place.node_id]
        if place.start_s <= row.place.start_s + inp.settings.slack_s:
            continue
        cause = causes[node.id]
        if node.outlived is not None or node.awaited is not None or place.promised_s is None:
            board.remove(row.task, place)
            moved[row.task.id] = (None, cause)
        else:
            moved[row.task.id] = (replace(place, promised_s=place.start_s), cause)
    return moved


def may_be_promised(inp: PassInput, board: Board, task: Task, place: Place) -> bool:
    """Whether nothing that can be foreseen could keep the task from starting at its place."""
    node = board.nodes.get(place.node_id)
    closes_at = closing(inp, task)
    return (
        node is not None
        and node.outlived is None  # when that one ends is a guess
        and node.awaited is None
        and closes_at is not None
        and inp.steady_s >= closes_at - SLACK_S
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


def _looked_at(inp: PassInput, board: Board, task: Task, place: Place) -> _Row:
    cause = _why_not_waiting(inp, task) or _why_node_gone(inp, board, place)
    if cause:
        return _Row(task, place, cause)
    # Its timeout may have been changed, or the platform's limits; one that is due is due now.
    start_s, duration_s = max(place.start_s, inp.now_s), inp.settings.duration_s(task)
    longer = duration_s > place.duration_s
    if (start_s, duration_s) != (place.start_s, place.duration_s):
        place = replace(place, start_s=start_s, duration_s=duration_s)
    node = board.nodes.get(place.node_id)
    if node is not None and board.wanted(task.shape).on(node) is None:
        cause = f"{node.id} can't run it any more"
    return _Row(task, place, cause, longer)


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
    node, slack_s = board.nodes[place.node_id], inp.settings.slack_s
    if board.has_room(task, place, slack_s):
        if board.allows(task, place, slack_s):
            return ""
        return "a limit gives less than when the start was promised"
    if node.outlived is not None:
        return f"{node.outlived} on {node.id} has outlived its booking"
    if node.awaited is not None:
        return f"{node.id} has yet to say, since TaskManager started or lost sight of it, that {node.awaited} is over"
    for booking in inp.running:
        runs = inp.tasks.get(booking.task_id) if booking.node_id == node.id else None
        more_s = 0.0 if runs is None else booking.timeout_s - runs.timeout_s
        if more_s > 0 and booking.until_s - more_s <= place.start_s + slack_s < booking.until_s:
            return f"{booking.task_id} on {node.id} was given more time"
    if place.gpus and not all(gpu.usable for gpu in node.room.node.gpus):
        return f"a GPU of {node.id} went out"
    return f"{node.id} gives less than when the start was promised, or the task asks for more"
