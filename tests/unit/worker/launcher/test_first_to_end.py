"""Who gets the TERM first: the main process, or the program that a shell waits for. With real processes.

The others get it once that one has ended. Else its helpers would die under a program that saves its work.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from tests.unit.worker.launcher.runs import PYTHON, Run, Runs
from worker import box as boxes
from worker.box import BoxEnd, StopWord

# Asks its helper for one more answer after the TERM, as a trainer asks its data loaders; a helper dies of a TERM.
# Short sleeps, since a signal just before a `pause` would be heard at the next one only.
TRAINER = """
import os, signal, socket, subprocess, time
ours, theirs = socket.socketpair()
helper = subprocess.Popen(["cat"], stdin=theirs, stdout=theirs)
theirs.close()
def save(number, frame):
    time.sleep(0.05)
    try:
        ours.sendall(b"batch")
        answer = ours.recv(9)
    except OSError:
        answer = b""
    os.write(1, b"saved %s\\n" % (answer or b"nothing"))
    os._exit(0)
signal.signal(signal.SIGTERM, save)
os.write(1, b"ready\\n")
while True:
    time.sleep(0.05)
"""
# Counts the signals that reach it.
COUNTER = """
import signal, sys, time
heard = []
signal.signal(signal.SIGTERM, lambda *_: heard.append(1))
print("ready", flush=True)
while not heard:
    signal.pause()
time.sleep(0.3)
print("heard", len(heard), flush=True)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "trainer.py").write_text(TRAINER)
    (tmp_path / "counter.py").write_text(COUNTER)
    (tmp_path / "deaf.py").write_text(f"import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n{TRAINER}")
    (tmp_path / "wrapper.py").write_text(
        f"import subprocess, sys\nsubprocess.run([sys.executable, '-IS', {str(tmp_path / 'trainer.py')!r}])\n"
    )
    (tmp_path / "Makefile").write_text(f"all:\n\t{PYTHON} -IS {tmp_path}/trainer.py\n\ttouch {tmp_path}/after\n")
    return tmp_path


def stopped(run: Run, *, ready: bytes = b"ready") -> bytes:
    """Its output, after a stop with a grace that is long enough for everything."""
    run.wait_for_output(ready)
    boxes.write_stop(run.box, StopWord.CANCELLED, grace_ms=15_000)
    assert run.end().reason is BoxEnd.STOPPED
    return run.out()


def test_the_main_process_is_told_before_its_helpers(launch: Runs, program: Path) -> None:
    assert b"saved batch" in stopped(launch(PYTHON, "-IS", str(program / "trainer.py")))


ANY_SHELL = [
    "{trainer} && {after}; {after}",
    "set -e\n{trainer}\n{after}",
    "if {trainer}; then {after}; fi",
    "f() {{ {trainer}; {after}; }}; f",
    "while :; do {trainer}; {after}; done",
    "{shell} -c '{trainer}; {after}'; {after}",
    "cd /; ({trainer}; {after}); {after}",
    "{trainer} | cat; {after}",
    "seq 3 | while read i; do {trainer}; {after}; done",
    "exec 3>&1; x=$({trainer} | tee /dev/fd/3); {after}",
    "{trainer} & wait $!; {after}",
    "({trainer}; {after}) & wait",
    "{trainer} & while :; do sleep 0.05; done",
    "trap 'echo trap; exit' TERM; {trainer}; {after}",
    "trap 'exit' TERM; {deaf}; {after}",
    "{wrapper}; {after}",
    "timeout 100 {trainer}; {after}",
    "echo 1 2 | xargs -n 1 {trainer}; {after}",
    "exec make -s -f {folder}/Makefile",
]
# Beside the program there is another one of the shell, which is no background job to it.
BASH = [
    "exec > >(tee {folder}/log); {trainer}; {after}",
    "exec > >(tee {folder}/log); {trainer} & wait; {after}",
    "{trainer} > >(tee {folder}/log); {after}",
    "coproc cat; {trainer}; {after}",
    "while read i; do {trainer}; {after}; done < <(seq 3; exec sleep 100)",
    "set -m; {trainer} & {trainer} & wait; {after}",
    "trap 'echo trap' EXIT; {trainer}; {after}",
]


@pytest.mark.parametrize(
    ("shell", "script"),
    [*((shell, one) for shell in ("/bin/sh", "/bin/bash") for one in ANY_SHELL), *(("/bin/bash", one) for one in BASH)],
)
def test_the_program_that_a_shell_waits_for_saves_and_nothing_of_the_script_follows(
    launch: Runs, program: Path, shell: str, script: str
) -> None:
    names = {name: f"{PYTHON} -IS {program}/{name}.py" for name in ("trainer", "deaf", "wrapper")}
    words = script.format(folder=program, shell=shell, after=f"touch {program}/after", **names)
    out = stopped(launch(shell, "-c", words))
    assert out.count(b"saved batch") == out.count(b"ready") > 0
    assert not (program / "after").exists()


def test_a_script_with_its_shell_in_its_first_line_is_a_shell(launch: Runs, program: Path) -> None:
    script = program / "run.sh"
    script.write_text(f"#!/bin/sh\n{PYTHON} -IS {program}/trainer.py\ntrue\n")
    script.chmod(0o755)
    assert b"saved batch" in stopped(launch(str(script)))


def test_each_program_in_the_background_is_told_at_once(launch: Runs) -> None:
    run = launch.sh("i=0; while [ $i -lt 70 ]; do sleep 100 & i=$((i + 1)); done; sleep 0.3; echo ready; wait")
    stopped(run)
    assert len(re.findall(r"TERM goes to sleep \(\d+\) first", run.log())) == 70


def test_the_launcher_needs_no_power_to_tell_a_program_from_what_reads_its_output(launch: Runs) -> None:
    """Process 1 of a container is root, and may not look into processes of others."""
    with tempfile.TemporaryDirectory(prefix="hw") as name:
        folder = Path(name)
        folder.chmod(0o755)
        shutil.copy("/bin/sh", folder / "trainer")
        trainer = f"{folder}/trainer -c \"trap 'echo saved; exit' TERM; echo ready; while :; do sleep 0.02; done\""
        box = launch.prepare(["/bin/bash", "-c", f"exec > >(cat); {trainer}; echo after"], user="65534:65534")
        weak = ["setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-sys_ptrace"]
        assert stopped(launch.launch(box, prefix=weak)) == b"ready\nsaved\n"


@pytest.mark.parametrize("shell", ["/bin/sh", "/bin/bash"])
def test_a_shell_that_passes_the_signal_on_is_told_alone(launch: Runs, program: Path, shell: str) -> None:
    script = f"trap 'kill -TERM $!' TERM; {PYTHON} -IS {program}/counter.py & wait; wait"
    assert b"heard 1\n" in stopped(launch(shell, "-c", script))
    usr1 = "import signal; print('ready', flush=True); print('got', signal.sigwait({signal.SIGUSR1}).name, flush=True)"
    blocked = f"import signal; signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGUSR1}}); {usr1}"
    script = f"trap 'kill -USR1 $!; wait $!; exit' TERM; {PYTHON} -ISc \"{blocked}\" & wait"
    assert b"got SIGUSR1\n" in stopped(launch(shell, "-c", script))


def test_the_trap_of_a_shell_runs_after_the_program_that_it_waits_for(launch: Runs, program: Path) -> None:
    script = f"trap 'echo trap' TERM; {PYTHON} -IS {program}/trainer.py; echo after"
    out = stopped(launch.sh(script))
    assert out.index(b"saved batch") < out.index(b"trap")


def test_what_comes_last_through_a_pipe_arrives(launch: Runs, program: Path) -> None:
    """A slow reader ends with its input. With a TERM in the middle the last lines would be lost."""
    log = program / "log"
    slow = "while read line; do sleep 0.1; echo $line; done"
    run = launch.sh(f"{PYTHON} -IS {program}/trainer.py | tee {log} | ({slow}; exit)")
    assert stopped(run) == b"ready\nsaved batch\n"
    assert log.read_text() == "ready\nsaved batch\n"


def test_the_others_are_told_once_the_first_has_ended(launch: Runs, program: Path) -> None:
    helper = (
        "import signal, sys\\nsignal.signal(signal.SIGTERM, lambda *_: (print('helper told', flush=True), sys.exit(0)))"
    )
    helper += "\\nprint('ready', flush=True)\\nwhile True: signal.pause()"
    run = launch.py(
        "import os, signal, subprocess, sys\n"
        "def end(*_):\n"
        "    print('main told', flush=True)\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        f"subprocess.Popen([{PYTHON!r}, '-ISc', \"{helper}\"], start_new_session=True)\n"
        "while True: signal.pause()\n"
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
