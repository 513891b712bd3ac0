"""Who runs, who has run, who may start: the real launcher and the readers of its box (docs/box.md)."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from pathlib import Path

import pytest

from tests.unit.worker.launcher.runs import PYTHON, Run, Runs
from worker import box as boxes
from worker.box import Box, BoxStanding, Ticket


def standing(box: Box) -> BoxStanding:
    return boxes.judge(boxes.look(box, attempt=box.root.name, boot_id=boxes.boot_id()))


def test_a_box_tells_each_step_of_an_attempts_life(launch: Runs) -> None:
    box = launch.prepare(["/bin/sh", "-c", "echo up; read line < fifo"], workdir=str(launch.folder))
    os.mkfifo(launch.folder / "fifo")
    assert standing(box) is BoxStanding.MAY_START
    run = launch.launch(box)
    run.wait_for_output(b"up\n")
    assert standing(box) is BoxStanding.RUNS
    assert box.ticket_taken.exists()
    assert boxes.holder(box) == run.process.pid
    (launch.folder / "fifo").write_text("go\n")
    assert run.end().exit_code == 0
    assert standing(box) is BoxStanding.ENDED
    assert boxes.is_locked(box) is False
    assert boxes.holder(box) is None


def test_what_was_withdrawn_is_never_started(launch: Runs) -> None:
    box = launch.prepare(["/bin/sh", "-c", "echo ran"])
    assert boxes.withdraw(box)
    assert boxes.withdraw(box)  # safe twice
    run = launch.launch(box)
    assert run.process.wait(10) == 125
    assert not box.stdout.exists() or run.out() == b""
    assert boxes.read_end(box) is None
    assert standing(box) is BoxStanding.NEVER_STARTED


def test_a_ticket_is_taken_once_and_not_withdrawn_after_that(launch: Runs) -> None:
    box = launch.prepare(["/bin/sh", "-c", "echo up; sleep 60"])
    run = launch.launch(box)
    run.wait_for_output(b"up\n")
    assert not boxes.withdraw(box)
    assert not boxes.write_ticket(box, attempt=box.root.name, boot_id=boxes.boot_id())
    assert standing(box) is BoxStanding.RUNS


@pytest.mark.slow
def test_a_second_launcher_on_a_box_does_nothing_while_the_first_lives(launch: Runs) -> None:
    """Two containers of one attempt share the box: an engine that lost count of the first made a second one."""
    box = launch.prepare(["/bin/sh", "-c", "echo up; sleep 60"])
    first = launch.launch(box)
    first.wait_for_output(b"up\n")
    second = launch.launch(box)
    assert second.process.wait(20) == 125
    assert boxes.read_end(box) is None
    assert standing(box) is BoxStanding.RUNS
    assert first.out() == b"up\n"


def test_a_launcher_that_was_killed_leaves_a_box_that_says_so(launch: Runs) -> None:
    box = launch.prepare(["/bin/sh", "-c", "echo up; sleep 60"])
    run = launch.launch(box)
    run.wait_for_output(b"up\n")
    assert boxes.kill_launcher(box, within_s=10)
    assert run.process.wait(10) == -signal.SIGKILL
    assert standing(box) is BoxStanding.OVER
    assert boxes.kill_launcher(box, within_s=1)  # safe twice
    again = launch.launch(box)
    assert again.process.wait(10) == 125
    assert run.out() == b"up\n"


def test_a_ticket_of_another_boot_starts_nothing(launch: Runs) -> None:
    box = launch.prepare(["/bin/sh", "-c", "echo ran"])
    box.ticket.write_text(f"attempt={box.root.name}\nboot_id=00000000-0000-0000-0000-000000000000\n")
    run = launch.launch(box)
    assert run.process.wait(10) == 125
    assert box.ticket.exists()
    assert standing(box) is BoxStanding.OTHER_BOOT


@pytest.mark.parametrize("missing", ["lock", "ticket"])
def test_a_box_without_lock_or_ticket_starts_nothing(launch: Runs, missing: str) -> None:
    box = launch.prepare(["/bin/sh", "-c", "echo ran"])
    getattr(box, missing).unlink()
    run = launch.launch(box)
    assert run.process.wait(10) == 125
    assert standing(box) is BoxStanding.UNKNOWN


def test_a_lease_that_is_over_starts_nothing(launch: Runs) -> None:
    box = launch.prepare(["/bin/sh", "-c", "echo ran"])
    boxes.write_lease(box, boxes.boottime_ns() - 1)
    end = launch.launch(box).end()
    assert (end.reason, end.started_wall_ns) == (boxes.BoxEnd.LEASE_EXPIRED, None)
    assert boxes.look(box, attempt=box.root.name, boot_id=boxes.boot_id()).ticket is Ticket.READY


def test_looking_at_the_lock_keeps_no_launcher_from_starting(launch: Runs) -> None:
    box = launch.prepare(["/bin/sh", "-c", "true"])
    held = os.open(box.lock, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_SH)
    run = launch.launch(box)
    time.sleep(0.1)
    assert run.process.poll() is None
    os.close(held)
    assert run.end().exit_code == 0


def test_the_lock_is_not_passed_on_to_the_program(launch: Runs) -> None:
    """Else a process that outlives its launcher would keep the attempt alive for ever."""
    script = (
        "import os\n"
        "for fd in os.listdir('/proc/self/fd'):\n"
        "    if os.path.lexists('/proc/self/fd/' + fd): print(os.readlink('/proc/self/fd/' + fd))\n"
    )
    box = launch.prepare([PYTHON, "-ISc", script])
    run = launch.launch(box)
    run.end()
    assert str(box.lock) not in run.out().decode()


def test_the_record_names_what_was_left_in_the_background(launch: Runs) -> None:
    run = launch.sh("sleep 60 & sleep 61 & tail -f /dev/null & sleep 0.5; exit 0")
    end = run.end()
    assert (end.exit_code, end.left) == (0, 3)
    assert sorted(end.left_names.split("/")) == ["sleep", "tail"]


def test_a_record_without_background_work_names_none(launch: Runs) -> None:
    end = launch.sh("sleep 0 & wait; exit 0").end()
    assert (end.left, end.left_names) == (0, "")


@pytest.mark.root
def test_who_sees_a_box_as_a_mount_is_found(launch: Runs, tmp_path: Path) -> None:
    box = launch.prepare(["/bin/sh", "-c", "echo up; sleep 60"])
    there = tmp_path / "there"
    there.mkdir()
    mounted = f'mount --bind {box.root} {there}; exec "$@"'
    run: Run = launch.launch(box, prefix=["unshare", "--mount", "/bin/sh", "-c", mounted, "sh"])
    run.wait_for_output(b"up\n")
    assert run.process.pid in boxes.inhabitants(box)
    boxes.kill_launcher(box, within_s=10)
    run.process.wait(10)
    run.wait_until(lambda: run.process.pid not in boxes.inhabitants(box))
