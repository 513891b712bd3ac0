"""One life of a Worker: the product's parts, wired as ``worker.app`` does, without doors and loops of no interest."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from headway.errors import HeadwayError
from headway.ids import AttemptId
from tests.unit.worker.fakes import FakeMount, FakeStore
from worker import box as boxes
from worker.alarms import Alarms
from worker.attempt.context import ExecutorContext, ExecutorLimits
from worker.attempt.late_reporter import LateReporter
from worker.attempt.leases import Lease
from worker.attempt.reporter import AttemptReporter
from worker.attempt.task_controller import TaskController
from worker.logs.copier import LogCopier
from worker.model import AttemptRecord, Condition, WantedImage
from worker.node.heartbeat import Heartbeat
from worker.peers import TaskManagerClient
from worker.ports import EngineFacts, LocalImage
from worker.runtime.docker import DockerRuntime
from worker.runtime.docker_options import WorkerIdentity
from worker.servicer import WorkerService
from worker.store import record_to_row

from .engine import ModelDockerEngine, no_image
from .network import ModelPeer
from .stage import Process, event_within

if TYPE_CHECKING:
    from .world import Machine, World

T = TypeVar("T")
ENGINE_TIMEOUT_S = 15.0
SWEEP_S = 15.0
_STOP_S = 10.0


class Disk(FakeStore):
    """The Worker's database on its disk. It outlives the Worker; what was put off and not yet written does not."""

    def __init__(self, world: World, machine: Machine) -> None:
        super().__init__()
        self._world, self._machine = world, machine
        self._later: list[Callable[[], None]] = []
        self._one_by_one = asyncio.Lock()
        self.incarnation = 0

    def next_incarnation(self, now: float) -> int:
        self.incarnation = max(int(now * 1000), self.incarnation + 1)
        return self.incarnation

    def worker_dies(self) -> None:
        self._later.clear()
        self._one_by_one = asyncio.Lock()

    async def put(self, record: AttemptRecord) -> None:
        await self.put_many([record])

    async def put_many(self, records: Sequence[AttemptRecord]) -> None:
        # The batcher goes on with what was handed in, whatever becomes of the one who waits.
        process, rows = self._machine.worker_process, [(r.attempt, record_to_row(r)) for r in records]
        process.check()
        await asyncio.shield(process.spawn(self._write(process, rows, [replace(record) for record in records])))

    async def _write(
        self, process: Process, rows: Sequence[tuple[AttemptId, tuple[Any, ...]]], records: Sequence[AttemptRecord]
    ) -> None:
        world, machine = self._world, self._machine
        async with self._one_by_one:
            world.hit("worker is about to store", machine)
            await world.delay(machine.clock, 2.0, usual=0.01)
            process.check()
            self.rows.update(rows)
            self._flush()
            for record in records:
                world.stores(machine, record)
            world.hit("worker has stored", machine)
            await world.delay(machine.clock, 1.0, usual=0.005)

    def put_later(self, record: AttemptRecord) -> None:
        attempt, row = record.attempt, record_to_row(record)
        self._defer(lambda: self.rows.__setitem__(attempt, row))

    def forget_later(self, attempts: Sequence[AttemptId]) -> None:
        def forget() -> None:
            for attempt in attempts:
                self.rows.pop(attempt, None)

        self._defer(forget)

    def _defer(self, work: Callable[[], None]) -> None:
        process = self._machine.worker_process
        process.check()
        self._later.append(work)

        async def soon() -> None:
            await self._machine.clock.sleep(0.5)
            async with self._one_by_one:
                process.check()
                self._flush()

        process.spawn(soon())

    def _flush(self) -> None:
        later, self._later = self._later, []
        for work in later:
            work()


class ModelRuntime(DockerRuntime):
    """The Docker runtime on a simulated engine. Only what needs a kernel or real time is replaced."""

    def __init__(self, world: World, machine: Machine, process: Process) -> None:
        folder = machine.folder / "attempts"
        super().__init__(
            folder,
            engine=ModelDockerEngine(machine.engine, process, machine.clock, timeout_s=ENGINE_TIMEOUT_S),
            identity=WorkerIdentity("model", machine.name, str(folder)),
            launcher=world.launcher_file,
            look_into_images=False,
        )
        self._boot_id = machine.clock.boot_id()
        self._world, self._machine, self._process = world, machine, process
        self.nudges = False

    async def open(self, on_change: Callable[[AttemptId], None]) -> None:
        self._on_change = on_change
        self.nudges = True

    async def check(self) -> EngineFacts:
        version = await self._engine.quick(lambda api: api.version())
        return EngineFacts(version=version["Version"])

    def nudge(self, attempt: AttemptId) -> None:
        if self.nudges:
            self._on_change(attempt)

    def engine_is(self, up: bool) -> None:
        """The stream of its events broke, or is there again."""
        now = self._machine.clock.now()
        if up:
            self._outages.over(now)
        else:
            self._outages.began(now)

    def watch(self, attempt: AttemptId) -> None:
        pass

    def unwatch(self, attempt: AttemptId) -> None:
        pass

    async def engine_goes_away(self, within_s: float) -> bool:
        until = self._machine.clock.monotonic() + within_s
        while self._machine.engine.is_up and self._machine.clock.monotonic() < until:
            await self._machine.clock.sleep(2.0)
        return not self._machine.engine.is_up

    async def _in_thread(self, work: Callable[[], T]) -> T:
        self._world.hit("worker is about to write to a box", self._machine)
        self._process.check()
        await self._world.delay(self._machine.clock, 0.5, usual=0.0)
        self._process.check()
        result = work()
        self._machine.poke()
        self._world.hit("worker has written to a box", self._machine)
        self._process.check()
        return result

    async def withdraw(self, attempt: AttemptId) -> bool:
        proven = await super().withdraw(attempt)
        # Without a box nothing is withdrawn: a Worker that is killed before it says more may begin once more.
        if proven and self.box(attempt).ticket_withdrawn.exists():
            self._world.said_never(attempt, self._machine)
        return proven

    async def is_inhabited(self, attempt: AttemptId) -> bool:
        self._process.check()
        if "worker: looks for no processes" in self._world.broken:
            return bool(boxes.is_locked(self.box(attempt)))
        return bool(boxes.is_locked(self.box(attempt))) or any(
            not launcher.gone.is_set() for launcher in self._machine.launchers_of(attempt)
        )

    async def kill_launcher(self, attempt: AttemptId) -> bool:
        self._process.check()
        if boxes.is_locked(self.box(attempt)):
            # Who holds it; the others of this attempt wait for it.
            for launcher in [x for x in self._machine.launchers_of(attempt) if x.holds_lock]:
                launcher.kill()
                await event_within(launcher.gone, _STOP_S, self._machine.clock)
        self._process.check()
        return boxes.is_locked(self.box(attempt)) is False

    async def remove_box(self, attempt: AttemptId) -> None:
        shutil.rmtree(self.box(attempt).root.parent, ignore_errors=True)


class _Images:
    """An image takes its time, and may not be had."""

    def __init__(self, world: World, machine: Machine) -> None:
        self._world, self._machine = world, machine

    async def prepare(self, wanted: WantedImage, on_fetch: Callable[[], None]) -> LocalImage:
        slow_s = self._world.chance.uniform(0.0, 30.0) if self._world.chance.random() < 0.25 else 0.02
        await self._machine.clock.sleep(slow_s)
        if self._machine.lacks_image:
            raise no_image("The registry does not give it")
        return LocalImage("sha256:feed")


class WorkerLife:
    """From a start of the Worker to its death."""

    controller: TaskController

    def __init__(self, world: World, machine: Machine) -> None:
        self.world, self.machine, self.process = world, machine, machine.worker_process
        clock, disk = machine.clock, machine.disk
        self.incarnation = disk.next_incarnation(clock.now())
        self.listens = False
        self.runtime = ModelRuntime(world, machine, self.process)
        mount = FakeMount(machine.folder / "mount")
        self._copier = LogCopier(clock, lambda: mount.problem)
        self.tasks = TaskManagerClient(
            ModelPeer(self._call_task_manager),  # type: ignore[arg-type]
            node_id=machine.name,
            incarnation=self.incarnation,
            address=f"{machine.name}:7004",
            live=lambda: self.controller.live(),
        )
        self._reports = AttemptReporter(
            self.tasks.report,
            clock,
            on_acked=lambda attempts: self.controller.acked(attempts),
            on_discard=lambda attempts: self._background(attempts),
        )
        self.context = ExecutorContext(
            node_id=machine.name,
            incarnation=self.incarnation,
            boot_id=clock.boot_id(),
            runtime=self.runtime,
            images=_Images(world, machine),  # type: ignore[arg-type]
            store=disk,  # type: ignore[arg-type]
            reports=self._reports,
            late=LateReporter(self.tasks.warn, clock),
            copier=self._copier,
            mounted=mount,  # type: ignore[arg-type]
            alarms=Alarms(clock),
            clock=clock,
            limits=ExecutorLimits(
                create_s=60.0, exec_s=20.0, slack_s=8.0, kill_s=20.0, lease_stop_s=world.stop_s, lease_grace_s=1.0
            ),
        )
        self.controller = TaskController(self.context, self._conditions, keep_ended_s=120.0)
        self.heartbeat = Heartbeat(
            self.tasks.heartbeat,
            clock,
            every_s=world.leases.heartbeat_s,
            lease_stop_s=world.stop_s,
            set_lease=self.controller.lease_answered,
            renew=self._renew,
            stop=self.controller.stop,
            discard=self.controller.discard,
            extend=self.controller.extend,
            on_answered_again=self._reports.retry_now,
        )
        self.service = WorkerService(
            _Running(),  # type: ignore[arg-type]
            self.controller,
            None,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            self.heartbeat,
            clock,
            on_poll=lambda: None,
            on_prefetch_list=lambda images: None,
        )

    def begin(self) -> None:
        self.process.spawn(self._run())

    async def _run(self) -> None:
        await self.runtime.open(self.controller.nudge)
        self.runtime.engine_is(self.machine.engine.is_up)
        await self.world.delay(self.machine.clock, 2.0, usual=0.1)
        await self.controller.adopt()
        self.listens = True
        self.world.worker_registers(self)
        for loop in (self.context.alarms.run, self._copier.run, self.heartbeat.run, self._reports.run, self._sweep):
            self.process.spawn(loop())

    async def plan_stop(self) -> None:
        """As a planned stop does: leases are suspended first."""
        self.tasks.stopping = True
        try:
            await self.tasks.heartbeat(
                self.machine.clock.monotonic(), not self.heartbeat.lease.enforced, deadline_s=2.0
            )
            await self.heartbeat.suspend_leases()
        except HeadwayError:
            pass
        await self.controller.close()

    async def _sweep(self) -> None:
        while True:
            try:
                await self.controller.sweep()
            except HeadwayError:
                pass
            await self.machine.clock.sleep(SWEEP_S)

    async def _renew(self, lease: Lease, discarded: Collection[AttemptId]) -> None:
        # As in ``worker.app``.
        live = [attempt for attempt in self.controller.live() if attempt not in discarded]
        await self.runtime.renew(dict.fromkeys(live, lease.until_boot_ns))

    def _conditions(self) -> Sequence[Condition]:
        if not self.machine.is_unfit:
            return ()
        return (Condition("mount_unavailable", "The shared folder is away.", self.machine.clock.now()),)

    def _background(self, attempts: Sequence[AttemptId]) -> None:
        self.process.spawn(self.controller.discard(attempts, heard=True))

    async def _call_task_manager(self, method: str, request: Any, deadline_s: float) -> Any:
        world = self.world
        if method == "ReportAttempts":
            world.hit("worker is about to report", self.machine)
        return await world.network.call(
            self.machine.name,
            self.process,
            lambda: world.task_manager.handler(method),
            request,
            deadline_s=deadline_s,
            clock=self.machine.clock,
        )


class _Running:
    stopping = False
