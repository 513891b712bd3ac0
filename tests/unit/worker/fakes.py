"""A runtime, a store and a mount that do as the test says, and a whole executor's context around them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from headway.errors import MountUnavailable, StoreFull
from headway.ids import AttemptId
from headway.rpc import convert
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.states import ATTEMPT_ENDED
from tests.support.clock import FakeClock
from worker.alarms import Alarms
from worker.attempt.context import ExecutorContext, ExecutorLimits
from worker.attempt.late_reporter import LateReporter
from worker.attempt.reporter import AttemptReporter
from worker.box import BoxEnd, BoxStanding, EndRecord, StartedRecord, StopWord, Stream
from worker.logs.copier import LogCopier
from worker.model import AttemptRecord, Owner, WantedImage
from worker.ports import (
    AttemptProgress,
    ContainerCounters,
    ContainerFacts,
    ContainerFiles,
    ContainerState,
    EngineFacts,
    EngineImage,
    EngineUnavailable,
    ImageArchive,
    ImageRemoval,
    LocalImage,
    RegistryCredentials,
    RuntimeRefused,
    StartOrder,
)
from worker.store import record_from_row, record_to_row

T = TypeVar("T")
NS = 10**9
ABSENT = ContainerFacts(ContainerState.ABSENT)
_ENDED = frozenset(state.value for state in ATTEMPT_ENDED)


@dataclass
class FakeRuntime:
    """Counts what it is asked; ``containers`` and ``records`` are the world."""

    clock: FakeClock
    name: str = "docker"
    simulates: bool = False
    any_image: bool = False
    containers: dict[AttemptId, ContainerFacts] = field(default_factory=dict)
    records: dict[AttemptId, AttemptProgress] = field(default_factory=dict)
    started: list[AttemptId] = field(default_factory=list)
    stops: list[tuple[AttemptId, StopWord]] = field(default_factory=list)
    graces: list[int | None] = field(default_factory=list)
    kills: list[AttemptId] = field(default_factory=list)
    removed: list[AttemptId] = field(default_factory=list)
    leases: list[Mapping[AttemptId, int | None]] = field(default_factory=list)
    orders: dict[AttemptId, StartOrder] = field(default_factory=dict)
    wanted: list[WantedImage] = field(default_factory=list)
    away: bool = False
    refusal: RuntimeRefused | None = None
    image: LocalImage = field(default_factory=lambda: LocalImage("sha256:feed", env=("A=b",)))
    lost_answers: int = 0  # starts that work, but whose answer gets lost
    unkillable: bool = False
    obeys_stop: bool = True
    image_gate: asyncio.Event | None = None  # a fetch waits for it
    start_gate: asyncio.Event | None = None  # an engine that creates slowly
    spools: dict[AttemptId, Path] = field(default_factory=dict)
    files_of: dict[AttemptId, ContainerFiles] = field(default_factory=dict)
    counters_of: dict[AttemptId, ContainerCounters] = field(default_factory=dict)
    stop_error: OSError | None = None
    extended: list[tuple[AttemptId, int]] = field(default_factory=list)
    extend_error: OSError | None = None
    withdrawn: set[AttemptId] = field(default_factory=set)
    facts: EngineFacts = field(default_factory=lambda: EngineFacts("20.10"))
    hidden: set[AttemptId] = field(default_factory=set)  # their launchers live, and the engine does not know it
    not_taken: set[AttemptId] = field(default_factory=set)  # no launcher has come yet
    launches: dict[AttemptId, bytes] = field(default_factory=dict)  # as left in boxes
    standings: dict[AttemptId, BoxStanding] = field(default_factory=dict)  # instead of what follows from the rest
    goes_away: bool = False  # the engine stops after it has ended a container
    was_away: bool = False
    on_change: Callable[[AttemptId], None] = lambda attempt: None

    async def open(self, on_change: Callable[[AttemptId], None]) -> None:
        self.on_change = on_change

    async def close(self) -> None: ...

    async def check(self) -> EngineFacts:
        self._answer()
        return self.facts

    async def prepare(self, wanted: WantedImage, on_fetch: Callable[[], None]) -> LocalImage:
        """As ``images.ports.Images``: tests of lives don't care how an image comes."""
        self._answer()
        self.wanted.append(wanted)
        if self.image_gate is not None:
            on_fetch()
            await self.image_gate.wait()
        if self.refusal is not None:
            raise self.refusal
        return self.image

    async def start(self, order: StartOrder) -> ContainerFacts:
        self._answer()
        if self.start_gate is not None:
            await self.start_gate.wait()
        known = self.containers.get(order.attempt)
        if known is None:
            self.started.append(order.attempt)
            self.orders[order.attempt] = order
            known = ContainerFacts(ContainerState.RUNNING, "c0ffee", "sha256:feed", started_at=self.clock.now())
            self.containers[order.attempt] = known
        if self.lost_answers:
            self.lost_answers -= 1
            raise EngineUnavailable("no answer in 60 s")
        return known

    async def progress(self, attempt: AttemptId) -> AttemptProgress:
        return self.records.get(attempt, AttemptProgress())

    async def inspect(self, attempt: AttemptId) -> ContainerFacts:
        self._answer()
        return self.containers.get(attempt, ABSENT)

    async def standing(self, attempt: AttemptId) -> BoxStanding:
        if attempt in self.standings:
            return self.standings[attempt]
        progress = self.records.get(attempt, AttemptProgress())
        if progress.end is not None:
            return BoxStanding.ENDED
        if attempt in self.withdrawn:
            return BoxStanding.NEVER_STARTED
        if await self.launcher_lives(attempt):
            return BoxStanding.RUNS
        if attempt not in self.orders and attempt not in self.containers and progress.started is None:
            return BoxStanding.UNUSED
        begun = progress.started is not None or attempt not in self.not_taken
        return BoxStanding.OVER if begun else BoxStanding.MAY_START

    async def launcher_lives(self, attempt: AttemptId) -> bool:
        there = self.containers.get(attempt, ABSENT).state is ContainerState.RUNNING and attempt not in self.not_taken
        return there or attempt in self.hidden

    async def is_inhabited(self, attempt: AttemptId) -> bool:
        return await self.launcher_lives(attempt)

    async def withdraw(self, attempt: AttemptId) -> bool:
        if await self.standing(attempt) in (BoxStanding.UNUSED, BoxStanding.MAY_START, BoxStanding.NEVER_STARTED):
            self.withdrawn.add(attempt)
            return True
        return False

    async def boxes(self) -> Collection[AttemptId]:
        return [*self.orders, *self.launches]

    async def stored_launch(self, attempt: AttemptId) -> bytes | None:
        return self.launches.get(attempt)

    async def kill_launcher(self, attempt: AttemptId) -> bool:
        if self.unkillable:
            return False
        self.hidden.discard(attempt)
        return True

    def engine_was_away(self, at: float) -> bool:
        return self.was_away

    async def engine_goes_away(self, within_s: float) -> bool:
        return self.goes_away

    async def stop(self, attempt: AttemptId, word: StopWord, grace_ms: int | None = None) -> None:
        if self.stop_error is not None:
            raise self.stop_error
        self.stops.append((attempt, word))
        self.graces.append(grace_ms)
        if self.obeys_stop and attempt in self.containers:
            self.end(attempt, EndRecord(BoxEnd.STOPPED, signal=15, stop_word=word))

    async def extend(self, attempt: AttemptId, timeout_ms: int) -> None:
        if self.extend_error is not None:
            raise self.extend_error
        self.extended.append((attempt, timeout_ms))

    async def renew(self, until_boot_ns: Mapping[AttemptId, int | None]) -> None:
        self.leases.append(dict(until_boot_ns))

    async def kill(self, attempt: AttemptId) -> None:
        self._answer()
        self.kills.append(attempt)
        if self.unkillable:
            raise EngineUnavailable("tried to kill container, but did not receive an exit event")
        self.exit(attempt, 137)

    async def remove(self, attempt: AttemptId) -> None:
        self._answer()
        if self.unkillable:
            raise EngineUnavailable("could not be removed")
        self.containers.pop(attempt, None)
        self.removed.append(attempt)

    async def remove_box(self, attempt: AttemptId) -> None: ...

    async def list(self) -> Mapping[AttemptId, ContainerFacts]:
        self._answer()
        return dict(self.containers)

    async def find_image(self, wanted: WantedImage) -> LocalImage | None:
        raise AssertionError("the keeper of images asks nothing of this runtime")

    async def load_image(self, wanted: WantedImage, archive: ImageArchive) -> LocalImage:
        raise AssertionError("the keeper of images asks nothing of this runtime")

    async def resolve_image(self, wanted: WantedImage, credentials: RegistryCredentials | None) -> str:
        raise AssertionError("the keeper of images asks nothing of this runtime")

    async def pull_image(self, wanted: WantedImage, credentials: RegistryCredentials | None) -> LocalImage:
        raise AssertionError("the keeper of images asks nothing of this runtime")

    async def mark_image(self, image_id: str) -> None:
        raise AssertionError("the keeper of images asks nothing of this runtime")

    async def remove_image(self, image_id: str, names: Collection[str]) -> ImageRemoval:
        raise AssertionError("the keeper of images asks nothing of this runtime")

    async def layers_there(self, layers: Sequence[str]) -> int:
        raise AssertionError("the keeper of images asks nothing of this runtime")

    async def images(self) -> Sequence[EngineImage]:
        return []

    def data_folders(self) -> Sequence[Path]:
        return ()

    async def files(self, attempt: AttemptId) -> ContainerFiles:
        self._answer()
        return self.files_of.get(attempt, ContainerFiles())

    def counters(self, attempt: AttemptId) -> ContainerCounters | None:
        return self.counters_of.get(attempt)

    def spool(self, attempt: AttemptId, stream: Stream) -> Path | None:
        folder = self.spools.get(attempt)
        return folder / stream.name.lower() if folder is not None else None

    def index(self, attempt: AttemptId) -> Path | None:
        folder = self.spools.get(attempt)
        return None if folder is None else folder / "index"

    # -- what happens in the world ------------------------------------------------------------------

    def run(self, attempt: AttemptId) -> None:
        """The user's process begins."""
        started = StartedRecord(round(self.clock.now() * NS), round(self.clock.monotonic() * NS), 7)
        self.records[attempt] = AttemptProgress(started)
        self.on_change(attempt)

    def end(self, attempt: AttemptId, record: EndRecord) -> None:
        """The launcher writes its record, and the container goes."""
        before = self.records.get(attempt, AttemptProgress())
        if before.started is not None:
            record = replace(record, started_wall_ns=before.started.wall_ns, ended_wall_ns=round(self.clock.now() * NS))
        self.records[attempt] = AttemptProgress(before.started, record)
        self.exit(attempt, record.exit_code if record.exit_code is not None else 137)

    def exit(self, attempt: AttemptId, code: int, *, oom: bool = False) -> None:
        """The container ends, with or without a record."""
        if attempt in self.containers:
            facts = replace(self.containers[attempt], state=ContainerState.EXITED, exit_code=code, oom_killed=oom)
            self.containers[attempt] = facts
        self.on_change(attempt)

    def _answer(self) -> None:
        if self.away:
            raise EngineUnavailable("The engine does not answer.")


@dataclass
class FakeStore:
    """Keeps rows; can be full."""

    rows: dict[AttemptId, tuple[Any, ...]] = field(default_factory=dict)
    full: bool = False

    async def put(self, record: AttemptRecord) -> None:
        if self.full:
            raise StoreFull("The disk is full.")
        self.rows[record.attempt] = record_to_row(record)

    async def put_many(self, records: Sequence[AttemptRecord]) -> None:
        for record in records:
            await self.put(record)

    def put_later(self, record: AttemptRecord) -> None:
        self.rows[record.attempt] = record_to_row(record)

    def forget_later(self, attempts: Sequence[AttemptId]) -> None:
        for attempt in attempts:
            self.rows.pop(attempt, None)

    async def load(self) -> list[AttemptRecord]:
        from types import SimpleNamespace

        names = ("folder", "stage", "launch", "facts", "notes", "end_report", "changed_at")
        rows = [record_from_row(SimpleNamespace(**dict(zip(names, row, strict=True)))) for row in self.rows.values()]
        return [record for record in rows if record is not None]


@dataclass
class FakeMount:
    """A local folder."""

    folder: Path
    problem: str = ""

    def job_folder(self, attempt: AttemptId) -> Path:
        return self.folder / attempt.task.job_id / attempt.task.name / str(attempt.number)

    def home_folder(self, owner: Owner) -> Path:
        return self.folder / owner.name

    async def home(self, owner: Owner) -> Path:
        if self.problem:
            raise MountUnavailable(self.problem)
        return self.folder / owner.name

    async def dataset(self, name: str, version: str = "") -> Path:
        return self.folder / name / version

    async def code(self, account: str, digest: str) -> Path:
        return self.folder / "code" / account / digest.replace(":", "-")

    async def call(self, work: Callable[[], T], *, within_s: float = 10.0) -> T:
        if self.problem:
            raise MountUnavailable(self.problem)
        return work()


class Told:
    """What TaskManager was told."""

    def __init__(self) -> None:
        self.reports: list[tm.AttemptReport] = []
        self.warnings: list[tuple[str, ...]] = []
        self.away = False
        self.discard: list[AttemptId] = []

    async def send(self, reports: Sequence[tm.AttemptReport]) -> Sequence[AttemptId]:
        if self.away:
            raise EngineUnavailable("TaskManager is away")
        self.reports.extend(reports)
        return self.discard

    async def warn(self, warnings: Sequence[tm.LateWarnings]) -> None:
        if self.away:
            raise EngineUnavailable("TaskManager is away")
        self.warnings += [tuple(one.warnings) for one in warnings]

    def kinds(self, attempt: AttemptId) -> list[str]:
        return [r.kind for r in self.reports if convert.attempt_id(r.attempt) == attempt]

    def end_of(self, attempt: AttemptId) -> tm.AttemptReport | None:
        ends = [r for r in self.reports if convert.attempt_id(r.attempt) == attempt and r.kind in _ENDED]
        return ends[-1] if ends else None


@dataclass
class Rig:
    """Everything of one Worker but its doors."""

    context: ExecutorContext
    runtime: FakeRuntime
    store: FakeStore
    mount: FakeMount
    told: Told
    clock: FakeClock
    loops: list[asyncio.Task[None]] = field(default_factory=list)

    async def close(self) -> None:
        for loop in self.loops:
            loop.cancel()
        await asyncio.gather(*self.loops, return_exceptions=True)
        await self.context.copier.close()


def a_rig(
    clock: FakeClock, folder: Path, *, on_acked: Callable[[Sequence[AttemptId]], None] = lambda attempts: None
) -> Rig:
    """Call inside a running loop, and ``close`` it at the end."""
    runtime, store, mount, told = FakeRuntime(clock), FakeStore(), FakeMount(folder / "mount"), Told()
    copier = LogCopier(clock, lambda: mount.problem)
    reports = AttemptReporter(told.send, clock, on_acked=on_acked, on_discard=lambda attempts: None)
    late = LateReporter(told.warn, clock)
    context = ExecutorContext(
        node_id="gpu-1",
        incarnation=7,
        boot_id="boot-1",
        runtime=runtime,
        images=runtime,
        store=store,  # type: ignore[arg-type]
        reports=reports,
        late=late,
        copier=copier,
        mounted=mount,
        alarms=Alarms(clock),
        clock=clock,
        limits=ExecutorLimits(),
    )
    rig = Rig(context, runtime, store, mount, told, clock)
    for loop in (context.alarms.run(), reports.run(), late.run(), copier.run()):
        rig.loops.append(asyncio.get_running_loop().create_task(loop))
    return rig
