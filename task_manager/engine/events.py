"""What comes in, as facts and orders; the engine takes them in batches."""

from __future__ import annotations

from dataclasses import dataclass, field

from headway.ids import AttemptId, NodeId, TaskId
from headway.model.reasons import EndReason

from ..model import Extension, Node, Task


@dataclass(frozen=True, slots=True)
class Enqueue:
    """JobManager hands a task over. ``spec`` is kept on disk only, until the launch."""

    task: Task
    spec: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Cancel:
    task_id: TaskId
    generation: int
    seq: int
    by: str


@dataclass(frozen=True, slots=True)
class Hold:
    task_id: TaskId
    generation: int
    seq: int


@dataclass(frozen=True, slots=True)
class Release:
    task_id: TaskId
    generation: int
    seq: int
    submitted_at: float


Command = Enqueue | Cancel | Hold | Release


@dataclass(frozen=True, slots=True)
class Commands:
    """One message of JobManager, in order."""

    commands: tuple[Command, ...]
    steady_boot_id: str = ""  # of JobManager's machine; empty: its clock was not told
    steady_now: float = 0.0  # its steady clock when it sent them, in epoch seconds


@dataclass(frozen=True, slots=True)
class Report:
    """One change of one attempt as its Worker saw it; unset facts are not known (yet)."""

    attempt: AttemptId
    node_id: NodeId
    kind: str  # AttemptEventKind, or a word of a newer version
    at: float
    reason: EndReason | None = None
    image_id: str = ""
    accepted_at: float | None = None
    container_started_at: float | None = None
    process_started_at: float | None = None
    ended_at: float | None = None
    run_s: float | None = None
    peak_memory_bytes: int | None = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    dropped_bytes: int = 0
    warnings: tuple[str, ...] = ()
    elsewhere: bool = False
    timeout_s: float | None = None  # by which its launcher counts


@dataclass(frozen=True, slots=True)
class Reports:
    """One message of a Worker; the answer is the attempts to discard."""

    reports: tuple[Report, ...]


@dataclass(frozen=True, slots=True)
class Beat:
    """A Worker's heartbeat; the answer is a `BeatAnswer`."""

    node_id: NodeId
    incarnation: int
    address: str
    live: tuple[AttemptId, ...]
    stopping: bool
    files_suspended: bool


@dataclass(frozen=True, slots=True)
class StopOrder:
    attempt: AttemptId
    word: str


@dataclass(frozen=True, slots=True)
class ExtendOrder:
    """Its launcher is to count by this timeout, which has all extensions in it."""

    attempt: AttemptId
    timeout_s: float
    extensions: tuple[Extension, ...]


@dataclass(frozen=True, slots=True)
class BeatAnswer:
    enforced: bool
    discard: tuple[AttemptId, ...]
    stop: tuple[StopOrder, ...]
    extend: tuple[ExtendOrder, ...] = ()


@dataclass(frozen=True, slots=True)
class Accepted:
    attempt: AttemptId
    accepted_at: float | None


@dataclass(frozen=True, slots=True)
class Refused:
    attempt: AttemptId
    slug: str
    sentence: str
    again_later: bool


@dataclass(frozen=True, slots=True)
class LaunchAnswers:
    """What a Worker said to launches."""

    node_id: NodeId
    verdicts: tuple[Accepted | Refused, ...]


@dataclass(frozen=True, slots=True)
class StopsDelivered:
    """A Worker has taken these stop orders."""

    attempts: tuple[AttemptId, ...]


@dataclass(frozen=True, slots=True)
class NodesChanged:
    """From ResourceManager's watch; ``reset``: these are all there are."""

    reset: bool
    nodes: tuple[Node, ...]
    removed: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True)
class NodesUnknown:
    """ResourceManager's watch broke: the nodes stay as they were last told."""


@dataclass(frozen=True, slots=True)
class NodeDeclaredLost:
    """An operator says that a node will not come back; the answer is the number of attempts lost. Refused of a node
    that answers."""

    node_id: NodeId
    by: str


@dataclass(frozen=True, slots=True)
class Extend:
    """Somebody who may asks for more time for a running task; the answer is the attempt with it."""

    task_id: TaskId
    seconds: float
    by: str
    force: bool = False  # although promised starts move, or the short reserve is touched
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class SetScheduling:
    """An admin wants another policy or discipline (`default`: as configured; None: unchanged)."""

    policy: str | None
    discipline: str | None
    by: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class PlannedStop:
    """TaskManager is about to stop: suspend all leases."""


Event = (
    Commands
    | Reports
    | Beat
    | LaunchAnswers
    | StopsDelivered
    | NodesChanged
    | NodesUnknown
    | NodeDeclaredLost
    | Extend
    | SetScheduling
    | Tick
    | PlannedStop
)
