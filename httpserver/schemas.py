"""What the HTTP API says and hears, as pydantic models; OpenAPI, the page's client and the CLI come from here.

Instants end in ``_at`` and are seconds since the epoch, durations end in ``_s``, sizes in ``_bytes``; null means "not
known" or "not yet". Fields are only ever added.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from headway.model.reasons import EndWord, Fault, WaitWord
from headway.states import Admission, AttemptState, JobState, NodeHealth, TaskState


class Answer(BaseModel):
    """Base of everything answered: a field with a default is still always present."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True, frozen=True)


class Ask(BaseModel):
    """Base of everything asked: unknown keys are refused, so that a typing slip is told."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)


class Priority(StrEnum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"


class NeedOn(StrEnum):
    """Which end of the needed task lets this one start."""

    SUCCESS = "success"
    FAILURE = "failure"
    ANY = "any"


class LogStream(StrEnum):
    STDOUT = "stdout"
    STDERR = "stderr"
    PLATFORM = "platform"


# -- problems -----------------------------------------------------------------------------------


class ProblemItem(Answer):
    """One fault of the input, at its place."""

    pointer: str = Field(description="JSON pointer into what was sent; empty: the whole")
    message: str
    line: int | None = Field(None, description="from 1; null where what was sent has no lines")
    column: int | None = Field(None, description="from 1")
    word: str = Field("", description="the offending word")
    allowed: list[str] = Field(default_factory=list, description="what may stand there")
    suggestion: str = Field("", description="the nearest known name")


class Problem(Answer):
    """RFC 9457 problem details; every answer of 400 and above is one."""

    type: str = Field(description="urn:headway:problem:<slug>")
    title: str
    status: int
    detail: str = Field(description="one clear sentence: what is wrong, where, what to do")
    slug: str = Field(description="stable word for programs")
    request_id: str = Field(description="also in the header X-Request-Id and in the server's log")
    errors: list[ProblemItem] = Field(default_factory=list)
    service: str | None = Field(None, description="which part of Headway does not answer (503 and 504 only)")
    retry_after_s: float | None = Field(None, description="also in the header Retry-After (429 and 503 only)")


# -- accounts -----------------------------------------------------------------------------------


class User(Answer):
    name: str
    admin: bool
    enabled: bool
    uid: int
    gid: int
    may_use_image_user: bool = Field(description="may run tasks as the image says, root included")
    may_use_high_priority: bool
    created_at: float
    signed_in_at: float | None = Field(None, description="last sign-in with the password")
    quota_bytes: int | None = Field(None, description="of the personal space; 0: no limit, null: as configured")


class ListedUser(User):
    space_used_bytes: int | None = Field(description="of the personal space, as far as it is known; null: not measured")
    space_limit_bytes: int | None = Field(description="what it may hold, as configured or the account's own; null: all")


class UserList(Answer):
    users: list[ListedUser]


class Credentials(Ask):
    username: str = Field(max_length=200)
    password: str = Field(max_length=1000)


class Session(Answer):
    """The token is the same value as the cookie's; send it as ``Authorization: Bearer``."""

    user: User
    token: str
    expires_at: float


class PasswordChange(Ask):
    current: str = Field(max_length=1000)
    new: str = Field(min_length=8, max_length=1000)


class TokenCreate(Ask):
    name: str = Field(min_length=1, max_length=100, description="what it is for, to tell it apart later")
    expires_in_s: float | None = Field(None, gt=0, le=20 * 366 * 86400, description="null: until deleted")


class Token(Answer):
    id: str
    name: str
    created_at: float
    expires_at: float | None
    used_at: float | None


class TokenCreated(Token):
    token: str = Field(description="shown this once; only its hash is kept")


class TokenList(Answer):
    tokens: list[Token]


UserName = Annotated[
    str,
    Field(
        pattern=r"^[a-z_][a-z0-9_-]{0,31}$",
        description="lower-case letters, digits, _ and -, up to 32, starting with a letter or _",
    ),
]


class UserCreate(Ask):
    name: UserName
    password: str | None = Field(None, min_length=8, max_length=1000, description="null: one is made and answered")
    admin: StrictBool = False
    uid: int | None = Field(None, ge=1000, le=2**31 - 2, description="null: the next free one of the configured range")
    gid: int | None = Field(None, ge=1000, le=2**31 - 2, description="null: the same as uid")
    may_use_image_user: StrictBool = False
    may_use_high_priority: StrictBool = False
    quota_bytes: int | None = Field(
        None, ge=0, le=2**62, description="of the personal space; 0: no limit, null: as configured"
    )


class UserCreated(Answer):
    user: User
    password: str | None = Field(None, description="only when it was made here; shown this once")


class UserPatch(Ask):
    """Only what is given changes. A new password or ``enabled: false`` ends all sessions of the account."""

    password: str | None = Field(None, min_length=8, max_length=1000)
    admin: StrictBool | None = None
    enabled: StrictBool | None = None
    may_use_image_user: StrictBool | None = None
    may_use_high_priority: StrictBool | None = None
    quota_bytes: int | None = Field(
        None, ge=-1, le=2**62, description="of the personal space; 0: no limit, -1: as configured again"
    )


# -- jobs ---------------------------------------------------------------------------------------


class Reason(Answer):
    """Why a task or an attempt ended."""

    word: EndWord
    fault: Fault
    sentence: str = Field(description="what happened and what to do")
    exit_code: int | None = Field(
        None, description="0 to 255 of the user's process; null: it never ran or was not seen"
    )
    signal: int | None = Field(None, description="number of the signal that ended the process")


class Wait(Answer):
    """One reason why a task waits."""

    word: WaitWord
    sentence: str


class Resources(Answer):
    cpus: float
    memory_bytes: int
    shm_bytes: int
    gpus: int
    gpu_models: list[str] = Field(description="any of these; empty: any model")
    gpu_memory_bytes: int | None = Field(None, description="at least, per GPU; null: any")


class Phases(Answer):
    """Where the time of an attempt went; null while a phase is not over."""

    scheduling_s: float | None = Field(None, description="runnable until placed on a node")
    dispatch_s: float | None = Field(None, description="placed until the worker accepted it")
    startup_s: float | None = Field(None, description="image and container")
    preparing_s: float | None = Field(None, description="container up until the user's process runs")
    running_s: float | None = None


class Extension(Answer):
    """More time for a running task, once."""

    at: float = Field(description="when, in seconds since the epoch")
    by: str = Field(description="account name")
    seconds: float
    forced: bool = Field(description="granted by an admin though it was promised to others or kept for short tasks")


class Attempt(Answer):
    """One run of a task."""

    number: int = Field(description="from 1")
    state: AttemptState
    generation: int = Field(description="raised by each manual retry")
    of_runs: int = Field(description="attempt k of n: 1 + retries")
    node_id: str
    gpu_uuids: list[str]
    reason: Reason | None
    placed_at: float
    accepted_at: float | None
    container_started_at: float | None
    started_at: float | None = Field(description="of the user's process; the timeout counts from here")
    ended_at: float | None
    deadline_at: float | None = Field(description="when the timeout passes")
    phases: Phases
    peak_memory_bytes: int | None
    stdout_bytes: int
    stderr_bytes: int
    dropped_bytes: int = Field(description="output past the log limit, not kept")
    image_id: str = Field(description="empty until it is known, in events, and for others than owner and admins")
    warnings: list[str]
    timeout_s: float | None = Field(None, description="of its run, with all the time that it was given since its start")
    extensions: list[Extension] = Field(default_factory=list, description="more time that it was given, oldest first")
    extension_pending: bool = Field(
        False, description="its machine has not confirmed the last of them yet: the earlier limit may still strike"
    )


class Place(Answer):
    """Where a waiting task stands in the queue."""

    position: int = Field(description="from 1")
    terms: dict[str, float] = Field(description="of its priority: alpha_p, beta_t, gamma_t, waited_s")
    estimated_start_at: float | None
    promised_start_at: float | None = Field(description="no later than")
    estimate_rough: bool = Field(False, description="the estimate rests on the work ahead alone, not on a reservation")


class ImageSource(StrEnum):
    MARKET = "market"
    ENGINE = "engine"
    REGISTRY = "registry"


class Task(Answer):
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


class Edge(Answer):
    """``target`` needs ``source`` to have ended so."""

    source: str
    target: str
    on: NeedOn


class Job(Answer):
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


class JobList(Answer):
    jobs: list[Job]
    next_cursor: str | None = Field(description="null at the end")


class Missing(Answer):
    """A part of the answer that could not be had now."""

    service: str
    sentence: str


class JobDetail(Job):
    tasks: list[Task] = Field(description="in the order of the job file; a part of it with tasks_limit")
    edges: list[Edge] = Field(description="those that end at one of these tasks")
    tasks_offset: int
    missing: list[Missing] = Field(description="attempts or queue places that could not be had now; empty: complete")


class TaskDetail(Answer):
    job: Job
    task: Task
    missing: list[Missing]


class PreviewStart(Answer):
    """What a task would get that were submitted now; true if nothing happens in between."""

    task: str | None = Field(description="null for a variant")
    timeout_s: float
    resources: Resources
    priority: Priority
    at_once: bool = Field(description="it would not wait")
    position: int | None = Field(description="in the queue, from 1; null: it would not wait, or not be taken")
    estimated_start_at: float | None = Field(description="null: nobody can tell")
    estimate_rough: bool = Field(description="the estimate rests on the work ahead alone, not on a reservation")
    promised_start_at: float | None = Field(description="no later than; null: nothing would be promised at once")
    promise_from_at: float | None = Field(description="a start can be promised from then on; null: already, or never")
    waits: list[Wait] = Field(description="why it would wait, cheapest to fix first")
    refused: str | None = Field(description="why no such task is taken; null: it is")
    sentence: str


class Preview(Answer):
    at: float = Field(description="when it was asked, by the clock of the other instants")
    starts: list[PreviewStart] = Field(
        description="of each variant; of a job: its tasks that would be queued at once, in order, 200 at most"
    )
    queued_count: int = Field(description="tasks that would be queued at once")
    after_needs: list[str] = Field(description="tasks that come after their needs, at most 200: when is not known")
    after_needs_count: int
    total_waiting: int
    total_running: int
    policy: str
    discipline: str


class TimeoutAdvice(Answer):
    """What past runs of the same account say of a timeout: advice, never applied by itself.

    Where nearly all of them were ended by their timeouts nothing can be suggested: then `sentence` says so, and the
    suggestion, times and shares are null.
    """

    tasks: list[str] = Field(description="for these, at most 20 of them named")
    task_count: int
    timeout_s: float = Field(description="as the job asks")
    suggested_timeout_s: float | None
    suggested_timeout: str | None = Field(description="as a job file would have it, such as 12m")
    basis: str = Field(description="command: runs of the same image and command; task: of tasks of the same name")
    succeeded: int = Field(description="runs that succeeded, of the latest 200: their times are the basis")
    timed_out: int = Field(description="further runs, ended by their own timeout: what they needed is not known")
    shortest_s: float | None
    median_s: float | None
    longest_s: float | None
    killed_share: float | None = Field(
        description="of all these runs, which the suggested timeout would have killed for certain; 0 to 1"
    )
    asked_killed_share: float | None = Field(
        description="of all these runs, which the job's own timeout would have killed for certain"
    )
    sentence: str


class Submitted(Answer):
    id: str | None = Field(description="null for a dry run")
    name: str
    task_count: int
    dry_run: bool
    already_known: bool = Field(description="this Idempotency-Key had been answered before: the first job's id")
    order: list[str] = Field(description="tasks in topological order; dry run only")
    warnings: list[str]
    timeouts: list[TimeoutAdvice] = Field(
        default_factory=list, description="what past runs say of its timeouts; dry run only, empty: too little is known"
    )
    preview: Preview | None = Field(
        default=None, description="when it would start; dry run only, null: the queue could not be asked"
    )


class Acted(Answer):
    job: Job
    tasks_changed: int = Field(description="0: there was nothing to do, which is fine")


class Extend(Ask):
    by: str = Field(max_length=64, description="how much longer, such as 30m or 1h30m")
    force: StrictBool = Field(
        False, description="although it is promised to others or kept for short tasks; admins only"
    )


class Extended(Answer):
    attempt: Attempt
    delivered: bool = Field(description="false: granted and stored, but its machine has not confirmed it yet")
    sentence: str


# The document itself is read by headway.jobfile, which tells every problem with its place; these models are the
# contract for people and generated clients and are not used to read.


class JobFileResources(BaseModel):
    cpus: float | None = None
    memory: str | None = Field(None, examples=["4GiB"])
    shm: str | None = None
    gpus: int | None = None
    gpu_model: str | list[str] | None = None
    gpu_memory: str | None = None


class JobFileDefaults(BaseModel):
    image: str | None = None
    command: str | list[str] | None = Field(None, description="text: a script run by `shell`; list: run as is")
    shell: Literal["sh", "bash"] | None = None
    entrypoint: Literal["replace", "image"] | None = None
    env: dict[str, str] | None = None
    working_dir: str | None = None
    code: str | None = Field(None, description="digest of a snapshot (POST /code), seen read-only at /root/code")
    datasets: list[str] | None = Field(None, description="NAME, or NAME@VERSION", examples=[["mnist"], ["mnist@2"]])
    resources: JobFileResources | None = None
    timeout: str | None = Field(None, examples=["30m"], description="of run time; required here or in defaults")
    grace: str | None = None
    retries: int | None = None
    user: Literal["account", "image"] | None = None
    network: Literal["outgoing", "none"] | None = None
    output_path: str | None = None
    log_limit: str | None = None
    log_limit_action: Literal["drop", "kill"] | None = None


class JobFileTask(JobFileDefaults):
    name: str
    needs: list[str] | dict[str, NeedOn] | None = None


class JobFile(BaseModel):
    """A job file; docs/interfaces.md says what each field means."""

    version: Literal[1]
    name: str
    priority: Priority | None = None
    defaults: JobFileDefaults | None = None
    tasks: list[JobFileTask]


# -- queue, nodes -------------------------------------------------------------------------------


class QueueEntry(Answer):
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
    waits: list[Wait]
    estimate_rough: bool = Field(False, description="the estimate rests on the work ahead alone, not on a reservation")


class Scheduling(Answer):
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


class Queue(Answer):
    entries: list[QueueEntry]
    total_waiting: int
    total_running: int
    policy: str
    discipline: str
    scheduling: Scheduling


class PreviewVariant(BaseModel):
    """A task as far as its start depends on it, as a job file would have it."""

    timeout: str = Field(examples=["10m"])
    gpus: int | None = None
    cpus: float | None = None
    memory: str | None = Field(None, examples=["4GiB"])
    gpu_model: str | list[str] | None = None
    gpu_memory: str | None = None
    priority: Priority | None = None


class PreviewVariants(BaseModel):
    """Up to 20 of them, each asked for as if it alone were submitted now."""

    variants: list[PreviewVariant] = Field(max_length=20)


class Gpu(Answer):
    uuid: str
    model: str
    memory_bytes: int
    index: int
    simulated: bool
    utilisation: float | None = Field(description="0 to 1")
    memory_utilisation: float | None = Field(description="0 to 1, of memory copies")
    memory_used_bytes: int | None
    temperature_c: float | None
    power_w: float | None
    sick: bool = Field(description="not given out")
    busy_outside: bool = Field(description="used by a process that is not ours")
    note: str


class Condition(Answer):
    """Something that is not as it should be on a node."""

    word: str
    sentence: str
    since_at: float
    blocks_work: bool


class Node(Answer):
    id: str
    health: NodeHealth
    health_sentence: str
    admission: Admission
    note: str = Field(description="an operator's word at cordon or drain")
    registered_at: float
    seen_at: float
    incarnation: int
    version: str
    runtime: str = Field(description="docker, or scripted: starts nothing, for rehearsals")
    architecture: str
    engine_version: str
    driver_version: str
    cuda_version: str
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
    gpus: list[Gpu]
    images: list[str]
    conditions: list[Condition]


class NodeList(Answer):
    nodes: list[Node]


class UsagePoint(Answer):
    at: float
    cpus_used: float | None
    memory_used_bytes: int | None
    disk_free_bytes: int | None
    live_attempts: int
    gpus: list[Gpu]


class NodeUsage(Answer):
    points: list[UsagePoint]


class NodeNote(Ask):
    note: str = Field("", max_length=500, description="why, for the others")


class NodeLost(Answer):
    attempts_lost: int


# -- files --------------------------------------------------------------------------------------


class FileKind(StrEnum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


class FileEntry(Answer):
    name: str = Field(description="for people: bytes that are no UTF-8 are spelled out as \\xNN")
    encoded: str = Field(description="the exact name, percent-encoded, to be put into an address")
    kind: FileKind
    size_bytes: int
    modified_at: float
    mode: str = Field(description="octal, as 0644")
    uid: int
    link_target: str | None = Field(None, description="what a link says; it is shown, never followed")


class FileList(Answer):
    """One folder; sorted by name."""

    path: str
    entries: list[FileEntry]
    next_cursor: str | None


class FileMove(Ask):
    to: str = Field(description="new path in the personal space", max_length=4096)
    overwrite: StrictBool = False


class FileDone(Answer):
    path: str
    size_bytes: int | None = None


# -- events -------------------------------------------------------------------------------------


class TaskEvent(Answer):
    job_id: str
    task: Task = Field(description="`attempts` and `place` are empty here")


class AttemptEvent(Answer):
    job_id: str
    task: str
    attempt: Attempt


class NodeGone(Answer):
    id: str


class QueueEvent(Answer):
    """The queue is not as it was; ask for what is on screen."""

    changed: bool = True


class ResetEvent(Answer):
    """Some events were missed (or this is the first connection): load what is on screen anew."""

    reason: str


# -- health -------------------------------------------------------------------------------------


class Healthy(Answer):
    status: str
    version: str


class Ready(Answer):
    ready: bool
    services: dict[str, str] = Field(description="service to `ok` or a sentence")
    conditions: dict[str, str]
