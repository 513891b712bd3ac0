"""What is written is what is read, on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.ids import AttemptId
from headway.model.reasons import EndReason, EndWord
from headway.store import Database
from headway.store.migrations import differences
from task_manager.engine.events import ExtendTask
from task_manager.store import queue_store, tables
from tests.support.clock import FakeClock
from tests.support.postgres import Postgres
from tests.unit.task_manager.rig import TaskManagerRig, a_node, a_task, a_task_manager, blocked, exited, gpus_of, tid


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "tm.db")
    server: Postgres = request.getfixturevalue("postgres")
    return server.url(server.new_database())


@pytest.fixture
async def rig(url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    async with a_task_manager(tmp_path, clock, url=url) as made:
        yield made


async def test_a_whole_life_and_a_restart(rig: TaskManagerRig) -> None:
    node = a_node("n1", gpus=gpus_of("n1", 2), conditions=())
    await rig.nodes(node, a_node("n2", conditions=(blocked("disk_full", "full"),)))
    waiting = a_task("wait", gpus=2, models=("A100", "H100"), gpu_memory=1 << 30, priority=-1, tail_timeout_s=7.5)
    await rig.enqueue(
        a_task("run", gpus=1, retries=2, prints=(5, 2**63 - 1), grace_s=90.5),
        a_task("fail", retries=1),
        a_task("held", held=True),
        waiting,
    )
    await rig.report(AttemptId(tid("run"), 1), "PROCESS_STARTED", process_started_at=5.25, warnings=("odd",))
    await rig.engine.submit(ExtendTask(tid("run"), 30.0, "ann", request_id="r1"))
    await rig.report(AttemptId(tid("run"), 1), "PROCESS_STARTED", timeout_s=90.0)
    await rig.end(AttemptId(tid("fail"), 1), EndReason(EndWord.EXITED, None, 11, "Its process was ended."))
    await rig.end(AttemptId(tid("fail"), 2), exited(3))
    await rig.beat("n1")
    state = rig.engine.state
    tasks, attempts, nodes = dict(state.tasks), dict(state.attempts), dict(state.nodes)
    assert sorted(t.name for t in tasks) == ["held", "run", "wait"]
    await rig.restart()
    state = rig.engine.state
    assert state.tasks == tasks
    assert state.attempts == attempts
    assert state.nodes == nodes
    assert state.leases[node.id].suspended
    ended = await rig.db.read(lambda conn: queue_store.load_tasks(conn, [tid("fail")]))
    assert ended[tid("fail")].reason == exited(3)
    found = await rig.db.read(lambda conn: queue_store.load_attempts(conn, tid("x").job_id, [], ("", 0), 2))
    assert [(a.id.task.name, a.id.number) for a in found] == [("fail", 1), ("fail", 2)]
    assert found[0].reason == EndReason(EndWord.EXITED, None, 11, "Its process was ended.")
    rest = await rig.db.read(lambda conn: queue_store.load_attempts(conn, tid("x").job_id, [], ("fail", 2), 9))
    assert [(a.id.task.name, a.warnings) for a in rest] == [("run", ("odd",))]


async def test_a_manual_retry_replaces_the_task_and_its_spec(rig: TaskManagerRig) -> None:
    await rig.nodes(a_node())
    await rig.enqueue(a_task(timeout=10), spec=b"\x1a\x01a")
    await rig.end(AttemptId(tid("t"), 1), exited(1))
    await rig.enqueue(a_task(generation=2, timeout=20), spec=b"\x1a\x01b")
    specs = await rig.db.read(lambda conn: queue_store.load_specs(conn, [tid("t")]))
    assert specs == {tid("t"): b"\x1a\x01b"}
    stored = (await rig.db.read(lambda conn: queue_store.load(conn, rig.engine.read_clocks()))).tasks
    assert [(t.timeout_s, t.generation, t.attempt) for t in stored] == [(20, 2, 2)]
    assert (await rig.db.read(lambda conn: queue_store.load_attempt(conn, tid("t"), 1))) is not None


async def test_the_migrations_build_the_tables_of_the_code(url: str) -> None:
    db = await Database.open(url, room="task_manager")
    try:
        assert differences(db._write_engine, "task_manager", tables.metadata) == []
    finally:
        await db.close()
