"""What a kept pass says of one task, in words: by the predicates that decided."""

from __future__ import annotations

from headway.ids import TaskId
from headway.model.reasons import WaitReason
from headway.rpc import convert
from headway.rpc.v1 import task_manager_pb2 as pb

from . import explain, frames
from .admission import Holdings
from .frames import Frame, Seen
from .passes import Discipline, Placement, Why
from .policy import rank

_STARTS_SHOWN = 50


def told(kept: Frame, number: int, at: float, task_id: TaskId) -> pb.ListDecisionsReply.Pass:
    """Who started in this pass, and why the task did not, or that it did."""
    head = kept.head
    said = pb.ListDecisionsReply.Pass(
        id=number,
        at=at,
        policy=f"{head.policy} (failed: aging_sjf stood in)" if head.failure else head.policy,
        discipline=head.settings.discipline.value,
        started_in_all=len(kept.placements),
        started_itself=any(placement.task_id == task_id for placement in kept.placements),
    )
    order = frames.in_order(kept)
    place = {one: i for i, one in enumerate(order, start=1)}
    said.place = place.get(task_id, 0)
    key = _key(kept, task_id)
    if key is not None:
        said.key = key
    for placement in _first_shown(kept, task_id):
        said.started.add(
            task=convert.task_to_pb(placement.task_id),
            node_id=placement.node_id,
            gpu_uuids=placement.gpu_uuids,
            ahead=0 < place.get(placement.task_id, 0) < place.get(task_id, len(order) + 1),
            sentence=_why_that_one(kept, placement, task_id),
        )
    if not said.started_itself and task_id in kept.tasks:
        said.reasons.extend(convert.wait_reason_to_pb(reason) for reason in _reasons(kept, task_id, said.place))
        start = _reserved(kept, task_id)
        if start is not None:
            said.reserved_start = start
    return said


def _first_shown(kept: Frame, task_id: TaskId) -> list[Placement]:
    """The task's own start, then the others in the order in which they were decided."""
    own = [placement for placement in kept.placements if placement.task_id == task_id]
    return (own + [placement for placement in kept.placements if placement.task_id != task_id])[:_STARTS_SHOWN]


def _key(kept: Frame, task_id: TaskId) -> float | None:
    if kept.order:
        return kept.numbers.get(task_id)
    seen = kept.tasks.get(task_id)
    return seen.number if seen is not None and seen.queued else None


def _reasons(kept: Frame, task_id: TaskId, place: int) -> list[WaitReason]:
    rooms = frames.rooms(kept)
    by_id = {room.node.id: room for room in rooms}
    started = set()
    held = [(one.owner, one.shape.gpus, one.timeout_s) for one in kept.running.values()]
    for placement in kept.placements:
        started.add(placement.task_id)
        if placement.task_id in kept.tasks:
            task = kept.tasks[placement.task_id].task
            by_id[placement.node_id].take(task.shape, placement.gpu_uuids)
            held.append((task.owner, task.shape.gpus, task.timeout_s))
    ahead = sum(1 for one in frames.in_order(kept)[: max(0, place - 1)] if one not in started)
    settings = kept.head.settings
    sight = explain.Sight(rooms, settings.cpu_tasks, settings.limits, Holdings.of(settings.limits, held))
    task, wait = kept.tasks[task_id].task, kept.waits.get(task_id)
    return explain.reasons(task, sight, ahead=ahead, wait=wait)


def _reserved(kept: Frame, task_id: TaskId) -> float | None:
    """When it was to start, by the wall clock; None: it had no place, or a newer version would decide otherwise."""
    if not kept.head.whole:
        return None
    again = frames.replay(kept)
    place = again.reservations.get(task_id)
    if place is None or not frames.is_same(kept, again):
        return None
    return place.start_s + kept.head.wall_s - kept.head.now_s


def _why_that_one(kept: Frame, placement: Placement, task_id: TaskId) -> str:
    if placement.task_id == task_id:
        return ""
    mine, other = kept.tasks.get(task_id), kept.tasks.get(placement.task_id)
    if mine is None or other is None or not mine.queued:
        return ""
    if _is_ahead(kept, other, mine):
        return _why_ahead(kept, other, mine)
    return _why_past(kept, placement, task_id)


def _is_ahead(kept: Frame, one: Seen, other: Seen) -> bool:
    if kept.order:
        return kept.order.index(one.task.id) < kept.order.index(other.task.id)
    return rank(one.task, one.number) < rank(other.task, other.number)


def _why_ahead(kept: Frame, other: Seen, mine: Seen) -> str:
    first, second = other.task, mine.task
    if first.priority > second.priority:
        return f"{first.id} has the higher priority."
    theirs, own = _key(kept, first.id), _key(kept, second.id)
    if theirs is None or own is None:
        return f"{first.id} was ahead of {second.id} in the queue ({kept.head.policy})."
    if theirs == own:
        return f"{first.id} was ahead of {second.id}: their keys are equal, and ties go by submission, then by name."
    return (
        f"{first.id} was ahead of {second.id}: its key is {_number(theirs)}, {_number(own)} the other's, and the "
        f"smallest goes first ({kept.head.policy})."
    )


def _why_past(kept: Frame, placement: Placement, task_id: TaskId) -> str:
    if any(one.task_id == task_id for one in kept.placements):
        return f"{placement.task_id} was behind {task_id} and fitted beside it, on {placement.node_id}."
    what = f"{placement.task_id} was behind {task_id} and started on {placement.node_id} all the same"
    place = kept.places.get(placement.task_id)
    if place is not None and place.promised_s is not None:
        return f"{what}: its start had been promised, and what comes ahead later goes around promised starts."
    wait = kept.waits.get(task_id)
    if wait is None:
        return f"{what}."
    match wait.why:
        case Why.USER_LIMIT | Why.SHORT_RESERVE | Why.NOT_ADMITTED:
            return f"{what}: a limit held {task_id}, and a limit blocks nobody else."
        case Why.NO_NODE:
            return f"{what}: no machine could take {task_id} then."
    if kept.head.settings.discipline is Discipline.GREEDY:
        return f"{what}: what fits starts (discipline greedy), and {task_id} did not fit."
    return f"{what}: it fitted beside everything booked and so delayed no reservation; {task_id} had to wait."


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")
