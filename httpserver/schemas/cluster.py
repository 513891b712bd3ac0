"""The queue and the nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import Field, create_model

from headway.model.gpu_readings import READINGS, Reading
from headway.states import Admission, NodeHealth, TaskState

from .base import ApiRequest, ApiResponse, Priority
from .bookings import BookedOnNode, GpuState, GpuSummary, TaskBooking
from .jobs import Missing, Resources, Wait


class QueueEntry(ApiResponse):
    job_id: str
    job_name: str
    task: str
    owner: str
    state: TaskState
    position: int
    attempt: int = Field(description="number of the next attempt")
    priority: Priority
    held: bool
    resources: Resources
    timeout_s: float
    submitted_at: float = Field(description="the moment from which it ages")
    terms: dict[str, float]
    estimated_start_at: float | None
    promised_start_at: float | None = Field(description="no later than; null: nothing is promised (yet)")
    first_promised_start_at: float | None = Field(
        None, description="what was promised first; null: the promise has not fallen since"
    )
    waits: list[Wait]
    estimate_rough: bool = Field(False, description="the estimate rests on the work ahead alone, not on a reservation")


class Scheduling(ApiResponse):
    """What orders the queue, and who said so."""

    policy: str = Field(description="with its parameters, as it was asked for")
    discipline: str
    configured_policy: str
    configured_discipline: str
    policy_set_by: str | None = Field(description="null: as configured")
    policy_set_at: float | None
    discipline_set_by: str | None = Field(description="null: as configured")
    discipline_set_at: float | None
    failure: str = Field(description="why another rule stands in for the policy; empty: none does")
    contradictions: list[str] = Field(
        description="limits that rule something out for good with the GPUs that there are, as sentences"
    )
    promises: str = Field("settled", description="when a start is promised under `conservative`: `settled`, `late`")
    promised: int = Field(0, description="so many starts are promised now")
    slack_s: float = Field(0.0, description="by how much they are later than estimated, on average")
    growth_failure: str = Field("", description="why the hook for growth failed last; empty: it did not")


class Queue(ApiResponse):
    entries: list[QueueEntry]
    total_waiting: int
    total_matching: int = Field(description="of the waiting tasks, those of the job and owner that were asked for")
    total_running: int
    policy: str
    discipline: str
    scheduling: Scheduling
    running: list[TaskBooking] = Field(
        default_factory=list, description="running tasks, the one that ends first at the front; as many as asked for"
    )
    running_matching: int = Field(
        default=0, description="of the running tasks, those of the job and owner that were asked for"
    )


class _NamedCard(ApiResponse):
    uuid: str
    model: str
    index: int


class _Card(_NamedCard):
    memory_bytes: int
    simulated: bool


def with_readings(rows: Iterable[Reading] = READINGS, base: type[ApiResponse] = _Card) -> Any:
    """A model of a card with what is read of it."""
    fields: dict[str, Any] = {
        row.name: (row.kind | None, Field(description=row.about) if row.about else ...) for row in rows
    }
    return create_model("_ReadCard", __base__=base, **fields)


class OutsideProcess(ApiResponse):
    """A process on a GPU that Headway did not start."""

    pid: int
    owner: str = Field(description="of the machine; empty: not known")
    command: str = Field(description="its program and first arguments; empty: not known")
    memory_used_bytes: int | None


class Gpu(with_readings()):  # type: ignore[misc]
    sick: bool = Field(description="not given out")
    busy_outside: bool = Field(description="used by a process that is not ours")
    note: str
    processes: list[OutsideProcess] = Field(description="on it, that Headway did not start; at most 20")
    fault: str = Field("", description="what made it faulty, as a word of docs/gpus.md; empty: no fault of the card")
    quarantined_since: float | None = Field(
        None, description="taken out for its fault until it is clean; null: it is not"
    )
    parent_uuid: str = Field("", description="of a MIG slice: its card")
    linked_uuids: list[str] = Field([], description="cards that it reaches over NVLink, where the driver tells")
    shared: bool = Field(False, description="given out in shares of its memory only, never whole")


class NodeGpu(Gpu):
    """A GPU of a machine: what is read of it, and apart from that, who has it."""

    state: GpuState | None = Field(default=None, description="null: not known, since bookings aren't known now")
    booking: TaskBooking | None = Field(default=None, description="who has it; null: nobody, or not known now")
    shares: list[TaskBooking] = Field(default_factory=list, description="of a shared one: who has how much of it")
    free_share_bytes: int | None = Field(
        default=None, description="of a shared one: the largest share that it has room for; null: not known now"
    )


class Condition(ApiResponse):
    """Something that is not as it should be on a node."""

    word: str
    sentence: str
    since_at: float
    blocks_work: bool


class NodeDrain(ApiResponse):
    """How a machine is being emptied."""

    since_at: float
    by: str
    until_at: float | None = Field(description="what still runs then is run elsewhere; null: all may end by itself")
    attempts_at_start: int
    attempts_left: int
    last_ends_by_at: float | None = Field(
        None, description="when the last of them must have ended, by its timeout; null: not known now, or nothing runs"
    )
    return_when_back: bool = Field(description="it opens by itself once its machine was restarted")
    return_at: float | None = Field(description="it opens by itself then; null: it does not")


class NodeEvent(ApiResponse):
    """Something that happened to a machine."""

    at: float
    word: str
    sentence: str


class Node(ApiResponse):
    id: str
    health: NodeHealth
    health_sentence: str
    admission: Admission
    note: str = Field(description="an operator's word at cordon or drain")
    registered_at: float
    seen_at: float
    incarnation: int
    version: str
    runtime: str = Field(description="docker; scripted: starts nothing, for rehearsals; or what a package adds")
    architecture: str
    engine_version: str
    driver_version: str
    cuda_version: str
    gpu_passing: str = Field(
        description="how its containers are given GPUs: device_request, cdi or device_nodes; empty: not at all, or it "
        "is not known"
    )
    most_ulimits: dict[str, int] = Field(
        description="hard limits that its engine can give a task (nofile, memlock in bytes); -1: unlimited; "
        "a name that is missing: not known"
    )
    labels: dict[str, str]
    cpus: float = Field(description="declared")
    cpus_used: float | None
    memory_bytes: int = Field(description="declared")
    memory_used_bytes: int | None
    memory_total_bytes: int | None
    disk_free_bytes: int | None
    disk_total_bytes: int | None
    load1: float | None
    live_attempts: int
    gpus: list[NodeGpu]
    images: list[str]
    conditions: list[Condition]
    drain: NodeDrain | None = Field(default=None, description="null: it is not being emptied")
    events: list[NodeEvent] = Field(default_factory=list, description="what happened to it, oldest first; at most 20")
    booked: BookedOnNode | None = Field(
        default=None, description="what running tasks hold of it; null: not known now, and never in events"
    )


class NodeDetail(Node):
    missing: list[Missing] = Field(default_factory=list, description="what could not be had now")


class StrandedTask(ApiResponse):
    """A waiting task that could run nowhere else now."""

    job_id: str
    task: str
    owner: str
    job_name: str


class NodeAdmission(Node):
    """A machine after somebody has said whether it takes work."""

    changed: str = Field("", description="what others had said and holds no longer; empty: nothing")


class DrainPreview(ApiResponse):
    """What emptying a machine would touch. Nothing has changed."""

    running: list[TaskBooking] = Field(description="there, the one that ends first at the front; at most 100")
    total_running: int
    stranded: list[StrandedTask] = Field(
        description="waiting tasks that could run nowhere else, in the order of the queue; at most 100"
    )
    total_stranded: int


class NodeList(ApiResponse):
    nodes: list[Node]
    gpus: GpuSummary
    missing: list[Missing] = Field(default_factory=list, description="what could not be had now: bookings are null")
    notices: list[str] = Field(
        default_factory=list,
        description="about the whole cluster: that it was restored from a backup, and what is lost",
    )


class UsageGpu(with_readings(base=_NamedCard)):  # type: ignore[misc]
    """A GPU in the history. Faults and processes of those times are not kept, so nothing is said of them."""


class UsagePeak(ApiResponse):
    """The greatest value of each reading over a span of time; of what is free the least."""

    cpus_used: float | None
    memory_used_bytes: int | None
    disk_free_bytes: int | None
    gpus: list[UsageGpu]


class UsagePoint(ApiResponse):
    at: float = Field(description="of a reading; of means the middle of their time")
    span_s: float = Field(0.0, description="the time of which these are means; 0: a single reading")
    cpus_used: float | None
    memory_used_bytes: int | None
    disk_free_bytes: int | None
    live_attempts: int = Field(description="the most at one moment")
    gpus: list[UsageGpu]
    peak: UsagePeak | None = Field(None, description="null: a single reading")


class NodeUsage(ApiResponse):
    points: list[UsagePoint] = Field(description="oldest first; without those times of which nothing is known")
    span_s: float = Field(
        0.0,
        description="what was read: 0: single readings, kept for an hour; 60: means of minutes, for a day; 3600: "
        "of hours, for a year",
    )


class NodeNote(ApiRequest):
    note: str = Field("", max_length=500, description="why, for the others")


class DrainRequest(NodeNote):
    """What is left out stays as an earlier drain of this machine said."""

    within_s: float | None = Field(
        None, gt=0, le=31_536_000, description="what still runs after so many seconds is run elsewhere"
    )
    until_at: float | None = Field(
        None, ge=0, le=1e11, description="the same as an instant; 0: without a deadline. Not with `within_s`"
    )
    return_when_back: bool | None = Field(None, description="open by itself once the machine was restarted")
    return_at: float | None = Field(None, ge=0, le=1e11, description="open by itself then; 0: not by the clock")


class GpuReturn(ApiRequest):
    gone: bool = Field(False, description="it was taken out of the machine for good, and is forgotten")


class GpuReturned(ApiResponse):
    sentence: str


class NodeLost(ApiResponse):
    attempts_lost: int
