"""Random lives: reports late, twice and in any order, machines that refuse, vanish or fall silent, restarts and full
disks in the middle. What must hold, holds after every step."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from headway.errors import HeadwayError, StoreFull, StoreUnavailable
from headway.ids import AttemptId, TaskId
from headway.model.reasons import EndReason, EndWord
from headway.states import ATTEMPT_LIVE, TASK_ENDED
from headway.store import Database
from task_manager.engine import pass_input
from task_manager.engine.events import AttemptReport, AttemptReports, TimePassed
from task_manager.model import Node, Task
from task_manager.order.queue import task_id_of
from task_manager.planning.pass_model import Discipline, WaitCause
from task_manager.planning.placement import fits
from task_manager.store import queue_store
from task_manager.store.tables import attempts as attempts_table
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import SETTINGS, GiB, TaskManagerRig, a_node, a_task, a_task_manager, exited, tid

NODES = ("n1", "n2", "n3")
REASONS = (
    exited(0),
    exited(0),
    exited(1),
    EndReason(EndWord.TIMED_OUT),
    EndReason(EndWord.START_FAILED),
    EndReason(EndWord.GPU_FAILED),
    EndReason(EndWord.IMAGE_NOT_FOUND),
)


class Life:
    """One random life of a TaskManager."""

    def __init__(self, rig: TaskManagerRig, seed: int) -> None:
        self.rig = rig
        self.chance = random.Random(seed)
        self.tasks: dict[TaskId, Task] = {}
        self.really_ended: dict[AttemptId, EndReason] = {}  # told or not
        self.ended_by_report: dict[AttemptId, EndReason] = {}
        self.incarnation = dict.fromkeys(NODES, 1)
        self.files_enforced = dict.fromkeys(NODES, False)
        self.granted_s: dict[tuple[str, AttemptId], float] = {}
        self.beaten_s = dict.fromkeys(NODES, 0.0)
        self.fault: str = ""
        self._real_write = Database.write

    def node(self, name: str) -> Node:
        gpus = {"n1": 2, "n2": 1, "n3": 0}[name]
        return a_node(name, cpu=400, memory=16 * GiB, gpus=gpus, incarnation=self.incarnation[name])

    async def all_nodes(self) -> None:
        await self.rig.nodes(*(self.node(name) for name in NODES))

    def install_faults(self) -> None:
        life = self

        async def write(self: Database, work: Any) -> Any:
            fault, life.fault = life.fault, ""
            if fault == "before":
                raise StoreFull
            result = await life._real_write(self, work)
            if fault == "after":  # the commit happened and nobody was told
                raise StoreUnavailable
            return result

        self.rig.db.write = write.__get__(self.rig.db)  # type: ignore[method-assign]

    # -- steps ------------------------------------------------------------------------------------

    async def step(self) -> None:
        steps = [
            (self.enqueue, 5),
            (self.enqueue_again, 1),
            (self.cancel, 2),
            (self.end_one, 7),
            (self.old_report, 2),
            (self.progress, 3),
            (self.beat, 5),
            (self.worker_mood, 2),
            (self.worker_restart, 1),
            (self.task_manager_restart, 1),
            (self.disk, 1),
            (self.time, 3),
        ]
        action = self.chance.choices([s for s, _ in steps], [w for _, w in steps])[0]
        try:
            await action()
        except HeadwayError:
            pass  # told to the sender, who comes again
        await self.rig.settle()

    async def enqueue(self) -> None:
        chance = self.chance
        name = f"t{len(self.tasks):03d}"
        task = a_task(
            name,
            at=self.rig.clock.now(),
            timeout=float(chance.randint(1, 500)),
            cpu=chance.choice([50, 100, 300]),
            gpus=chance.choice([0, 0, 1, 2]),
            retries=chance.choice([0, 1, 2]),
        )
        self.tasks[task.id] = task
        await self.rig.enqueue(task)

    async def enqueue_again(self) -> None:
        if self.tasks:
            await self.rig.enqueue(self.chance.choice(list(self.tasks.values())))

    async def cancel(self) -> None:
        if self.tasks:
            await self.rig.cancel(self.chance.choice(list(self.tasks)))

    async def end_one(self) -> None:
        there = [(n, a) for n in NODES for a in self.rig.workers.has.get(f"{n}:7004", {})]
        if not there:
            return
        node, attempt = self.chance.choice(there)
        reason = self.really_ended.setdefault(attempt, self.chance.choice(REASONS))
        report = AttemptReport(attempt, a_node(node).id, reason.attempt_state.value, self.rig.clock.now(), reason)
        await self.rig.engine.submit(AttemptReports((report,) * self.chance.choice([1, 2])))
        self.rig.workers.has[f"{node}:7004"].pop(attempt, None)
        self.ended_by_report[attempt] = reason

    async def old_report(self) -> None:
        if self.tasks:
            attempt = AttemptId(self.chance.choice(list(self.tasks)), self.chance.randint(1, 3))
            if attempt in self.ended_by_report:
                reason = self.ended_by_report[attempt]
                for node in NODES:
                    report = AttemptReport(attempt, a_node(node).id, reason.attempt_state.value, 0.0, reason)
                    await self.rig.engine.submit(AttemptReports((report,)))

    async def progress(self) -> None:
        there = [(n, a) for n in NODES for a in self.rig.workers.has.get(f"{n}:7004", {})]
        if there:
            node, attempt = self.chance.choice(there)
            kind = self.chance.choice(["PULL_STARTED", "CONTAINER_STARTING", "PROCESS_STARTED"])
            await self.rig.report(attempt, kind, node)

    async def beat(self) -> None:
        await self.beat_of(self.chance.choice(NODES))

    async def beat_of(self, node: str) -> None:
        asked_s = self.rig.clock.monotonic()
        answer = await self.rig.beat(
            node, incarnation=self.incarnation[node], files_suspended=not self.files_enforced[node]
        )
        self.files_enforced[node], self.beaten_s[node] = answer.enforced, asked_s
        here = self.rig.workers.has.get(f"{node}:7004", {})
        for attempt in answer.discard:
            assert attempt not in self.ended_by_report, "an end that counts was discarded"
            here.pop(attempt, None)
        for order in answer.stop:
            if here.pop(order.attempt, None) is not None:
                await self.rig.end(order.attempt, EndReason(EndWord.CANCELLED), node)

    async def worker_mood(self) -> None:
        workers = self.rig.workers
        address = f"{self.chance.choice(NODES)}:7004"
        mood = self.chance.choice(["well", "well", "away", "mute", "refuse"])
        for moods in (workers.away, workers.mute):
            moods.discard(address)
        workers.refuse.pop(address, None)
        if mood == "away":
            workers.away.add(address)
        elif mood == "mute":
            workers.mute.add(address)
        elif mood == "refuse":
            workers.refuse[address] = "launch-refused"
            workers.again_later = self.chance.random() < 0.5

    async def worker_restart(self) -> None:
        name = self.chance.choice(NODES)
        self.incarnation[name] += 1
        if self.chance.random() < 0.3:
            self.rig.workers.has.pop(f"{name}:7004", None)  # the machine lost everything
        if self.chance.random() < 0.5:
            await self.beat_of(name)
        await self.all_nodes()

    async def task_manager_restart(self) -> None:
        await self.rig.restart()
        self.install_faults()
        await self.all_nodes()

    async def disk(self) -> None:
        self.fault = self.chance.choice(["before", "after"])

    async def time(self) -> None:
        self.rig.clock.tick(self.chance.choice([0.5, 3, 11, 30]))
        await self.rig.advance(1)

    def launchers_stop(self) -> None:
        """What the launcher in each container does by itself: it ends when its lease passes."""
        now_s = self.rig.clock.monotonic()
        for node in NODES:
            here = self.rig.workers.has.get(f"{node}:7004", {})
            for attempt in list(here):
                granted_s = self.granted_s.setdefault((node, attempt), now_s)
                if self.files_enforced[node] and now_s - max(granted_s, self.beaten_s[node]) > 90:
                    del here[attempt]

    # -- what must hold -----------------------------------------------------------------------------

    async def check(self) -> None:
        self.launchers_stop()
        there = [a for n in NODES for a in self.rig.workers.has.get(f"{n}:7004", {})]
        where = [a.task for a in there if a not in self.really_ended]
        assert len(where) == len(set(where)), "a task runs twice at once"
        rig, state = self.rig, self.rig.engine.state
        if rig.engine._stale or state.pass_needed:
            await rig.engine.submit(TimePassed())  # as it comes every two seconds
            await rig.settle()
            state = rig.engine.state
        cards: list[str] = []
        cpu: dict[str, int] = defaultdict(int)
        for attempt in state.attempts.values():
            cards += attempt.gpu_uuids
            cpu[attempt.node_id] += attempt.shape.cpu_centi
            assert len(attempt.gpu_uuids) == attempt.shape.gpus
            assert attempt.id.task not in state.queue
            assert attempt.id.number == state.tasks[attempt.id.task].attempt
        assert len(cards) == len(set(cards)), "one GPU in two attempts"
        for name, used in cpu.items():
            assert used <= self.node(name).cpu_centi
        for task in state.tasks.values():
            assert (task.id in state.attempts) != task.waiting
            assert (task.id in state.queue) == task.waiting
        rooms = pass_input.free_resources(state, rig.settings)
        for shape, lanes in state.queue.ready_by_shape.items():
            keys = [key for lane in lanes.values() for key in lane]
            if any(fits(shape, room) for room in rooms if not room.closed):
                # Only where a task ahead has a reservation that it would delay.
                waits = [state.plan.waits[task_id_of(key)] for key in keys] if state.plan is not None else []
                assert rig.settings.discipline is not Discipline.GREEDY, "a task that fits is left waiting"
                assert waits, "a task that fits is left waiting"
                assert all(wait.why is WaitCause.RESERVED for wait in waits), (
                    f"a task that fits is left waiting: {waits}"
                )
        stored = await rig.db.read(lambda conn: queue_store.load(conn, rig.engine.read_clocks()))
        assert {t.id: t for t in stored.tasks} == state.tasks
        live = {a.id: (a.state, a.node_id, a.gpu_uuids) for a in stored.attempts}
        assert live == {a.id: (a.state, a.node_id, a.gpu_uuids) for a in state.attempts.values()}
        rows = await rig.db.read(lambda conn: conn.execute(select(attempts_table)).all())
        running = [(r.job_id, r.name) for r in rows if r.state in {s.value for s in ATTEMPT_LIVE}]
        assert len(running) == len(set(running)), "two live attempts of one task"

    async def heal(self) -> None:
        """All machines well, all reports told: everything comes to an end."""
        workers = self.rig.workers
        workers.away.clear()
        workers.mute.clear()
        workers.refuse.clear()
        self.fault = ""
        for _ in range(400):
            await self.rig.advance(4)
            for node in NODES:
                await self.beat_of(node)
            if not self.rig.engine.state.tasks:
                return
            for node in NODES:
                for attempt in list(workers.has.get(f"{node}:7004", {})):
                    await self.rig.end(attempt, exited(0), node)
        left = {str(k): str(v) for k, v in self.rig.engine.state.tasks.items()}
        raise AssertionError(f"never ended: {left}")


@pytest.mark.parametrize("seed", range(10))
async def test_random_lives(seed: int, tmp_path: Path, clock: FakeClock) -> None:
    discipline = Discipline.CONSERVATIVE if seed % 2 else Discipline.GREEDY
    async with a_task_manager(tmp_path, clock, settings=replace(SETTINGS, discipline=discipline)) as rig:
        life = Life(rig, seed)
        life.install_faults()
        await life.all_nodes()
        for _ in range(70):
            await life.step()
            await life.check()
        await life.heal()
        events = defaultdict(list)
        for event in await rig.events():
            events[tid(event.task.name)].append(event)
        stored = await rig.db.read(lambda conn: queue_store.load_tasks(conn, life.tasks))
        for task_id, task in stored.items():
            mine = events[task_id]
            assert [e.seq for e in mine] == list(range(1, len(mine) + 1))
            ends = [e.kind for e in mine if e.kind in TASK_ENDED]
            assert ends == [task.state.value]
            assert task.user_failures <= life.tasks[task_id].retries
            assert task.platform_failures <= rig.settings.retry.platform_retries
