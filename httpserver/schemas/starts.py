"""What a submission answers: the job, when it would start, and what past runs say of its timeouts."""

from __future__ import annotations

from pydantic import Field

from .base import ApiRequest, ApiResponse, Priority
from .jobs import Resources, Wait


class PreviewStart(ApiResponse):
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


class Preview(ApiResponse):
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


class TimeoutAdvice(ApiResponse):
    """What past runs of the same account say of a timeout: advice, never applied by itself.

    Where most of them were ended by their timeouts nothing can be suggested: then `sentence` says so, and the
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


class Submitted(ApiResponse):
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


class PreviewVariant(ApiRequest):
    """A task as far as its start depends on it, as a job file would have it."""

    timeout: str = Field(examples=["10m"])
    gpus: int | None = None
    cpus: float | None = None
    memory: str | None = Field(None, examples=["4GiB"])
    shm: str | None = None
    gpu_model: str | list[str] | None = None
    gpu_memory: str | None = None
    priority: Priority | None = None


class PreviewVariants(ApiRequest):
    """Up to 20 of them, each asked for as if it alone were submitted now."""

    variants: list[PreviewVariant] = Field(min_length=1, max_length=20)
