"""What the Worker knows of an attempt: values without behaviour. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.ids import AttemptId, JobId, TaskId, is_job_id, is_task_name
from headway.jobfile.spec import TaskSpec
from headway.model.reasons import EndReason
from headway.states import AttemptEventKind

from .box import StopWord


@dataclass(frozen=True, slots=True)
class Owner:
    """The account that an attempt runs for, as it was at submit."""

    name: str
    uid: int
    gid: int
    may_use_image_user: bool = False


class ImageSource(enum.StrEnum):
    """Where an image comes from, and so what its digest means. As in common.proto."""

    UNKNOWN = "unknown"  # by name: an image of this machine, else one of its registry
    MARKET = "market"  # an archive on the shared mount; the digest is the engine's id
    ENGINE = "engine"  # only where the engine has it already; the digest is the engine's id
    REGISTRY = "registry"  # the digest is the manifest's


@dataclass(frozen=True, slots=True)
class WantedImage:
    """An image as a job asks for it.

    ``account`` is whose credentials the registry gets. ``size_bytes`` is the unpacked size, 0: not known.
    """

    name: str
    digest: str = ""
    source: ImageSource = ImageSource.UNKNOWN
    account: str = ""
    size_bytes: int = 0

    @property
    def repository(self) -> str:
        """The name without tag and digest, as engines show it."""
        name = self.name.partition("@")[0]
        head, colon, tag = name.rpartition(":")
        name = head if colon and "/" not in tag else name
        for hub in ("docker.io/", "index.docker.io/"):
            name = name.removeprefix(hub)
        official = name.removeprefix("library/")
        return name if "/" in official else official

    @property
    def key(self) -> str:
        """Equal for all names of the same image."""
        if self.source in (ImageSource.MARKET, ImageSource.ENGINE):
            return self.digest
        return f"{self.repository}@{self.digest}" if self.digest else self.name


@dataclass(frozen=True, slots=True)
class LocalHold:
    """GPUs for a person's own process on this machine, which shows the key with this hash."""

    node_id: str
    key_hash: str


@dataclass(frozen=True, slots=True)
class LaunchAttempt:
    """An order to run one attempt. Times are epoch seconds."""

    attempt: AttemptId
    owner: Owner
    spec: TaskSpec
    generation: int = 1
    job_name: str = ""
    image_digest: str = ""
    image_source: ImageSource = ImageSource.UNKNOWN
    image_bytes: int = 0
    dataset_versions: Mapping[str, str] = field(default_factory=dict)  # by name; for others the newest counts
    gpu_uuids: tuple[str, ...] = ()
    placed_at: float = 0.0
    incarnation: int = 0  # of this node, as TaskManager knows it
    lease_s: float = 120.0
    lease_enforced: bool = False
    local: LocalHold | None = None  # no container runs

    @property
    def image(self) -> WantedImage:
        """The image of the attempt."""
        return WantedImage(
            self.spec.image, self.image_digest, self.image_source, self.owner.name, size_bytes=self.image_bytes
        )


@dataclass(frozen=True, slots=True)
class Extension:
    """One extension of the timeout. ``forced``: an admin gave it although promised starts are delayed."""

    by: str
    seconds: float
    forced: bool = False


@dataclass(frozen=True, slots=True)
class ExtendAttempt:
    """An order to let an attempt run longer. ``timeout_s`` counts from the start of its process and only grows."""

    attempt: AttemptId
    timeout_s: float
    extensions: tuple[Extension, ...] = ()  # all so far, oldest first


class AttemptStage(enum.StrEnum):
    """How far the Worker is with an attempt, as stored."""

    LIVE = "live"  # accepted, and not ended
    ENDED = "ended"  # its end is stored, TaskManager has not answered yet
    ACKED = "acked"  # TaskManager has stored the end; logs may still be copied
    DONE = "done"  # nothing is left to do; the record stays so that a late launch is refused


@dataclass(frozen=True, slots=True)
class AttemptTimes:
    """When things happened to one attempt, in epoch seconds by this machine's clock. None: not yet, or never."""

    accepted_at: float
    container_started_at: float | None = None
    process_started_at: float | None = None
    ended_at: float | None = None
    run_s: float | None = None  # by the boot clock, as the timeout counts


@dataclass(slots=True)
class AttemptGpus:
    """What is known of an attempt's GPUs, by UUID. It must outlive a restart of the Worker."""

    baseline_bytes: dict[str, int] = field(default_factory=dict)  # memory in use before it, without people outside
    faults: dict[str, str] = field(default_factory=dict)  # of the cards, seen while it ran: sentences
    taken: str = ""  # a sentence: the machine took the cards away from its container
    left: dict[str, str] = field(default_factory=dict)  # cards that are held back after its end, and why
    hit: str = ""  # a sentence: another attempt held more than its share of the card that both share
    hit_at: float = 0.0  # when that was seen last, in epoch seconds

    def __bool__(self) -> bool:
        return bool(self.baseline_bytes or self.faults or self.taken or self.left or self.hit)


@dataclass(slots=True)
class AttemptRecord:
    """One attempt as stored.

    ``launch`` and ``end_report`` are serialised messages. ``launch`` is None for an attempt that got only a stop.
    """

    attempt: AttemptId
    stage: AttemptStage
    launch: bytes | None
    times: AttemptTimes
    stop: StopWord | None = None
    stop_detail: str = ""  # one sentence for the owner, if this Worker itself decided to stop it
    discarded: bool = False  # superseded: its end is not reported
    boot_id: str = ""  # of the machine at the container's start
    arrived_s: float = 0.0  # boot clock from which its launch counts; only in the boot of ``arrived_boot_id``
    arrived_boot_id: str = ""
    container_id: str = ""
    image_id: str = ""
    platform_log: bytes = b""
    end_report: bytes | None = None
    changed_at: float = 0.0
    timeout_s: float | None = None  # with all extensions; None: as launched
    counted_s: float | None = None  # the changed timeout that the launcher has confirmed
    extensions_logged: int = 0  # how many extensions its platform log shows
    late: dict[str, str] = field(default_factory=dict)  # what can't be done after its end: sentences, by work
    late_told: tuple[str, ...] = ()  # the sentences that TaskManager has taken last
    generation: int = 0  # of its task, known here once ``late`` was used
    gpus: AttemptGpus = field(default_factory=AttemptGpus)
    unsafe: bool = field(default=False)  # its container could not be ended, so its resources stay reserved


@dataclass(frozen=True, slots=True)
class EndDecision:
    """The end of an attempt as it is reported.

    ``elsewhere``: a retry should prefer another machine. ``engine_away``: it was never begun, since the engine did not
    answer, or since this machine was known to give no GPUs to containers.
    """

    reason: EndReason
    warnings: tuple[str, ...] = ()
    elsewhere: bool = False
    engine_away: bool = False

    @property
    def kind(self) -> AttemptEventKind:
        """The event for the attempt's state machine."""
        return AttemptEventKind(self.reason.attempt_state.value)


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that keeps a Worker from accepting work, or that people should know. ``since`` is epoch seconds."""

    # engine_unavailable | mount_unavailable | mount_options | mount_rights | disk_full | gpu_unavailable |
    # gpu_not_clean | gpus_simulated | gpu_shared_unknown | gpu_shares_off | container_stuck | live_restore_off |
    # homes_partly_open | network_rules | network_unguarded | network_range | stopping
    word: str
    sentence: str
    since: float
    blocks_work: bool = True


def attempt_of_folder(folder: str) -> AttemptId | None:
    """The attempt of a folder's name, the inverse of ``AttemptId.folder``. None: it is no attempt's name."""
    job, _, rest = folder.partition(".")
    name, _, number = rest.rpartition(".")
    if not is_job_id(job) or not is_task_name(name) or not number.isascii() or not number.isdigit():
        return None
    return AttemptId(TaskId(JobId(job), name), int(number))
