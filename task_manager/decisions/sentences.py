"""What a kept pass says of one task, in words: by the predicates that decided.

Of tasks that the pass did not look at the frame holds nothing; what is told of these follows from the cluster as it was
and from the task itself, and what does not follow is not told.
"""

from __future__ import annotations

from dataclasses import replace

from headway.ids import TaskId
from headway.model.reasons import WaitReason, WaitWord
from headway.rpc import convert
from headway.rpc.v1 import task_manager_pb2 as pb
from headway.units import counted

from ..model import Task
from ..order import policies
from ..order.policy import AgingSjf, Key, sort_key
from ..planning import explain
from ..planning.admission import GpuHoldings, limits_reached, ruled_out
from ..planning.pass_model import Discipline, Placement, WaitCause
from . import frames
from .frames import Frame, Seen

_STARTS_SHOWN = 50
_LIMITS = frozenset({WaitCause.USER_LIMIT, WaitCause.SHORT_RESERVE, WaitCause.NOT_ADMITTED})


def told(kept: Frame, number: int, at: float, task: Task, came_at: float | None = None) -> pb.ListDecisionsReply.Pass:
    """Who started in this pass, and why the task, which waited then, did not, or that it did.

    ``at``: when it was; ``came_at``: since when the task waited then, None: not known; both by the wall clock.
    """
    one = _Pass(kept, task, came_at)
    said = pb.ListDecisionsReply.Pass(
        id=number,
        at=at,
        policy=f"{kept.head.policy} (failed: aging_sjf stood in)" if kept.head.failure else kept.head.policy,
        discipline=kept.head.settings.discipline.value,
        started_in_all=len(kept.placements),
        started_itself=task.id in one.started,
        place=one.place.get(task.id, 0),
    )
    key = one.number(task.id)
    if key is not None:
        said.key = key
    for placement in one.first_shown():
        said.started.add(
            task=convert.task_to_pb(placement.task_id),
            node_id=placement.node_id,
            gpu_uuids=placement.gpu_uuids,
            ahead=one.is_ahead(placement.task_id) is True,
            sentence=one.why_that_one(placement),
        )
    if not said.started_itself:
        said.reasons.extend(convert.wait_reason_to_pb(reason) for reason in one.reasons())
        start = one.reserved()
        if start is not None:
            said.reserved_start = start
    return said


class _Pass:
    """A kept pass, and a task that waited then."""

    def __init__(self, kept: Frame, task: Task, came_at: float | None) -> None:
        self.kept = kept
        self._came_at = came_at
        self.id = task.id
        self.seen = kept.tasks.get(task.id)
        # Only one that still waits can be on hold: a release, too, begins its wait anew.
        self.on_hold_now = self.seen is None and task.waiting and task.held
        self.task = self.seen.task if self.seen is not None else replace(task, held=False)
        self.started = {placement.task_id for placement in kept.placements}
        self.order = frames.in_order(kept)
        self.place = {one: i for i, one in enumerate(self.order, start=1)}
        self._own_key = None if self.on_hold_now else _key_of(kept, self.task, self.seen)

    # -- the order ----------------------------------------------------------------------------------

    def number(self, task_id: TaskId) -> float | None:
        """A task's key under the rule that ordered; None: it is not known."""
        if self.kept.order:
            return self.kept.numbers.get(task_id)
        if task_id == self.id:
            return None if self._own_key is None else self._own_key[1]
        seen = self.kept.tasks.get(task_id)
        return seen.number if seen is not None and seen.queued else None

    def is_ahead(self, task_id: TaskId) -> bool | None:
        """Whether another task that the pass looked at was ahead of this one; None: that is not known."""
        if task_id in self.place and self.id in self.place:
            return self.place[task_id] < self.place[self.id]
        other = self.kept.tasks.get(task_id)
        if self._own_key is None or other is None or not other.queued or self.kept.order:
            return None
        return sort_key(other.task, other.number) < self._own_key

    def first_shown(self) -> list[Placement]:
        """The task's own start, then the others in the order in which they were decided."""
        own = [placement for placement in self.kept.placements if placement.task_id == self.id]
        return (own + [placement for placement in self.kept.placements if placement.task_id != self.id])[:_STARTS_SHOWN]

    # -- why it waited ------------------------------------------------------------------------------

    def reasons(self) -> list[WaitReason]:
        """Why it did not start, as things were after the starts of the pass."""
        place, queued = self.place.get(self.id, 0), sum(1 for seen in self.kept.tasks.values() if seen.queued)
        ahead = sum(1 for one in self.order[: max(0, place - 1)] if one not in self.started)
        found = explain.wait_reasons(
            self.task,
            self._sight(self.kept.placements),
            ahead=ahead,
            all_seen=queued == self.kept.head.waiting,
            wait=self.kept.waits.get(self.id),
        )
        if self.on_hold_now:
            sentence = "It is on hold now; since when is not kept."
            return [WaitReason(WaitWord.HELD, sentence), *found]
        if self._paused():
            return [WaitReason(WaitWord.RETRY_PAUSE, "It was in a pause before its next try."), *found]
        if self.seen is None and not found:
            found = [WaitReason(WaitWord.BEHIND_HIGHER_PRIORITY, self._why_unseen())]
        return found

    def _why_unseen(self) -> str:
        """There was room, and no limit was reached."""
        head, alike = self.kept.head, self.kept.waits.items()
        if not head.whole:
            return "The pass looked at more tasks than are kept of it; what it said of this one is not known."
        for other, wait in alike:
            task = self.kept.tasks[other].task
            if wait.why is WaitCause.USER_LIMIT and (task.owner, task.shape) == (self.task.owner, self.task.shape):
                return f"The pass did not look at it, since a limit held {other}, which asks for the same."
        if len(self.kept.placements) >= head.settings.starts:
            return (
                f"The pass had started {head.settings.starts} tasks, as many as one may, and left the rest to the next."
            )
        looked = counted(len(self.kept.waits.keys() | self.started), "task")
        return f"The pass looked at {looked}, as many as it may, and it was not among these."

    def reserved(self) -> float | None:
        """When it was to start, by the wall clock; None: it had no place, or a newer version would decide otherwise."""
        kept = self.kept
        if self.seen is None or not kept.head.whole:
            return None
        again = frames.replay(kept)
        place = again.reservations.get(self.id)
        if place is None or not frames.is_same(kept, again):
            return None
        return place.start_s + kept.head.wall_s - kept.head.now_s

    def _sight(self, starts: tuple[Placement, ...]) -> explain.ClusterSnapshot:
        """The cluster once these tasks have started."""
        kept, rooms = self.kept, frames.rooms(self.kept)
        by_id = {room.node.id: room for room in rooms}
        for placement in starts:
            if placement.task_id in kept.tasks:
                by_id[placement.node_id].take(kept.tasks[placement.task_id].task.shape, placement.gpu_uuids)
        settings = kept.head.settings
        return explain.ClusterSnapshot(rooms, settings.cpu_tasks, settings.limits, self._holdings(starts))

    def _holdings(self, starts: tuple[Placement, ...]) -> GpuHoldings:
        kept = self.kept
        held = [(one.owner, one.shape.gpus, one.timeout_s) for one in kept.running.values()]
        tasks = [kept.tasks[one.task_id].task for one in starts if one.task_id in kept.tasks]
        held += [(task.owner, task.shape.gpus, task.timeout_s) for task in tasks]
        return GpuHoldings.of(kept.head.settings.limits, held)

    def _paused(self) -> bool:
        return self.seen is not None and self.seen.queued and not self.seen.runnable

    def _is_limited(self) -> bool:
        """Whether a limit kept it from a start, with all that was ahead of it started: whatever room there was."""
        wait, limits, gpus = self.kept.waits.get(self.id), self.kept.head.settings.limits, self.kept.head.gpus
        if wait is not None and wait.why in _LIMITS:
            return True
        ahead = tuple(one for one in self.kept.placements if self.is_ahead(one.task_id))
        return bool(
            ruled_out(limits, self.task.shape, self.task.timeout_s, gpus=gpus)
            or limits_reached(limits, self.task, self._holdings(ahead), gpus=gpus)
        )

    # -- why another one started --------------------------------------------------------------------

    def why_that_one(self, placement: Placement) -> str:
        """Why another task started in this pass; empty where all that is known is that it did."""
        other = self.kept.tasks.get(placement.task_id)
        if placement.task_id == self.id or other is None:
            return ""
        ahead = self.is_ahead(placement.task_id)
        if ahead:
            return self._why_ahead(other)
        if self.id in self.started:
            return f"{placement.task_id} was behind {self.id} and fitted beside it, on {placement.node_id}."
        what = f"{placement.task_id} started on {placement.node_id}"
        if ahead is False:
            what = f"{placement.task_id} was behind {self.id} and started on {placement.node_id} all the same"
        why = self._why_past(placement)
        if why:
            return f"{what}: {why}."
        return f"{what}." if ahead is False else ""

    def _why_ahead(self, other: Seen) -> str:
        first, second, policy = other.task, self.task, self.kept.head.policy
        if first.priority > second.priority:
            return f"{first.id} has the higher priority."
        if self.kept.head.failure:
            policy = f"aging_sjf, since {policy} failed"
        theirs, own = self.number(first.id), self.number(second.id)
        if theirs is None or own is None:
            return f"{first.id} was ahead of {second.id} in the queue ({policy})."
        if theirs == own:
            return f"{first.id} was ahead of {second.id}: their keys are equal, and {_tie(first, second)}."
        return (
            f"{first.id} was ahead of {second.id}: its key is {_numbers(theirs, own)} the other's, and the smallest "
            f"goes first ({policy})."
        )

    def _why_past(self, placement: Placement) -> str:
        """Why one that was not ahead started though this one did not, as a clause; empty: that is not known."""
        wait = self.kept.waits.get(self.id)
        if self.task.held:
            return f"{self.id} was on hold"
        if self._paused():
            return f"{self.id} was in a pause before its next try"
        if self._is_limited():
            return f"a limit held {self.id}, and a limit blocks nobody else"
        if wait is not None and wait.why is WaitCause.NO_NODE:
            return f"no machine could take {self.id} then"
        place = self.kept.places.get(placement.task_id)
        in_its_way = wait is not None and wait.why is WaitCause.RESERVED and wait.blocker == placement.task_id
        is_due = place is not None and place.start_s <= self.kept.head.now_s
        if place is not None and place.promised_s is not None and (is_due or in_its_way):
            if place.first_promised_at is None or self._came_at is None or place.first_promised_at > self._came_at:
                return "that start had been promised, and a promise is kept whoever is ahead by then"
            return f"that start had been promised before {self.id} came, and what comes later goes around that"
        if wait is None:
            return "" if self.on_hold_now or not self._had_no_room() else f"no machine had room for {self.id}"
        discipline = self.kept.head.settings.discipline
        if discipline is Discipline.GREEDY and wait.why is WaitCause.NO_ROOM:
            return f"what fits starts (discipline greedy), and {self.id} did not fit"
        return f"it fitted beside everything booked and so delayed no reservation; {self.id} had to wait"

    def _had_no_room(self) -> bool:
        """Whether no machine had room for it even before anything started."""
        return bool(self._sight(()).node_reasons(self.task.shape))


def _key_of(kept: Frame, task: Task, seen: Seen | None) -> Key | None:
    """Its key in the order of the pass; None: it did not age, or that is not known.

    What was not looked at has none in the frame. The rule of that pass gives it, if it is one of ours that never
    changes its mind and gives those that were looked at the keys that they had.
    """
    if kept.order:
        return None
    if seen is not None:
        return sort_key(task, seen.number) if seen.queued else None
    try:
        rule = AgingSjf() if kept.head.failure else policies.by_name(kept.head.policy)
    except policies.BadPolicy:
        return None
    if type(rule) not in policies.BUILT_IN.values() or not rule.static:
        return None
    known = [one for one in kept.tasks.values() if one.queued]
    if not known or any(rule.key(one.task, 0.0, None) != one.number for one in known):
        return None
    return sort_key(task, rule.key(task, 0.0, None))


def _tie(first: Task, second: Task) -> str:
    """What decided between two of equal priority and key."""
    if first.submitted_at != second.submitted_at:
        return f"{first.id} was submitted first"
    if first.id.job_id == second.id.job_id and first.tail_timeout_s != second.tail_timeout_s:
        return f"more is still to come below {first.id} in their job"
    return "ties go by name"


def _numbers(one: float, other: float) -> str:
    """Two keys, as exactly as is needed to tell them apart."""
    short = [f"{value:.3f}".rstrip("0").rstrip(".") for value in (one, other)]
    return ", ".join(short if short[0] != short[1] else (f"{one!r}", f"{other!r}"))
