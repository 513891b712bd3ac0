"""What the engine takes in, in batches: facts, commands and requests; and the orders that it sends to Workers."""

from __future__ import annotations

from dataclasses import dataclass, field

from headway.ids import AttemptId, NodeId, TaskId
from headway.model.attempt_facts import AttemptFacts
from headway.model.reasons import EndReason

from ..model import Extension, Node, Task


@dataclass(frozen=True, slots=True)
class EnqueueTask:
    """JobManager hands a task over. ``spec`` is only on disk, until the launch."""

    task: Task
    spec: bytes = field(repr=False)
    lost: bool = False  # TaskManager had it before, and has lost it
    suspect: NodeId | None = None  # the node where it ran then


@dataclass(frozen=True, slots=True)
class CancelTask:
    task_id: TaskId
    generation: int
    seq: int
    by: str


@dataclass(frozen=True, slots=True)
class HoldTask:
    task_id: TaskId
    generation: int
    seq: int


@dataclass(frozen=True, slots=True)
class ReleaseTask:
    task_id: TaskId
    generation: int
    seq: int
    submitted_at: float


TaskCommand = EnqueueTask | CancelTask | HoldTask | ReleaseTask


@dataclass(frozen=True, slots=True)
class TaskCommands:
    """One message of JobManager; its commands in their order."""

    commands: tuple[TaskCommand, ...]
    steady_boot_id: str = ""  # of JobManager's machine; empty: the message has no clock
    steady_now: float = 0.0  # its steady clock when it sent them, in epoch seconds


_NO_FACTS = AttemptFacts()


@dataclass(frozen=True, slots=True)
class AttemptReport:
    """One change of one attempt as its Worker saw it, with all that is known of the attempt."""

    attempt: AttemptId
    node_id: NodeId
    kind: str  # AttemptEventKind, or a kind of a newer version
    at: float
    reason: EndReason | None = None
    elsewhere: bool = False
    engine_away: bool = False  # it was never begun, since the engine did not answer
    facts: AttemptFacts = _NO_FACTS
    generation: int = 0  # 0: not told
    use: bytes = b""  # as ``Attempt.use``
    notice: str = ""  # what its owner is to know while it runs: a sentence


@dataclass(frozen=True, slots=True)
class LateWarnings:
    """What could not be done for an attempt after its end, all that holds now."""

    attempt: AttemptId
    node_id: NodeId
    incarnation: int
    generation: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AttemptReports:
    """One message of a Worker; the answer lists the attempts to discard."""

    reports: tuple[AttemptReport, ...]
    late_warnings: tuple[LateWarnings, ...] = ()


@dataclass(frozen=True, slots=True)
class LiveAttempt:
    """What a Worker knows of an attempt. ``ended``: its report is under way."""

    id: AttemptId
    generation: int
    gpu_uuids: tuple[str, ...] = ()
    placed_at: float = 0.0
    started_at: float | None = None
    ended: bool = False


@dataclass(frozen=True, slots=True)
class HeartbeatReceived:
    """A Worker's heartbeat; the answer is a `HeartbeatReply`."""

    node_id: NodeId
    incarnation: int
    address: str
    live: tuple[AttemptId, ...]
    stopping: bool
    files_suspended: bool
    attempts: tuple[LiveAttempt, ...] = ()  # those of ``live`` whose launch the Worker has
    waiting_jobs: frozenset[str] = frozenset()  # of processes of the node that wait for its GPUs, and live
    waiting_known_s: float = 0.0  # for so long all such processes could be heard


@dataclass(frozen=True, slots=True)
class StopOrder:
    attempt: AttemptId
    word: str


@dataclass(frozen=True, slots=True)
class ExtendOrder:
    """The attempt's launcher is to use this timeout, which includes all extensions."""

    attempt: AttemptId
    timeout_s: float
    extensions: tuple[Extension, ...]


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    enforced: bool
    discard: tuple[AttemptId, ...]
    stop: tuple[StopOrder, ...]
    extend: tuple[ExtendOrder, ...] = ()


@dataclass(frozen=True, slots=True)
class AcceptedLaunch:
    attempt: AttemptId
    accepted_at: float | None


@dataclass(frozen=True, slots=True)
class RefusedLaunch:
    attempt: AttemptId
    slug: str
    sentence: str
    again_later: bool


@dataclass(frozen=True, slots=True)
class LaunchesAnswered:
    """A Worker accepted or refused launches."""

    node_id: NodeId
    verdicts: tuple[AcceptedLaunch | RefusedLaunch, ...]


@dataclass(frozen=True, slots=True)
class StopsDelivered:
    """A Worker has taken these stop orders."""

    attempts: tuple[AttemptId, ...]


@dataclass(frozen=True, slots=True)
class NodesChanged:
    """From ResourceManager's watch. ``reset``: these are all the nodes that there are."""

    reset: bool
    nodes: tuple[Node, ...]
    removed: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class NodesUnknown:
    """ResourceManager's watch broke: the nodes stay as they were last reported."""


@dataclass(frozen=True, slots=True)
class NodeDeclaredLost:
    """An operator says that a node will not come back. The answer is the number of lost attempts. It is refused for a
    node that still answers."""

    node_id: NodeId
    by: str


@dataclass(frozen=True, slots=True)
class ExtendTask:
    """An authorised user asks for more time for a running task; the answer is the extended attempt."""

    task_id: TaskId
    seconds: float
    by: str
    force: bool = False  # even if promised starts move or the short reserve is touched
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class SetScheduling:
    """An admin sets another policy or discipline (`default`: as configured; None: unchanged)."""

    policy: str | None
    discipline: str | None
    by: str


@dataclass(frozen=True, slots=True)
class HeldTask:
    """A task that JobManager holds as not ended. ``seen``: how it differed the last time."""

    id: TaskId
    generation: int
    state: str
    event_seq: int
    attempt: int
    node_id: str
    held: bool
    seen: str = ""


@dataclass(frozen=True, slots=True)
class MendTasks:
    """Mend what still differs of these."""

    tasks: tuple[HeldTask, ...]


@dataclass(frozen=True, slots=True)
class ServicesAgree:
    """JobManager has compared what it holds with what is here, and what could be mended is."""


@dataclass(frozen=True, slots=True)
class TimePassed:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class StopPlanned:
    """TaskManager is about to stop: suspend all leases."""


Event = (
    TaskCommands
    | AttemptReports
    | HeartbeatReceived
    | LaunchesAnswered
    | StopsDelivered
    | NodesChanged
    | NodesUnknown
    | NodeDeclaredLost
    | ExtendTask
    | SetScheduling
    | MendTasks
    | ServicesAgree
    | TimePassed
    | StopPlanned
)
