"""The world of the model: machines, what runs on them, what was said of it, and what must never be."""

from __future__ import annotations

import asyncio
import random
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from headway.ids import AttemptId, TaskId
from headway.rpc.v1 import task_manager_pb2
from headway.states import AttemptEventKind
from task_manager.engine.leases import LeaseSettings
from worker.box import Box
from worker.model import AttemptRecord, AttemptStage

from .engine import SimulatedEngine
from .launcher import Launcher
from .manager_life import ManagerLife
from .network import Network
from .stage import MachineClock, OneThreadLoop, Process, TrueTime, make_task
from .worker_life import Disk, WorkerLife

_FAST_DISK = Path("/dev/shm")
_PATIENCE_S = 1_500.0
# What a disk has not written when the power goes: all but what was fsynced.
_LOST_RENAMES = ("started", "ticket.taken")


class Violation(AssertionError):
    """Something that must never be has been. The text tells the whole interleaving."""


class Machine:
    """One node: its clocks, disk, engine, Worker and launchers."""

    def __init__(self, world: World, name: str, *, live_restore: bool) -> None:
        self._world = world
        self.name = name
        self.clock = world.new_clock(name)
        self.folder = world.folder / name
        (self.folder / "attempts").mkdir(parents=True)
        self.process = Process(f"kernel of {name}")
        self.engine = SimulatedEngine(world, self, live_restore=live_restore)
        self.worker_process = Process("nobody")
        self.worker_process.kill()
        self.disk = Disk(world, self)
        self.worker: WorkerLife | None = None
        self.told_incarnation = 0  # what ResourceManager knows
        self.is_unfit = False
        self.lacks_image = False
        self._launchers: list[Launcher] = []

    def begin_launcher(self, attempt: AttemptId, box: Box) -> Launcher:
        launcher = Launcher(self._world, self, attempt, box)
        self._launchers.append(launcher)
        return launcher

    def launchers_of(self, attempt: AttemptId) -> list[Launcher]:
        return [launcher for launcher in self._launchers if launcher.attempt == attempt]

    @property
    def launchers(self) -> list[Launcher]:
        """Those that live, or have left somebody behind."""
        return [launcher for launcher in self._launchers if not launcher.gone.is_set()]

    def poke(self) -> None:
        """A file of a box was written: launchers watch theirs."""
        for launcher in self.launchers:
            launcher.orders.set()

    def start_worker(self) -> None:
        if self.worker_process.alive:
            return
        self.worker_process = Process(f"worker of {self.name}")
        self.worker = WorkerLife(self._world, self)
        self.worker.begin()

    def kill_worker(self) -> None:
        self.worker_process.kill()
        self.disk.worker_dies()

    def reboot(self, *, power_cut: bool) -> None:
        """All that runs here dies at once. With a power cut the disk forgets what was not fsynced."""
        self.kill_worker()
        self.engine.machine_dies()
        for launcher in self.launchers:
            launcher.kill(at_once=True)
        self.process.kill()
        self.process = Process(f"kernel of {self.name}")
        if power_cut:
            for run in self.folder.glob("attempts/*/box/run"):
                self._forget(Box(run.parent))
        self.clock.reboot()

    def _forget(self, box: Box) -> None:
        chance = self._world.chance
        if chance.random() < 0.5 and box.ticket_taken.exists():
            box.ticket_taken.rename(box.ticket)
        if chance.random() < 0.3:
            box.started.unlink(missing_ok=True)
        if chance.random() < 0.2 and box.ticket.exists():
            box.ticket.write_bytes(b"")


class World:
    """Call inside a ``OneThreadLoop``, and ``close`` it.

    Args:
        broken: rules that simulated parts do not keep.
    """

    def __init__(self, seed: int, *, broken: frozenset[str] = frozenset()) -> None:
        self.chance = random.Random(seed)
        self.broken = broken
        self.folder = Path(tempfile.mkdtemp(prefix="hwmodel", dir=_FAST_DISK if _FAST_DISK.is_dir() else None))
        self.launcher_file = self.folder / "launcher"
        self.launcher_file.write_bytes(b"")
        self.time = TrueTime(monotonic=0.0)
        self._began_at = self.time.monotonic()
        self.stop_s, self.grace_s = 6.0, 2.0
        self.leases = LeaseSettings(lease_s=18.0, margin_s=2.0, heartbeat_s=3.0)
        self.network = Network(self)
        self.trace: list[str] = []
        self.wrong: list[str] = []
        self._process = Process("world")
        self._running: dict[TaskId, list[Launcher]] = {}
        self._started: dict[AttemptId, str] = {}  # by attempt: in which boot
        self._said_over: dict[AttemptId, str] = {}
        self._good: set[AttemptId] = set()  # `end` says so
        self._told_good: dict[TaskId, AttemptId] = {}
        self._runs: dict[AttemptId, tuple[float, int]] = {}
        self._traps: dict[str, Callable[[Machine], None]] = {}
        self.points: set[str] = set()
        self.tasks: list[TaskId] = []
        self.machines: dict[str, Machine] = {}
        self.task_manager = ManagerLife(self, self.folder)
        for name in ("n1", "n2"):
            self.network.add(name)
            self.machines[name] = Machine(self, name, live_restore=self.chance.random() < 0.6)

    @classmethod
    async def begin(cls, seed: int, **options: Any) -> World:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, OneThreadLoop)
        loop.set_task_factory(make_task)
        world = cls(seed, **options)
        loop.set_exception_handler(
            lambda _, facts: world.is_wrong(f"a crash: {facts.get('exception')!r} {facts['message']}")
        )
        await world.task_manager.start()
        for machine in world.machines.values():
            machine.start_worker()
        await world.advance(4.0)
        return world

    async def close(self) -> None:
        await self.task_manager.kill()
        for machine in self.machines.values():
            machine.reboot(power_cut=False)
            machine.process.kill()
        self._process.kill()
        await self.time.settle()
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- time and chance ------------------------------------------------------------------------------

    def new_clock(self, name: str) -> MachineClock:
        # TaskManager's margin is made for clocks that run at different speeds.
        return MachineClock(
            self.time, name, speed=self.chance.choice([0.96, 1.0, 1.04]), wall_s=self.chance.uniform(-5.0, 5.0)
        )

    async def advance(self, seconds: float) -> None:
        await self.time.advance(seconds)
        self.check()

    async def delay(self, clock: Any, most_s: float, *, usual: float) -> None:
        """Takes its time: mostly little, now and then much."""
        chance = self.chance
        seconds = chance.uniform(0.0, usual) if chance.random() < 0.85 else most_s * chance.random() ** 2
        await clock.sleep(seconds)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        self._process.spawn(work)

    def run_s(self, attempt: AttemptId) -> float:
        return self._run_of(attempt)[0]

    def exit_code(self, attempt: AttemptId) -> int:
        return self._run_of(attempt)[1]

    def _run_of(self, attempt: AttemptId) -> tuple[float, int]:
        if attempt not in self._runs:
            code = 0 if self.chance.random() < 0.85 else 1
            self._runs[attempt] = (self.chance.choice([0.3, 5.0, 25.0, 60.0]), code)
        return self._runs[attempt]

    # -- what is told -----------------------------------------------------------------------------------

    def tell(self, what: str) -> None:
        self.trace.append(f"{self.time.monotonic() - self._began_at:8.2f} s  {what}")

    def is_wrong(self, what: str) -> None:
        self.tell(f"WRONG: {what}")
        self.wrong.append(what)

    def check(self) -> None:
        """Raises Violation."""
        if self.wrong:
            raise Violation("\n".join([self.wrong[0], *self.trace]))

    # -- traps --------------------------------------------------------------------------------------------

    def arm(self, point: str, spring: Callable[[Machine], None]) -> None:
        """The next time that somebody comes to this point, this happens there."""
        self._traps[point] = spring

    def hit(self, point: str, machine: Machine) -> None:
        self.points.add(point)
        spring = self._traps.pop(point, None)
        if spring is not None:
            self.tell(f"{machine.name}: {point}; at this moment:")
            spring(machine)

    # -- what happens ---------------------------------------------------------------------------------------

    def nudge(self, machine: Machine, attempt: AttemptId) -> None:
        """The Worker's watch on files. Nudges may be lost."""
        worker = machine.worker
        if worker is not None and worker.process.alive and self.chance.random() < 0.9:
            worker.runtime.nudge(attempt)

    def worker_registers(self, life: WorkerLife) -> None:
        life.machine.told_incarnation = life.incarnation

        async def soon() -> None:
            await self.delay(self.time, 10.0, usual=0.1)
            await self.task_manager.tell_nodes()

        self.spawn(soon())

    def program_starts(self, launcher: Launcher) -> None:
        attempt, task = launcher.attempt, launcher.attempt.task
        self.tell(f"{launcher.machine.name}: the program of {attempt} starts")
        self._started[attempt] = launcher.machine.clock.boot_id()
        others = self._running.setdefault(task, [])
        if others:
            first = others[0]
            self.is_wrong(
                f"twice at once: {attempt} starts on {launcher.machine.name} while {first.attempt} runs on "
                f"{first.machine.name}"
            )
        if attempt in self._said_over:
            self.is_wrong(f"{attempt} starts although it was said: {self._said_over[attempt]}")
        if task in self._told_good:
            self.is_wrong(f"{attempt} starts although TaskManager knew of the good end of {self._told_good[task]}")
        if attempt in self._good:
            self.is_wrong(f"{attempt} starts again after its good end")
        others.append(launcher)

    def program_ends(self, launcher: Launcher) -> None:
        self.tell(f"{launcher.machine.name}: the program of {launcher.attempt} has ended")
        self._running[launcher.attempt.task].remove(launcher)

    def end_written(self, launcher: Launcher, *, succeeded: bool) -> None:
        self.tell(
            f"{launcher.machine.name}: the end of {launcher.attempt} is written ({'good' if succeeded else 'bad'})"
        )
        if succeeded:
            self._good.add(launcher.attempt)

    def launcher_gone(self, launcher: Launcher) -> None:
        launcher.machine.engine.launcher_ended(launcher)
        self.nudge(launcher.machine, launcher.attempt)

    def said_never(self, attempt: AttemptId, machine: Machine) -> None:
        """The Worker has withdrawn the ticket, and believes that this worked."""
        self.tell(f"{machine.name}: {attempt} never starts, the ticket is withdrawn")
        if self._started.get(attempt) == machine.clock.boot_id():
            self.is_wrong(f"{attempt} has started, and its Worker believes that it never will")
        self._said_over.setdefault(attempt, "it never starts")

    def stores(self, machine: Machine, record: AttemptRecord) -> None:
        """The Worker writes this to its disk."""
        attempt = record.attempt
        if record.stage is not AttemptStage.ENDED or record.end_report is None:
            return
        report = task_manager_pb2.AttemptReport.FromString(record.end_report)
        self.tell(f"{machine.name}: says that {attempt} has ended: {report.reason.word} ({report.reason.detail})")
        if report.reason.detail.startswith("Headway failed"):
            self.is_wrong(f"the Worker's own code failed: {report.reason.detail}")
        if any(launcher.attempt == attempt for launcher in self._running.get(attempt.task, ())) and not record.unsafe:
            self.is_wrong(f"{attempt} is said to have ended while it runs: {report.reason.word}")
        self._said_over.setdefault(attempt, f"it has ended, {report.reason.word}")
        if attempt in self._good and not record.discarded and report.kind != AttemptEventKind.SUCCEEDED.value:
            self.is_wrong(f"the good end of {attempt} is told as {report.reason.word}")

    def good_end_is_told(self, attempt: AttemptId) -> None:
        """TaskManager has answered the report of a good end of a task's newest attempt."""
        if attempt in self._good:
            self.tell(f"TaskManager has taken the good end of {attempt}")
            self._told_good[attempt.task] = attempt

    # -- the end ------------------------------------------------------------------------------------------------

    async def heal(self) -> None:
        """All comes back and nothing more happens: every task must end, and every lock must be free."""
        self.tell("all is healed")
        self._traps.clear()
        waited_s = 0.0
        while waited_s < _PATIENCE_S:
            for machine in self.machines.values():
                self._heal(machine)
            await self.task_manager.start()
            await self.advance(10.0)
            waited_s += 10.0
            if not self._what_is_left():
                return
        self.is_wrong(f"{self._what_is_left()}, {waited_s:g} s after all was healed")
        self.check()

    def _heal(self, machine: Machine) -> None:
        self.network.heal(machine.name)
        machine.is_unfit = machine.lacks_image = machine.engine.refuses_next = False
        machine.engine.go_on()
        if not machine.engine.is_up:
            machine.engine.start()
            if machine.worker is not None and machine.worker_process.alive:
                machine.worker.runtime.engine_is(True)
        machine.start_worker()

    def _what_is_left(self) -> str:
        for task in self.tasks:
            state = self.task_manager.state(task)
            if state is not None:
                return f"{task} is still {state.value}"
        for machine in self.machines.values():
            for launcher in machine.launchers:
                return f"a launcher of {launcher.attempt} still lives on {machine.name}"
            if machine.worker is not None and machine.worker.controller.live():
                return f"{machine.name} still has {machine.worker.controller.live()[0]}"
        return ""
