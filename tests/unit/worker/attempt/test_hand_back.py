"""After an attempt its cards are clean, or nobody gets them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from headway.model.reasons import EndReason, EndWord
from tests.unit.worker.attempt.executor_rig import DONE, One, one
from tests.unit.worker.attempt.gpu_rig import CARD, MIB, GpuOne
from tests.unit.worker.builders import a_launch, an_attempt
from worker.attempt.hand_back import why_not_clean
from worker.attempt.launch_verdict import RefuseLaunch, verdict
from worker.attempt.task_controller import TaskController
from worker.model import EndDecision
from worker.ports import GpuProcess

__all__ = ["one"]
LEFT = GpuProcess(4711, "ann", "python train.py", 20 << 30)


async def pass_time(one: One, seconds: int) -> None:
    """Looks at processes work in threads."""
    for _ in range(seconds):
        await one.rig.clock.advance(1)
        await asyncio.sleep(0.003)


def test_what_is_clean() -> None:
    def why(used: int | None, *others: GpuProcess, left: tuple[GpuProcess, ...] = (), before: int | None = 4) -> str:
        gpu = replace(CARD, memory_used_bytes=None if used is None else used * MIB)
        baseline = None if before is None else before * MIB
        return why_not_clean(gpu, baseline_bytes=baseline, left=left, others=others, tolerance_bytes=64 * MIB)

    assert why(4) == ""
    assert why(68) == ""
    assert why(2052) == "2GiB of its memory are still in use after a task ended"
    assert why(4, left=(LEFT,)) == "process 4711 (python train.py) of an ended task is still on it, 20GiB"
    # People who came meanwhile are told as such, and are no reason to hold it back.
    assert why(3076, GpuProcess(9, "bob", "python x.py", 3072 * MIB)) == ""
    assert why(3076, GpuProcess(9, "bob", "python x.py", None)) == ""
    assert why(None, before=None) == ""
    assert why(None) == "a task ended on it, and its memory could not be read since"
    assert why_not_clean(None, baseline_bytes=0, left=(), others=(), tolerance_bytes=0) != ""


async def test_a_clean_card_delays_nothing(one: One) -> None:
    """GPU-14: the next task could not start before a later timer had cleaned up."""
    rig = GpuOne(one)
    rig.begin()
    await one.running()
    assert one.record.gpus.baseline_bytes == {"GPU-1": 4 * MIB}
    before = one.rig.clock.now()
    one.rig.runtime.end(one.attempt, DONE)
    assert (await one.end()).at - before < 0.2
    assert rig.watched.held_back == {}


async def test_memory_that_is_freed_in_a_moment_is_waited_for(one: One) -> None:
    rig = GpuOne(one)
    rig.begin()
    await one.running()
    rig.cards.change("GPU-1", memory_used_bytes=20 << 30)
    one.rig.runtime.end(one.attempt, DONE)
    await one.rig.clock.advance(1.0)
    assert one.rig.told.end_of(one.attempt) is None
    rig.cards.change("GPU-1", memory_used_bytes=5 * MIB)
    await one.end()
    assert rig.watched.held_back == {}


async def test_a_dirty_card_is_not_given_out_until_it_is_clean(one: One) -> None:
    """GPU-12: a new job found its card half full, of an unkillable process of an earlier one."""
    rig = GpuOne(one)
    rig.begin()
    await one.running()
    rig.cards.change("GPU-1", memory_used_bytes=20 << 30, processes=(LEFT,))
    rig.cards.of_attempts[4711] = one.attempt.folder
    rig.conditions.changed.clear()
    one.rig.runtime.end(one.attempt, DONE)
    end = await one.end()
    assert end.kind == "SUCCEEDED"
    # From the moment in which the end is told it is neither offered nor taken by a launch that came too early.
    (gpu,) = (await rig.watched.read(())).gpus
    assert (gpu.sick, gpu.fault, gpu.busy_outside) == (True, "not_clean", False)
    assert gpu.note == "process 4711 (python train.py) of an ended task is still on it, 20GiB"
    assert gpu.processes == ()
    assert rig.conditions.changed.is_set()
    launch = a_launch(an_attempt("next"), gpu_uuids=("GPU-1",))
    refused = verdict(launch, record=None, incarnation=7, conditions=(), not_clean=rig.watch.refusal(launch.gpu_uuids))
    assert isinstance(refused, RefuseLaunch)
    assert not refused.again_later
    assert "4711 (python train.py)" in refused.error.message
    assert rig.watch.refusal(("GPU-other",)) == ""
    answer = await rig.watched.return_gpu("GPU-1")
    assert not answer.returned
    assert answer.sentence.startswith("GPU-1 stays out: process 4711 (python train.py) of an ended task")
    # It lasts, so people are told.
    loop = asyncio.create_task(rig.hand_back.run())
    await pass_time(one, 50)
    assert rig.conditions.now == []
    await pass_time(one, 60)
    (condition,) = rig.conditions.now
    assert (condition.word, condition.blocks_work) == ("gpu_not_clean", False)
    assert condition.sentence.startswith(f"GPU 2 of gpu-1 is not given out after the attempt {one.attempt}: process")
    # It comes back by itself, at once.
    rig.cards.change("GPU-1", memory_used_bytes=4 * MIB, processes=())
    rig.conditions.changed.clear()
    await pass_time(one, 31)
    (gpu,) = (await rig.watched.read(())).gpus
    assert (gpu.sick, gpu.busy_outside, gpu.note) == (False, False, "")
    assert rig.watch.refusal(("GPU-1",)) == ""
    assert rig.conditions.now == []
    assert rig.conditions.changed.is_set()
    assert one.record.gpus.left == {}
    loop.cancel()


async def test_a_dirty_card_stays_held_back_over_a_restart(one: One) -> None:
    rig = GpuOne(one)
    rig.begin()
    await one.running()
    rig.cards.change("GPU-1", memory_used_bytes=20 << 30)
    one.rig.runtime.end(one.attempt, DONE)
    await one.end()
    (record,) = await one.rig.store.load()
    again = GpuOne(one, *rig.cards.cards)
    again.watch.adopt(record)
    assert again.watch.refusal(("GPU-1",)) != ""
    (gpu,) = (await again.watched.read(())).gpus
    assert gpu.sick
    again.cards.change("GPU-1", memory_used_bytes=4 * MIB)
    await again.hand_back.look_again()
    assert again.watch.refusal(("GPU-1",)) == ""


async def test_a_card_of_a_container_that_cannot_be_killed_is_held_back(one: One) -> None:
    rig = GpuOne(one)
    rig.begin()
    await one.running()
    one.record.unsafe = True
    await rig.watch.ended(one.record, one.executor.launch, EndDecision(EndReason(EndWord.PLATFORM_ERROR)))
    assert rig.watched.held_back == {"GPU-1": "a task on it can't be ended"}
    one.rig.runtime.end(one.attempt, DONE)


async def test_a_restarted_worker_gives_no_dirty_card_out(one: One) -> None:
    rig = GpuOne(one)
    rig.begin()
    await one.running()
    rig.cards.change("GPU-1", memory_used_bytes=20 << 30)
    one.rig.runtime.end(one.attempt, DONE)
    await one.end()
    await asyncio.wait_for(one.life, 10)
    again = GpuOne(one, *rig.cards.cards)
    controller = TaskController(one.rig.context, lambda: ())
    await controller.adopt()
    assert again.watch.refusal(("GPU-1",)) != ""
    await controller.close()
