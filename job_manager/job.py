"""One job in memory: what an event or a wish does to it, without any I/O.

Each operation changes the object and notes what has to be stored (`dirty`, `dirty_job`) and told to TaskManager
(`commands`). The caller writes both in one transaction, and throws the object away if that fails: memory follows
the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from headway.errors import Conflict
from headway.ids import JobId
from headway.jobfile.spec import Priority
from headway.model.job_events import JobEventWord
from headway.model.reasons import EndReason, EndWord
from headway.states import (
    JOB,
    JOB_ENDED,
    TASK_ENDED,
    TASK_FAILURES,
    JobEventKind,
    JobState,
    TaskEventKind,
    TaskState,
)

from . import waiting_limit
from .graph import rollup
from .graph.dag_progress import DagProgress, Needs, TaskStateChange
from .job_event import OutgoingJobEvent
from .unknown_task import unknown_task

_RESULTS = frozenset(
    {
        TaskEventKind.SUCCEEDED,
        TaskEventKind.FAILED,
        TaskEventKind.TIMED_OUT,
        TaskEventKind.OUT_OF_MEMORY,
        TaskEventKind.CANCELLED,
    }
)
AT_TASK_MANAGER = frozenset({TaskState.QUEUED, TaskState.RUNNING, TaskState.STOPPING})
_REPORTED = _RESULTS | {TaskEventKind.ATTEMPT_STARTED, TaskEventKind.REQUEUED}


@dataclass(frozen=True, slots=True)
class TaskReport:
    """What TaskManager reports of one task; ``at`` and ``process_started_at`` in epoch seconds."""

    task: str
    generation: int
    seq: int
    kind: TaskEventKind
    attempt: int
    at: float
    reason: EndReason | None = None
    node_id: str = ""
    process_started_at: float | None = None
    notice: str = ""  # what the owner of a running task is to know


@dataclass(frozen=True, slots=True)
class LostTask:
    """What was last heard of a task that TaskManager has lost."""

    seq: int
    attempt: int
    node_id: str


@dataclass(frozen=True, slots=True)
class EnqueueCommand:
    task: int
    generation: int
    ages_from: float
    tail_timeout_s: float
    held: bool
    lost: LostTask | None = None  # TaskManager had it, and has lost it


@dataclass(frozen=True, slots=True)
class CancelCommand:
    task: int
    generation: int
    by: str


@dataclass(frozen=True, slots=True)
class HoldCommand:
    task: int
    generation: int


@dataclass(frozen=True, slots=True)
class ReleaseCommand:
    task: int
    generation: int
    ages_from: float


Command = EnqueueCommand | CancelCommand | HoldCommand | ReleaseCommand


@dataclass(slots=True)
class TaskRecord:
    """What a task has beside its state. Instants in epoch seconds; ``ages_from`` and ``held_at`` by the steady clock
    (``headway.steady``), the others by the wall clock."""

    ages_from: float
    generation: int = 1
    seq: int = 0
    attempt: int = 0
    node_id: str = ""
    queued_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    held_at: float | None = None
    account_hold: bool = False  # held since its account is disabled, and by nobody's wish
    reason: EndReason | None = None


@dataclass(slots=True)
class JobRecord:
    """What a job has beside its tasks. Instants in epoch seconds by the wall clock. Only ``ages_from``, its end, is by
    the clock of timers, which nobody sets."""

    id: JobId
    owner: str
    account: bytes
    name: str
    priority: Priority
    spec_hash: str
    submitted_at: float
    task_count: int
    request_id: str | None = None
    state: JobState = JobState.PENDING
    started_at: float | None = None
    ended_at: float | None = None
    ages_from: float | None = None
    held: bool = False
    reason: EndReason | None = None
    reason_task: str = ""
    version: int = 1
    pinned: bool = False
    log_bytes: int | None = None
    counts: dict[TaskState, int] = field(default_factory=dict)


def check_removable(record: JobRecord) -> None:
    """
    Raises:
        Conflict: the job has not ended, or is pinned.
    """
    if record.state not in JOB_ENDED:
        raise Conflict(
            f"The job {record.id} is {record.state} and can't be deleted: cancel it first, or wait for its end."
        )
    if record.pinned:
        raise Conflict(f"The job {record.id} is pinned and can't be deleted: unpin it first.")


class LiveJob:
    """A job with its tasks, kept in memory while something happens to it."""

    def __init__(
        self,
        record: JobRecord,
        names: Sequence[str],
        needs: Needs,
        tails_s: Sequence[float],
        tasks: list[TaskRecord],
        states: Sequence[TaskState] | None = None,
    ) -> None:
        self.record = record
        self.names = names
        self.needs = needs
        self.tasks = tasks
        self.progress = DagProgress(needs, states)
        self.numbers = {name: number for number, name in enumerate(names)}
        self.dirty: set[int] = set()
        self.dirty_job = False
        self.just_ended = False
        self.commands: list[Command] = []
        self.events: list[OutgoingJobEvent] = []  # to be told once it is stored
        self._tails_s = tails_s
        self._count()

    @property
    def waiting(self) -> int:
        """How many of its tasks wait."""
        return waiting_limit.of_counts(self.progress.counts)

    @property
    def states(self) -> list[TaskState]:
        return self.progress.states

    def clean(self) -> None:
        """Forget what had to be stored and told: the transaction has it."""
        self.dirty.clear()
        self.dirty_job = False
        self.just_ended = False
        self.commands.clear()

    def decide_waiting(self, now: float) -> None:
        """Release and skip what the states ask for: at submission, and after a start in doubt."""
        if self.record.state in JOB_ENDED:
            return
        self.apply(self.progress.decide_waiting(), now)
        self._roll_up(now)

    # -- what TaskManager reports ---------------------------------------------------------------

    def on_event(self, event: TaskReport, now: float) -> bool:
        """Take one report; False for one that is late, repeated, or of a task this job doesn't have."""
        number = self.numbers.get(event.task)
        if number is None or event.kind not in _REPORTED:
            return False
        record = self.tasks[number]
        if event.generation != record.generation or event.seq <= record.seq:
            return False
        if self.states[number] in TASK_ENDED or self.states[number] is TaskState.BLOCKED:
            # BLOCKED: of a run that was never asked for. The generation fences all that can really happen.
            return False
        record.seq = event.seq
        self._note(record, event)
        self.dirty.add(number)
        # A start report may have been left out; an end of a run says that there was one.
        if event.kind is not TaskEventKind.CANCELLED or event.attempt:
            self._on_start(event)
        self.apply(self.progress.react(number, event.kind), now)
        if event.notice:
            self._tell_notice(number, event)
        self._roll_up(now)
        return True

    def _note(self, record: TaskRecord, event: TaskReport) -> None:
        record.attempt = max(record.attempt, event.attempt)
        if event.kind is TaskEventKind.REQUEUED:
            record.node_id = ""
            record.started_at = None
            record.queued_at = event.at
            return
        record.node_id = event.node_id or record.node_id
        if event.process_started_at is not None:
            record.started_at = event.process_started_at
        if event.kind in _RESULTS:
            record.ended_at = event.at
            record.reason = event.reason or _reason_of(event.kind)

    def _on_start(self, event: TaskReport) -> None:
        if self.record.state is JobState.PENDING:
            self._job_event(JobEventKind.TASK_STARTED)
            self.tell(JobEventWord.STARTED, event.process_started_at or event.at)
        if self.record.started_at is None:
            self.record.started_at = event.process_started_at or event.at
            self.dirty_job = True

    # -- what people want -----------------------------------------------------------------------

    def cancel(self, task: str, by: str, now: float) -> int:
        """End one task, or the job with an empty name; how many tasks changed. Harmless in any state."""
        if task:
            number = self._number(task)
            moved = self.progress.react(number, TaskEventKind.CANCEL_REQUESTED)
        else:
            moved = self.progress.cancel_all()
            before = self.record.state
            self._job_event(JobEventKind.CANCEL_REQUESTED)
            if self.record.state is not before:
                self._set_reason(EndReason(EndWord.CANCELLED, detail=_by("It was cancelled", by)), "")
        self.apply(moved, now, by=by)
        self._roll_up(now)
        return len(moved)

    def retry(
        self,
        task: str,
        now: float,
        steady: float,
        admit: Callable[[int], None] = lambda more: None,
        *,
        account_held: bool = False,
    ) -> int:
        """Run again what failed, was cancelled or skipped; how many tasks that were. They age from ``steady`` on (by
        that clock). ``admit`` is told how many before anything changes, and raises where they are too many. Those of a
        disabled account (``account_held``) wait on hold.

        Raises:
            Conflict: the job is still being cancelled, or a need of that one task rules it out.
        """
        if self.record.state is JobState.STOPPING:
            raise Conflict("The job is still being cancelled; retry it once it has ended.")
        if task:
            self._refuse_hopeless(self._number(task))
        elif self.record.state is JobState.SUCCEEDED:
            return 0
        chosen = self._number(task) if task else None
        admit(len(self.progress.again(chosen)))
        moved = self.progress.retry(chosen)
        again = [one.task for one in moved if one.event is TaskEventKind.RETRIED]
        if not again:
            return 0
        for number in again:
            before = self.tasks[number]
            self.tasks[number] = TaskRecord(
                ages_from=steady,
                generation=before.generation + 1,
                attempt=before.attempt,
                held_at=steady if self.record.held or account_held else None,
                account_hold=account_held and not self.record.held,
            )
        if self.record.state in JOB_ENDED:
            self.record.started_at = self.record.ended_at = self.record.ages_from = self.record.log_bytes = None
            self.just_ended = False
        self._job_event(JobEventKind.RETRIED)
        self._set_reason_of_first(*TASK_FAILURES)
        self.apply(moved, now)
        return len(again)

    def hold(self, task: str, steady: float) -> int:
        """Keep tasks that have not ended from starting; how many were not held before. What runs, runs on."""
        changed = 0
        for number in self._chosen(task):
            if self.states[number] in TASK_ENDED:
                continue
            if self.tasks[number].account_hold:
                # Now it is a wish too, and outlives the account's hold.
                self.tasks[number].account_hold = False
                self.dirty.add(number)
                changed += 1
            else:
                changed += self._hold(number, steady)
        if not task and not self.record.held and self.record.state not in JOB_ENDED:
            self.record.held = self.dirty_job = True
        return changed

    def release(self, task: str, steady: float) -> int:
        """End a hold; how many tasks were held. The time on hold does not age."""
        changed = 0
        for number in self._chosen(task):
            if self.tasks[number].held_at is not None:
                self._release(number, steady)
                changed += 1
        if not task and self.record.held:
            self.record.held = False
            self.dirty_job = True
        return changed

    def pin(self, pinned: bool) -> None:
        """Keeps the job until it is unpinned, whatever the rules of retention say; or ends that."""
        if self.record.pinned is not pinned:
            self.record.pinned = pinned
            self.dirty_job = True

    def hold_for_account(self, steady: float) -> int:
        """The account is disabled: hold what is not held yet; how many tasks that were. What runs, runs on."""
        changed = 0
        for number, state in enumerate(self.states):
            if state not in TASK_ENDED and self._hold(number, steady):
                self.tasks[number].account_hold = True
                changed += 1
        return changed

    def release_for_account(self, steady: float) -> int:
        """The account is enabled again: end the holds that its disabling made, and no others; how many those were."""
        numbers = [number for number, record in enumerate(self.tasks) if record.account_hold]
        for number in numbers:
            self._release(number, steady)
        return len(numbers)

    def tell(self, word: JobEventWord, at: float, *, task: str = "", by: str = "", tasks: int = 0) -> None:
        """Notes an event of the job as a whole, or of what somebody asked of one task."""
        ended = word is JobEventWord.ENDED
        reason = self.record.reason if ended else None
        state = self.states[self.numbers[task]] if task else self.record.state
        self.events.append(OutgoingJobEvent(word, at, task, state=state, reason=reason, by=by, tasks=tasks))

    def _tell_task_end(self, number: int, state: TaskState, now: float) -> None:
        record = self.tasks[number]
        self.events.append(
            OutgoingJobEvent(
                JobEventWord.TASK_ENDED, now if record.ended_at is None else record.ended_at, self.names[number],
                record.generation, record.attempt, state, record.reason,
            )
        )  # fmt: skip

    def _tell_notice(self, number: int, event: TaskReport) -> None:
        self.events.append(
            OutgoingJobEvent(
                JobEventWord.TASK_WARNED, event.at, event.task, event.generation, event.attempt, self.states[number],
                sentence=event.notice,
            )
        )  # fmt: skip

    def _hold(self, number: int, steady: float) -> bool:
        record = self.tasks[number]
        if record.held_at is not None:
            return False
        record.held_at = steady
        self.dirty.add(number)
        if self.states[number] in (TaskState.QUEUED, TaskState.RUNNING):
            self.commands.append(HoldCommand(number, record.generation))
        return True

    def _release(self, number: int, steady: float) -> None:
        record = self.tasks[number]
        assert record.held_at is not None
        record.ages_from += max(0.0, steady - record.held_at)
        record.held_at, record.account_hold = None, False
        self.dirty.add(number)
        if self.states[number] in (TaskState.QUEUED, TaskState.RUNNING):
            self.commands.append(ReleaseCommand(number, record.generation, record.ages_from))

    def _chosen(self, task: str) -> Sequence[int]:
        return [self._number(task)] if task else range(len(self.tasks))

    def _number(self, task: str) -> int:
        number = self.numbers.get(task)
        if number is None:
            raise unknown_task(self.record.id, task, self.names, self.record.task_count)
        return number

    def _refuse_hopeless(self, number: int) -> None:
        need = self.progress.ruled_out_by(number)
        if self.states[number] in TASK_ENDED and need is not None:
            raise Conflict(
                f"Task {self.names[number]!r} can't be run again: {self.names[need]!r}, which it needs, "
                f"ended {self.states[need]}. Retry that one, or the whole job."
            )

    def enqueue_command(self, number: int, lost: LostTask | None = None) -> EnqueueCommand:
        """What hands a task over to TaskManager as it is now. ``lost``: TaskManager had it before, and lost it."""
        record = self.tasks[number]
        held = record.held_at is not None
        return EnqueueCommand(number, record.generation, record.ages_from, self._tails_s[number], held, lost)

    # -- moves ----------------------------------------------------------------------------------

    def apply(self, moved: Sequence[TaskStateChange], now: float, by: str = "") -> None:
        """Note what moves of the reactor mean: records, commands, the job's reason."""
        for one in moved:
            self.dirty.add(one.task)
            record = self.tasks[one.task]
            if one.event is TaskEventKind.RELEASED:
                record.queued_at = now
                self.commands.append(self.enqueue_command(one.task))
            elif one.state is TaskState.STOPPING:
                self.commands.append(CancelCommand(one.task, record.generation, by))
            elif one.event is TaskEventKind.CANCEL_REQUESTED:
                record.ended_at = now
                record.reason = EndReason(EndWord.CANCELLED, detail=_by("It was cancelled before it ran", by))
            elif one.event is TaskEventKind.NEEDS_FAILED:
                record.ended_at = now
                record.reason = EndReason(EndWord.SKIPPED, detail=self._why_skipped(one))
            if one.state in TASK_ENDED:
                record.held_at, record.account_hold = None, False
                self._tell_task_end(one.task, one.state, now)
                if one.state in TASK_FAILURES and self.record.reason is None:
                    self._set_reason(record.reason, self.names[one.task])
        if moved:
            self._count()

    def _why_skipped(self, moved: TaskStateChange) -> str:
        assert moved.cause is not None
        need, root = moved.cause
        how = self.states[root].value.lower().replace("_", " ")
        through = f", on which {self.names[need]!r} depends," if need != root else ""
        return f"It was not run: {self.names[root]!r}{through} ended as {how}."

    def _roll_up(self, now: float) -> None:
        if self.record.state in JOB_ENDED:
            return
        end = rollup.end_of(self.record.state, self.progress.counts)
        if end is not None:
            self._job_event(end)
            if self.record.state is JobState.CANCELLED and self.record.reason is None:
                self._set_reason_of_first(TaskState.CANCELLED)
            self.record.ended_at = now
            self.record.held = False
            self.just_ended = True
            self.tell(JobEventWord.ENDED, now)

    def _job_event(self, event: JobEventKind) -> None:
        after = JOB.after(self.record.state, event)
        if after is not self.record.state:
            self.record.state = after
            self.dirty_job = True

    def _count(self) -> None:
        self.record.counts = {state: count for state, count in self.progress.counts.items() if count}
        self.dirty_job = True

    def _set_reason_of_first(self, *states: TaskState) -> None:
        """The job's reason anew: that of the first task that ended in one of these states."""
        ended = [number for number, state in enumerate(self.states) if state in states]
        first = min(ended, key=lambda number: (self.tasks[number].ended_at or 0.0, number), default=None)
        self._set_reason(*(None, "") if first is None else (self.tasks[first].reason, self.names[first]))

    def _set_reason(self, reason: EndReason | None, task: str) -> None:
        self.record.reason, self.record.reason_task = reason, task
        self.dirty_job = True


def _reason_of(kind: TaskEventKind) -> EndReason:
    """For a report without a reason, which would be a fault of its sender."""
    words = {
        TaskEventKind.SUCCEEDED: EndReason(EndWord.EXITED, exit_code=0),
        TaskEventKind.TIMED_OUT: EndReason(EndWord.TIMED_OUT),
        TaskEventKind.OUT_OF_MEMORY: EndReason(EndWord.OUT_OF_MEMORY),
        TaskEventKind.CANCELLED: EndReason(EndWord.CANCELLED),
    }
    return words.get(kind) or EndReason(EndWord.PLATFORM_ERROR, detail="It failed, and no reason was reported.")


def _by(what: str, by: str) -> str:
    return f"{what}, by {by}." if by else f"{what}."
