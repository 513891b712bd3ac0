"""A service's life: order of start and stop, supervised loops, signals, supervisors."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headway.errors import ConfigInvalid
from headway.lifecycle import Health, Service, ServiceFailed
from headway.notify import SUPERVISOR_FD
from tests.support.waiting import eventually


class Diary:
    """Hooks that write down when they ran."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def plain(self, line: str):  # type: ignore[no-untyped-def]
        return lambda: self.lines.append(line)

    def slow(self, line: str):  # type: ignore[no-untyped-def]
        async def hook() -> None:
            await asyncio.sleep(0)
            self.lines.append(line)

        return hook

    def loop(self, line: str):  # type: ignore[no-untyped-def]
        async def loop() -> None:
            self.lines.append(line)
            try:
                await asyncio.Event().wait()
            finally:
                self.lines.append(f"{line} cancelled")

        return loop


async def test_start_and_stop_run_in_their_order() -> None:
    diary = Diary()
    service = Service("t")
    service.on_start(diary.plain("start 1"))
    service.on_start(diary.slow("start 2"))
    service.side_task("loop", diary.loop("loop"))
    service.on_open(lambda: asyncio.sleep(0))
    service.on_open(diary.plain("open"))
    service.on_refuse(diary.plain("refuse"))
    service.on_drain(diary.slow("drain"))
    service.on_stop(diary.plain("stop 1"))
    service.on_stop(diary.slow("stop 2"))
    running = asyncio.create_task(service.run(signals=False))
    await eventually(lambda: service.health.ready)
    assert diary.lines == ["start 1", "start 2", "loop", "open"]
    service.request_stop()
    await running
    assert diary.lines[4:] == ["refuse", "drain", "loop cancelled", "stop 2", "stop 1"]
    assert not service.health.ready


async def test_a_dead_side_task_stops_the_service() -> None:
    diary = Diary()
    service = Service("t")

    async def dies() -> None:
        raise ValueError("out of luck")

    service.side_task("pump", dies)
    service.on_stop(diary.plain("stopped"))
    with pytest.raises(ServiceFailed, match="t: its side task 'pump' ended unexpectedly: out of luck"):
        await service.run(signals=False)
    assert diary.lines == ["stopped"]


async def test_a_side_task_that_just_returns_stops_the_service_too() -> None:
    service = Service("t")

    async def returns() -> None:
        return

    service.side_task("pump", returns)
    with pytest.raises(ServiceFailed):
        await service.run(signals=False)


async def test_a_failed_start_releases_what_was_taken() -> None:
    diary = Diary()
    service = Service("t")
    service.on_stop(diary.plain("released"))

    def fails() -> None:
        raise ConfigInvalid("wrong")

    service.on_start(fails)
    service.on_start(diary.plain("never"))
    service.on_drain(diary.plain("never drained"))
    with pytest.raises(ConfigInvalid, match="wrong"):
        await service.run(signals=False)
    assert diary.lines == ["released"]


async def test_one_failing_hook_does_not_keep_the_others_from_releasing() -> None:
    diary = Diary()
    service = Service("t")

    def fails() -> None:
        raise OSError("stuck")

    service.on_stop(diary.plain("first"))
    service.on_stop(fails)
    service.on_refuse(fails)
    service.on_drain(fails)
    running = asyncio.create_task(service.run(signals=False))
    await eventually(lambda: service.health.ready)
    service.request_stop()
    await running
    assert diary.lines == ["first"]


async def test_draining_is_bounded() -> None:
    service = Service("t", drain_s=0.05)
    service.on_drain(lambda: asyncio.Event().wait())  # type: ignore[arg-type,return-value]
    running = asyncio.create_task(service.run(signals=False))
    await eventually(lambda: service.health.ready)
    service.request_stop()
    async with asyncio.timeout(5):
        await running


async def test_a_loop_that_loses_a_cancellation_is_stopped_all_the_same() -> None:
    service = Service("t")
    lost: list[str] = []

    async def loop() -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if lost:
                    raise
                lost.append("as asyncio.wait_for of Python 3.11 does")

    service.side_task("loop", loop)
    running = asyncio.create_task(service.run(signals=False))
    await eventually(lambda: service.health.ready)
    service.request_stop()
    async with asyncio.timeout(5):
        await running
    assert len(lost) == 1


async def test_a_start_that_hangs_can_be_stopped() -> None:
    service = Service("t")
    entered = asyncio.Event()

    async def hangs() -> None:
        entered.set()
        await asyncio.Event().wait()

    service.on_start(hangs)
    running = asyncio.create_task(service.run(signals=False))
    await entered.wait()
    service.request_stop()
    async with asyncio.timeout(5):
        await running
    assert not service.health.ready


async def test_health_is_ready_when_serving_and_nothing_fails() -> None:
    told: list[bool] = []
    health = Health()
    health.listen(told.append)
    health.serve(True)
    health.set("database", True)
    health.set("database", False, "disk full")
    health.set("mount", False)
    assert health.reasons == {"database": "disk full", "mount": "mount"}
    health.set("database", True)
    assert not health.ready
    health.set("mount", True)
    assert told == [False, True, False, True]


# -- whole processes ---------------------------------------------------------------------------------

_PROGRAM = """
import asyncio, sys, time
from headway import logs
from headway.errors import ConfigInvalid
from headway.lifecycle import Service, exit_now, run_service

async def serve(how):
    service = Service("probe", drain_s=30)
    if how == "slow":
        service.on_drain(lambda: asyncio.sleep(30))
    if how == "dies":
        async def dies():
            raise ValueError("out of luck")
        service.side_task("loop", dies)
    if how == "hangs":
        service.on_start(lambda: asyncio.ensure_future(asyncio.to_thread(time.sleep, 60)) and None)
    if how == "config":
        raise ConfigInvalid("headway.toml: [cluster] name is missing.")
    service.on_refuse(lambda: print("refusing", flush=True))
    service.on_open(lambda: print("open", flush=True))
    await service.run()

logs.setup(service="probe", fmt="json")
exit_now(run_service(serve(sys.argv[1])))
"""


def start(how: str, repository: Path, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, how],
        cwd=repository,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,  # type: ignore[call-overload]
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_in_good_order(number: signal.Signals, repository: Path) -> None:
    process = start("plain", repository)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    process.send_signal(number)
    out, _ = process.communicate(timeout=10)
    assert (out, process.returncode) == ("refusing\n", 0)


def test_a_thread_that_hangs_does_not_hold_the_exit(repository: Path) -> None:
    process = start("hangs", repository)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)
    assert process.returncode == 0


def test_a_second_signal_kills(repository: Path) -> None:
    process = start("slow", repository)
    assert process.stdout is not None
    assert process.stdout.readline() == "open\n"
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "refusing\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGTERM


def test_a_dead_side_task_is_an_exit_status_and_one_line(repository: Path) -> None:
    process = start("dies", repository)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 1
    assert "its side task 'loop' ended unexpectedly: out of luck" in err


def test_a_wrong_configuration_is_one_sentence(repository: Path) -> None:
    process = start("config", repository)
    _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (2, "headway: headway.toml: [cluster] name is missing.\n")


def test_systemd_is_told(repository: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(path)
        listener.settimeout(10)
        process = start("plain", repository, env={**os.environ, "NOTIFY_SOCKET": path})
        assert listener.recv(100) == b"READY=1"
        process.terminate()
        assert listener.recv(100) == b"STOPPING=1"
        process.communicate(timeout=10)


def test_a_supervisor_hears_readiness_and_its_death_stops_the_service(repository: Path) -> None:
    mine, theirs = socket.socketpair()
    process = start(
        "plain", repository, env={**os.environ, SUPERVISOR_FD: str(theirs.fileno())}, pass_fds=(theirs.fileno(),)
    )
    theirs.close()
    mine.settimeout(10)
    assert mine.recv(100) == b"READY=1\n"
    mine.close()  # as when `headway up` is killed
    process.communicate(timeout=10)
    assert process.returncode == 0
