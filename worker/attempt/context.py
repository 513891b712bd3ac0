"""What the executors of one Worker share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headway.clock import Clock

from ..alarms import Alarms
from ..images.ports import ImageProvider
from ..logs.copier import LogCopier
from ..machine.mount import SharedMount
from ..ports import Runtime
from ..store import WorkerStore
from .leases import Lease
from .reporter import AttemptReporter


@dataclass(frozen=True, slots=True)
class ExecutorLimits:
    """How patient the Worker is; seconds."""

    pull_s: float = 1_500.0  # fetch of an image
    create_s: float = 300.0  # the engine's part of a start, its hiccups included
    exec_s: float = 60.0  # from the container's start to the user's process
    slack_s: float = 15.0  # what the launcher may need past timeout and grace before the Worker steps in
    disk_grace_s: float = 5.0  # longest grace of a task that fills a disk
    exit_s: float = 10.0  # from the end record until the container is gone
    kill_s: float = 60.0  # for a KILL to work, counted while the engine answers
    give_s: float = 30.0  # to give files of a root task to its account
    publish_s: float = 600.0  # to copy logs into a home
    copy_s: float = 5.0  # an end waits so long for its logs to be on the mount
    lease_stop_s: float = 30.0
    lease_grace_s: float = 10.0


@dataclass(slots=True)
class ExecutorContext:
    """What the executors of one Worker share."""

    node_id: str
    incarnation: int
    boot_id: str
    runtime: Runtime
    images: ImageProvider
    store: WorkerStore
    reports: AttemptReporter
    copier: LogCopier
    mounted: SharedMount
    alarms: Alarms
    clock: Clock
    limits: ExecutorLimits
    lease: Lease = field(default_factory=Lease)
    on_engine_trouble: Callable[[], None] = lambda: None
