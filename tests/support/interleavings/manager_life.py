"""TaskManager in the model: the real engine and dispatcher on a real database, killed and started again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import MetaData

from headway.ids import AttemptId, JobId, NodeId, TaskId
from headway.jobfile.spec import ResourceSpec, TaskSpec
from headway.rpc import convert
from headway.rpc.v1 import task_manager_pb2
from headway.rpc.v1.worker_pb2_grpc import WorkerStub
from headway.states import Admission, AttemptEventKind, NodeHealth, TaskState
from headway.store import Database
from task_manager import wire
from task_manager.dispatch.dispatcher import Dispatcher
from task_manager.engine.engine import Engine
from task_manager.engine.events import CancelTask, EnqueueTask, NodesChanged, ServicesAgree, TaskCommands
from task_manager.engine.retry import RetrySettings
from task_manager.hub import QueueEventHub
from task_manager.model import Node
from task_manager.order.policy import AgingSjf
from task_manager.peers import WorkerConnections
from task_manager.servicer import TaskManagerService
from task_manager.settings import TaskManagerSettings
from task_manager.store import tables

from .network import Handler, ModelPeer
from .stage import Process

if TYPE_CHECKING:
    from .world import World

GiB = 1 << 30
JOB = JobId("j0000000000000001")


# SQLAlchemy compiles each statement once for an engine. A walk makes several engines for the same statements.
_compiled: Any = None
_empty: list[bytes] = []


async def _open(path: Path) -> Database:
    """The database. A new one is a copy of an empty one, which is made only once."""
    global _compiled
    if not _empty:
        made = await Database.open(f"{path}.empty", room="task_manager", metadata=tables.metadata)
        await made.close()
    _copy_empty(path)
    db = await Database.open(str(path), room="task_manager", metadata=MetaData())
    for engine in (db._write_engine, db._read_engine):
        if _compiled is None:
            _compiled = engine._compiled_cache
        engine._compiled_cache = _compiled
    return db


def _copy_empty(path: Path) -> None:
    if not _empty:
        _empty.append(Path(f"{path}.empty").read_bytes())
    if not path.exists():
        path.write_bytes(_empty[0])


class ManagerLife:
    """TaskManager's machine. Its database outlives it."""

    def __init__(self, world: World, folder: Path) -> None:
        self._world, self._folder = world, folder
        self.clock = world.new_clock("manager")
        self.process = Process("TaskManager")
        self.process.kill()
        self.engine: Engine | None = None
        self._db: Database | None = None
        self._service: Any = None
        self._seq = 0

    @property
    def is_up(self) -> bool:
        return self.process.alive

    async def start(self) -> None:
        if self.is_up:
            return
        process = self.process = Process("TaskManager")
        world = self._world
        settings = TaskManagerSettings(
            leases=world.leases,
            retry=RetrySettings(platform_retries=6, platform_retry_delay_s=1.0),
            arrivals_s=0.0,
            start_limit_s=240.0,
            decisions_days=0,
            compare_at_start=True,
        )

        async def begin() -> None:
            self._db = await _open(self._folder / "task_manager.db")
            hub = QueueEventHub()
            engine = Engine(self._db, self.clock, settings, AgingSjf(), hub, wire.outgoing_event)
            dispatcher = Dispatcher(engine, self._db, self.clock, _Connections(self))
            engine.order_sender = dispatcher
            nothing: Any = None
            self._service = TaskManagerService(engine, nothing, hub, *[nothing] * 8)
            await engine.start()
            self.engine = engine
            process.spawn(engine.run())
            await engine.submit(NodesChanged(True, self._nodes()))
            process.spawn(agree(engine))

        async def agree(engine: Engine) -> None:
            # JobManager compares, and finds no difference: this database loses nothing.
            await world.delay(self.clock, 40.0, usual=0.3)
            await engine.submit(ServicesAgree())

        await process.spawn(begin())

    async def kill(self) -> None:
        if not self.is_up:
            return
        self.process.kill()
        self.engine = None
        if self._db is not None:
            await self._db.close()
            self._db = None

    async def enqueue(self, name: str) -> TaskId:
        task_id = TaskId(JOB, name)
        message = task_manager_pb2.EnqueueTask(generation=1, job_name="model", submitted_at=self.clock.now())
        message.task.CopyFrom(convert.task_to_pb(task_id))
        message.owner.name, message.owner.uid, message.owner.gid = "ann", 20_001, 20_001
        spec = TaskSpec(
            name=name,
            image="team/torch:2.4",
            command=("train",),
            shell=None,
            timeout_s=600.0,
            grace_s=self._world.grace_s,
            resources=ResourceSpec(cpus_centi=100, memory_bytes=GiB),
        )
        message.spec.CopyFrom(convert.task_spec_to_pb(spec))
        self._seq += 1
        await self._submit(EnqueueTask(wire.task(message, self._seq), message.SerializeToString()))
        return task_id

    async def cancel(self, task_id: TaskId) -> None:
        self._seq += 1
        await self._submit(CancelTask(task_id, 1, self._seq, "ann"))

    async def tell_nodes(self) -> None:
        if self.engine is not None and self.is_up:
            await self.process.spawn(self.engine.submit(NodesChanged(True, self._nodes())))

    def state(self, task_id: TaskId) -> TaskState | None:
        """None: it has ended (or nobody is here to ask)."""
        task = self.engine.state.tasks.get(task_id) if self.engine is not None else None
        return None if task is None else task.state

    def current(self, task_id: TaskId) -> int:
        """The number of the attempt that is under way. 0: none."""
        attempt = self.engine.state.attempts.get(task_id) if self.engine is not None else None
        return 0 if attempt is None else attempt.id.number

    def newest(self, task_id: TaskId) -> int:
        task = self.engine.state.tasks.get(task_id) if self.engine is not None else None
        return 0 if task is None else task.attempt

    def handler(self, method: str) -> tuple[Process, Handler] | None:
        """Who takes calls of Workers."""
        if not self.is_up or self._service is None or self.engine is None:
            return None
        handle: Handler = getattr(self._service, method)
        if method != "ReportAttempts":
            return self.process, handle

        async def report(request: Any, context: Any) -> Any:
            good = self._good_ends(request.reports)
            reply = await handle(request, context)
            for attempt in good:
                self._world.good_end_is_told(attempt)
            return reply

        return self.process, report

    def _good_ends(self, reports: Iterable[task_manager_pb2.AttemptReport]) -> list[AttemptId]:
        """Those of attempts that are the newest of a task that has not ended."""
        good = [convert.attempt_id(r.attempt) for r in reports if r.kind == AttemptEventKind.SUCCEEDED.value]
        return [attempt for attempt in good if self.newest(attempt.task) == attempt.number]

    async def _submit(self, command: Any) -> None:
        if self.engine is not None and self.is_up:
            await self.process.spawn(self.engine.submit(TaskCommands((command,))))

    def _nodes(self) -> tuple[Node, ...]:
        return tuple(
            Node(
                id=NodeId(machine.name),
                incarnation=machine.told_incarnation,
                address=f"{machine.name}:7004",
                health=NodeHealth.READY,
                admission=Admission.OPEN,
                cpu_centi=800,
                memory_bytes=64 * GiB,
                gpus=(),
            )
            for machine in self._world.machines.values()
        )

    async def call_worker(self, machine_name: str, method: str, request: Any, deadline_s: float) -> Any:
        world, machine = self._world, self._world.machines[machine_name]

        def find() -> tuple[Process, Handler] | None:
            life = machine.worker
            if life is None or not life.process.alive or not life.listens:
                return None
            return life.process, getattr(life.service, method)

        return await world.network.call(
            machine_name, self.process, find, request, deadline_s=deadline_s, clock=self.clock
        )


class _Connections(WorkerConnections):
    """The product's calls to Workers over the model's network."""

    def __init__(self, life: ManagerLife) -> None:
        super().__init__("", life.clock)
        self._life = life

    def _peer(self, node_id: str, address: str) -> Any:
        name = address.partition(":")[0]
        peer = ModelPeer(lambda method, request, deadline_s: self._life.call_worker(name, method, request, deadline_s))
        return peer, WorkerStub(peer)  # type: ignore[no-untyped-call]
