"""What JobManager needs from outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headway.jobfile.spec import ResourceSpec, Ulimit
from headway.rpc.v1 import http_server_pb2, task_manager_pb2


@dataclass(frozen=True, slots=True)
class ImageNeeds:
    """What an image asks of a node. Empty where it asks nothing or nothing is known."""

    architecture: str = ""
    require_cuda: str = ""


@dataclass(frozen=True, slots=True)
class TaskShape:
    """What a node must offer for a task."""

    resources: ResourceSpec
    timeout_s: float
    image: ImageNeeds = ImageNeeds()
    ulimits: tuple[Ulimit, ...] = ()


@dataclass(frozen=True, slots=True)
class ShapeRefusal:
    """Why a task is not taken into the queue."""

    field: str  # a JSON pointer from the task, such as `/timeout`
    sentence: str
    for_ever: bool = False  # whatever machines join


@dataclass(frozen=True, slots=True)
class ShapeVerdicts:
    """All refusals of each shape asked, in that order. With no node known only what no machine could change."""

    refusals: tuple[tuple[ShapeRefusal, ...], ...]
    nodes_known: int
    waits: tuple[str, ...] = ()  # what each waits for at first that is broken, as a sentence; empty: nothing


class TaskManagerPort(Protocol):
    """The queue. All calls raise a HeadwayError when it can't be reached in time."""

    async def apply(
        self, commands: Sequence[task_manager_pb2.TaskCommand], steady: tuple[str, float] | None = None
    ) -> None:
        """Hand commands over, in order; returning means that they are stored there. ``steady``: this machine's life
        and the instant in it by the clock by which tasks age.

        Safe to repeat after any failure: TaskManager drops what it has already. Commands of one task must be handed
        over in the order of their ``seq``.
        """
        ...

    async def compare(self, tasks: Sequence[task_manager_pb2.HeldTask]) -> task_manager_pb2.CompareTasksReply:
        """What differs there from these, which are all tasks that it should have."""
        ...

    async def measure_logs(self, job_ids: Sequence[str]) -> Sequence[int]:
        """How many bytes the logs of each of these jobs take; at most 500 of them."""
        ...

    async def remove(self, job_ids: Sequence[str]) -> task_manager_pb2.RemoveJobsReply:
        """Forgets some of what is known of these jobs' tasks; see RemoveJobs for the answer. Safe to repeat."""
        ...

    async def confirm(self) -> None:
        """Both agree as far as they can. Returns, or raises, once TaskManager stops."""
        ...

    async def check(self, shapes: Sequence[TaskShape]) -> ShapeVerdicts:
        """Would these be taken into the queue? Changes nothing; answers or fails within two seconds."""
        ...


class JobEventsPort(Protocol):
    """Who is told of job events. Raises a HeadwayError when nobody answers."""

    async def apply_events(
        self, batches: Sequence[http_server_pb2.JobEventBatch], told: http_server_pb2.JobEventBatch
    ) -> None:
        """Hands events over, in order; returning means that they are stored there. Safe to repeat. ``told``: the last
        batch that was handed over before."""
        ...


class JobFoldersPort(Protocol):
    """The folders of jobs on the shared mount. Raises a HeadwayError when nobody answers, or the mount is not there."""

    async def remove(self, job_ids: Sequence[str]) -> Sequence[str]:
        """Removes the folders of these jobs, at most 500; the ids of those that have none any more. Safe to repeat."""
        ...
