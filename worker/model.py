"""What the Worker knows of an attempt. Pure values."""

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
    """The account that an attempt runs for, as HttpServer knew it at submit."""

    name: str
    uid: int
    gid: int
    may_use_image_user: bool = False


class ImageSource(enum.StrEnum):
    """Where an image comes from, and so what its digest is; as in common.proto."""

    UNKNOWN = "unknown"  # what its name says to people of this machine, else in its registry to the account
    MARKET = "market"  # an archive on the shared mount; the digest is the engine's id
    ENGINE = "engine"  # only where the engine has it already; the digest is the engine's id
    REGISTRY = "registry"  # the digest is the manifest's


@dataclass(frozen=True, slots=True)
class WantedImage:
    """An image as a job asks for it. ``account``: whose credentials its registry gets; ``size_bytes``: unpacked, 0: not
    known."""

    name: str
    digest: str = ""
    source: ImageSource = ImageSource.UNKNOWN
    account: str = ""
    size_bytes: int = 0

    @property
    def repository(self) -> str:
        """Its name without tag and digest, as engines show it."""
        name = self.name.partition("@")[0]
        head, colon, tag = name.rpartition(":")
        name = head if colon and "/" not in tag else name
        for hub in ("docker.io/", "index.docker.io/"):
            name = name.removeprefix(hub)
        official = name.removeprefix("library/")
        return name if "/" in official else official

    @property
    def key(self) -> str:
        """The same for all who mean the same image, whatever they call it."""
        if self.source in (ImageSource.MARKET, ImageSource.ENGINE):
            return self.digest
        return f"{self.repository}@{self.digest}" if self.digest else self.name


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
    dataset_versions: Mapping[str, str] = field(
        default_factory=dict
    )  # by name; one that is not here is taken as newest
    gpu_uuids: tuple[str, ...] = ()
    placed_at: float = 0.0
    incarnation: int = 0  # of this node, as TaskManager knows it
    lease_s: float = 120.0
    lease_enforced: bool = False

    @property
    def image(self) -> WantedImage:
        """The image that it runs in."""
        return WantedImage(
            self.spec.image, self.image_digest, self.image_source, self.owner.name, size_bytes=self.image_bytes
        )


@dataclass(frozen=True, slots=True)
class Extension:
    """More time, once: by whom. ``forced``: an admin's, though promised starts move."""

    by: str
    seconds: float
    forced: bool = False


@dataclass(frozen=True, slots=True)
class ExtendAttempt:
    """An order to let an attempt run longer: its whole timeout, from the start of its process, which only grows."""

    attempt: AttemptId
    timeout_s: float
    extensions: tuple[Extension, ...] = ()  # all of it so far, oldest first


class AttemptStage(enum.StrEnum):
    """How far the Worker is with an attempt; kept in its store."""

    LIVE = "live"  # accepted; whatever comes before its end
    ENDED = "ended"  # its end is stored, TaskManager has not answered yet
    ACKED = "acked"  # TaskManager knows; logs may still be on their way to the mount
    DONE = "done"  # nothing is left but the memory that it was here, so that a late launch is refused


@dataclass(frozen=True, slots=True)
class AttemptTimes:
    """When things happened to one attempt, epoch seconds by this machine's clock; None: not (yet)."""

    accepted_at: float
    container_started_at: float | None = None
    process_started_at: float | None = None
    ended_at: float | None = None
    run_s: float | None = None  # by the boot clock: what the timeout counts


@dataclass(slots=True)
class AttemptRecord:
    """One attempt as stored. ``launch`` and ``end_report`` are serialised messages; ``launch`` is None for an
    attempt that was only ever stopped. ``notes`` is its platform log so far."""

    attempt: AttemptId
    stage: AttemptStage
    launch: bytes | None
    times: AttemptTimes
    stop: StopWord | None = None
    stop_detail: str = ""  # one sentence for the owner, where this Worker itself decided to stop it
    discarded: bool = False  # superseded: nobody wants its end
    boot_id: str = ""  # of the machine when its container was started
    container_id: str = ""
    image_id: str = ""
    platform_log: bytes = b""
    end_report: bytes | None = None
    changed_at: float = 0.0
    timeout_s: float | None = None  # with the time that it was given since its launch; None: as launched
    counted_s: float | None = None  # the changed timeout that its launcher counts by
    extensions_logged: int = 0  # how many extensions its platform log shows
    unsafe: bool = field(default=False)  # its container could not be ended: its resources are not given out


@dataclass(frozen=True, slots=True)
class EndDecision:
    """The end of an attempt as it is reported. ``elsewhere``: prefer another machine for a retry."""

    reason: EndReason
    warnings: tuple[str, ...] = ()
    elsewhere: bool = False

    @property
    def kind(self) -> AttemptEventKind:
        """The event for the attempt's state machine."""
        return AttemptEventKind(self.reason.attempt_state.value)


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that keeps a Worker from taking work, or that people should know. ``since`` is epoch seconds."""

    word: str  # engine_unavailable | mount_unavailable | disk_full | gpu_unavailable | container_stuck | stopping
    sentence: str
    since: float
    blocks_work: bool = True


def attempt_of_folder(folder: str) -> AttemptId | None:
    """The inverse of ``AttemptId.folder``; None for a name that is no attempt's."""
    job, _, rest = folder.partition(".")
    name, _, number = rest.rpartition(".")
    if not is_job_id(job) or not is_task_name(name) or not number.isascii() or not number.isdigit():
        return None
    return AttemptId(TaskId(JobId(job), name), int(number))
