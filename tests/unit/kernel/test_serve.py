"""`headway serve`: one service, or one sentence."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headway.notify import SUPERVISOR_FD


def serve(*words: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "headway", "serve", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,  # type: ignore[call-overload]
    )


@pytest.mark.parametrize(
    ("words", "want"),
    [
        (("scheduler",), "'scheduler' is none of httpserver, job_manager, task_manager, resource_manager, worker."),
        (("worker", "--config", "/nowhere/headway.toml"), "/nowhere/headway.toml can't be read: No such file"),
    ],
)
def test_a_wrong_call_is_one_sentence_and_status_2(words: tuple[str, ...], want: str) -> None:
    done = serve(*words)
    assert done.returncode == 2
    assert want in done.stderr
    assert "Traceback" not in done.stderr


def test_the_supervisor_hears_what_is_wrong_with_the_file(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text("[worker]\nrutime = 1\n")
    mine, theirs = socket.socketpair()
    with mine, theirs:
        done = serve(
            "task-manager", "--config", str(tmp_path / "headway.toml"),
            env={**os.environ, SUPERVISOR_FD: str(theirs.fileno())}, pass_fds=(theirs.fileno(),),
        )  # fmt: skip
        assert done.returncode == 2
        heard = mine.recv(4_096).decode()
    assert heard.startswith("STATUS=")
    assert "rutime is not known; did you mean runtime?" in heard


def test_a_log_that_can_not_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "headway.toml").write_text(
        f'[cluster]\ntoken = "{"t" * 32}"\nstate_dir = "."\n[log]\nfile = "absent/{{service}}.log"\n'
    )
    done = serve("job_manager", "--config", str(tmp_path / "headway.toml"))
    assert done.returncode == 2
    assert f"[log] file {tmp_path}/absent/job_manager.log can't be written: No such file or directory." in done.stderr
