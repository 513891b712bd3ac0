"""What a stored pass says about one task, in sentences; the code that decided gives the reasons.

The frame holds nothing about tasks that the pass did not look at. A sentence about such a task follows from the cluster
as it was, and from the task itself. Where nothing follows, there is no sentence.
"""

from __future__ import annotations

from dataclasses import replace

from headway.ids import TaskId
from headway.model.reasons import WaitReason, WaitWord
from headway.rpc import convert
from headway.rpc.v1 import task_manager_pb2 as pb
from headway.units import counted

from ..model import Task
from ..order import policy_registry
from ..order.policy import AgingSjf, Key, sort_key
from ..planning.limit_checks import GpuHoldings, limits_reached, ruled_out
from ..planning.pass_model import Discipline, Placement, WaitCause
from ..planning.reasons import explain
from . import frames
from .frames import Frame, FrameTask

_STARTS_SHOWN = 50
_LIMITS = frozenset({WaitCause.USER_LIMIT, WaitCause.SHORT_RESERVE, WaitCause.NOT_ADMITTED})


def describe_pass(
    frame: Frame, number: int, at: float, task: Task, came_at: float | None = None
) -> pb.ListDecisionsReply.Pass:
    """Which tasks started in this pass, and why the given task, which was waiting, did not; or that it did.

    ``at``: when the pass ran. ``came_at``: since when the task was waiting then; None: not known. Both are by the wall
    clock.
    """
    one = _Pass(frame, task, came_at)
    message = pb.ListDecisionsReply.Pass(
        id=number,
        at=at,
        policy=f"{frame.head.policy} (failed: aging_sjf was used)" if frame.head.failure else frame.head.policy,
        discipline=frame.head.settings.discipline.value,
        started_in_all=len(frame.placements),
        started_itself=task.id in one.started,
        place=one.place.get(task.id, 0),
    )
    key = one.number(task.id)
    if key is not None:
        message.key = key
    for placement in one.first_shown():
        message.started.add(
            task=convert.task_to_pb(placement.task_id),
            node_id=placement.node_id,
            gpu_uuids=placement.gpu_uuids,
            ahead=one.is_ahead(placement.task_id) is True,
            sentence=one.why_that_one(placement),
        )
    if not message.started_itself:
        message.reasons.extend(convert.wait_reason_to_pb(reason) for reason in one.reasons())
        start = one.reserved()
        if start is not None:
            message.reserved_start = start
    return message


class _Pass:
    """A stored pass, and a task that was waiting then."""

    def __init__(self, frame: Frame, task: Task, came_at: float | None) -> None:
        self.frame = frame
        self._came_at = came_at
        self.id = task.id
        self.seen = frame.tasks.get(task.id)
        # Only a task that still waits can be on hold: after a release its wait begins anew.
        self.on_hold_now = self.seen is None and task.waiting and task.held
        self.task = self.seen.task if self.seen is not None else replace(task, held=False)
        self.started = {placement.task_id for placement in frame.placements}
        self.order = frames.in_order(frame)
        self.place = {one: i for i, one in enumerate(self.order, start=1)}
        self._own_key = None if self.on_hold_now else _key_of(frame, self.task, self.seen)

    # -- the order ----------------------------------------------------------------------------------

    def number(self, task_id: TaskId) -> float | None:
        """A task's key under the policy of that pass; None: it is not known."""
        if self.frame.order:
            return self.frame.numbers.get(task_id)
        if task_id == self.id:
            return None if self._own_key is None else self._own_key[1]
        seen = self.frame.tasks.get(task_id)
        return seen.number if seen is not None and seen.queued else None

    def is_ahead(self, task_id: TaskId) -> bool | None:
        """Whether another task of the frame was ahead of this one; None: that is not known."""
        if task_id in self.place and self.id in self.place:
            return self.place[task_id] < self.place[self.id]
        other = self.frame.tasks.get(task_id)
        if self._own_key is None or other is None or not other.queued or self.frame.order:
            return None
        return sort_key(other.task, other.number) < self._own_key

    def first_shown(self) -> list[Placement]:
        """The task's own start, then the others in the order in which they were decided."""
        own = [placement for placement in self.frame.placements if placement.task_id == self.id]
        others = [placement for placement in self.frame.placements if placement.task_id != self.id]
        return (own + others)[:_STARTS_SHOWN]

    # -- why it waited ------------------------------------------------------------------------------

    def reasons(self) -> list[WaitReason]:
        """Why it did not start, judged by what was free after the starts of the pass."""
        place, queued = self.place.get(self.id, 0), sum(1 for seen in self.frame.tasks.values() if seen.queued)
        ahead = sum(1 for one in self.order[: max(0, place - 1)] if one not in self.started)
        found = explain.wait_reasons(
            self.task,
            self._sight(self.frame.placements),
            ahead=ahead,
            all_seen=queued == self.frame.head.waiting,
            wait=self.frame.waits.get(self.id),
        )
        if self.on_hold_now:
            sentence = "It is on hold now; the log does not say since when."
            return [WaitReason(WaitWord.HELD, sentence), *found]
        if self._paused():
            return [WaitReason(WaitWord.RETRY_PAUSE, "It was in a pause before its next try."), *found]
        if self.seen is None and not found:
            found = [WaitReason(WaitWord.BEHIND_HIGHER_PRIORITY, self._why_unseen())]
        return found

    def _why_unseen(self) -> str:
        """Why the pass did not look at it, although there was room and no limit was reached."""
        head, alike = self.frame.head, self.frame.waits.items()
        if not head.whole:
            return "The scheduler looked at more tasks than its log keeps, so its decision about this one is not known."
        for other, wait in alike:
            task = self.frame.tasks[other].task
            if wait.why is WaitCause.USER_LIMIT and (task.owner, task.shape) == (self.task.owner, self.task.shape):
                return f"The scheduler did not look at it, since a limit held {other}, which needs the same resources."
        if len(self.frame.placements) >= head.settings.starts:
            return f"The scheduler had started {head.settings.starts} tasks, the most that it may start at a time."
        looked = counted(len(self.frame.waits.keys() | self.started), "task")
        return f"The scheduler looked at {looked}, the most that it may at a time, and this one was not among them."

    def reserved(self) -> float | None:
        """Its reserved start, by the wall clock; None: it had none, or this version would decide differently."""
        frame = self.frame
        if self.seen is None or not frame.head.whole:
            return None
        again = frames.replay(frame)
        place = again.reservations.get(self.id)
        if place is None or not frames.decides_the_same(frame, again):
            return None
        return place.start_s + frame.head.wall_s - frame.head.now_s

    def _sight(self, starts: tuple[Placement, ...]) -> explain.ClusterSnapshot:
        """The cluster once these tasks have started."""
        frame, rooms = self.frame, frames.free_resources_of(self.frame)
        by_id = {room.node.id: room for room in rooms}
        for placement in starts:
            if placement.task_id in frame.tasks:
                by_id[placement.node_id].take(frame.tasks[placement.task_id].task.shape, placement.gpu_uuids)
        settings = frame.head.settings
        return explain.ClusterSnapshot(rooms, settings.cpu_tasks, settings.limits, self._holdings(starts))

    def _holdings(self, starts: tuple[Placement, ...]) -> GpuHoldings:
        frame = self.frame
        held = [(one.owner, one.shape, one.timeout_s) for one in frame.running.values()]
        tasks = [frame.tasks[one.task_id].task for one in starts if one.task_id in frame.tasks]
        held += [(task.owner, task.shape, task.timeout_s) for task in tasks]
        return GpuHoldings.of(frame.head.settings.limits, held)

    def _paused(self) -> bool:
        return self.seen is not None and self.seen.queued and not self.seen.runnable

    def _is_limited(self) -> bool:
        """Whether a limit kept it from starting, once all tasks ahead of it had started, even if there was room."""
        wait, limits, gpus = self.frame.waits.get(self.id), self.frame.head.settings.limits, self.frame.head.gpus
        if wait is not None and wait.why in _LIMITS:
            return True
        ahead = tuple(one for one in self.frame.placements if self.is_ahead(one.task_id))
        return bool(
            ruled_out(limits, self.task.shape, self.task.timeout_s, gpus=gpus)
            or limits_reached(limits, self.task, self._holdings(ahead), gpus=gpus)
        )

    # -- why another one started --------------------------------------------------------------------

    def why_that_one(self, placement: Placement) -> str:
        """Why another task started in this pass; empty: not known."""
        other = self.frame.tasks.get(placement.task_id)
        if placement.task_id == self.id or other is None:
            return ""
        ahead = self.is_ahead(placement.task_id)
        if ahead:
            return self._why_ahead(other)
        if self.id in self.started:
            return (
                f"{placement.task_id} was behind {self.id} in the queue, but there was room for both; it started on "
                f"{placement.node_id}."
            )
        what = f"{placement.task_id} started on {placement.node_id}"
        if ahead is False:
            what = f"{placement.task_id} was behind {self.id} but started on {placement.node_id}"
        why = self._why_past(placement)
        if why:
            return f"{what}: {why}."
        return f"{what}." if ahead is False else ""

    def _why_ahead(self, other: FrameTask) -> str:
        first, second, policy = other.task, self.task, self.frame.head.policy
        if first.priority > second.priority:
            return f"{first.id} has the higher priority."
        if self.frame.head.failure:
            policy = f"aging_sjf, since {policy} failed"
        theirs, own = self.number(first.id), self.number(second.id)
        if theirs is None or own is None:
            return f"{first.id} was ahead of {second.id} in the queue ({policy})."
        if theirs == own:
            return f"{first.id} was ahead of {second.id}: their order numbers are equal, and {_tie(first, second)}."
        return (
            f"{first.id} was ahead of {second.id}: its order number is {_number(theirs, own)}, the other's "
            f"{_number(own, theirs)}, and the smallest goes first ({policy})."
        )

    def _why_past(self, placement: Placement) -> str:
        """Why a task that was not ahead started and this one did not, as a clause; empty: not known."""
        wait = self.frame.waits.get(self.id)
        if self.task.held:
            return f"{self.id} was on hold"
        if self._paused():
            return f"{self.id} was in a pause before its next try"
        if self._is_limited():
            return f"a limit held {self.id}, and a limit does not hold up other tasks"
        if wait is not None and wait.why is WaitCause.NO_NODE:
            return f"no machine could take {self.id} then"
        place = self.frame.places.get(placement.task_id)
        in_its_way = wait is not None and wait.why is WaitCause.RESERVED and wait.blocker == placement.task_id
        is_due = place is not None and place.start_s <= self.frame.head.now_s
        if place is not None and place.promised_s is not None and (is_due or in_its_way):
            if place.first_promised_at is None or self._came_at is None or place.first_promised_at > self._came_at:
                return "its start had been promised, and a promise is kept even if another task is ahead by then"
            return f"its start had been promised before {self.id} came, and a later task can't delay it"
        if wait is None:
            return "" if self.on_hold_now or not self._had_no_room() else f"no machine had room for {self.id}"
        discipline = self.frame.head.settings.discipline
        if discipline is Discipline.GREEDY and wait.why is WaitCause.NO_ROOM:
            return f"the overtaking rule greedy starts every task that has room, and there was none for {self.id}"
        return f"it could start without delaying any reservation, and {self.id} could not"

    def _had_no_room(self) -> bool:
        """Whether no machine had room for it even before anything started."""
        return bool(self._sight(()).node_reasons(self.task.shape))


def _key_of(frame: Frame, task: Task, seen: FrameTask | None) -> Key | None:
    """Its key in the order of the pass; None: it was on hold, or the key is not known.

    The frame has no key of a task that the pass did not look at. A built-in static policy can compute it again. That
    counts only if it also gives the tasks of the frame the keys that they had.
    """
    if frame.order:
        return None
    if seen is not None:
        return sort_key(task, seen.number) if seen.queued else None
    try:
        rule = AgingSjf() if frame.head.failure else policy_registry.by_name(frame.head.policy)
    except policy_registry.BadPolicy:
        return None
    if type(rule) not in policy_registry.BUILT_IN.values() or not rule.static:
        return None
    known = [one for one in frame.tasks.values() if one.queued]
    if not known or any(rule.key(one.task, 0.0, None) != one.number for one in known):
        return None
    return sort_key(task, rule.key(task, 0.0, None))


def _tie(first: Task, second: Task) -> str:
    """What decided between two of equal priority and key."""
    if first.submitted_at != second.submitted_at:
        return f"{first.id} was submitted first"
    if first.id.job_id == second.id.job_id and first.tail_timeout_s != second.tail_timeout_s:
        return f"more work depends on {first.id} in their job"
    return "the name decides"


def _number(key: float, other: float) -> str:
    """A key, as exactly as is needed to tell it from the other one."""
    short, short_other = (f"{value:.3f}".rstrip("0").rstrip(".") for value in (key, other))
    return short if short != short_other else f"{key!r}"
