"""What the Worker knows of an attempt. Pure values."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from headway.ids import AttemptId, JobId, TaskId, is_job_id, is_task_name
from headway.jobfile.spec import TaskSpec


@dataclass(frozen=True, slots=True)
class Owner:
    """The account that an attempt runs for, as HttpServer knew it at submit."""

    name: str
    uid: int
    gid: int
    may_use_image_user: bool = False


@dataclass(frozen=True, slots=True)
class Launch:
    """An order to run one attempt. Times are epoch seconds."""

    attempt: AttemptId
    owner: Owner
    spec: TaskSpec
    generation: int = 1
    job_name: str = ""
    image_digest: str = ""
    gpu_uuids: tuple[str, ...] = ()
    placed_at: float = 0.0
    incarnation: int = 0  # of this node, as TaskManager knows it
    lease_s: float = 120.0
    lease_enforced: bool = False


class Stage(enum.StrEnum):
    """How far the Worker is with an attempt; kept in its store."""

    LIVE = "live"  # accepted; whatever comes before its end
    ENDED = "ended"  # its end is stored, TaskManager has not answered yet
    ACKED = "acked"  # TaskManager knows; logs may still be on their way to the mount
    DONE = "done"  # nothing is left but the memory that it was here, so that a late launch is refused


@dataclass(frozen=True, slots=True)
class Times:
    """When things happened to one attempt, epoch seconds by this machine's clock; None: not (yet)."""

    accepted_at: float
    container_started_at: float | None = None
    process_started_at: float | None = None
    ended_at: float | None = None
    run_s: float | None = None  # by the boot clock: what the timeout counts


def attempt_of_folder(folder: str) -> AttemptId | None:
    """The inverse of ``AttemptId.folder``; None for a name that is no attempt's."""
    job, _, rest = folder.partition(".")
    name, _, number = rest.rpartition(".")
    if not is_job_id(job) or not is_task_name(name) or not number.isascii() or not number.isdigit():
        return None
    return AttemptId(TaskId(JobId(job), name), int(number))
