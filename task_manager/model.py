"""TaskManager's entities: the tasks that it was given, their attempts, and the nodes from ResourceManager."""

from __future__ import annotations

from dataclasses import dataclass

from headway.ids import AttemptId, NodeId, TaskId
from headway.model.attempt_facts import AttemptFacts
from headway.model.gpu_shares import units_of_card, units_of_share
from headway.model.reasons import EndReason
from headway.states import ATTEMPT_LIVE, TASK_ENDED, Admission, AttemptState, NodeHealth, TaskState


@dataclass(frozen=True, slots=True)
class Shape:
    """What a task needs from one node. Placement treats tasks of one shape alike, so a pass tries each shape once."""

    cpu_centi: int  # hundredths of a CPU
    memory_bytes: int
    gpus: int = 0
    gpu_models: tuple[str, ...] = ()  # any of these; empty: any model
    gpu_memory_bytes: int = 0  # at least, per GPU
    architecture: str = ""  # of its image; empty: not known
    require_cuda: str = ""  # what its image asks of the driver (`cuda`); only for tasks with GPUs
    image: str = ""  # its pinned digest, if any: nodes that have it are preferred
    needs_image_there: bool = False  # only nodes that have the image will do: it can't be pulled
    ulimits: tuple[tuple[str, int], ...] = ()  # names and hard limits that its processes need
    node_id: str = ""  # only this node: its process is a person's own, there; empty: any
    gpu_uuids: tuple[str, ...] = ()  # exactly these cards, sorted; empty: any that suit. Only with ``node_id``
    gpu_share_bytes: int = 0  # so much memory of one shared card; then ``gpus`` is 0

    @property
    def uses_gpus(self) -> bool:
        """Whether it needs a GPU, or a share of one."""
        return self.gpus > 0 or self.gpu_share_bytes > 0

    @property
    def share_units(self) -> int:
        """Its share of one card, in the units in which shared cards are counted; 0: it asks for none."""
        return units_of_share(self.gpu_share_bytes)

    @property
    def held_gpus(self) -> int:
        """How many GPUs it holds as limits of accounts count them: a share is one."""
        return 1 if self.gpu_share_bytes else self.gpus

    @property
    def is_plain(self) -> bool:
        """Whether it needs nothing of a node but room."""
        return not (self.architecture or self.require_cuda or self.needs_image_there or self.ulimits or self.node_id)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card of a node."""

    uuid: str
    model: str
    memory_bytes: int
    index: int = 0
    sick: bool = False
    busy_outside: bool = False  # used by a process that Headway did not start
    fault: str = ""  # what made it sick (``GpuFaultWord``); empty: no fault of the card
    note: str = ""  # of one that is busy from outside: whose process it is
    shared: bool = False  # given out in shares only, never whole

    @property
    def usable(self) -> bool:
        return not (self.sick or self.busy_outside)

    @property
    def units(self) -> int:
        """The units of a shared card."""
        return units_of_card(self.memory_bytes)


# A condition that blocks no work, but all work with GPUs: its node's cards are sick while it holds.
GPU_UNAVAILABLE = "gpu_unavailable"


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that is wrong with a node, according to its Worker or ResourceManager."""

    word: str
    sentence: str
    blocks_work: bool


@dataclass(frozen=True, slots=True)
class Node:
    """What counts of a node for placement. Readings are left out: equal values mean that no placement changes."""

    id: NodeId
    incarnation: int
    address: str
    health: NodeHealth
    admission: Admission
    cpu_centi: int
    memory_bytes: int
    gpus: tuple[Gpu, ...] = ()
    conditions: tuple[Condition, ...] = ()
    architecture: str = ""  # empty: not known
    driver_version: str = ""  # of its GPUs; empty: not known
    cuda_version: str = ""  # the newest that the driver supports
    most_ulimits: tuple[tuple[str, int], ...] = ()  # hard limits that its engine can give; missing ones: not known
    images: frozenset[str] = frozenset()  # in its container engine: ids, and digests of manifests
    drain_until_at: float = 0.0  # epoch seconds: what still runs then is stopped and run elsewhere; 0: no such time
    drain_note: str = ""  # why, as its admin said

    @property
    def whole_gpus(self) -> int:
        """How many of its GPUs are given out whole."""
        return sum(not gpu.shared for gpu in self.gpus)


@dataclass(frozen=True, slots=True)
class Task:
    """A task that JobManager handed over, and its progress."""

    id: TaskId
    generation: int
    owner: str
    job_name: str
    priority: int  # the p of docs/scheduling.md
    submitted_at: float  # the moment from which it ages, by the steady clock (``clocks``)
    tail_timeout_s: float  # longest path of timeouts through the tasks that depend on it
    shape: Shape
    timeout_s: float
    retries: int  # the user's
    held: bool = False
    state: TaskState = TaskState.QUEUED
    queued_at: float = 0.0  # when it last became runnable
    not_before: float = 0.0  # pause after a fault of the platform
    attempt: int = 0  # number of the current or last attempt
    user_failures: int = 0
    platform_failures: int = 0
    losses: int = 0
    refusals: int = 0  # launches refused in a row
    avoid: tuple[NodeId, ...] = ()  # nodes where it failed, once for each time: those with fewer are preferred
    disowned: tuple[int, ...] = ()  # attempts that were declared lost here: Workers are told to discard them
    event_seq: int = 0  # of the last event sent to JobManager
    command_seq: int = 0  # of the last command taken from JobManager
    cancel_by: str | None = None  # who cancelled it
    ended_at: float | None = None
    reason: EndReason | None = None  # of its end, or of its last attempt's
    spent_s: float = 0.0  # in its earlier attempts, from placement to end, since a person last queued it
    prints: tuple[int, int] = (0, 0)  # of its command and of its name (headway.fingerprint); 0: not known
    grace_s: float = 0.0  # from TERM to KILL
    mean_timeout_s: float = 0.0  # of the last tasks that came, when it came (`order.recent_timeouts`); 0: not known

    @property
    def ended(self) -> bool:
        return self.state in TASK_ENDED

    @property
    def waiting(self) -> bool:
        return self.state is TaskState.QUEUED


@dataclass(frozen=True, slots=True)
class Extension:
    """More time for a running attempt, once. ``forced``: an admin's, though promised starts move or the
    short reserve is touched."""

    at: float
    by: str
    seconds: float
    forced: bool = False
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class Attempt(AttemptFacts):
    """One run of a task on a node. While it is live it is the booking of its GPUs, CPUs and memory.

    The instants of ``AttemptFacts`` are by the Worker's clock, the others by TaskManager's.
    """

    id: AttemptId
    generation: int
    state: AttemptState
    node_id: NodeId
    incarnation: int  # of the node when it was placed
    shape: Shape
    gpu_uuids: tuple[str, ...]
    timeout_s: float
    of_runs: int  # 1 + the user's retries
    queued_at: float
    placed_at: float
    answered_at: float | None = None  # when the Worker's acceptance was known here
    stop_word: str = ""  # why it was told to stop
    stop_at: float | None = None
    reason: EndReason | None = None
    prints: tuple[int, int] = (0, 0)  # its task's
    extensions: tuple[Extension, ...] = ()  # oldest first; `timeout_s` includes them
    owner: str = ""  # its task's
    freed_at: float | None = None  # until then it held its resources (``usage.freed_at``); None: it still does
    boot_id: str = ""  # of TaskManager's machine when it was placed; empty: it was taken back as a Worker told it
    placed_s: float = 0.0  # ``placed_at`` by its boot clock
    gpu_fraction: float = 0.0  # of a share: which part of its card it has, 0 to 1
    late_warnings: tuple[str, ...] = ()  # what could not be done after its end, as it is now
    use: bytes = b""  # what it used, as an AttemptUse message; empty: not measured, or it has not ended

    @property
    def live(self) -> bool:
        return self.state in ATTEMPT_LIVE

    @property
    def placed_here(self) -> bool:
        """Whether this TaskManager chose its node. Of one that it has lost and taken back only a Worker says so."""
        return bool(self.boot_id)

    @property
    def extension_pending(self) -> bool:
        """Whether it has an extension that its launcher has not confirmed."""
        return self.live and bool(self.extensions) and (self.counted_s or 0.0) < self.timeout_s

    @property
    def launched_timeout_s(self) -> float:
        """The timeout without extensions."""
        return round(self.timeout_s - sum(one.seconds for one in self.extensions), 3)
