"""What all executors of one Worker share."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from headway.clock import Clock

from ..alarms import Alarms
from ..images.ports import ImageProvider
from ..logs.copier import LogCopier
from ..machine.mount import SharedMount
from ..model import AttemptRecord, EndDecision, LaunchAttempt
from ..ports import Runtime
from ..sampling.sampler import Sampler
from ..store import WorkerStore
from .late_reporter import LateReporter
from .leases import Lease
from .reporter import AttemptReporter
from .task_secrets import NoSecrets, SecretSource


@dataclass(frozen=True, slots=True)
class ExecutorLimits:
    """How long the Worker waits for each step, in seconds."""

    pull_s: float = 1_500.0  # fetch of an image
    secrets_s: float = 300.0  # for HttpServer to answer with the task's secrets
    create_s: float = 300.0  # the engine's part of a start, with repeated calls
    exec_s: float = 60.0  # from the container's start to the user's process
    slack_s: float = 15.0  # the launcher may need so long past timeout and grace before the Worker kills
    disk_grace_s: float = 5.0  # longest grace of a task that fills a disk, or takes more than its share of a GPU
    look_s: float = 1.0  # between two looks at a box whose container the engine may have lost sight of
    engine_goes_s: float = 2.0  # whether an engine stops that has just ended a container
    exit_s: float = 10.0  # from the end record until the container is gone
    kill_s: float = 60.0  # for a KILL to work; counts only while the engine answers
    give_s: float = 30.0  # to change the owner of files that a root task left in a home
    publish_s: float = 600.0  # to copy logs into an account's home
    copy_s: float = 5.0  # the report of an end waits so long for its logs to reach the mount
    late_s: float = 86_400.0  # so long after an attempt's end what failed is tried again
    late_container_s: float = 5.0  # until people are told that a container could not be removed
    lease_stop_s: float = 30.0
    lease_grace_s: float = 10.0


class AttemptGpusWatch(Protocol):
    """What becomes of attempts with GPUs: ``GpuWatch`` in ``gpu_watch.py``."""

    def refusal(self, uuids: Collection[str]) -> str:
        """Why a launch with these cards is refused, in one sentence. Empty: it is not."""
        ...

    def adopt(self, record: AttemptRecord) -> None:
        """After a restart of the Worker, of every attempt that it remembers."""
        ...

    async def begins(self, record: AttemptRecord, launch: LaunchAttempt) -> None:
        """Before its container is made."""
        ...

    async def ended(self, record: AttemptRecord, launch: LaunchAttempt, decision: EndDecision) -> EndDecision:
        """Before its end is reported. Returns the end after what its cards did meanwhile. Never raises."""
        ...


class NoGpusWatch:
    """For a Worker without GPUs."""

    def refusal(self, uuids: Collection[str]) -> str:
        return ""

    def adopt(self, record: AttemptRecord) -> None: ...

    async def begins(self, record: AttemptRecord, launch: LaunchAttempt) -> None: ...

    async def ended(self, record: AttemptRecord, launch: LaunchAttempt, decision: EndDecision) -> EndDecision:
        return decision


@dataclass(slots=True)
class ExecutorContext:
    """What all executors of one Worker share."""

    node_id: str
    incarnation: int
    boot_id: str
    runtime: Runtime
    images: ImageProvider
    store: WorkerStore
    reports: AttemptReporter
    late: LateReporter
    copier: LogCopier
    mounted: SharedMount
    alarms: Alarms
    clock: Clock
    limits: ExecutorLimits
    lease: Lease | None = None  # by the last answered heartbeat of this life; None: there was none yet
    sampler: Sampler | None = None  # None: only in tests of single rules
    on_engine_trouble: Callable[[], None] = lambda: None
    gpus: AttemptGpusWatch = field(default_factory=NoGpusWatch)
    mps_pipe: Path | None = None  # the folder of MPS's daemon, for tasks with a share of a GPU; None: they use none
    secrets: SecretSource = field(default_factory=NoSecrets)
