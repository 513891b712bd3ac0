"""Holds: who gets the GPUs, that never two have one, and that the end comes only when nothing lives any more."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from headway.clock import SystemClock
from headway.ids import AttemptId, JobId, TaskId
from headway.jobfile.spec import Network
from worker.box import BoxEnd, BoxStanding, LaunchSpec, StopWord
from worker.holds import processes
from worker.holds.keeper import Holds
from worker.holds.record import Holder, HoldFiles
from worker.holds.runtime import RuntimeWithHolds
from worker.holds.time_is_over import HoldLimits
from worker.ports import EngineUnavailable, LocalImage, Runtime, StartOrder

KEY_HASH = "2c70e12b7a0646f92279f427c7b38e7334d8e5389cff167a1dc30e73f826b683"  # of `key`


def an_attempt(number: int = 1) -> AttemptId:
    return AttemptId(TaskId(JobId("j0123456789abcdef"), "gpus"), number)


def an_order(
    number: int = 1, *, timeout_ms: int = 60_000, lease: int | None = None, key: str | None = KEY_HASH
) -> StartOrder:
    return StartOrder(
        attempt=an_attempt(number),
        image=LocalImage(""),
        spec=LaunchSpec(args=(), env={"A": "1"}, user="", timeout_ms=timeout_ms, grace_ms=0, lease_grace_ms=0),
        command=None,
        lease_until_boot_ns=lease,
        cpus_centi=0,
        memory_bytes=0,
        shm_bytes=0,
        network=Network.OUTGOING,
        gpu_uuids=("GPU-a",),
        key_hash=key,
    )


class Line:
    """A client's connection. It keeps what it is told."""

    def __init__(self, peer: Holder) -> None:
        self.peer = peer
        self.told: list[Mapping[str, Any]] = []

    def send(self, message: Mapping[str, Any]) -> None:
        self.told.append(message)

    @property
    def granted(self) -> bool:
        return any("granted" in one for one in self.told)


def of(process: subprocess.Popen[bytes]) -> Holder:
    ticks = processes.start_ticks(process.pid)
    assert ticks is not None
    return Holder(process.pid, ticks, os.getuid())


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    found: list[subprocess.Popen[bytes]] = []
    yield found
    for process in found:
        process.kill()
        process.wait()


@pytest.fixture
def line(sleepers: list[subprocess.Popen[bytes]]) -> Line:
    return Line(of(a_sleeper(sleepers)))


def a_sleeper(sleepers: list[subprocess.Popen[bytes]], **environment: str) -> subprocess.Popen[bytes]:
    code = "import time\nprint(1, flush=True)\ntime.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env={**os.environ, **environment})
    assert process.stdout is not None
    process.stdout.readline()
    sleepers.append(process)
    return process


def some_holds(folder: Path, **limits: float) -> Holds:
    holds = Holds(folder, SystemClock(), HoldLimits(**limits))
    holds.open()
    return holds


def offered(holds: Holds, order: StartOrder) -> AttemptId:
    holds.offer(order, KEY_HASH, order.spec.env)
    return order.attempt


async def until_ended(holds: Holds, attempt: AttemptId, within_s: float = 10.0) -> BoxEnd:
    changed = asyncio.Event()
    holds.on_change = lambda attempt: changed.set()
    if holds.progress(attempt).end is None:
        await asyncio.wait_for(changed.wait(), within_s)
    end = holds.progress(attempt).end
    assert end is not None
    return end.reason


async def test_who_waits_gets_them_at_once_and_gives_them_back(tmp_path: Path, line: Line):
    holds = some_holds(tmp_path)
    holds.wait_for(line, "other")
    holds.wait_for(line, "key")
    attempt = offered(holds, an_order())
    assert line.told[0] == {"granted": str(attempt), "devices": [{"uuid": "GPU-a"}], "facts": {"A": "1"}}
    assert holds.standing(attempt) is BoxStanding.RUNS
    holds.give_back(line, 3, None)
    assert await until_ended(holds, attempt) is BoxEnd.EXITED
    end = holds.progress(attempt).end
    assert end is not None
    assert end.exit_code == 3
    await holds.close()


async def test_nobody_else_gets_them(tmp_path: Path, line: Line, sleepers: list[subprocess.Popen[bytes]]):
    holds = some_holds(tmp_path)
    attempt = offered(holds, an_order())
    stranger = Line(of(a_sleeper(sleepers)))
    holds.wait_for(stranger, "wrong")
    assert holds.standing(attempt) is BoxStanding.MAY_START
    holds.wait_for(line, "key")
    assert line.granted
    holds.wait_for(stranger, "key")  # the key alone is not enough once they are taken
    assert not stranger.granted
    holds.give_back(stranger, 0, None)
    await asyncio.sleep(0.1)
    assert holds.standing(attempt) is BoxStanding.RUNS
    await holds.close()


async def test_a_gpu_is_never_given_beside_a_hold(tmp_path: Path, line: Line):
    holds = some_holds(tmp_path)
    started = []

    class Inner:
        name, simulates, any_image = "scripted", True, True

        async def start(self, order: StartOrder) -> None:
            started.append(order.attempt)

    runtime = RuntimeWithHolds(cast(Runtime, Inner()), holds)
    await runtime.start(an_order())
    for key in (KEY_HASH, None):  # another hold, and a container
        with pytest.raises(EngineUnavailable, match="GPU-a is still held"):
            await runtime.start(an_order(2, key=key))
    await runtime.start(an_order())  # the same once more is fine
    holds.wait_for(line, "key")
    holds.give_back(line, 0, None)
    await until_ended(holds, an_attempt())
    await runtime.start(an_order(2, key=None))
    assert started == [an_attempt(2)]
    await holds.close()


async def test_a_restarted_worker_knows_the_holder(tmp_path: Path, line: Line, sleepers: list[subprocess.Popen[bytes]]):
    holds = some_holds(tmp_path)
    attempt = offered(holds, an_order())
    holds.wait_for(line, "key")
    again = some_holds(tmp_path)  # the other one was killed: it says nothing more
    assert again.standing(attempt) is BoxStanding.RUNS
    stranger = Line(of(a_sleeper(sleepers)))
    again.wait_for(stranger, "key")
    assert not stranger.granted
    back = Line(line.peer)
    again.wait_for(back, "key")
    assert back.granted
    sleepers[0].kill()
    sleepers[0].wait()
    assert await until_ended(again, attempt) is BoxEnd.STOPPED
    await holds.close()
    await again.close()


async def test_a_process_with_the_same_number_is_another_one(tmp_path: Path, line: Line):
    holds = some_holds(tmp_path)
    attempt = offered(holds, an_order())
    holds.wait_for(line, "key")
    files = HoldFiles(tmp_path)
    (record,) = files.load()
    record.holder = Holder(line.peer.pid, line.peer.start_ticks + 1, line.peer.uid)
    files.put(record)
    again = some_holds(tmp_path)
    assert await until_ended(again, attempt) is BoxEnd.STOPPED
    assert processes.lives(line.peer), "it is nobody's holder, so nobody may kill it"
    await holds.close()
    await again.close()


async def test_the_end_comes_when_nothing_lives(
    tmp_path: Path, line: Line, sleepers: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
):
    holds = some_holds(tmp_path)
    attempt = offered(holds, an_order())
    child = a_sleeper(sleepers, HEADWAY_HOLD=str(attempt))
    holds.wait_for(line, "key")
    with monkeypatch.context() as no_rights:
        no_rights.setattr(processes, "kill", lambda holder, number=9: None)
        sleepers[0].kill()
        sleepers[0].wait()
        await asyncio.sleep(0.3)
        assert holds.progress(attempt).end is None
        with pytest.raises(EngineUnavailable):
            holds.check_free(an_attempt(2), ["GPU-a"])
    await until_ended(holds, attempt)
    assert child.wait(5) == -9
    await holds.close()


async def test_an_offer_that_nobody_takes_ends(tmp_path: Path, line: Line):
    holds = some_holds(tmp_path, take_s=0.1)
    attempt = offered(holds, an_order())
    assert await until_ended(holds, attempt) is BoxEnd.STOPPED
    holds.wait_for(line, "key")
    assert not line.granted
    await holds.close()


async def test_what_was_withdrawn_is_never_given(tmp_path: Path, line: Line):
    holds = some_holds(tmp_path)
    attempt = offered(holds, an_order())
    assert holds.withdraw(attempt)
    holds.wait_for(line, "key")
    assert not line.granted
    again = some_holds(tmp_path)
    assert again.standing(attempt) is BoxStanding.NEVER_STARTED
    taken = offered(again, an_order(2))
    again.wait_for(line, "key")
    assert not again.withdraw(taken)
    await holds.close()
    await again.close()


@pytest.mark.parametrize(
    ("order", "limits", "reason"),
    [
        (an_order(timeout_ms=100), {}, BoxEnd.TIMED_OUT),
        (an_order(lease=1), {}, BoxEnd.LEASE_EXPIRED),
        (an_order(), {"silence_s": 0.1}, BoxEnd.STOPPED),
    ],
    ids=["timeout", "lease", "silence"],
)
async def test_it_ends_in_time_and_its_process_too(
    tmp_path: Path, line: Line, order: StartOrder, limits: dict[str, float], reason: BoxEnd
):
    holds = some_holds(tmp_path, **limits)
    attempt = offered(holds, order if order.lease_until_boot_ns is None else an_order())
    holds.wait_for(line, "key")
    if order.lease_until_boot_ns is not None:
        holds.renew(attempt, order.lease_until_boot_ns)
    assert await until_ended(holds, attempt) is reason
    assert not processes.lives(line.peer)
    await holds.close()


async def test_a_lease_that_ran_out_while_no_worker_lived(tmp_path: Path, line: Line):
    holds = some_holds(tmp_path)
    soon_ns = holds._now_ns() + 100_000_000
    attempt = offered(holds, an_order(lease=soon_ns))
    holds.wait_for(line, "key")
    await holds.close()
    await asyncio.sleep(0.2)
    again = some_holds(tmp_path)
    again.renew(attempt, soon_ns + 10**12)  # too late: others may have been told that it is over
    assert await until_ended(again, attempt) is BoxEnd.LEASE_EXPIRED
    await again.close()


async def test_more_time_and_a_stop(tmp_path: Path, line: Line):
    holds = some_holds(tmp_path)
    attempt = offered(holds, an_order(timeout_ms=300))
    holds.wait_for(line, "key")
    holds.extend(attempt, 60_000)
    assert holds.progress(attempt).timeout_ms == 60_000
    await asyncio.sleep(0.4)
    assert holds.standing(attempt) is BoxStanding.RUNS
    holds.stop(attempt, StopWord.CANCELLED, 5_000)
    assert {"stop": "cancelled", "grace": 5.0} in line.told
    holds.give_back(line, 143, None)
    assert await until_ended(holds, attempt) is BoxEnd.STOPPED
    await holds.close()


async def test_the_holder_is_told_once_that_a_card_failed_and_again_when_it_comes_back(tmp_path: Path, line: Line):
    """It got no word."""
    holds = some_holds(tmp_path)
    holds.wait_for(line, "key")
    attempt = offered(holds, an_order())
    holds.warn(attempt, "GPU 0 failed.")
    holds.warn(attempt, "GPU 0 failed.")
    holds.warn(an_attempt(2), "Of a container.")
    assert [one for one in line.told if "warning" in one] == [{"warning": "GPU 0 failed."}]
    assert holds.standing(attempt) is BoxStanding.RUNS
    holds.gone(line)
    holds.warn(attempt, "GPU 1 failed.")
    second = Line(line.peer)
    holds.wait_for(second, "key")
    assert [one["warning"] for one in second.told if "warning" in one] == ["GPU 0 failed.", "GPU 1 failed."]
    await holds.close()
