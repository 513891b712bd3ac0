"""Who takes more than a share of a GPU is ended, and nobody else pays for it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from headway.jobfile.spec import ResourceSpec
from headway.model.reasons import EndReason, EndWord
from headway.units import GIB
from tests.unit.worker.attempt.executor_rig import One, one
from tests.unit.worker.attempt.gpu_rig import CARD, GpuOne
from tests.unit.worker.builders import a_launch, an_attempt
from worker.attempt.share_watch import (
    ShareUse,
    breach_sentence,
    suggested_share,
    use_of,
    with_hit,
)
from worker.box import BoxEnd, EndRecord
from worker.machine.offered_gpus import GpuLook
from worker.model import AttemptGpus, AttemptRecord, AttemptStage, AttemptTimes, EndDecision
from worker.ports import GpuInventory, GpuProcess
from worker.store import record_from_row

__all__ = ["one"]
SHARED = replace(CARD, shared=True)
RESOURCES = ResourceSpec(gpu_share_bytes=6 * GIB)
FAILURE = EndRecord(BoxEnd.EXITED, exit_code=1)


def neighbour(name: str, share: int, stage: AttemptStage = AttemptStage.LIVE) -> Any:
    """Another executor that has a share of the card."""
    attempt = an_attempt(name)
    launch = a_launch(attempt, resources=ResourceSpec(gpu_share_bytes=share), gpu_uuids=("GPU-1",))
    return SimpleNamespace(launch=launch, record=AttemptRecord(attempt, stage, b"", AttemptTimes(0.0)))


class Sharing:
    """One real executor with a share of 6 GiB, and neighbours."""

    def __init__(self, one: One, *neighbours: Any) -> None:
        self.one = one
        self.rig = GpuOne(one, SHARED)
        using = self.rig._using
        self.rig._using = lambda: [*using(), *neighbours]  # type: ignore[method-assign]
        self.rig.shares._using_resources = lambda: self.rig._using()
        self.rig.watch._using_resources = lambda: using()
        self.rig.begin(resources=RESOURCES, retries=1)

    def held(self, **bytes_by_pid: int | None) -> None:
        """`mine=…` is the executor's process; others are of the neighbours with these names."""
        processes = []
        for pid, (name, held) in enumerate(bytes_by_pid.items(), 1):
            folder = self.one.attempt.folder if name == "mine" else an_attempt(name).folder
            self.rig.cards.of_attempts[pid] = folder
            processes.append(GpuProcess(pid, "", "python", held))
        self.rig.cards.change("GPU-1", processes=tuple(processes))


def test_what_an_attempt_holds_is_the_sum_of_its_processes() -> None:
    launch = a_launch(an_attempt("a"), resources=RESOURCES, gpu_uuids=("GPU-1",))
    mine = {
        "GPU-1": {
            launch.attempt.folder: [GpuProcess(1, memory_used_bytes=4 * GIB), GpuProcess(2, memory_used_bytes=3 * GIB)]
        }
    }
    look = GpuLook(GpuInventory((SHARED,)), mine)
    assert use_of(launch, look) == ShareUse("GPU-1", 6 * GIB, 7 * GIB)
    assert use_of(launch, GpuLook(GpuInventory((SHARED,)))) == ShareUse("GPU-1", 6 * GIB, 0)
    unknown = GpuLook(GpuInventory((SHARED,)), {"GPU-1": {launch.attempt.folder: [GpuProcess(1)]}})
    assert use_of(launch, unknown) == ShareUse("GPU-1", 6 * GIB, None)
    assert not ShareUse("GPU-1", 6 * GIB, None).is_over
    assert not ShareUse("GPU-1", 6 * GIB, 6 * GIB).is_over
    silent = GpuLook(GpuInventory((SHARED,), problem="It does not answer."), mine)
    assert use_of(launch, silent) == ShareUse("GPU-1", 6 * GIB, None)
    assert use_of(a_launch(an_attempt("b"), gpu_uuids=("GPU-1",)), look) is None


def test_the_sentence_has_the_numbers_and_a_share_that_is_enough() -> None:
    assert suggested_share(7 * GIB) == 31 * (GIB // 4)
    assert breach_sentence(ShareUse("GPU-1", 6 * GIB, 7 * GIB), "GPU 2 of gpu-1") == (
        "It held 7GiB of the memory of GPU 2 of gpu-1, more than its share of 6GiB; CUDA's own part counts too. A "
        "share of 7936MiB would have been enough so far."
    )


async def test_one_look_above_the_share_ends_nobody_and_two_in_a_row_do(one: One) -> None:
    sharing = Sharing(one)
    await one.running()
    for held in (7 * GIB, 5 * GIB, 7 * GIB, None, 7 * GIB):
        sharing.held(mine=held)
        await sharing.rig.shares.look()
    assert sharing.rig.over == []
    await sharing.rig.shares.look()
    ((attempt, sentence),) = sharing.rig.over
    assert attempt == one.attempt
    assert "more than its share of 6GiB" in sentence
    one.rig.runtime.end(one.attempt, EndRecord(BoxEnd.STOPPED, stop_word=one.record.stop, signal=15))
    sharing.held()
    end = await one.end()
    assert (end.reason.word, end.reason.detail) == ("gpu_memory", sentence)


async def test_a_neighbour_is_left_alone_and_its_failure_is_the_platforms(one: One) -> None:
    sharing = Sharing(one, neighbour("greedy", 4 * GIB))
    await one.running()
    sharing.held(mine=5 * GIB, greedy=6 * GIB)
    await sharing.rig.shares.look()
    assert sharing.rig.over == []
    await sharing.rig.shares.look()
    assert [attempt for attempt, _ in sharing.rig.over] == [an_attempt("greedy")]
    assert one.record.stop is None or one.record.stop.value != "platform"
    stored = one.rig.store.rows[one.attempt]
    names = ("folder", "stage", "launch", "facts", "notes", "end_report", "changed_at")
    again = record_from_row(SimpleNamespace(**dict(zip(names, stored, strict=True))))
    assert again is not None
    assert again.gpus.hit == one.record.gpus.hit != ""


async def test_a_failure_before_the_breach_was_seen_is_the_platforms_too(one: One) -> None:
    """The neighbour's allocation fails in the same moment in which another one takes too much."""
    sharing = Sharing(one, neighbour("greedy", 4 * GIB))
    await one.running()
    sharing.held(greedy=6 * GIB)
    one.rig.runtime.end(one.attempt, FAILURE)
    end = await one.end()
    assert end.reason.word == "gpu_neighbour"
    assert end.reason.exit_code == 1


async def test_who_takes_too_much_is_nobodys_victim(one: One) -> None:
    sharing = Sharing(one, neighbour("greedy", 4 * GIB))
    await one.running()
    sharing.held(mine=7 * GIB, greedy=6 * GIB)
    await sharing.rig.shares.look()
    assert one.record.gpus.hit == ""
    one.rig.runtime.end(one.attempt, FAILURE)
    sharing.held(greedy=6 * GIB)
    assert (await one.end()).reason.word == "exited"


async def test_without_neighbours_a_failure_is_its_own(one: One) -> None:
    sharing = Sharing(one, neighbour("calm", 4 * GIB))
    await one.running()
    sharing.held(mine=5 * GIB, calm=4 * GIB)
    await sharing.rig.shares.look()
    one.rig.runtime.end(one.attempt, FAILURE)
    sharing.held(calm=4 * GIB)
    assert (await one.end()).reason.word == "exited"


def test_which_ends_a_breach_explains_and_for_how_long() -> None:
    gpus = AttemptGpus(hit="It may have been hit.", hit_at=100.0)

    def ends(word: EndWord, code: int | None, now: float = 105.0) -> EndWord:
        return with_hit(EndDecision(EndReason(word, code)), gpus, now).reason.word

    assert ends(EndWord.EXITED, 1) is EndWord.GPU_NEIGHBOUR
    assert ends(EndWord.EXITED, 1, now=111.0) is EndWord.EXITED
    assert ends(EndWord.EXITED, 0) is EndWord.EXITED
    assert ends(EndWord.TIMED_OUT, None) is EndWord.TIMED_OUT
    assert ends(EndWord.CANCELLED, None) is EndWord.CANCELLED
    assert with_hit(EndDecision(EndReason(EndWord.EXITED, 1)), AttemptGpus(), 0.0).reason.word is EndWord.EXITED
    assert EndWord.GPU_NEIGHBOUR.facts.platform_retry
    assert EndWord.GPU_MEMORY.facts.user_retry


async def test_a_card_with_neighbours_is_clean_once_its_own_processes_are_gone(one: One) -> None:
    """Memory of a shared card comes and goes with the neighbours, so it says nothing of the one that ended."""
    sharing = Sharing(one, neighbour("calm", 4 * GIB))
    await one.running()
    assert one.record.gpus.baseline_bytes == {}
    sharing.held(mine=5 * GIB, calm=4 * GIB)
    sharing.rig.cards.change("GPU-1", memory_used_bytes=9 * GIB)
    sharing.held(calm=4 * GIB)
    sharing.rig.cards.change("GPU-1", memory_used_bytes=4 * GIB)
    one.rig.runtime.end(one.attempt, EndRecord(BoxEnd.EXITED, exit_code=0))
    await one.end()
    assert sharing.rig.watched.held_back == {}


def test_the_attempt_of_a_rehearsal_is_known_by_its_folder(tmp_path: Any) -> None:
    from worker.machine.gpu_processes import GpuProcesses

    ours, others = GpuProcesses(tmp_path).split(
        [GpuProcess(1, memory_used_bytes=1, attempt="a.t.1"), GpuProcess(2, "ann")]
    )
    assert list(ours) == ["a.t.1"]
    assert [one.pid for one in others] == [2]
