"""One turn of the engine: a batch of events and one instant go in; changes and orders come out.

It uses no disk, no network and no clock. All events of a turn count as of one instant: first the ends, then the
arrivals, then one pass over the queue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headway.frozen import replace
from headway.ids import AttemptId, NodeId, TaskId
from headway.logs import get_logger
from headway.model.reasons import EndReason, EndWord
from headway.states import ATTEMPT, AttemptEventKind, AttemptState, TaskEventKind, TaskState

from ..decisions.frames import Frame
from ..model import Attempt, Task
from ..settings import TaskManagerSettings
from . import confirmation, drains, phases, retry, usage
from .comparing import gates
from .events import ExtendOrder, StopOrder
from .scheduling_choice import POLICY, AdminChoice, SchedulingChoice
from .state import EngineState

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class OutgoingTaskEvent:
    """One event for JobManager."""

    task_id: TaskId
    generation: int
    seq: int
    kind: TaskEventKind
    attempt: int
    at: float
    reason: EndReason | None = None
    node_id: str = ""
    process_started_at: float | None = None
    notice: str = ""


@dataclass(slots=True)
class Turn:
    """The state as it is being changed, and what has to be done once the changes are on disk.

    ``past``: tasks of the database that this batch names and that are not in the state. ``past_attempts``: likewise
    attempts that are not live.
    """

    state: EngineState
    settings: TaskManagerSettings
    past: Mapping[TaskId, Task] = field(default_factory=dict)
    past_attempts: Mapping[AttemptId, Attempt] = field(default_factory=dict)
    specs: dict[TaskId, bytes] = field(default_factory=dict)  # of tasks enqueued in this turn
    outgoing: list[OutgoingTaskEvent] = field(default_factory=list)
    launches: list[AttemptId] = field(default_factory=list)
    relaunches: list[AttemptId] = field(default_factory=list)
    taken_back: list[AttemptId] = field(default_factory=list)  # new in the database, though Workers had them
    stops: list[StopOrder] = field(default_factory=list)
    extends: list[ExtendOrder] = field(default_factory=list)
    planned_stop: bool = False
    scheduling_choice: SchedulingChoice | None = None  # None: only in tests of single rules
    admin_choices: dict[str, AdminChoice | None] = field(default_factory=dict)  # what an admin sets in this turn
    policy_states: dict[str, str] = field(default_factory=dict)  # of policies, to be stored
    frame: Frame | None = None  # of the pass, if it placed a task
    ended: list[Attempt] = field(default_factory=list)
    pass_s: float | None = None  # what the pass took; None: there was none

    @property
    def now(self) -> float:
        return self.state.now

    @property
    def has_more_to_store(self) -> bool:
        """Whether the database gets more from this turn than the changes of the state."""
        return bool(self.outgoing or self.admin_choices or self.policy_states)

    @property
    def policy_text(self) -> str:
        """The policy in use, as it was asked for."""
        chosen = self.admin_choices.get(POLICY)
        if chosen is not None:
            return chosen.value
        if self.scheduling_choice is None or POLICY in self.admin_choices:
            return self.settings.policy or self.state.policy.name
        return self.scheduling_choice.policy_text

    def task(self, task_id: TaskId) -> Task | None:
        """The task in any state, as of this moment of the turn."""
        task = self.state.tasks.get(task_id) or self.state.dirty_tasks.get(task_id)
        return task if task is not None else self.past.get(task_id)

    def knows(self, attempt_id: AttemptId) -> bool:
        """Whether the database has this attempt, which is not live."""
        return attempt_id in self.past_attempts or attempt_id in self.state.dirty_attempts

    def is_disowned(self, attempt_id: AttemptId) -> bool:
        """Whether a Worker has to discard this attempt: it was declared lost here, or is unknown."""
        task = self.task(attempt_id.task)
        return task is None or attempt_id.number > task.attempt or attempt_id.number in task.disowned

    def emit(
        self,
        task: Task,
        kind: TaskEventKind,
        reason: EndReason | None = None,
        of: Attempt | None = None,
        notice: str = "",
        **changes: Any,
    ) -> Task:
        """Adds an event for JobManager; returns the task with ``changes`` and the next event number."""
        seq = task.event_seq + 1
        number = of.id.number if of is not None else task.attempt
        self.outgoing.append(
            OutgoingTaskEvent(
                task.id,
                task.generation,
                seq,
                kind,
                number,
                self.now,
                reason,
                of.node_id if of is not None else "",
                of.started_at if of is not None else None,
                notice,
            )
        )
        if reason is not None:
            changes["reason"] = reason
        return replace(task, event_seq=seq, attempt=max(task.attempt, number), **changes)

    # -- what happens to attempts -------------------------------------------------------------------

    def request_stop(self, attempt: Attempt, word: str) -> None:
        """Orders a live attempt to stop; an attempt that no Worker can know of ends at once."""
        if not ATTEMPT.moves_on(attempt.state, AttemptEventKind.STOP_REQUESTED):
            return
        state = ATTEMPT.after(attempt.state, AttemptEventKind.STOP_REQUESTED)
        attempt = replace(attempt, state=state, stop_word=word, stop_at=self.now)
        tracking = self.state.tracking[attempt.id.task]
        if not tracking.sent:
            self.end_attempt(attempt, EndReason(EndWord.DRAINED if word == drains.STOP else EndWord.CANCELLED))
            return
        self.state.put_attempt(attempt)
        self.stops.append(StopOrder(attempt.id, word))

    def end_attempt(
        self,
        attempt: Attempt,
        reason: EndReason,
        *,
        disowned: bool = False,
        elsewhere: bool = False,
        engine_away: bool = False,
    ) -> None:
        """Ends the attempt: gives back its resources and decides what becomes of its task.

        ``disowned``: it was declared lost here, while a Worker may still have it. ``elsewhere``, ``engine_away``: see
        ``retry.after_end``.
        """
        if attempt.stop_word == "platform" and not reason.succeeded:
            detail = f"It had not started within {self.settings.start_limit_s:g} s."
            reason = EndReason(EndWord.START_FAILED, reason.exit_code, reason.signal, detail)
        if attempt.stop_word == drains.STOP:
            reason = drains.end_reason(reason, self.state.nodes.get(attempt.node_id), attempt.node_id)
        event = AttemptEventKind(reason.attempt_state.value)
        ended = replace(
            attempt,
            state=ATTEMPT.after(attempt.state, event),
            reason=reason,
            ended_at=attempt.ended_at if attempt.ended_at is not None else self.now,
            freed_at=usage.freed_at(attempt, self.now),
        )
        spent_s = max(0.0, self.state.mono - self.state.tracking[attempt.id.task].booked_s)
        self.state.put_attempt(ended)
        self.ended.append(ended)
        task = self.state.tasks[attempt.id.task]
        task = replace(task, spent_s=task.spent_s + spent_s)
        if disowned:
            task = retry.disown(task, attempt.id.number)
        decision = retry.after_end(
            task,
            reason,
            node_id=attempt.node_id,
            now=self.now,
            elsewhere=elsewhere,
            engine_away=engine_away,
            settings=self.settings.retry,
        )
        self._follow(decision, task, ended, reason)

    def take_late_success(self, attempt: Attempt, reason: EndReason) -> None:
        """Ends the waiting task of a lost attempt whose good end came after all."""
        self.state.put_attempt(attempt)
        task = self.state.tasks[attempt.id.task]
        # Its Worker is not to discard it any more.
        task = replace(task, disowned=tuple(n for n in task.disowned if n != attempt.id.number))
        self.end_task(task, TaskState.SUCCEEDED, reason, attempt)
        log.info("attempt.late_success", attempt=str(attempt.id), node=attempt.node_id)

    def refuse_attempt(self, attempt: Attempt, sentence: str) -> None:
        """Ends an attempt that its Worker did not take: the task waits again and loses no retry."""
        reason = EndReason(EndWord.PLATFORM_ERROR, detail=f"{attempt.node_id} refused the launch: {sentence}")
        state = ATTEMPT.after(attempt.state, AttemptEventKind.LOST)
        freed_at = usage.freed_at(attempt, self.now)
        ended = replace(attempt, state=state, reason=reason, ended_at=self.now, freed_at=freed_at)
        self.state.put_attempt(ended)
        self.ended.append(ended)
        task = self.state.tasks[attempt.id.task]
        others = any(node_id != attempt.node_id for node_id in self.state.nodes)
        decision = retry.after_refusal(task, node_id=attempt.node_id, now=self.now, others=others)
        self._follow(decision, task, ended, reason)

    def _follow(
        self, decision: retry.RequeueTask | retry.EndTask, task: Task, attempt: Attempt, reason: EndReason
    ) -> None:
        if isinstance(decision, retry.RequeueTask):
            self.state.put_task(self.emit(decision.task, TaskEventKind.REQUEUED, reason, attempt))
        else:
            self.end_task(task, decision.state, decision.reason, attempt)
        log.info(
            "attempt.ended", attempt=str(attempt.id), node=attempt.node_id, state=attempt.state.value,
            reason=reason.word.value, again=isinstance(decision, retry.RequeueTask),
        )  # fmt: skip

    def end_task(self, task: Task, state: TaskState, reason: EndReason, attempt: Attempt | None = None) -> None:
        kind = TaskEventKind(state.value)
        self.state.put_task(self.emit(task, kind, reason, attempt, state=state, ended_at=self.now))
        # If this turn fails and runs again, the policy learns one run twice. That is acceptable.
        self.state.queue.ended(task, (phases.running_s(attempt) or 0.0) if attempt is not None else 0.0)

    def lose_attempt(self, attempt: Attempt, sentence: str) -> None:
        """Ends an attempt whose node was declared lost, or no longer has it."""
        self.end_attempt(attempt, EndReason(EndWord.NODE_LOST, detail=sentence), disowned=True)
        confirmation.require_confirmation(self.state, attempt.node_id)

    def open_gates(self) -> None:
        """Lets tasks start of which no node can have an unknown attempt any more."""
        state = self.state
        if gates.open_gates(state.gates, state.nodes_for_gates, now_s=state.mono, settings=self.settings.leases):
            state.pass_needed = True

    def live(self, node_id: NodeId) -> Sequence[Attempt]:
        return self.state.on_node(node_id)


def unknown_tasks(state: EngineState, named: Iterable[TaskId]) -> set[TaskId]:
    """Those tasks of a batch that must be looked up in the database."""
    return {task_id for task_id in named if task_id not in state.tasks}


LIVE_BEFORE_START = frozenset({AttemptState.PLACED, AttemptState.PULLING, AttemptState.STARTING})
