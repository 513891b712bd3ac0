"""What the Worker needs from outside, as Protocols: a container runtime and GPUs."""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from headway.errors import HeadwayError, Unavailable
from headway.ids import AttemptId
from headway.jobfile import Network, Ulimit
from headway.model.gpu_readings import GpuReadings
from headway.model.reasons import EndWord

from .box import BoxStanding, EndRecord, LaunchSpec, StartedRecord, StopWord, Stream
from .model import WantedImage

# --- errors of a runtime -------------------------------------------------------------------------------


class EngineUnavailable(Unavailable):
    """The engine did not answer in time, or its connection broke. Perhaps the call had an effect.

    The Worker repeats the call with growing pauses until the attempt's start limit is over. Meanwhile the node shows
    `engine_unavailable` and accepts no new work. This error never ends an attempt by itself.
    """

    slug = "engine-unavailable"
    title = "The container engine does not answer"


class RuntimeRefused(HeadwayError):
    """The engine answered that this attempt can't run. That is final for the attempt.

    ``word`` is the attempt's end:

    * IMAGE_NOT_FOUND: no engine and no registry has the image.
    * IMAGE_PULL_FAILED: the registry does not answer, gives no permission, or the disk has no space for layers.
    * IMAGE_BAD: a wrong architecture or a broken config.
    * COMMAND_NOT_FOUND and START_FAILED: the engine could not create or start the container.
    * MOUNT_UNAVAILABLE: the source of a bind mount is gone.
    * GPU_FAILED: the engine can't give the device to the container.

    A full disk of the engine is IMAGE_PULL_FAILED or START_FAILED with ``elsewhere``, never DISK_FULL.
    ``elsewhere``: a retry should prefer another machine. ``of_node``: it was known already that this machine can't run
    it, so the attempt counts against nobody. The message is one sentence for the user, without the wrappers
    of the engine's errors.
    """

    code: ClassVar[str] = "FAILED_PRECONDITION"
    http_status: ClassVar[int] = 409
    slug: ClassVar[str] = "runtime-refused"
    title: ClassVar[str] = "The container engine refused"

    def __init__(self, message: str, *, word: EndWord, elsewhere: bool = False, of_node: bool = False) -> None:
        super().__init__(message)
        self.word = word
        self.elsewhere = elsewhere
        self.of_node = of_node


class NotEnoughDisk(RuntimeRefused):
    """The engine's disk is too full for an image."""

    def __init__(self, message: str) -> None:
        super().__init__(message, word=EndWord.IMAGE_PULL_FAILED, elsewhere=True)


# --- values of a runtime's calls ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LocalImage:
    """An image on the engine, and its config. ``id`` is the engine's content id."""

    id: str
    env: tuple[str, ...] = ()  # NAME=VALUE
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    working_dir: str = ""  # empty: the image names none
    user: str = ""  # the image's USER, empty: root
    architecture: str = ""


@dataclass(frozen=True, slots=True)
class EngineImage:
    """An image in the engine's list. ``marked``: it has Headway's mark.

    ``names`` (NAME:TAG) and ``repo_digests`` (NAME@DIGEST) are without that mark.
    """

    id: str
    names: tuple[str, ...] = ()
    repo_digests: tuple[str, ...] = ()
    size_bytes: int = 0
    marked: bool = False


class ImageRemoval(enum.Enum):
    """The result of an image's removal."""

    GONE = "gone"
    KEPT = "kept"  # it has a name of somebody else, so only Headway's mark was removed
    IN_USE = "in_use"  # a container needs it, so nothing was done


class ImageArchive(Protocol):
    """A Docker archive of an image, as a stream."""

    def chunks(self) -> Iterator[bytes]:
        """Its bytes, once. It may block while the shared mount does, but not for ever.

        Raises:
            MountUnavailable, RuntimeRefused: why it can't be read.
        """
        ...

    def close(self) -> None:
        """Stop reading. Safe twice, from any thread."""
        ...


@dataclass(frozen=True, slots=True)
class RegistryCredentials:
    """A registry's user name and password. They are never logged and never stored."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class StartOrder:
    """Everything that a container is made from. No path in it was typed by a user."""

    attempt: AttemptId
    image: LocalImage
    spec: LaunchSpec  # for the launcher: argv, environment, user, limits of the run
    command: str | None  # the script's text, for the box's attempt/command; None for an argv
    lease_until_boot_ns: int | None  # first content of the lease; None: without limit
    cpus_centi: int
    memory_bytes: int
    shm_bytes: int
    network: Network
    ulimits: tuple[Ulimit, ...] = ()  # the others are the engine's own
    gpu_uuids: tuple[str, ...] = ()  # empty: the container must see none (NVIDIA_VISIBLE_DEVICES=void in its env)
    mps_pipe: Path | None = None  # of a share of a GPU: the folder of MPS's daemon; bound at /tmp/nvidia-mps
    home: Path | None = None  # on this machine; bound read-write at /root/nfs
    datasets: Mapping[str, Path] = field(default_factory=dict)  # name to folder; bound read-only at /root/datasets/NAME
    code: Path | None = None  # a snapshot of code; bound read-only at /root/code
    job_name: str = ""  # for people who look at the engine; labels only
    owner: str = ""
    account_uid: int | None = None  # to whom the personal space belongs on disk
    account_gid: int | None = None
    key_hash: str | None = None  # of a hold: a person's own process gets the GPUs, and no container is made
    launch: bytes = b""  # as the Worker stores it; left in the box too, for a Worker whose store was lost


class ContainerState(enum.StrEnum):
    """The state of a container, as the engine reports it."""

    ABSENT = "absent"
    CREATED = "created"  # never started
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True, slots=True)
class ContainerFacts:
    """What the engine reports of one attempt's container. ``ended_at`` is epoch seconds.

    ``exit_code``, ``oom_killed`` and ``error`` count only when it has EXITED. The end record counts more: after a
    reboot engines report 0 for containers that were cut off.
    """

    state: ContainerState
    id: str = ""
    image_id: str = ""
    exit_code: int | None = None
    oom_killed: bool = False
    error: str = ""
    started_at: float | None = None
    ended_at: float | None = None
    box_was_hidden: bool = False  # its launcher found something else in the place of the box
    notes: tuple[str, ...] = ()  # of its start, for the platform log: sentences
    home_is_owners: bool = False  # of its start: what it writes in the personal space is the account's, whoever it is


@dataclass(frozen=True, slots=True)
class AttemptProgress:
    """What the launcher has written so far. ``timeout_ms`` is a changed timeout that it has confirmed."""

    started: StartedRecord | None = None
    end: EndRecord | None = None
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """The engine's version and architecture, for the node's status."""

    version: str
    architecture: str = ""  # amd64, arm64
    keeps_containers: bool = True  # live-restore: containers outlive the engine; also if it is not known
    home_problem: str = ""  # why tasks have no home of their own here, in one sentence
    most_ulimits: tuple[tuple[str, int], ...] = ()  # hard limits that it can give; missing ones: not known


@dataclass(frozen=True, slots=True)
class ContainerFiles:
    """Where a container's own files are on this machine, without its box and its bind mounts.

    ``folders`` can be read. ``more_bytes`` is the engine's figure for the rest, on the disk of ``root``. ``pid`` is the
    container's first process by this machine's numbers, None if it does not run here. ``home`` has what it wrote in
    a ``/root`` of its own, which the engine does not know.
    """

    root: Path = Path("/nonexistent")
    folders: tuple[Path, ...] = ()
    more_bytes: int = 0
    pid: int | None = None
    home: Path | None = None


@dataclass(frozen=True, slots=True)
class ContainerCounters:
    """What a container has used since its start, and its memory now. None: not known.

    ``memory_bytes`` is without files that the kernel can drop at once. ``peak_memory_bytes`` is the kernel's own.
    """

    cpu_s: float | None = None  # CPU time, in seconds of one core
    memory_bytes: int | None = None
    peak_memory_bytes: int | None = None
    disk_read_bytes: int | None = None
    disk_written_bytes: int | None = None
    network_received_bytes: int | None = None
    network_sent_bytes: int | None = None


class Runtime(Protocol):
    """Runs one container for each attempt. Headway has two, Docker and scripted, and packages add others.

    *Making one.* ``runtime.registry`` finds its class by an entry point, and ``RuntimeKind.from_setup`` makes it
    (docs/runtimes.md). The files of the box belong to ``runtime.boxed.BoxedRuntime``.
    ``tests/contracts/test_runtime.py`` tests every runtime.

    *Identity.* A container belongs to exactly one attempt. It is found by its name (the cluster's and the attempt's),
    and by labels with cluster, node id, job, task and number. A container without these labels is never touched. An
    attempt never has a second one: ``start`` looks first, and adopts a container whose answer got lost.

    *Order of calls.* ``open`` comes once. For each attempt the image comes first (``images.ImageManager``), then
    ``start``. ``progress``, ``inspect``, ``renew``, ``stop`` and ``kill`` may follow at any time. ``remove`` is last.
    After a restart of the Worker ``open`` and ``list`` come first, and then all goes on as before. All but ``open`` are
    safe twice, in any state, and for unknown attempts.

    *Blocking.* Every call ends after the engine timeout and then raises EngineUnavailable. None blocks the event loop.
    Engine calls run in a thread pool of the runtime's own: a hanging engine would fill asyncio's pool. A call whose
    task is cancelled may go on in its thread. The runtime serialises the calls for one attempt, so a ``remove`` after a
    cancelled ``start`` finds what that start made.

    *Who enforces.* The launcher in the container enforces timeout, grace, lease and log limit. The Worker only writes
    the box (``stop``, ``renew``), and calls ``kill`` when the launcher did not act in time.

    *Failures.* EngineUnavailable means an unknown outcome, and the call is repeated. RuntimeRefused is final and has
    the EndWord. Any other error is a bug and ends the attempt with PLATFORM_ERROR. ``progress``, ``stop``, ``extend``
    and ``renew`` use only the local disk and raise only OSError.
    """

    name: str  # that of its entry point: Capacity.runtime
    simulates: bool  # no program runs: nothing is kept apart from anything, and the platform log says so
    any_image: bool  # every image counts as there, so that no name of one is looked up at submit

    async def open(self, on_change: Callable[[AttemptId], None]) -> None:
        """Connect and begin to watch.

        ``on_change`` is called on the event loop when an attempt may have changed: its process started or ended, or its
        container is gone. It is only a nudge, and the Worker looks itself. Nudges may be lost, since the Worker also
        sweeps. They may come for unknown attempts. An engine that does not answer is no error here.
        """
        ...

    async def close(self) -> None:
        """Stop watching. Containers run on. Safe twice and after a failed open."""
        ...

    async def check(self) -> EngineFacts:
        """A cheap question to find out whether the engine answers. Raises EngineUnavailable."""
        ...

    async def find_image(self, wanted: WantedImage) -> LocalImage | None:
        """The image, if the engine has it: by its digest, else by a name that people of this machine gave it.

        It asks the engine only when events may have been missed. Raises EngineUnavailable, or RuntimeRefused for an
        invalid name or an image for another architecture.
        """
        ...

    async def load_image(self, wanted: WantedImage, archive: ImageArchive) -> LocalImage:
        """Load an image of the market. After a failure nothing of it stays. The archive is closed in any case.

        Raises EngineUnavailable, RuntimeRefused, MountUnavailable.
        """
        ...

    async def resolve_image(self, wanted: WantedImage, credentials: RegistryCredentials | None) -> str:
        """The manifest's digest that the registry has for the image's name and these credentials.

        Raises EngineUnavailable, RuntimeRefused (``elsewhere``: the registry could not be asked from here).
        """
        ...

    async def pull_image(self, wanted: WantedImage, credentials: RegistryCredentials | None) -> LocalImage:
        """Fetch an image from its registry, by its digest only. Raises EngineUnavailable, RuntimeRefused."""
        ...

    async def mark_image(self, image_id: str) -> None:
        """Give the image Headway's mark, which is a name on the engine. Raises EngineUnavailable.

        The mark protects it from a prune of nameless images, and shows people that it is Headway's.
        """
        ...

    async def remove_image(self, image_id: str, names: Collection[str]) -> ImageRemoval:
        """Remove Headway's mark and these names, which its fetch gave it. Without a name the image is removed.

        Other names and containers keep it. An image that is gone already is GONE. Raises EngineUnavailable.
        """
        ...

    async def layers_there(self, layers: Sequence[str]) -> int:
        """How many of these layers (digests, the lowest first) the engine has on top of each other.

        An archive may leave them out. 0: the engine can't use such archives. Raises EngineUnavailable.
        """
        ...

    async def start(self, order: StartOrder) -> ContainerFacts:
        """Make the box, create the container if there is none, and start it if it never ran.

        A container of this attempt that runs or has exited is left alone, and its facts are returned: nothing runs
        twice. It returns when the engine has started the container. The user's process starts a moment later
        (``progress``).
        The box counts more than the engine's answer: if a launcher has taken the ticket, the start has worked.
        Raises EngineUnavailable, RuntimeRefused. Before RuntimeRefused is raised the ticket is withdrawn, so the
        program never runs. The container is removed, then or by ``remove``.
        """
        ...

    async def give_secrets(self, attempt: AttemptId, values: Sequence[bytes]) -> None:
        """The values for the places in the attempt's ``LaunchSpec.secrets``, in that order.

        It comes before ``start``, and again after a restart of the Worker while the program has not begun. The values
        are kept in memory alone: in no file of this machine, no option of the engine, no log. Raises OSError.
        """
        ...

    def forget_secrets(self, attempt: AttemptId) -> None:
        """The program has begun, or never will. Safe twice, and for attempts without secrets."""
        ...

    async def progress(self, attempt: AttemptId) -> AttemptProgress:
        """What the launcher has written. The engine is not asked. A broken record counts as none."""
        ...

    async def inspect(self, attempt: AttemptId) -> ContainerFacts:
        """Ask the engine. ABSENT if there is no such container. Raises EngineUnavailable."""
        ...

    async def standing(self, attempt: AttemptId) -> BoxStanding:
        """What the box proves about the attempt (docs/box.md). The engine is not asked."""
        ...

    async def withdraw(self, attempt: AttemptId) -> bool:
        """Take the launch ticket back. True: the program has not started and never will. Safe twice.

        False: it was started, or nothing is proven. The engine is not asked.
        """
        ...

    async def launcher_lives(self, attempt: AttemptId) -> bool:
        """Whether a launcher holds the lock of the box. The engine is not asked."""
        ...

    async def is_inhabited(self, attempt: AttemptId) -> bool:
        """Whether anything of the attempt lives: its launcher, or a process that sees its box as a mount.

        It looks at every process of the machine, so it is for cases without a record. The engine is not asked.
        """
        ...

    async def boxes(self) -> Collection[AttemptId]:
        """All attempts that have a box on this disk, whoever remembers them. Blocks no event loop."""
        ...

    async def stored_launch(self, attempt: AttemptId) -> bytes | None:
        """The launch that ``StartOrder`` left in the box. None: there is none."""
        ...

    async def stop(self, attempt: AttemptId, word: StopWord, grace_ms: int | None = None) -> None:
        """Order the launcher to end the attempt, without waiting. ``progress`` shows the end later.

        The first word counts, and a second order can only shorten the grace.
        """
        ...

    async def extend(self, attempt: AttemptId, timeout_ms: int) -> None:
        """Order the launcher to use this timeout, from the start. One shorter than the last is ignored.

        ``progress`` shows the launcher's confirmation, after a nudge. An attempt that has ended or is ending never
        confirms.
        """
        ...

    async def renew(self, until_boot_ns: Mapping[AttemptId, int | None]) -> None:
        """Write leases: an instant of the boot clock, or None for no limit. Attempts without a box are skipped."""
        ...

    async def kill_launcher(self, attempt: AttemptId) -> bool:
        """KILL the launcher, and so its whole container, without the engine. True: no launcher lives any more."""
        ...

    async def kill(self, attempt: AttemptId) -> None:
        """KILL the whole container through the engine, when the launcher did not act. It returns after the order.

        A container that is not there counts as killed. Raises EngineUnavailable, also when the engine can't kill it.
        """
        ...

    async def remove(self, attempt: AttemptId) -> None:
        """Remove the container, running or not. The box stays. Raises EngineUnavailable."""
        ...

    async def remove_box(self, attempt: AttemptId) -> None:
        """Remove box and spools from the disk, after ``remove`` and after the logs are copied."""
        ...

    async def list(self) -> Mapping[AttemptId, ContainerFacts]:
        """All containers of this node, by label. It is cheap enough for every half minute. Raises EngineUnavailable."""
        ...

    async def images(self) -> Sequence[EngineImage]:
        """All images on the engine. It is as cheap as ``find_image``. Raises EngineUnavailable."""
        ...

    def engine_was_away(self, at: float) -> bool:
        """Whether the engine stopped or started around then (epoch seconds), or may have: nobody watched it."""
        ...

    async def engine_goes_away(self, within_s: float) -> bool:
        """Wait for up to ``within_s`` whether the engine stops. True: it does not answer any more."""
        ...

    def data_folders(self) -> Sequence[Path]:
        """The engine's folders of images and containers on this machine. Empty: not known yet, or elsewhere."""
        ...

    async def files(self, attempt: AttemptId) -> ContainerFiles:
        """Where the container's files are. The engine may need time to add them up. Raises EngineUnavailable."""
        ...

    def counters(self, attempt: AttemptId) -> ContainerCounters | None:
        """What its container has used so far. None: it does not run, or nobody can tell.

        Asked every second, in a thread, of local files only: the engine is not asked. Raises nothing.
        """
        ...

    def spool(self, attempt: AttemptId, stream: Stream) -> Path | None:
        """The file of the attempt's raw output on this disk. None: there is and will be none."""
        ...

    def index(self, attempt: AttemptId) -> Path | None:
        """The index of both spools. See ``box``."""
        ...


# --- GPUs -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process that uses a GPU. Empty and None: not known."""

    pid: int
    owner: str = ""
    command: str = ""
    memory_used_bytes: int | None = None
    attempt: str = ""  # of a rehearsal: the folder of the attempt that it belongs to


@dataclass(frozen=True, slots=True)
class GpuReading(GpuReadings):
    """One GPU now."""

    uuid: str
    model: str
    memory_bytes: int
    index: int
    pci_bus_id: str = ""
    simulated: bool = False
    sick: bool = False
    busy_outside: bool = False
    note: str = ""  # why sick or busy
    fault: str = ""  # what made it sick (``GpuFaultWord``); empty: it is not, or by no fault of the card
    quarantined_since: float = 0.0  # by a fault that stays until the card is clean again; 0: it is not
    comes_back: bool = False  # its fault is over, and it is given out again soon, without anybody's help
    parent_uuid: str = ""  # of a MIG slice: its card
    linked_uuids: tuple[str, ...] = ()  # cards that it reaches over NVLink
    shared: bool = False  # given out in shares only, never whole
    processes: tuple[GpuProcess, ...] = ()  # on it, that Headway did not start
    tells_processes: bool = True  # the driver lists the processes on it


@dataclass(frozen=True, slots=True)
class GpuInventory:
    """What the driver reports. ``problem``: why the machine's GPUs can't be read, empty if they can."""

    gpus: tuple[GpuReading, ...] = ()
    driver_version: str = ""
    cuda_version: str = ""
    problem: str = ""


class Gpus(Protocol):
    """The machine's GPUs: ``NvmlGpus`` in ``machine/gpus``, or simulated ones."""

    async def read(self, ours: Collection[str]) -> GpuInventory:
        """Readings of all GPUs. ``ours`` are the UUIDs of live attempts, whose processes belong to Headway.

        It never raises and never takes long. A driver that hangs is a ``problem``.
        """
        ...

    async def sample(self, uuids: Collection[str]) -> Mapping[str, GpuReading]:
        """The readings of these GPUs alone, for the samples of attempts: a few quick calls to the driver for each.

        GPUs that can't be read now are left out. It never raises, and never takes longer than about a second.
        """
        ...

    async def close(self) -> None:
        """Safe twice."""
        ...


@dataclass(frozen=True, slots=True)
class GpuReturnAnswer:
    """What became of the wish to give a card out again. ``sentence`` says it to an admin."""

    returned: bool
    sentence: str


class GpuJournal(Protocol):
    """Where the health of GPUs is written down."""

    async def load(self) -> str:
        """What was saved last; empty: nothing. Raises StoreUnavailable."""
        ...

    async def save(self, text: str) -> None:
        """It is durable when this returns. Raises StoreFull or StoreUnavailable."""
        ...


@runtime_checkable
class WatchedGpus(Gpus, Protocol):
    """GPUs whose faults are watched: a faulty one is taken out until it is clean."""

    async def open(self, journal: GpuJournal) -> None:
        """Once, before the first reading: take up what is known from before. Raises StoreUnavailable."""
        ...

    async def return_gpu(self, uuid: str, *, gone: bool = False) -> GpuReturnAnswer:
        """Look at a card that was taken out, and give it out again if it is clean.

        ``gone``: it was taken out of the machine for good, so it is forgotten. Raises NotFound.
        """
        ...
