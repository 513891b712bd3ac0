"""A card that fails under a task is nobody's fault but the platform's."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from headway.model.gpu_faults import GpuFaultWord
from headway.model.reasons import EndReason, EndWord
from tests.support.waiting import eventually
from tests.unit.worker.attempt.executor_rig import DONE, One, one
from tests.unit.worker.attempt.gpu_rig import CARD, GpuOne
from worker.attempt.gpu_watch import card_faults, with_faults
from worker.box import BoxEnd, EndRecord, StopWord
from worker.model import AttemptGpus, EndDecision
from worker.ports import GpuInventory
from worker.store import record_from_row

__all__ = ["one"]
LOST = {"sick": True, "fault": GpuFaultWord.OFF_THE_BUS, "note": "it fell off the bus (XID 79)"}
FAILURE = EndRecord(BoxEnd.EXITED, exit_code=1)
SENTENCE = "GPU 2 (A100) of gpu-1 failed while it ran: it fell off the bus (XID 79)."
FAILED = AttemptGpus(faults={"GPU-1": SENTENCE})


def an_end(word: EndWord, code: int | None = None) -> EndDecision:
    return EndDecision(EndReason(word, code, None, "As it was."), ("A warning.",), engine_away=False)


@pytest.mark.parametrize(
    ("end", "word"),
    [
        (an_end(EndWord.EXITED, 1), EndWord.GPU_FAILED),
        (an_end(EndWord.KILLED_OUTSIDE), EndWord.GPU_FAILED),
        (an_end(EndWord.TIMED_OUT), EndWord.GPU_FAILED),  # it slept on a lost card
        (an_end(EndWord.PLATFORM_ERROR), EndWord.GPU_FAILED),
        (an_end(EndWord.EXITED, 0), EndWord.EXITED),
        (an_end(EndWord.CANCELLED), EndWord.CANCELLED),
        (an_end(EndWord.OUT_OF_MEMORY), EndWord.OUT_OF_MEMORY),
        (an_end(EndWord.DISK_FULL), EndWord.DISK_FULL),
        (an_end(EndWord.START_FAILED), EndWord.START_FAILED),
    ],
)
def test_which_ends_a_failed_card_explains(end: EndDecision, word: EndWord) -> None:
    """G1: it was told as the user's own fault, or as that of someone on the machine."""
    decided = with_faults(end, FAILED)
    assert decided.reason.word is word
    assert decided.reason.exit_code == end.reason.exit_code
    if word is EndWord.GPU_FAILED:
        assert decided.reason.detail == SENTENCE
        assert decided.reason.platform_retry
        assert not decided.reason.user_retry
        assert decided.elsewhere
        assert decided.warnings == end.warnings
    else:
        assert decided == replace(end, warnings=("A warning.", SENTENCE))
    assert with_faults(end, AttemptGpus()) is end


def test_which_faults_are_of_the_card() -> None:
    def found(**fields: object) -> dict[str, str]:
        return card_faults(["GPU-1"], GpuInventory((replace(CARD, **fields),)), "gpu-1")  # type: ignore[arg-type]

    assert found(**LOST) == {"GPU-1": SENTENCE}
    assert found() == {}
    # No program fails for it: a hot card is slower, and a toolkit that is gone is one for new containers.
    assert found(sick=True, fault=GpuFaultWord.TOO_HOT, note="hot") == {}
    assert found(sick=True, note="its machine can't give GPUs to containers") == {}
    other = GpuInventory((replace(CARD, uuid="GPU-2"),))
    assert card_faults(["GPU-1"], other, "gpu-1") == {"GPU-1": "GPU GPU-1 of gpu-1 vanished while it ran."}
    assert card_faults(["GPU-1"], replace(other, problem="The driver does not answer."), "gpu-1") == {}


async def test_a_card_that_fell_off_the_bus_ends_as_gpu_failed(one: One) -> None:
    rig = GpuOne(one)
    rig.begin()
    await one.running()
    rig.cards.change("GPU-1", **LOST)
    one.rig.runtime.end(one.attempt, FAILURE)
    end = await one.end()
    assert (end.reason.word, end.reason.detail) == ("gpu_failed", SENTENCE)
    assert end.retry_elsewhere
    assert not end.engine_away


async def test_a_fault_that_passed_before_the_end_still_counts_and_outlives_a_restart(one: One) -> None:
    rig = GpuOne(one)
    rig.begin()
    await one.running()
    rig.cards.change("GPU-1", **LOST)
    await rig.watch.look()
    rig.cards.change("GPU-1", sick=False, fault="", note="")
    stored = one.rig.store.rows[one.attempt]
    names = ("folder", "stage", "launch", "facts", "notes", "end_report", "changed_at")
    again = record_from_row(SimpleNamespace(**dict(zip(names, stored, strict=True))))
    assert again is not None
    assert again.gpus.faults == {"GPU-1": SENTENCE}
    one.rig.runtime.end(one.attempt, FAILURE)
    assert (await one.end()).reason.word == "gpu_failed"


async def test_a_task_on_a_lost_card_goes_on_and_is_told(one: One) -> None:
    """G1: a task that sleeps on the lost card stayed RUNNING without a word."""
    rig = GpuOne(one)
    rig.begin()
    await one.running()
    rig.cards.change("GPU-1", **LOST)
    for _ in range(2):
        await rig.watch.look()
    await eventually(lambda: bool(one.rig.told.warnings), within_s=5, what="a warning")
    assert one.rig.told.warnings == [(f"{SENTENCE} The task goes on as long as it can.",)]
    assert one.record.platform_log.decode().count(SENTENCE) == 1
    assert rig.holder_told == [(one.attempt, SENTENCE)]
    assert one.record.stop is None
    one.rig.runtime.end(one.attempt, DONE)
    end = await one.end()
    assert end.kind == "SUCCEEDED"
    assert list(end.warnings) == [SENTENCE]
    await eventually(lambda: one.rig.told.warnings[-1] == (), within_s=5, what="that it goes on is taken back")


async def test_a_setting_ends_a_task_whose_card_failed(one: One) -> None:
    rig = GpuOne(one, fault_ends_task=True)
    rig.begin()
    await one.running()
    rig.cards.change("GPU-1", **LOST)
    await rig.watch.look()
    assert one.record.stop is StopWord.PLATFORM
    end = await one.end()
    assert (end.reason.word, end.reason.detail) == ("gpu_failed", SENTENCE)


async def test_a_container_that_lost_its_gpus_is_ended_at_the_platforms_cost(one: One) -> None:
    """GPU-04: a reload of the machine's service manager took them away, and every GPU call failed from then on."""
    rig = GpuOne(one)
    rig.begin()
    await one.running()
    rig.lost = ["nvidia0", "nvidiactl"]
    look = asyncio.create_task(rig.watch.look())
    await one.settle()
    await one.rig.clock.advance(2.5)  # the rules may be just being written, so it looks twice
    await look
    end = await one.end()
    assert end.reason.word == "gpu_failed"
    assert "can't open nvidia0, nvidiactl any more" in end.reason.detail
    assert "systemctl daemon-reload" in end.reason.detail


async def test_rules_that_are_just_being_written_end_nothing(one: One) -> None:
    rig = GpuOne(one)
    rig.begin()
    await one.running()
    rig.lost = ["nvidia0"]
    look = asyncio.create_task(rig.watch.look())
    await one.settle()
    rig.lost = []
    await one.rig.clock.advance(2.5)
    await look
    assert one.record.stop is None
    assert not one.record.gpus.taken


async def test_cards_that_cannot_be_asked_keep_no_end_from_being_told(one: One) -> None:
    rig = GpuOne(one)
    rig.begin()
    await one.running()

    async def broken(ours: object) -> GpuInventory:
        raise RuntimeError("a bug")

    rig.cards.read = broken  # type: ignore[method-assign]
    one.rig.runtime.end(one.attempt, FAILURE)
    assert (await one.end()).reason.word == "exited"
