"""Who gets the TERM first: the main process, or the program that a shell waits for. With real processes.

The others get it once that one has ended. Else its helpers would die under a program that saves its work.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.unit.worker.launcher.runs import PYTHON, Run, Runs
from worker import box as boxes
from worker.box import BoxEnd, StopWord

# Asks its helper for one more answer after the TERM, as a trainer asks its data loaders; a helper dies of a TERM.
# `os.write`, since a handler's `print` fails while the `print` that it interrupts is not done yet. Short sleeps, since
# a signal just before a `pause` would be heard at the next one only.
TRAINER = """
import os, signal, subprocess, sys, time
helper = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def save(number, frame):
    helper.stdin.write(b"batch\\n")
    helper.stdin.flush()
    os.write(1, b"saved " + (helper.stdout.readline() or b"nothing\\n"))
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
os.write(1, b"ready\\n")
while True:
    time.sleep(0.02)
"""
# Counts the signals that reach it.
COUNTER = """
import signal, sys, time
heard = []
signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
print("ready", flush=True)
while not heard:
    time.sleep(0.02)
time.sleep(0.3)
print("heard", len(heard), flush=True)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "trainer.py").write_text(TRAINER)
    (tmp_path / "counter.py").write_text(COUNTER)
    return tmp_path


def stopped(run: Run, *, ready: bytes = b"ready") -> bytes:
    """Its output, after a stop with a grace that is long enough for everything."""
    run.wait_for_output(ready)
    boxes.write_stop(run.box, StopWord.CANCELLED, grace_ms=15_000)
    assert run.end().reason is BoxEnd.STOPPED
    return run.out()


def test_the_main_process_is_told_before_its_helpers(launch: Runs, program: Path) -> None:
    assert b"saved batch" in stopped(launch(PYTHON, "-IS", str(program / "trainer.py")))


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
@pytest.mark.parametrize(
    "script",
    [
        "{python} {folder}/trainer.py; true",
        "set -e\n{python} {folder}/trainer.py\necho done",
        "{shell} -c '{python} {folder}/trainer.py; true'; true",
        "cd /; ({python} {folder}/trainer.py; true); true",
        "{python} {folder}/trainer.py | cat",
        "{python} {folder}/trainer.py & wait",
        "trap 'echo trap' TERM; {python} {folder}/trainer.py; true",
    ],
)
def test_where_a_shell_is_the_main_process_the_program_that_it_waits_for_is_told(
    launch: Runs, program: Path, shell: str, script: str
) -> None:
    words = script.format(python=f"{PYTHON} -IS", folder=program, shell=shell)
    assert b"saved batch" in stopped(launch(shell, "-c", words))


def test_a_script_with_its_shell_in_its_first_line_is_a_shell(launch: Runs, program: Path) -> None:
    script = program / "run.sh"
    script.write_text(f"#!/bin/sh\n{PYTHON} -IS {program}/trainer.py\ntrue\n")
    script.chmod(0o755)
    assert b"saved batch" in stopped(launch(str(script)))


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_a_shell_that_passes_the_signal_on_is_told_alone(launch: Runs, program: Path, shell: str) -> None:
    script = f"trap 'kill -TERM $!' TERM; {PYTHON} -IS {program}/counter.py & wait; wait"
    assert b"heard 1\n" in stopped(launch(shell, "-c", script))


def test_the_trap_of_a_shell_runs_after_the_program_that_it_waits_for(launch: Runs, program: Path) -> None:
    script = f"trap 'echo trap' TERM; {PYTHON} -IS {program}/trainer.py; echo after"
    out = stopped(launch.sh(script))
    assert out.index(b"saved batch") < out.index(b"trap")


def test_what_comes_last_through_a_pipe_arrives(launch: Runs, program: Path) -> None:
    log = program / "log"
    run = launch.sh(f"{PYTHON} -IS {program}/trainer.py | tee {log}")
    stopped(run)
    assert log.read_text() == "ready\nsaved batch\n"


def test_the_others_are_told_once_the_first_has_ended(launch: Runs, program: Path) -> None:
    helper = (
        "import os, signal, sys, time\\n"
        "signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b'helper told\\\\n'), sys.exit(0)))"
    )
    helper += "\\nos.write(1, b'ready\\\\n')\\nwhile True: time.sleep(0.02)"
    run = launch.py(
        "import os, signal, subprocess, sys, time\n"
        "def end(*_):\n"
        "    print('main told', flush=True)\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        f"subprocess.Popen([{PYTHON!r}, '-ISc', \"{helper}\"], start_new_session=True)\n"
        "while True: time.sleep(0.02)\n"
    )
    assert stopped(run) == b"ready\nmain told\nhelper told\n"


def test_nobody_outlives_the_grace_of_one_that_does_not_listen(launch: Runs) -> None:
    run = launch.sh("trap '' TERM; echo ready; while :; do sleep 1; done", grace_ms=300, timeout_ms=20_000)
    run.wait_for_output(b"ready")
    boxes.write_stop(run.box, StopWord.CANCELLED, grace_ms=300)
    end = run.end()
    assert (end.reason, end.signal) == (BoxEnd.STOPPED, 9)


def test_a_stopped_main_process_hears_it(launch: Runs, program: Path) -> None:
    run = launch(PYTHON, "-IS", str(program / "trainer.py"))
    run.wait_for_output(b"ready")
    os.kill(int(run.log().partition("started as pid ")[2].split()[0]), signal.SIGSTOP)
    assert b"saved batch" in stopped(run)
