"""The files half of a container runtime."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headway.ids import AttemptId
from headway.jobfile import Network
from tests.support.waiting import eventually
from tests.unit.worker.builders import an_attempt
from worker import box as boxes
from worker.box import BoxEnd, EndRecord, LaunchSpec, StartedRecord, StopWord
from worker.ports import LocalImage, StartOrder
from worker.runtime.boxed import BoxedRuntime

ATTEMPT = an_attempt()


@pytest.fixture
def runtime(tmp_path: Path) -> BoxedRuntime:
    launcher = tmp_path / "launcher"
    launcher.write_bytes(b"\x7fELF")
    return BoxedRuntime(tmp_path / "attempts", launcher)


def an_order(lease: int | None = None) -> StartOrder:
    return StartOrder(
        attempt=ATTEMPT,
        image=LocalImage("x"),
        spec=LaunchSpec(args=("true",), env={}, user="1:1", timeout_ms=1),
        command="echo hi",
        lease_until_boot_ns=lease,
        cpus_centi=1,
        memory_bytes=1,
        shm_bytes=1,
        network=Network.NONE,
    )


async def test_a_box_is_laid_out_whole(runtime: BoxedRuntime) -> None:
    box = await runtime.lay_out(an_order(123))
    assert box.command.read_text() == "echo hi"
    assert boxes.read_spec(box).args == ("true",)
    assert boxes.read_lease(box) == 123
    assert box.launcher.stat().st_mode & 0o777 == 0o755
    assert box.run.stat().st_mode & 0o777 == 0o700


async def test_a_box_in_use_is_left_alone(runtime: BoxedRuntime) -> None:
    box = await runtime.lay_out(an_order(1))
    boxes.write_started(box, StartedRecord(1, 2, 3))
    await runtime.lay_out(an_order(999))
    assert boxes.read_lease(box) == 1


async def test_records_of_the_launcher_nudge_and_show(runtime: BoxedRuntime) -> None:
    nudged: list[AttemptId] = []
    await runtime.open(nudged.append)
    box = await runtime.lay_out(an_order())
    assert (await runtime.progress(ATTEMPT)).started is None
    boxes.write_atomic(box.index, b"no news")
    boxes.write_started(box, StartedRecord(1, 2, 3))
    await eventually(lambda: nudged == [ATTEMPT])
    boxes.write_end(box, EndRecord(BoxEnd.EXITED, exit_code=0))
    await eventually(lambda: nudged == [ATTEMPT, ATTEMPT])
    progress = await runtime.progress(ATTEMPT)
    assert progress.started == StartedRecord(1, 2, 3)
    assert progress.end is not None
    await runtime.remove_box(ATTEMPT)
    assert not box.root.exists()
    await runtime.close()
    await runtime.close()


async def test_broken_records_count_as_none(runtime: BoxedRuntime) -> None:
    box = await runtime.lay_out(an_order())
    box.end.write_bytes(b"reason=nonsense\n")
    boxes.write_started(box, StartedRecord(1, 2, 3))
    progress = await runtime.progress(ATTEMPT)
    assert progress.end is None
    assert progress.started is not None


async def test_the_first_stop_word_stands_and_grace_only_shrinks(runtime: BoxedRuntime) -> None:
    box = await runtime.lay_out(an_order())
    await runtime.stop(ATTEMPT, StopWord.CANCELLED)
    await runtime.stop(ATTEMPT, StopWord.DISK_FULL, 5_000)
    await runtime.stop(ATTEMPT, StopWord.PLATFORM, 9_000)
    await runtime.stop(ATTEMPT, StopWord.PLATFORM)
    assert boxes.read_stop(box) == boxes.BoxStopOrder(StopWord.CANCELLED, 5_000)


async def test_time_is_only_added_and_nudges_once_it_is_taken(runtime: BoxedRuntime) -> None:
    nudged: list[AttemptId] = []
    await runtime.open(nudged.append)
    box = await runtime.lay_out(an_order())
    await runtime.extend(ATTEMPT, 90_000)
    await runtime.extend(ATTEMPT, 60_000)
    await runtime.extend(an_attempt("never"), 90_000)
    assert boxes.read_limits(box) == 90_000
    assert (await runtime.progress(ATTEMPT)).timeout_ms is None
    boxes.write_atomic(box.taken, b"timeout_ms=90000\n")
    await eventually(lambda: nudged == [ATTEMPT])
    assert (await runtime.progress(ATTEMPT)).timeout_ms == 90_000
    await runtime.close()


async def test_leases_are_renewed_where_there_is_a_box(runtime: BoxedRuntime) -> None:
    box = await runtime.lay_out(an_order(1))
    await runtime.renew({ATTEMPT: 77, an_attempt("unknown"): 77})
    assert boxes.read_lease(box) == 77
    await runtime.renew({ATTEMPT: None})
    written = box.lease.stat().st_mtime_ns
    assert boxes.read_lease(box) is None
    await asyncio.sleep(0.01)
    await runtime.renew({ATTEMPT: None})
    assert box.lease.stat().st_mtime_ns == written, "a file that says none already is not written each heartbeat"


async def test_orders_for_an_attempt_without_a_box_are_harmless(runtime: BoxedRuntime) -> None:
    await runtime.stop(an_attempt("never"), StopWord.CANCELLED)
    await runtime.remove_box(an_attempt("never"))
    assert (await runtime.progress(an_attempt("never"))).end is None
