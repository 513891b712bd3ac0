"""Fences of the launcher that no ordinary path reaches: each alone keeps a program from running twice."""

from __future__ import annotations

import platform
import signal
import sys
import time

import pytest

from tests.unit.worker.launcher.runs import Runs
from worker import box as boxes
from worker.box import BoxEnd, EndRecord, StartedRecord

# Becomes the launcher in a process in which one system call fails: what a disk does that is about to die.
_FAILING = """
import ctypes, os, struct, sys
number, error = int(sys.argv[1]), int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050000 | error), (0x06, 0, 0, 0x7FFF0000)]
code = b"".join(struct.pack("HBBI", *step) for step in steps)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
program = Program(len(steps), code)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(program), 0, 0):
    sys.exit(99)
os.execv(sys.argv[3], sys.argv[3:])
"""
_CALLS = {"x86_64": {"fsync": 74, "renameat": 264}, "aarch64": {"fsync": 82, "renameat": 38}}
ENOENT, EIO = 2, 5


def failing(call: str, error: int) -> list[str]:
    return [sys.executable, "-ISc", _FAILING, str(_CALLS[platform.machine()][call]), str(error)]


@pytest.mark.parametrize("what", ["started", "end", "ticket_taken"])
def test_each_trace_of_an_earlier_run_alone_keeps_it_from_running_again(launch: Runs, what: str) -> None:
    """The ticket is there and valid, as after a disk that lost a part of what was written."""
    box = launch.prepare(["/bin/sh", "-c", "echo ran"])
    if what == "started":
        boxes.write_started(box, StartedRecord(1, 2, 3))
    elif what == "end":
        boxes.write_end(box, EndRecord(BoxEnd.EXITED, exit_code=0))
    else:
        box.ticket_taken.write_bytes(box.ticket.read_bytes())
    run = launch.launch(box)
    assert run.process.wait(10) == 125
    assert not box.stdout.exists()
    assert box.ticket.exists()


def test_a_launcher_makes_no_lock_of_its_own(launch: Runs) -> None:
    box = launch.prepare(["/bin/sh", "-c", "echo ran"])
    box.lock.unlink()
    assert launch.launch(box).process.wait(10) == 125
    assert not box.lock.exists()


def test_a_ticket_that_can_not_be_taken_any_more_starts_nothing(launch: Runs) -> None:
    """The Worker withdrew it between the launcher's look and its rename."""
    box = launch.prepare(["/bin/sh", "-c", f"touch {launch.folder}/ran"])
    run = launch.launch(box, prefix=failing("renameat", ENOENT))
    assert run.process.wait(20) == 125
    assert not (launch.folder / "ran").exists()
    assert boxes.read_end(box) is None


def test_an_end_that_is_not_on_the_disk_has_no_name(launch: Runs) -> None:
    """Who reads `end` may throw everything else away."""
    box = launch.prepare(["/bin/sh", "-c", f"touch {launch.folder}/ran"])
    run = launch.launch(box, prefix=failing("fsync", EIO))
    run.wait_until(lambda: (launch.folder / "ran").exists())
    time.sleep(1.0)
    assert run.process.poll() is None, "it tries again"
    assert not box.end.exists()
    run.process.kill()
    run.process.wait()


def test_nobody_reads_an_end_while_the_program_runs(launch: Runs) -> None:
    """Its space is reserved from the start, under another name."""
    run = launch.sh("echo up; sleep 60")
    run.wait_for_output(b"up\n")
    assert not run.box.end.exists()


@pytest.mark.parametrize("text", [None, b"", b"soon\n", b"-5\n"])
def test_without_a_lease_nothing_starts(launch: Runs, text: bytes | None) -> None:
    """It would run for ever on a machine that was given up."""
    box = launch.prepare(["/bin/sh", "-c", "echo ran"])
    if text is None:
        box.lease.unlink()
    else:
        box.lease.write_bytes(text)
    end = launch.launch(box).end()
    assert (end.reason, end.started_wall_ns, end.error) == (BoxEnd.START_FAILED, None, "its lease can't be read")
    assert end.stage is boxes.StartStage.SETUP, "the platform's fault"
    assert box.ticket.exists()


def test_after_a_standstill_past_its_lease_a_task_gets_no_grace(launch: Runs) -> None:
    """The machine slept, and the task was begun elsewhere: it went on for its whole grace beside that."""
    box = launch.prepare(["/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"], lease_grace_ms=500)
    run = launch.launch(box)
    run.wait_for_output(b"up")
    run.process.send_signal(signal.SIGSTOP)
    boxes.write_lease(box, boxes.boottime_ns() + 100_000_000)
    time.sleep(1)
    run.process.send_signal(signal.SIGCONT)
    assert run.end().reason is BoxEnd.LEASE_EXPIRED
    assert "ending: lease_expired , grace 0 ms" in run.log()
