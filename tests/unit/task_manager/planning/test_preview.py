"""Previews: what a task would get is what it gets, and the live queue never knows that somebody asked."""

from __future__ import annotations

import asyncio
import random
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.errors import Conflict, InvalidInput
from headway.rpc import convert
from headway.rpc.v1 import common_pb2
from headway.rpc.v1 import task_manager_pb2 as pb
from task_manager import wire
from task_manager.answers.preview_queries import PreviewQueries
from task_manager.limits import AdmissionLimits, ShortTaskReserve
from task_manager.model import Task
from task_manager.order import policy_registry
from task_manager.order.dynamic_policies import Fair
from task_manager.order.policy import View
from task_manager.planning.pass_model import Discipline
from tests.support.clock import FakeClock
from tests.unit.task_manager.rig import SETTINGS, GiB, TaskManagerRig, a_node, a_task, a_task_manager, tid

BARE = replace(SETTINGS, start_limit_s=0.0, stop_limit_s=0.0)
_PRIORITY = {rank: name for name, rank in convert.PRIORITY_RANK.items()}


def as_asked(task: Task) -> pb.EnqueueTask:
    """What HttpServer would send of it."""
    return pb.EnqueueTask(
        task=common_pb2.Task(name=task.id.name),
        owner=common_pb2.Account(name=task.owner),
        priority=convert.priority_to_pb(_PRIORITY[task.priority]),
        tail_timeout_s=task.tail_timeout_s,
        spec=common_pb2.TaskSpec(
            name=task.id.name, resources=wire.resources(task.shape), timeout_s=task.timeout_s, retries=task.retries
        ),
    )


async def previewed(rig: TaskManagerRig, *sets: list[Task], **more: Any) -> list[list[pb.PreviewQueueReply.Start]]:
    request = pb.PreviewQueueRequest(
        sets=[pb.PreviewQueueRequest.Set(tasks=[as_asked(task) for task in tasks]) for tasks in sets], **more
    )
    previews = PreviewQueries(rig.engine)
    try:
        reply = await previews.preview(request)
    finally:
        await previews.close()
    return [list(of_one.starts) for of_one in reply.sets]


async def one(rig: TaskManagerRig, task: Task) -> pb.PreviewQueueReply.Start:
    ((start,),) = await previewed(rig, [task])
    return start


async def same_as_submitted(rig: TaskManagerRig, tasks: list[Task]) -> None:
    """Asks first, submits then, at the same instant; the answers must be the same."""
    (said,) = await previewed(rig, tasks)
    assert {start.task for start in said} == {task.id.name for task in tasks}
    await rig.enqueue(*tasks)
    for start in said:
        entry = await rig.queries.explain(tid(start.task, tasks[0].id.job_id))
        if start.refused:
            assert (entry.state, entry.HasField("estimated_start")) == ("QUEUED", False), "a limit holds it"
            continue
        assert start.at_once == (entry.state == "RUNNING"), start.task
        if start.at_once:
            continue
        assert start.position == entry.position
        for field in ("estimated_start", "promised_start"):
            assert start.HasField(field) == entry.HasField(field), (start.task, field)  # type: ignore[arg-type]
            assert getattr(start, field) == pytest.approx(getattr(entry, field), abs=1e-3)
        assert start.estimate_rough == entry.estimate_rough
        words = [(reason.word, reason.sentence) for reason in entry.reasons]
        job = tasks[0].id.job_id
        assert [(r.word, r.sentence.replace("this-job/", f"{job}/")) for r in start.reasons] == words


def some_task(rng: random.Random, name: str, job: str, now: float) -> Task:
    return a_task(
        name,
        job=job,
        at=now,
        timeout=rng.choice([30.0, 60.0, 300.0, 3_600.0]),
        gpus=rng.choice([0, 1, 1, 1, 2, 4]),
        cpu=rng.choice([100, 200]),
        owner=rng.choice(["ann", "bob", "eve"]),
        priority=rng.choice([0, 0, 0, 1]),
        retries=rng.choice([0, 0, 2]),
    )


@pytest.mark.parametrize(
    ("policy", "more"),
    [
        ("aging_sjf", {}),
        ("aging_sjf", {"discipline": Discipline.EASY}),
        ("aging_sjf", {"discipline": Discipline.GREEDY}),
        ("aging_sjf", {"discipline": Discipline.STRICT}),
        ("aging_sjf", {"reserved": 3}),
        ("aging_sjf", {"limits": AdmissionLimits(running_gpus_per_user=3, short_reserve=ShortTaskReserve(2, 600.0))}),
        ("fifo", {}),
        ("fair", {}),
        ("adaptive", {}),
    ],
)
async def test_a_preview_is_what_the_task_then_gets(
    tmp_path: Path, clock: FakeClock, policy: str, more: dict[str, Any]
) -> None:
    rng = random.Random(f"{policy} {more}")
    settings = replace(BARE, **more)
    async with a_task_manager(tmp_path, clock, settings=settings, order=policy_registry.by_name(policy)) as rig:
        await rig.nodes(a_node("n1", gpus=4), a_node("n2", gpus=2), a_node("n3", cpu=200, memory=2 * GiB))
        for number in range(12):
            now = clock.now()
            job = f"j{number:016d}"
            await same_as_submitted(
                rig, [some_task(rng, f"t{number}-{i}", job, now) for i in range(rng.choice([1, 1, 3]))]
            )
            if rig.running() and rng.random() < 0.4:
                attempt = rng.choice(rig.running())
                await rig.end(attempt, node=rig.engine.state.attempts[attempt.task].node_id)
            await clock.advance(rng.choice([1.0, 7.0, 40.0]))
            await rig.beat("n1")
            await rig.beat("n2")
            await rig.beat("n3")
            await clock.advance(rng.choice([0.0, 0.5, 5.0]))  # nothing has happened since
            await rig.settle()


async def test_the_live_queue_does_not_know_that_somebody_asked(tmp_path: Path, clock: FakeClock) -> None:
    async with a_task_manager(tmp_path, clock, settings=BARE, order=policy_registry.by_name("fair")) as rig:
        await rig.nodes(a_node(gpus=1))
        for number in range(5):
            await rig.enqueue(a_task(f"t{number}", gpus=1, at=clock.now(), timeout=100))
        state, learnt = rig.engine.state, rig.engine.state.policy.state()
        before = (
            list(state.queue.in_order()),
            dict(state.tasks),
            dict(state.reservations),
            state.queue.waiting_gpu_s,
            state.plan,
        )
        tasks = [a_task("x", gpus=1, timeout=10)], [a_task("y", gpus=1, timeout=9_000, priority=1)]
        for (start,) in await previewed(rig, *tasks):
            assert start.sentence.endswith("; no start would be promised at once.")
        assert before == (
            list(state.queue.in_order()),
            dict(state.tasks),
            dict(state.reservations),
            state.queue.waiting_gpu_s,
            state.plan,
        )
        assert state.policy.state() == learnt
        assert not state.dirty


async def test_variants_are_compared_as_if_alone_and_say_when_a_start_can_be_promised(
    tmp_path: Path, clock: FakeClock
) -> None:
    now = clock.now()
    async with a_task_manager(tmp_path, clock, settings=BARE) as rig:
        await rig.nodes(a_node(gpus=2))
        await rig.enqueue(a_task("runs", gpus=2, at=now, timeout=600))
        await rig.enqueue(a_task("waits", gpus=2, at=now, timeout=300))
        (short,), (long,), (idle,), (shortest,) = await previewed(
            rig,
            [a_task("v1", gpus=1, timeout=60)],
            [a_task("v2", gpus=2, timeout=900)],
            [a_task("v3", timeout=900)],
            [a_task("v4", gpus=1, timeout=0.1)],
        )
        assert (short.position, long.position, idle.at_once) == (1, 2, True)
        assert short.estimated_start == pytest.approx(now + 600)
        assert long.estimated_start == pytest.approx(now + 900), "behind `waits`, and not behind the other variants"
        assert short.promise_from == pytest.approx(now + 59.9)
        assert shortest.promised_start == now + 601, "nothing shorter can come ahead of it: promised at once"
        assert idle.sentence == "It would start at once."
        assert long.sentence.startswith("It would be at position 2 of the queue and start in about 15m; a start can be")
        assert [reason.word for reason in short.reasons] == ["waiting_for_gpu"]


async def test_a_node_that_fell_silent_since_the_last_turn_takes_nothing(tmp_path: Path, clock: FakeClock) -> None:
    """PreviewQueries used to trust a node up to the next turn, two seconds at most."""
    async with a_task_manager(tmp_path, clock, settings=BARE) as rig:
        await rig.nodes(a_node(gpus=1))
        await rig.beat()
        await clock.advance(BARE.leases.silence_s)
        assert (await one(rig, a_task("x", gpus=1))).at_once
        await clock.advance(0.1)
        start = await one(rig, a_task("x", gpus=1))
        assert not start.at_once
        assert [reason.sentence for reason in start.reasons] == [
            "n1 does not answer. If n1 took work, this task could start there now."
        ]
        await same_as_submitted(rig, [a_task("x", gpus=1, at=clock.now())])


async def test_a_rule_that_learns_does_not_learn_from_variants(tmp_path: Path, clock: FakeClock) -> None:
    async with a_task_manager(tmp_path, clock, settings=BARE, order=policy_registry.by_name("fair")) as rig:
        await rig.nodes(a_node(gpus=1))
        now = clock.now()
        await rig.enqueue(*[a_task(f"t{i}", gpus=1, at=now, timeout=100, owner="bob") for i in range(4)])
        asked = [[a_task(f"v{i}", gpus=1, timeout=200)] for i in range(5)]
        positions = [starts[0].position for starts in await previewed(rig, *asked)]
        assert positions == [positions[0]] * 5


async def test_a_rule_that_learnt_what_cannot_be_copied_orders_the_queue_and_has_no_previews(
    tmp_path: Path, clock: FakeClock
) -> None:
    class Keeper(Fair):
        def arrived(self, task: Task, view: View) -> None:
            self.kept = threading.Lock()

    async with a_task_manager(tmp_path, clock, settings=BARE, order=Keeper()) as rig:
        await rig.nodes(a_node(gpus=1))
        await rig.enqueue(*[a_task(f"t{i}", gpus=1, at=clock.now()) for i in range(3)])
        with pytest.raises(Conflict, match=r"can't be copied \(cannot pickle '_thread.lock' object\)"):
            await previewed(rig, [a_task("v")])
        await rig.end(rig.running()[0])
        assert len(rig.running()) == 1
        assert rig.engine.state.queue.failure == ""


async def test_what_is_never_taken_is_told_and_has_no_start(tmp_path: Path, clock: FakeClock) -> None:
    settings = replace(BARE, limits=AdmissionLimits(max_timeouts=((0, 3_600.0),)))
    async with a_task_manager(tmp_path, clock, settings=settings) as rig:
        await rig.nodes(a_node(gpus=2))
        asked = [[a_task("v", gpus=3, timeout=60)], [a_task("v", gpus=1, timeout=7_200)]]
        (big,), (long,) = await previewed(rig, *asked)
        assert "the largest has 2" in big.refused
        assert long.refused == "Its timeout is 2h; the longest is 1h."
        assert not any(start.HasField("estimated_start") or start.position for start in (big, long))
        # With machines still to come the one could run, the other never.
        (big,), (long,) = await previewed(rig, *asked, allow_unsatisfiable=True)
        assert (big.refused, big.position, big.HasField("estimated_start")) == ("", 1, False)
        assert [reason.word for reason in big.reasons] == ["no_such_node_yet"]
        assert long.refused == "Its timeout is 2h; the longest is 1h."


async def test_a_task_that_no_machine_can_run_has_no_estimate_in_the_queue(tmp_path: Path, clock: FakeClock) -> None:
    async with a_task_manager(tmp_path, clock, settings=BARE) as rig:
        await rig.nodes(a_node(gpus=1))
        await rig.enqueue(a_task("runs", gpus=1, at=clock.now()))
        await rig.enqueue(a_task("giant", gpus=8, at=clock.now()))
        entry = await rig.queries.explain(tid("giant"))
        assert not entry.HasField("estimated_start")
        assert [reason.word for reason in entry.reasons] == ["no_such_node_yet"]


async def test_limits_of_a_preview(tmp_path: Path, clock: FakeClock) -> None:
    async with a_task_manager(tmp_path, clock) as rig:
        with pytest.raises(InvalidInput, match="at most 20 variants, not 21"):
            await previewed(rig, *[[a_task("v")]] * 21)
        with pytest.raises(InvalidInput, match="same name"):
            await previewed(rig, [a_task("v"), a_task("v")])
        await rig.nodes(a_node(cpu=100))
        (starts,) = await previewed(rig, [a_task(f"t{i}", timeout=60 + i) for i in range(9)], most=3)
        assert [start.task for start in starts] == ["t0", "t1", "t2"]


async def test_nobody_waits_for_a_preview_but_who_asked(tmp_path: Path, clock: FakeClock) -> None:
    """The queue goes on while passes of a preview are under way."""
    async with a_task_manager(tmp_path, clock, settings=BARE) as rig:
        await rig.nodes(a_node(gpus=1))
        await rig.enqueue(*[a_task(f"t{i}", gpus=1, at=clock.now(), timeout=60 + i) for i in range(300)])
        asked = asyncio.create_task(previewed(rig, *[[a_task("v", gpus=1, timeout=50)]] * 20))
        await asyncio.sleep(0)
        await rig.cancel(tid("t299"))
        assert rig.state(tid("t299")) == "gone"
        assert [starts[0].position for starts in await asked] == [1] * 20
