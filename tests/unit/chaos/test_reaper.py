"""A chaos run that is killed leaves nothing."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.reaper import left_over
from tests.support.waiting import soon

# Starts a process that would live for long, says so, and is killed or ends well.
_RUN = """
import os, subprocess, sys, time
from pathlib import Path
from tests.chaos.reaper import watched
with watched(sys.argv[1], Path(sys.argv[2])):
    os.environ["HEADWAY_TESTS_RUN"] = sys.argv[1]
    long = subprocess.Popen(["sleep", "600"], start_new_session=True)
    print("up", flush=True)
    sys.stdin.read()
    long.kill()
"""


@pytest.mark.slow
@pytest.mark.parametrize("killed", [True, False])
def test_what_a_run_started_goes_with_it(tmp_path: Path, repository: Path, killed: bool) -> None:
    run_id, folder = f"hwr{secrets.token_hex(4)}", tmp_path / "lab"
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    with subprocess.Popen(
        [sys.executable, "-c", _RUN, run_id, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        cwd=repository,
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        assert left_over(run_id)
        if killed:
            run.send_signal(signal.SIGKILL)
    soon(lambda: not left_over(run_id), within_s=60, what="its processes are gone")
    soon(lambda: folder.exists() is not killed, within_s=60, what="its folder is gone if it was killed, and only then")
