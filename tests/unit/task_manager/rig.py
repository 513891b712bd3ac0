"""A TaskManager without its gRPC service: real database, fake Workers, a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import select

from headway.errors import HeadwayError, Unavailable
from headway.ids import AttemptId, JobId, NodeId, TaskId
from headway.model.attempt_facts import FACTS, AttemptFacts
from headway.model.reasons import EndReason, EndWord
from headway.rpc.v1 import job_manager_pb2, task_manager_pb2
from headway.states import Admission, NodeHealth
from headway.store import Database
from task_manager import wire
from task_manager.answers.queries import QueueQueries
from task_manager.dispatch.dispatcher import Dispatcher
from task_manager.engine.engine import Engine
from task_manager.engine.events import (
    AcceptedLaunch,
    AttemptReport,
    AttemptReports,
    CancelTask,
    EnqueueTask,
    ExtendOrder,
    HeartbeatReceived,
    HeartbeatReply,
    NodesChanged,
    RefusedLaunch,
    StopOrder,
    TaskCommands,
    TimePassed,
)
from task_manager.engine.leases import LeaseSettings
from task_manager.hub import QueueEventHub
from task_manager.model import Condition, Gpu, Node, Shape, Task
from task_manager.order import policy
from task_manager.planning.image_forecast import ForecastImage
from task_manager.ports import LaunchOrder
from task_manager.settings import TaskManagerSettings
from task_manager.store import tables
from task_manager.store.tables import outbox
from tests.support.clock import FakeClock

GiB = 1 << 30
JOB = JobId("j0000000000000001")
SETTINGS = TaskManagerSettings(leases=LeaseSettings(lease_s=120, heartbeat_s=10), arrivals_s=0.0)


def tid(name: str, job: str = JOB) -> TaskId:
    return TaskId(JobId(job), name)


def a_task(name: str = "t", *, job: str = JOB, at: float = 0.0, timeout: float = 60.0, **more: Any) -> Task:
    shape = Shape(
        more.pop("cpu", 100),
        more.pop("memory", GiB),
        more.pop("gpus", 0),
        more.pop("models", ()),
        more.pop("gpu_memory", 0),
    )
    facts: dict[str, Any] = {
        "generation": 1,
        "owner": "ann",
        "job_name": "digits",
        "priority": 0,
        "submitted_at": at,
        "tail_timeout_s": 0.0,
        "shape": shape,
        "timeout_s": timeout,
        "retries": 0,
    }
    return Task(id=tid(name, job), **{**facts, **more})


def gpus_of(node: str, count: int, model: str = "A100", memory: int = 80 * GiB) -> tuple[Gpu, ...]:
    return tuple(Gpu(f"GPU-{node}-{i}", model, memory, i) for i in range(count))


def a_node(
    name: str = "n1", *, cpu: int = 800, memory: int = 64 * GiB, gpus: int | tuple[Gpu, ...] = 0, **more: Any
) -> Node:
    facts: dict[str, Any] = {
        "incarnation": 1,
        "address": f"{name}:7004",
        "health": NodeHealth.READY,
        "admission": Admission.OPEN,
    }
    cards = gpus_of(name, gpus) if isinstance(gpus, int) else gpus
    return Node(id=NodeId(name), cpu_centi=cpu, memory_bytes=memory, gpus=cards, **{**facts, **more})


def blocked(word: str, sentence: str = "") -> Condition:
    return Condition(word, sentence or word, True)


def exited(code: int = 0) -> EndReason:
    return EndReason(EndWord.EXITED, code)


class FakeWorkers:
    """Takes launches into ``has``; says what the test tells it to."""

    def __init__(self) -> None:
        self.has: dict[str, dict[AttemptId, LaunchOrder]] = {}
        self.launched: list[AttemptId] = []
        self.stopped: list[StopOrder] = []
        self.extended: list[ExtendOrder] = []
        self.suspended: list[str] = []
        self.wishes: list[tuple[str, list[str]]] = []  # address and names, in the order told
        self.remembered_as_stopped: set[AttemptId] = set()
        self.refuse: dict[str, RefusedLaunch | str] = {}  # by address: the word why
        self.again_later = False
        self.away: set[str] = set()  # nothing arrives
        self.mute: set[str] = set()  # all arrives, no answer comes back
        self.stop_mute: set[str] = set()  # no stop order arrives
        self.gate: asyncio.Event | None = None  # launches wait here before they arrive
        self.at_gate: set[AttemptId] = set()

    async def launch(
        self, node_id: str, address: str, launches: Sequence[LaunchOrder]
    ) -> list[AcceptedLaunch | RefusedLaunch]:
        if self.gate is not None:
            self.at_gate.update(launch.attempt.id for launch in launches)
            await self.gate.wait()
        if address in self.away:
            raise Unavailable("away")
        verdicts: list[AcceptedLaunch | RefusedLaunch] = []
        for launch in launches:
            attempt = launch.attempt.id
            here = self.has.setdefault(address, {})
            if attempt in self.remembered_as_stopped:
                verdicts.append(RefusedLaunch(attempt, "fenced", "a stop came before its launch", False))
            elif address in self.refuse and attempt not in here:
                verdicts.append(RefusedLaunch(attempt, str(self.refuse[address]), "no", self.again_later))
            else:
                if attempt not in here:
                    self.launched.append(attempt)
                here[attempt] = launch
                verdicts.append(AcceptedLaunch(attempt, None))
        if address in self.mute:
            raise Unavailable("no answer")
        return verdicts

    async def stop(self, node_id: str, address: str, orders: Sequence[StopOrder]) -> None:
        if address in self.away or address in self.stop_mute:
            raise Unavailable("away")
        for order in orders:
            self.stopped.append(order)
            if order.attempt not in self.has.get(address, {}):
                self.remembered_as_stopped.add(order.attempt)
        if address in self.mute:
            raise Unavailable("no answer")

    async def extend(self, node_id: str, address: str, orders: Sequence[ExtendOrder]) -> None:
        if address in self.away:
            raise Unavailable("away")
        self.extended.extend(orders)
        if address in self.mute:
            raise Unavailable("no answer")

    async def suspend_leases(self, node_id: str, address: str) -> None:
        if address in self.away:
            raise Unavailable("away")
        self.suspended.append(address)

    async def prepare_images(self, node_id: str, address: str, images: Sequence[ForecastImage]) -> None:
        if address in self.away:
            raise Unavailable("away")
        self.wishes.append((address, [image.name for image in images]))

    async def close(self) -> None:
        pass


@dataclass
class TaskManagerRig:
    folder: Path
    clock: FakeClock
    settings: TaskManagerSettings = SETTINGS
    workers: FakeWorkers = field(default_factory=FakeWorkers)
    order: policy.Policy = field(default_factory=policy.AgingSjf)
    db: Database = field(init=False)
    engine: Engine = field(init=False)
    dispatcher: Dispatcher = field(init=False)
    queries: QueueQueries = field(init=False)
    hub: QueueEventHub = field(init=False)
    seq: int = 0
    url: str = ""
    steady: tuple[str, float] = ("", 0.0)  # JobManager's clock, told with what is enqueued

    async def start(self) -> None:
        self.db = await Database.open(
            self.url or str(self.folder / "task_manager.db"), room="task_manager", metadata=tables.metadata
        )
        self.hub = QueueEventHub(self.clock)
        self.engine = Engine(self.db, self.clock, self.settings, self.order, self.hub, wire.outgoing_event)
        self.dispatcher = Dispatcher(self.engine, self.db, self.clock, self.workers)
        self.engine.order_sender = self.dispatcher
        self.queries = QueueQueries(self.engine, self.db)
        await self.engine.start()

    async def kill(self) -> None:
        """As kill -9 as a process without fork can be: nothing is flushed, told or finished."""
        await self.dispatcher.close()
        await self.engine.close()
        await self.db.close()

    async def restart(self) -> None:
        await self.kill()
        await self.start()

    async def nodes(self, *nodes: Node, reset: bool = True) -> None:
        await self.engine.submit(NodesChanged(reset, nodes))
        await self.settle()

    async def enqueue(self, *tasks: Task, spec: bytes | None = None) -> None:
        commands = []
        for task in tasks:
            self.seq += 1
            message = task_manager_pb2.EnqueueTask(job_name=task.job_name)
            message.spec.name = task.id.name
            blob = spec if spec is not None else message.SerializeToString()
            commands.append(EnqueueTask(replace(task, command_seq=self.seq), blob))
        await self.engine.submit(TaskCommands(tuple(commands), *self.steady))
        await self.settle()

    async def cancel(self, task_id: TaskId, generation: int = 1) -> None:
        self.seq += 1
        await self.engine.submit(TaskCommands((CancelTask(task_id, generation, self.seq, "ann"),)))
        await self.settle()

    async def report(self, attempt: AttemptId, kind: str, node: str = "n1", **facts: Any) -> list[AttemptId]:
        """``facts`` by their names in a report."""
        known = AttemptFacts(**{row.name: facts.pop(row.reported) for row in FACTS if row.reported in facts})
        report = AttemptReport(attempt, NodeId(node), kind, self.clock.now(), facts=known, **facts)
        discard: list[AttemptId] = await self.engine.submit(AttemptReports((report,)))
        await self.settle()
        return discard

    async def end(self, attempt: AttemptId, reason: EndReason | None = None, node: str = "n1") -> list[AttemptId]:
        reason = reason or exited(0)
        self.workers.has.get(f"{node}:7004", {}).pop(attempt, None)
        return await self.report(attempt, reason.attempt_state.value, node, reason=reason)

    async def beat(self, node: str = "n1", *, incarnation: int = 1, **facts: Any) -> HeartbeatReply:
        live = facts.pop("live", None)
        if live is None:
            live = tuple(self.workers.has.get(f"{node}:7004", {}))
        beat = HeartbeatReceived(
            NodeId(node),
            incarnation,
            facts.pop("address", f"{node}:7004"),
            tuple(live),
            facts.pop("stopping", False),
            facts.pop("files_suspended", False),
            waiting_jobs=frozenset(facts.pop("waiting_jobs", ())),
            waiting_known_s=facts.pop("waiting_known_s", 0.0),
        )
        answer: HeartbeatReply = await self.engine.submit(beat)
        await self.settle()
        return answer

    async def advance(self, seconds: float, *, beats: Sequence[str] = ()) -> None:
        """Second by second, since the database answers in real time; ``beats``: nodes that are heard every ten."""
        for second in range(1, int(seconds) + 1):
            await self.clock.advance(1)
            await self.settle()
            if second % 10 == 0:
                for node in beats:
                    await self.beat(node)
        await self.engine.submit(TimePassed())
        await self.settle()

    async def settle(self) -> None:
        """Until nothing is on its way: the database works in threads, so real turns are waited for."""
        for _ in range(400):
            await self.clock.settle()
            ways = self.dispatcher
            lanes: list[Any] = [*ways._launches.values(), *ways._stops.values(), *ways._extends.values()]
            busy = any(lane._worker is not None and not lane.pausing for lane in lanes)
            if not busy and not self.engine._inbox.waiting and self.engine._inbox._worker is None:
                return
            await asyncio.sleep(0.001)

    async def told(self) -> list[tuple[str, str, int, str]]:
        """What waits for JobManager: (task, kind, attempt, reason word)."""
        return [(e.task.name, e.kind, e.attempt, e.reason.word) for e in await self.events()]

    async def events(self) -> list[job_manager_pb2.TaskEvent]:
        rows = await self.db.read(
            lambda conn: conn.execute(select(outbox.table.c.payload).order_by(outbox.table.c.seq)).scalars().all()
        )
        return [job_manager_pb2.TaskEvent.FromString(row) for row in rows]

    def state(self, task_id: TaskId) -> str:
        task = self.engine.state.tasks.get(task_id)
        return task.state.value if task is not None else "gone"

    def running(self) -> list[AttemptId]:
        return [attempt.id for attempt in self.engine.state.attempts.values()]

    def only_attempt(self, task_id: TaskId) -> AttemptId:
        return self.engine.state.attempts[task_id].id


@asynccontextmanager
async def a_task_manager(folder: Path, clock: FakeClock, **options: Any) -> AsyncIterator[TaskManagerRig]:
    rig = TaskManagerRig(folder, clock, **options)
    await rig.start()
    try:
        yield rig
    finally:
        rig.workers.gate = None
        await rig.kill()


__all__ = [
    "GiB",
    "HeadwayError",
    "TaskManagerRig",
    "a_node",
    "a_task",
    "a_task_manager",
    "blocked",
    "exited",
    "gpus_of",
    "tid",
]
