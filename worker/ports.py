"""What the Worker needs from outside, as Protocols: a runtime, GPUs, and the two services that it talks to."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from headway.errors import HeadwayError, Unavailable
from headway.ids import AttemptId
from headway.model.reasons import EndWord

from .box import EndRecord, LaunchSpec, StartedRecord, StopWord, Stream
from .model import WantedImage

# --- errors of a runtime -------------------------------------------------------------------------------


class EngineUnavailable(Unavailable):
    """The engine did not answer in time, or its connection broke: whether the call had an effect is unknown.

    The Worker tries the same call again with growing pauses until the attempt's start limit is over; the node
    shows `engine_unavailable` meanwhile and takes no new work. It never ends an attempt by itself.
    """

    slug = "engine-unavailable"
    title = "The container engine does not answer"


class RuntimeRefused(HeadwayError):
    """The engine answered, and the attempt can't be run here (or anywhere): final for this attempt.

    ``word`` is the attempt's end: IMAGE_NOT_FOUND (no engine or registry has it), IMAGE_PULL_FAILED (registry
    away, no permission, no disk for layers), IMAGE_BAD (wrong architecture, broken config), COMMAND_NOT_FOUND
    and START_FAILED (engine could not create or start it), MOUNT_UNAVAILABLE (a bind's source is gone),
    DISK_FULL is never used for the engine's own disk: that is IMAGE_PULL_FAILED or START_FAILED with
    ``elsewhere``. GPU_FAILED for a device the engine can't hand in.
    ``elsewhere``: another machine may well manage, so prefer one. The message is one sentence for the user, without
    the engine's stack of wrappers.
    """

    code: ClassVar[str] = "FAILED_PRECONDITION"
    http_status: ClassVar[int] = 409
    slug: ClassVar[str] = "runtime-refused"
    title: ClassVar[str] = "The container engine refused"

    def __init__(self, message: str, *, word: EndWord, elsewhere: bool = False) -> None:
        super().__init__(message)
        self.word = word
        self.elsewhere = elsewhere


class NotEnoughDisk(RuntimeRefused):
    """The engine's disk is too full for an image."""

    def __init__(self, message: str) -> None:
        super().__init__(message, word=EndWord.IMAGE_PULL_FAILED, elsewhere=True)


# --- what a runtime is told and tells ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """An image that is on the engine, and what its config says. ``id`` is the engine's content id."""

    id: str
    env: tuple[str, ...] = ()  # NAME=VALUE
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    working_dir: str = ""  # empty: the image names none
    user: str = ""  # the image's USER, empty: root
    architecture: str = ""


@dataclass(frozen=True, slots=True)
class EngineImage:
    """An image in the engine's list. ``names`` (NAME:TAG) and ``repo_digests`` (NAME@DIGEST) are without Headway's own
    mark, ``marked`` tells of that."""

    id: str
    names: tuple[str, ...] = ()
    repo_digests: tuple[str, ...] = ()
    size_bytes: int = 0
    marked: bool = False


class ImageRemoval(enum.Enum):
    """What became of an image that was to go."""

    GONE = "gone"
    KEPT = "kept"  # somebody else has named it meanwhile: only Headway's mark went
    IN_USE = "in_use"  # a container needs it; nothing was done


class ImageArchive(Protocol):
    """A docker archive as a stream."""

    def chunks(self) -> Iterator[bytes]:
        """Its bytes, once; may block as long as the shared mount does, but not for ever.

        Raises:
            MountUnavailable, RuntimeRefused: it can't be read; why.
        """
        ...

    def close(self) -> None:
        """Nobody reads on. Safe twice, from any thread."""
        ...


@dataclass(frozen=True, slots=True)
class RegistryCredentials:
    """What a registry gets. Never logged, never stored."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class StartOrder:
    """Everything that one container is made of. Nothing of it comes from a path that a user typed."""

    attempt: AttemptId
    image: ImageFacts
    spec: LaunchSpec  # for the launcher: argv, environment, user, limits of the run
    command: str | None  # the script's text, for /headway/attempt/command; None for an argv
    lease_until_boot_ns: int | None  # first content of the lease; None: without limit
    cpus_centi: int
    memory_bytes: int
    shm_bytes: int
    network: bool  # outgoing connections
    gpu_uuids: tuple[str, ...] = ()  # empty: the container must see none (NVIDIA_VISIBLE_DEVICES=void in its env)
    home: Path | None = None  # on this machine; bound read-write at /root/nfs
    datasets: Mapping[str, Path] = field(default_factory=dict)  # name to folder; bound read-only at /root/datasets/NAME
    code: Path | None = None  # a snapshot of code; bound read-only at /root/code
    job_name: str = ""  # for people who look at the engine; labels only
    owner: str = ""


class ContainerState(enum.StrEnum):
    """Where a container is, as the engine says."""

    ABSENT = "absent"
    CREATED = "created"  # never started
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """What the engine says of one attempt's container.

    ``exit_code``, ``oom_killed`` and ``error`` mean something only when it has EXITED, and never more than the
    end record does: after a reboot engines report 0 for what was cut off. ``ended_at`` is epoch seconds.
    """

    state: ContainerState
    id: str = ""
    image_id: str = ""
    exit_code: int | None = None
    oom_killed: bool = False
    error: str = ""
    started_at: float | None = None
    ended_at: float | None = None


@dataclass(frozen=True, slots=True)
class AttemptProgress:
    """What the launcher has written so far. ``timeout_ms``: a changed timeout that it counts by."""

    started: StartedRecord | None = None
    end: EndRecord | None = None
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """For the node's status."""

    version: str
    architecture: str = ""  # amd64, arm64


@dataclass(frozen=True, slots=True)
class ContainerFiles:
    """Where a container's own files lie on this machine, its box and the folders bound into it apart.

    ``folders`` may be looked into; ``more_bytes`` is the engine's figure for what can't be, and lies on the disk of
    ``root``. ``pid`` is the container's first process as this machine numbers it, None if it does not run here.
    """

    root: Path = Path("/nonexistent")
    folders: tuple[Path, ...] = ()
    more_bytes: int = 0
    pid: int | None = None


class Runtime(Protocol):
    """Runs one container for each attempt. Docker and scripted; the same contract suite runs on both.

    *Making one.* ``DockerRuntime.from_config(config, attempts_dir)`` in ``runtime/docker.py``; the files of the box are
    ``runtime.boxed.BoxedRuntime``'s. ``tests/contracts/test_runtime.py`` holds every runtime to this.

    *Identity.* A container belongs to exactly one attempt, found again by its name ``headway-<attempt.folder>`` and by
    labels that hold node id, job, task and number. There is never a second one for an attempt: ``start`` looks
    first, and a created one whose answer got lost is taken over.

    *Order of calls.* ``open`` once; the image (``images.ImageKeeper``) then ``start`` for each attempt; ``progress``,
    ``inspect``, ``renew``, ``stop`` and ``kill`` any time after; ``remove`` last. After a restart of the Worker:
    ``open``, ``list``, and then the same as if nothing had happened. All but ``open`` are safe twice, in any state,
    also for an attempt that never was.

    *Blocking.* Every call gives up by itself after the engine timeout and raises EngineUnavailable; none blocks the
    event loop. Engine calls run in a thread pool of the runtime's own, never in asyncio's, which a hanging engine would
    fill up for everyone. A call whose task is cancelled may go on in its thread: calls for one attempt are serialised
    by the runtime, so that a ``remove`` after a cancelled ``start`` finds what that start made.

    *Who enforces.* Timeout, grace, lease and log limit are the launcher's inside the container. The Worker only
    writes the box (``stop``, ``renew``) and calls ``kill`` when the launcher has failed to act in time.

    *Failures.* EngineUnavailable (unknown outcome, tried again) or RuntimeRefused (final, carries the EndWord).
    Anything else is a bug and ends the attempt with PLATFORM_ERROR. Neither is raised by ``progress``, ``stop``,
    ``extend`` and ``renew``, which touch only the local disk: those raise OSError.
    """

    name: str  # "docker" | "scripted": Capacity.runtime

    async def open(self, on_change: Callable[[AttemptId], None]) -> None:
        """Connect and begin to watch.

        ``on_change`` is called on the event loop when something about an attempt may have changed (started, ended,
        container gone). It is only a nudge: the Worker looks for itself. Nudges may be lost (the Worker
        sweeps now and then) and may come for attempts that nobody knows. An engine that is away is no error here.
        """
        ...

    async def close(self) -> None:
        """Stop watching. Containers run on. Safe twice and after a failed open."""
        ...

    async def check(self) -> EngineFacts:
        """A cheap question that shows whether the engine answers. Raises EngineUnavailable."""
        ...

    async def find_image(self, wanted: WantedImage) -> ImageFacts | None:
        """The image if the engine has it: by its pinned digest, else by a name that people of the machine gave it.

        Asks the engine nothing while its own events would tell of a change. Raises EngineUnavailable, RuntimeRefused
        (not the name of an image; made for other machines).
        """
        ...

    async def load_image(self, wanted: WantedImage, archive: ImageArchive) -> ImageFacts:
        """Take an image of the market in. When it fails, nothing of it stays; the archive is closed either way.

        Raises EngineUnavailable, RuntimeRefused, MountUnavailable.
        """
        ...

    async def resolve_image(self, wanted: WantedImage, credentials: RegistryCredentials | None) -> str:
        """The manifest's digest that the registry has under the image's name, as shown to who signs in so. Raises
        EngineUnavailable, RuntimeRefused (``elsewhere``: the registry could not be asked from here)."""
        ...

    async def pull_image(self, wanted: WantedImage, credentials: RegistryCredentials | None) -> ImageFacts:
        """Fetch a pinned image from its registry, by its digest alone. Raises EngineUnavailable, RuntimeRefused."""
        ...

    async def mark_image(self, image_id: str) -> None:
        """Give the image a name of Headway's own, which keeps it from a prune of nameless images and tells people that
        it is Headway's. Raises EngineUnavailable."""
        ...

    async def remove_image(self, image_id: str, names: Collection[str]) -> ImageRemoval:
        """Take Headway's mark and these names (those that its fetch gave it) from an image; with its last name it goes.
        Other names and containers keep it. Gone already is GONE. Raises EngineUnavailable."""
        ...

    async def layers_there(self, layers: Sequence[str]) -> int:
        """How many of these layers (digests, from the lowest on) the engine has one upon the other, so that an archive
        may leave them out. 0 where it can't use that. Raises EngineUnavailable."""
        ...

    async def start(self, order: StartOrder) -> ContainerFacts:
        """Lay out the box, create the container if there is none, and start it if it never ran.

        A container of this attempt that is running or has exited is left alone, and its facts are answered:
        nothing runs twice. Returns as soon as the engine has started it; the user's process starts a moment later
        (``progress``).
        Raises EngineUnavailable, RuntimeRefused; a container that could not be started is removed before
        RuntimeRefused is raised (or by ``remove``, if the engine goes away in between).
        """
        ...

    async def progress(self, attempt: AttemptId) -> AttemptProgress:
        """What the launcher has written; no question to the engine. A broken record counts as none."""
        ...

    async def inspect(self, attempt: AttemptId) -> ContainerFacts:
        """Ask the engine. ABSENT if there is no such container. Raises EngineUnavailable."""
        ...

    async def stop(self, attempt: AttemptId, word: StopWord, grace_ms: int | None = None) -> None:
        """Order the launcher to end the attempt; the end shows in ``progress`` later. Never waits for it.

        The first word stands; a second order can only shorten the grace.
        """
        ...

    async def extend(self, attempt: AttemptId, timeout_ms: int) -> None:
        """Order the launcher to count by this timeout, from the start; a shorter one than ordered before is passed
        over. That it does so shows in ``progress`` and by a nudge; one that has ended, or is being ended, never does.
        """
        ...

    async def renew(self, until_boot_ns: Mapping[AttemptId, int | None]) -> None:
        """Write leases: a boot-time instant, or None for no limit. Attempts that have no box are passed over."""
        ...

    async def kill(self, attempt: AttemptId) -> None:
        """KILL the whole container through the engine, when the launcher did not act. Returns once that is ordered;
        gone or never there is done. Raises EngineUnavailable, also when the engine says that it can't."""
        ...

    async def remove(self, attempt: AttemptId) -> None:
        """Remove the container, running or not; the box stays. Raises EngineUnavailable."""
        ...

    async def remove_box(self, attempt: AttemptId) -> None:
        """Give back the disk space of box and spools, once ``remove`` is done and the logs are copied."""
        ...

    async def list(self) -> Mapping[AttemptId, ContainerFacts]:
        """All containers of this node, by label; cheap enough for every half minute. Raises EngineUnavailable."""
        ...

    async def images(self) -> Sequence[EngineImage]:
        """All images on the engine; as cheap as ``find_image``. Raises EngineUnavailable."""
        ...

    def data_folders(self) -> Sequence[Path]:
        """Where the engine keeps images and containers on this machine; empty while that isn't known, or elsewhere."""
        ...

    async def files(self, attempt: AttemptId) -> ContainerFiles:
        """Where the container's files lie. May take as long as the engine needs to add them up. Raises
        EngineUnavailable."""
        ...

    def spool(self, attempt: AttemptId, stream: Stream) -> Path | None:
        """Where the attempt's raw output lies on this disk; None: there is and will be none."""
        ...

    def index(self, attempt: AttemptId) -> Path | None:
        """The index of both spools, as ``box`` describes it."""
        ...


# --- GPUs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU now. None: the driver doesn't tell."""

    uuid: str
    model: str
    memory_bytes: int
    index: int
    pci_bus_id: str = ""
    simulated: bool = False
    utilisation: float | None = None  # 0 to 1
    memory_utilisation: float | None = None  # 0 to 1, of memory copies
    memory_used_bytes: int | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    sick: bool = False
    busy_outside: bool = False
    note: str = ""  # why sick or busy


@dataclass(frozen=True, slots=True)
class GpuInventory:
    """What the driver tells of this machine. ``problem``: why GPUs that should be here can't be read; empty: fine."""

    gpus: tuple[GpuReading, ...] = ()
    driver_version: str = ""
    cuda_version: str = ""
    problem: str = ""


class Gpus(Protocol):
    """The machine's GPUs: ``NvmlGpus(outside_memory_bytes=...)`` in ``gpu.py``, or simulated ones."""

    async def read(self, ours: Collection[str]) -> GpuInventory:
        """Readings of all; ``ours`` are the UUIDs that live attempts hold, so their processes aren't from outside.

        Never raises and never takes long: a driver that hangs is a ``problem``.
        """
        ...

    async def close(self) -> None:
        """Safe twice."""
        ...
