"""The state machines of Headway, each one total table.

A (state, event) pair moves, is ignored for a stated reason, or is a bug that raises :class:`ImpossibleEvent`.
Delivery is at least once, so duplicates and late reports belong in the tables. ``docs/states.md`` is rendered from
here by ``scripts/render_states``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar


class JobState(StrEnum):
    PENDING = "PENDING"  # stored; none of its tasks has started yet
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"  # a user cancelled it; some of its tasks still end
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class TaskState(StrEnum):
    BLOCKED = "BLOCKED"  # its needs have not ended
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"  # has an attempt on a node
    STOPPING = "STOPPING"  # told to end
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"  # its needs can't be met any more


class AttemptState(StrEnum):
    PLACED = "PLACED"  # booked on a node, not yet accepted there
    PULLING = "PULLING"  # the image is being made available
    STARTING = "STARTING"
    RUNNING = "RUNNING"  # the user's process runs
    STOPPING = "STOPPING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    CANCELLED = "CANCELLED"
    LOST = "LOST"  # ended by the platform or with an unknown end


class NodeHealth(StrEnum):
    READY = "READY"
    SUSPECT = "SUSPECT"  # silent for a while: no new work
    DOWN = "DOWN"


class Admission(StrEnum):
    OPEN = "OPEN"
    CORDONED = "CORDONED"  # no new work
    DRAINING = "DRAINING"  # no new work, running work ends by itself
    DRAINED = "DRAINED"


JOB_ENDED = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
TASK_ENDED = frozenset(
    {
        TaskState.SUCCEEDED,
        TaskState.FAILED,
        TaskState.TIMED_OUT,
        TaskState.OUT_OF_MEMORY,
        TaskState.CANCELLED,
        TaskState.SKIPPED,
    }
)
TASK_FAILURES = frozenset({TaskState.FAILED, TaskState.TIMED_OUT, TaskState.OUT_OF_MEMORY})
ATTEMPT_LIVE = frozenset(
    {
        AttemptState.PLACED,
        AttemptState.PULLING,
        AttemptState.STARTING,
        AttemptState.RUNNING,
        AttemptState.STOPPING,
    }
)
ATTEMPT_ENDED = frozenset(AttemptState) - ATTEMPT_LIVE


class TaskEventKind(StrEnum):
    """What happens to a task."""

    RELEASED = "RELEASED"  # its needs are met: sent to the queue
    ATTEMPT_STARTED = "ATTEMPT_STARTED"  # placed on a node
    REQUEUED = "REQUEUED"  # the attempt ended, another one will follow
    CANCEL_REQUESTED = "CANCEL_REQUESTED"
    NEEDS_FAILED = "NEEDS_FAILED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    CANCELLED = "CANCELLED"
    RETRIED = "RETRIED"  # a user wants it run again


class AttemptEventKind(StrEnum):
    """What happens to an attempt."""

    PULL_STARTED = "PULL_STARTED"
    CONTAINER_STARTING = "CONTAINER_STARTING"
    PROCESS_STARTED = "PROCESS_STARTED"
    STOP_REQUESTED = "STOP_REQUESTED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    CANCELLED = "CANCELLED"
    LOST = "LOST"  # lease expired, launch refused, machine gone, platform fault


class JobEventKind(StrEnum):
    """What happens to a job."""

    TASK_STARTED = "TASK_STARTED"
    CANCEL_REQUESTED = "CANCEL_REQUESTED"
    ALL_SUCCEEDED = "ALL_SUCCEEDED"
    ALL_ENDED_SOME_FAILED = "ALL_ENDED_SOME_FAILED"
    ALL_ENDED_CANCELLED = "ALL_ENDED_CANCELLED"
    RETRIED = "RETRIED"


class ImpossibleEvent(Exception):
    """A pair that the table calls a bug."""


S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class StateMachine(Generic[S, E]):
    """A total table: ``moves`` and ``ignored`` may not overlap; every other pair raises."""

    name: str
    states: type[S]
    events: type[E]
    moves: Mapping[tuple[S, E], S]
    ignored: Mapping[tuple[S, E], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        both = self.moves.keys() & self.ignored.keys()
        if both:
            raise ValueError(f"{self.name}: {sorted(both)} both move and are ignored")

    def after(self, state: S, event: E) -> S:
        """The state after ``event``; the same one where the pair is ignored.

        Raises:
            ImpossibleEvent: the pair is neither a move nor ignored.
        """
        target = self.moves.get((state, event))
        if target is not None:
            return target
        if (state, event) in self.ignored:
            return state
        raise ImpossibleEvent(f"{self.name}: {event} in state {state}")

    def moves_on(self, state: S, event: E) -> bool:
        """Whether ``event`` changes something in ``state`` (a self-move counts)."""
        if (state, event) in self.moves:
            return True
        if (state, event) in self.ignored:
            return False
        raise ImpossibleEvent(f"{self.name}: {event} in state {state}")


def _each(states: frozenset[S], events: list[E], why: str) -> dict[tuple[S, E], str]:
    return {(s, e): why for s in sorted(states) for e in events}


_T, _TE = TaskState, TaskEventKind
_TASK_RESULTS = {
    _TE.SUCCEEDED: _T.SUCCEEDED,
    _TE.FAILED: _T.FAILED,
    _TE.TIMED_OUT: _T.TIMED_OUT,
    _TE.OUT_OF_MEMORY: _T.OUT_OF_MEMORY,
    _TE.CANCELLED: _T.CANCELLED,
}
_TASK_WAITING_OR_RUNNING = frozenset({_T.QUEUED, _T.RUNNING, _T.STOPPING})

TASK: StateMachine[TaskState, TaskEventKind] = StateMachine(
    "task",
    TaskState,
    TaskEventKind,
    moves={
        (_T.BLOCKED, _TE.RELEASED): _T.QUEUED,
        (_T.BLOCKED, _TE.NEEDS_FAILED): _T.SKIPPED,
        (_T.BLOCKED, _TE.CANCEL_REQUESTED): _T.CANCELLED,
        (_T.QUEUED, _TE.ATTEMPT_STARTED): _T.RUNNING,
        (_T.QUEUED, _TE.CANCEL_REQUESTED): _T.STOPPING,
        (_T.RUNNING, _TE.REQUEUED): _T.QUEUED,
        (_T.RUNNING, _TE.CANCEL_REQUESTED): _T.STOPPING,
        # A start report and its end can travel in one message, and an attempt may end before it started, when its
        # image isn't found, say. So QUEUED ends as RUNNING does.
        **{(s, e): r for s in sorted(_TASK_WAITING_OR_RUNNING) for e, r in _TASK_RESULTS.items()},
        **{(s, _TE.RETRIED): _T.BLOCKED for s in (_T.FAILED, _T.TIMED_OUT, _T.OUT_OF_MEMORY, _T.CANCELLED, _T.SKIPPED)},
    },
    ignored={
        (_T.QUEUED, _TE.RELEASED): "a repeated release: it is delivered at least once",
        (_T.RUNNING, _TE.RELEASED): "a repeated release: it is delivered at least once",
        (_T.STOPPING, _TE.RELEASED): "a repeated release: it is delivered at least once",
        (
            _T.RUNNING,
            _TE.ATTEMPT_STARTED,
        ): "a repeated report, or the next attempt started before its requeue was reported",
        (_T.STOPPING, _TE.ATTEMPT_STARTED): "it started while the cancel was on its way; its end will follow",
        (_T.QUEUED, _TE.REQUEUED): "the attempt ended before its start was reported",
        (_T.STOPPING, _TE.REQUEUED): "it was queued again while the cancel was on its way; TaskManager will end it",
        (_T.STOPPING, _TE.CANCEL_REQUESTED): "it is being cancelled already",
        **_each(TASK_ENDED, [_TE.CANCEL_REQUESTED], "it has ended already; cancelling it changes nothing"),
        **_each(
            TASK_ENDED,
            [_TE.ATTEMPT_STARTED, _TE.REQUEUED, _TE.RELEASED, _TE.NEEDS_FAILED, *_TASK_RESULTS],
            "it has ended already; a late report changes nothing",
        ),
    },
)

_A, _AE = AttemptState, AttemptEventKind
_ATTEMPT_RESULTS = {
    _AE.SUCCEEDED: _A.SUCCEEDED,
    _AE.FAILED: _A.FAILED,
    _AE.TIMED_OUT: _A.TIMED_OUT,
    _AE.OUT_OF_MEMORY: _A.OUT_OF_MEMORY,
    _AE.CANCELLED: _A.CANCELLED,
    _AE.LOST: _A.LOST,
}

ATTEMPT: StateMachine[AttemptState, AttemptEventKind] = StateMachine(
    "attempt",
    AttemptState,
    AttemptEventKind,
    moves={
        (_A.PLACED, _AE.PULL_STARTED): _A.PULLING,
        (_A.PLACED, _AE.CONTAINER_STARTING): _A.STARTING,
        (_A.PLACED, _AE.PROCESS_STARTED): _A.RUNNING,
        (_A.PULLING, _AE.CONTAINER_STARTING): _A.STARTING,
        (_A.PULLING, _AE.PROCESS_STARTED): _A.RUNNING,
        (_A.STARTING, _AE.PROCESS_STARTED): _A.RUNNING,
        **{(s, _AE.STOP_REQUESTED): _A.STOPPING for s in (_A.PLACED, _A.PULLING, _A.STARTING, _A.RUNNING)},
        **{(s, e): r for s in sorted(ATTEMPT_LIVE) for e, r in _ATTEMPT_RESULTS.items()},
        # Given up as lost, and back with a good end before its task began again.
        (_A.LOST, _AE.SUCCEEDED): _A.SUCCEEDED,
    },
    ignored={
        (_A.PULLING, _AE.PULL_STARTED): "a repeated report: Workers report at least once",
        (_A.STARTING, _AE.PULL_STARTED): "a late report: it is further already",
        (_A.STARTING, _AE.CONTAINER_STARTING): "a repeated report: Workers report at least once",
        (_A.RUNNING, _AE.PULL_STARTED): "a late report: it is further already",
        (_A.RUNNING, _AE.CONTAINER_STARTING): "a late report: it is further already",
        (_A.RUNNING, _AE.PROCESS_STARTED): "a repeated report: Workers report at least once",
        (_A.STOPPING, _AE.PULL_STARTED): "reported while the stop was on its way",
        (_A.STOPPING, _AE.CONTAINER_STARTING): "reported while the stop was on its way",
        (_A.STOPPING, _AE.PROCESS_STARTED): "reported while the stop was on its way",
        (_A.STOPPING, _AE.STOP_REQUESTED): "it is being stopped already",
        **_each(
            ATTEMPT_ENDED - {_A.LOST}, list(AttemptEventKind), "it has ended already; a late report changes nothing"
        ),
        **_each(
            frozenset({_A.LOST}),
            [e for e in AttemptEventKind if e is not _AE.SUCCEEDED],
            "it has ended already; of late reports only a good end counts, and only while its task waits",
        ),
    },
)

_J, _JE = JobState, JobEventKind
_JOB_LIVE = frozenset({_J.PENDING, _J.RUNNING, _J.STOPPING})

JOB: StateMachine[JobState, JobEventKind] = StateMachine(
    "job",
    JobState,
    JobEventKind,
    moves={
        (_J.PENDING, _JE.TASK_STARTED): _J.RUNNING,
        (_J.PENDING, _JE.CANCEL_REQUESTED): _J.STOPPING,
        (_J.RUNNING, _JE.CANCEL_REQUESTED): _J.STOPPING,
        **{(s, _JE.ALL_SUCCEEDED): _J.SUCCEEDED for s in (_J.PENDING, _J.RUNNING)},
        **{(s, _JE.ALL_ENDED_SOME_FAILED): _J.FAILED for s in (_J.PENDING, _J.RUNNING)},
        **{(s, _JE.ALL_ENDED_CANCELLED): _J.CANCELLED for s in sorted(_JOB_LIVE)},
        # Cancelled by a user: CANCELLED whatever its tasks made of it.
        (_J.STOPPING, _JE.ALL_SUCCEEDED): _J.CANCELLED,
        (_J.STOPPING, _JE.ALL_ENDED_SOME_FAILED): _J.CANCELLED,
        (_J.FAILED, _JE.RETRIED): _J.PENDING,
        (_J.CANCELLED, _JE.RETRIED): _J.PENDING,
        # Single tasks of a running job may be retried; one that succeeded with a failed branch ("any") too.
        (_J.RUNNING, _JE.RETRIED): _J.RUNNING,
        (_J.PENDING, _JE.RETRIED): _J.PENDING,
        (_J.SUCCEEDED, _JE.RETRIED): _J.PENDING,
    },
    ignored={
        (_J.RUNNING, _JE.TASK_STARTED): "another task runs already; only the first start changes the job",
        (_J.STOPPING, _JE.TASK_STARTED): "the task started while the cancel was on its way",
        (_J.STOPPING, _JE.CANCEL_REQUESTED): "it is being cancelled already",
        **_each(JOB_ENDED, [_JE.CANCEL_REQUESTED], "it has ended already; cancelling it changes nothing"),
        **_each(
            JOB_ENDED,
            [_JE.TASK_STARTED, _JE.ALL_SUCCEEDED, _JE.ALL_ENDED_SOME_FAILED, _JE.ALL_ENDED_CANCELLED],
            "it has ended already; a late report changes nothing",
        ),
    },
)
