"""Jobs, their tasks and attempts."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from pydantic import Field, StrictBool, create_model

from headway.model.attempt_facts import SHOWN, Fact
from headway.model.reasons import EndWord, Fault, WaitWord
from headway.states import AttemptState, JobState, TaskState

from .base import ApiRequest, ApiResponse, NeedOn, Priority
from .job_file import SubmittedTask
from .samples import AttemptUse


class Reason(ApiResponse):
    """Why a task or an attempt ended."""

    word: EndWord
    fault: Fault
    sentence: str = Field(description="what happened and what to do")
    exit_code: int | None = Field(
        None, description="0 to 255 of the user's process; null: it never ran or was not seen"
    )
    signal: int | None = Field(None, description="number of the signal that ended the process")


class Wait(ApiResponse):
    """One reason why a task waits."""

    word: WaitWord
    sentence: str


class Resources(ApiResponse):
    cpus: float
    memory_bytes: int
    shm_bytes: int
    gpus: int
    gpu_models: list[str] = Field(description="any of these; empty: any model")
    gpu_memory_bytes: int | None = Field(None, description="at least, per GPU; null: any")
    gpu_share_bytes: int | None = Field(None, description="of the memory of one shared GPU; null: no share")


class Phases(ApiResponse):
    """Where the time of an attempt went; null while a phase is not over."""

    scheduling_s: float | None = Field(None, description="runnable until placed on a node")
    dispatch_s: float | None = Field(None, description="placed until the worker accepted it")
    startup_s: float | None = Field(None, description="image and container")
    preparing_s: float | None = Field(None, description="container up until the user's process runs")
    running_s: float | None = None


class Extension(ApiResponse):
    """More time for a running task, once."""

    at: float = Field(description="when, in seconds since the epoch")
    by: str = Field(description="account name")
    seconds: float
    forced: bool = Field(description="granted by an admin though it was promised to others or kept for short tasks")


class Sharer(ApiResponse):
    """A task that has a share of a GPU."""

    job_id: str
    job_name: str
    task: str
    owner: str
    share_bytes: int = Field(description="of the GPU's memory")


class GpuShare(ApiResponse):
    """A share of one GPU."""

    share_bytes: int = Field(description="of the GPU's memory")
    gpu_index: int | None = Field(description="its number on the machine; null: the attempt has ended, or not known")
    others: list[Sharer] = Field(description="while it runs: who else has a share of the same GPU")


class _Placed(ApiResponse):
    number: int = Field(description="from 1")
    state: AttemptState
    generation: int = Field(description="raised by each manual retry")
    of_runs: int = Field(description="attempt k of n: 1 + retries")
    node_id: str
    gpu_uuids: list[str]
    gpus_simulated: bool = Field(description="its GPUs are only simulated: it gets no device")
    reason: Reason | None
    placed_at: float


def with_facts(base: type[ApiResponse], rows: Iterable[Fact]) -> Any:
    """``base`` and a field for each fact, in the order of the table."""
    kinds: dict[type, Any] = {tuple: list[str]}
    fields: dict[str, Any] = {}
    for row in rows:
        kind = kinds.get(row.kind, row.kind)
        kind = kind | None if row.default is None else kind
        fields[row.name] = (kind, Field(description=row.about) if row.about else ...)
    return create_model(f"{base.__name__}WithFacts", __base__=base, **fields)


class _Timed(with_facts(_Placed, (row for row in SHOWN if row.instant))):  # type: ignore[misc]
    deadline_at: float | None = Field(description="when the timeout passes")
    phases: Phases


class Attempt(with_facts(_Timed, (row for row in SHOWN if not row.instant))):  # type: ignore[misc]
    """One run of a task."""

    timeout_s: float | None = Field(None, description="of its run, with all the time that it was given since its start")
    extensions: list[Extension] = Field(default_factory=list, description="more time that it was given, oldest first")
    extension_pending: bool = Field(
        False, description="its machine has not confirmed the last of them yet: the earlier limit may still strike"
    )
    sharing: GpuShare | None = Field(None, description="of one GPU; null: it has its GPUs whole, or none")
    use: AttemptUse | None = Field(None, description="once it has ended; null: not measured, or not for you")


class Place(ApiResponse):
    """Where a waiting task stands in the queue."""

    position: int = Field(description="from 1")
    terms: dict[str, float] = Field(description="of its priority: alpha_p, beta_t, gamma_t, waited_s")
    estimated_start_at: float | None
    promised_start_at: float | None = Field(description="no later than")
    first_promised_start_at: float | None = Field(
        None, description="what was promised first; null: the promise has not fallen since"
    )
    estimate_rough: bool = Field(False, description="the estimate rests on the work ahead alone, not on a reservation")


class ImageSource(StrEnum):
    MARKET = "market"
    ENGINE = "engine"
    REGISTRY = "registry"


class Task(ApiResponse):
    name: str
    state: TaskState
    needs: dict[str, NeedOn]
    attempt: int = Field(description="number of the current or last attempt; 0 before the first")
    generation: int
    reason: Reason | None
    waits: list[Wait] = Field(description="why it is not running yet, cheapest to fix first")
    waits_for: list[str] = Field(description="needed tasks that have not ended")
    place: Place | None = Field(description="null unless it waits in the queue")
    held: bool
    queued_at: float | None
    started_at: float | None
    ended_at: float | None
    image: str
    image_digest: str | None = Field(
        None, description="of the content that it runs, pinned at submit; null: not known, or not for you"
    )
    image_source: ImageSource | None = Field(None, description="where it was found; null: it is looked up there")
    datasets: list[str] = Field(
        default_factory=list, description="NAME@VERSION, pinned at submit; for owner and admins"
    )
    code: str | None = Field(None, description="digest of the snapshot at /root/code; for owner and admins")
    resources: Resources
    timeout_s: float
    retries: int
    node_id: str | None
    attempts: list[Attempt] = Field(description="oldest first")


class Edge(ApiResponse):
    """``target`` needs ``source`` to have ended so."""

    source: str
    target: str
    on: NeedOn


class Job(ApiResponse):
    id: str
    name: str
    owner: str
    priority: Priority
    state: JobState
    held: bool
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    task_count: int
    tasks_by_state: dict[TaskState, int] = Field(description="states without a task are left out")
    reason: Reason | None = Field(description="of the first failure, when the job failed")
    reason_task: str | None
    version: int = Field(description="rises with each change: the later of two views of a job is the higher one")
    pinned: bool = Field(False, description="kept until somebody unpins it")
    kept_until: float | None = Field(
        None, description="of an ended job: when it is removed by itself; null: as long as nobody deletes it"
    )


class JobCount(ApiResponse):
    """Of all jobs that the filters let through."""

    jobs: int
    running: int
    more: bool = Field(description="there are more jobs than these: it was not counted further")


class JobList(ApiResponse):
    jobs: list[Job]
    next_cursor: str | None = Field(description="null at the end")
    gpus_booked: dict[str, int] | None = Field(
        default=None, description="GPUs that running tasks of these jobs hold now, by job id; null: not known now"
    )
    count: JobCount | None = Field(default=None, description="with `count` alone")


class Missing(ApiResponse):
    """A part of the answer that could not be had now."""

    service: str
    sentence: str


class JobDetail(Job):
    tasks: list[Task] = Field(description="in the order of the job file; a part of it with tasks_limit")
    edges: list[Edge] = Field(description="those that end at one of these tasks")
    tasks_offset: int
    missing: list[Missing] = Field(description="attempts or queue places that could not be had now; empty: complete")
    notices: list[str] = Field(
        default_factory=list, description="what Headway could not bring in order itself yet, as sentences"
    )


class TaskDetail(ApiResponse):
    job: Job
    task: Task
    spec: SubmittedTask | None = Field(None, description="what was submitted of it; null: for owner and admins only")
    missing: list[Missing]


class Acted(ApiResponse):
    job: Job
    tasks_changed: int = Field(description="0: there was nothing to do, which is fine")


class Prune(ApiRequest):
    """Which ended jobs are to be deleted."""

    older: str = Field(max_length=64, description="how long ago they ended at least, such as 90d")
    owner: str = Field("me", max_length=64, description="account name; `me`; empty: everybody's (admins)")
    dry_run: StrictBool = Field(False, description="tell what it would delete, and delete nothing")
    cursor: str = Field("", max_length=128, description="next_cursor of the answer before")


class Pruned(ApiResponse):
    """What one call deleted, or would delete. A long list takes several calls."""

    jobs: int
    tasks: int
    log_bytes: int = Field(description="what the logs of these jobs take, as far as it is known")
    unmeasured: int = Field(description="jobs of which nobody could tell now what their logs take")
    pinned: int = Field(description="jobs as old that stay")
    ended_before: float
    next_cursor: str | None = Field(description="ask again with it for the rest; null: that was all")


class Extend(ApiRequest):
    by: str = Field(max_length=64, description="how much longer, such as 30m or 1h30m")
    force: StrictBool = Field(
        False, description="although it is promised to others or kept for short tasks; admins only"
    )


class Extended(ApiResponse):
    attempt: Attempt
    delivered: bool = Field(description="false: granted and stored, but its machine has not confirmed it yet")
    sentence: str
