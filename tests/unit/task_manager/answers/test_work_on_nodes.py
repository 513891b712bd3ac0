"""Which node has work of whom: what a Worker's certificate opens depends on it."""

from __future__ import annotations

from pathlib import Path

from headway.ids import AttemptId, NodeId
from headway.rpc.v1 import common_pb2, task_manager_pb2
from task_manager.answers.work_on_nodes import WorkOnNodes
from task_manager.dispatch.image_prefetch import ImagePrefetchPlanner
from task_manager.engine.events import HeartbeatReceived, LiveAttempt
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import a_node, a_task, a_task_manager, replace

N1, N2 = NodeId("n1"), NodeId("n2")


async def test_work_counts_while_it_is_live_and_on_its_own_node(tmp_path: Path, clock: FakeClock) -> None:
    async with a_task_manager(tmp_path, clock) as rig:
        work = WorkOnNodes(rig.engine, lambda node, account: False)
        await rig.nodes(a_node("n1"), a_node("n2", cpu=1))
        await rig.beat("n1")
        await rig.beat("n2")
        await rig.enqueue(a_task("a", owner="ann"))
        attempt = rig.only_attempt(a_task("a").id)
        assert await work.of_account(N1, "ann")
        assert not await work.of_account(N2, "ann")
        assert not await work.of_account(N1, "bob")
        assert not await work.of_account(N1, "")
        assert await work.of_attempt(N1, attempt)
        assert not await work.of_attempt(N2, attempt)
        assert not await work.of_attempt(N1, AttemptId(attempt.task, attempt.number + 1))
        await rig.end(attempt)
        assert not await work.of_account(N1, "ann")
        assert not await work.of_attempt(N1, attempt)


async def test_an_image_that_a_node_is_to_prepare_counts_for_its_account(tmp_path: Path, clock: FakeClock) -> None:
    async with a_task_manager(tmp_path, clock) as rig:
        await rig.nodes(a_node("n1", cpu=100), a_node("n2", cpu=50))
        await rig.beat("n1")
        await rig.beat("n2")
        message = task_manager_pb2.EnqueueTask(job_name="j")
        message.spec.name, message.spec.image = "second", "reg.example/tool:1"
        message.spec.image_digest = f"sha256:{'1' * 64}"
        message.spec.image_source = common_pb2.IMAGE_SOURCE_REGISTRY
        message.owner.name = "bob"
        waits = a_task("second", owner="bob")
        shape = replace(waits.shape, cpu_centi=100, image=message.spec.image_digest)
        await rig.enqueue(a_task("first", owner="ann"))
        await rig.enqueue(replace(waits, shape=shape), spec=message.SerializeToString())
        planner = ImagePrefetchPlanner(rig.engine, rig.db, rig.clock, rig.workers, rig.dispatcher.address)
        work = WorkOnNodes(rig.engine, planner.prepares_for)
        assert not await work.of_account(N1, "bob")
        await planner.round()
        assert [address for address, _names in rig.workers.wishes] == ["n1:7004"]
        assert await work.of_account(N1, "bob")
        assert not await work.of_account(N2, "bob")
        await rig.cancel(waits.id)
        await planner.round()
        assert not await work.of_account(N1, "bob")


async def test_what_a_worker_alone_says_opens_nothing(tmp_path: Path, clock: FakeClock) -> None:
    """A thief with a Worker's certificate claimed to run a waiting task, and got its owner's passwords."""
    async with a_task_manager(tmp_path, clock) as rig:
        await rig.nodes(a_node("n1", cpu=1))
        await rig.beat("n1")
        await rig.enqueue(a_task("waits", owner="bob", cpu=100))
        claimed = LiveAttempt(AttemptId(a_task("waits").id, 1), 1)
        beat = HeartbeatReceived(N1, 1, "n1:7004", (claimed.id,), False, False, (claimed,))
        for _life in range(2):
            await rig.engine.submit(beat)
            await rig.settle()
            assert rig.running() == [claimed.id], "TaskManager takes it for an attempt that it had lost"
            work = WorkOnNodes(rig.engine, lambda node, account: False)
            assert not await work.of_account(N1, "bob")
            assert not await work.of_attempt(N1, claimed.id)
            await rig.restart()
