"""The first of the README's two commands, from outside."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.dockerd import Engine
from tests.support.ports import free_port

pytestmark = pytest.mark.docker


class Quickstart:
    """The script with a state folder, a port and a client's configuration of its own."""

    def __init__(self, repository: Path, folder: Path, engine_url: str) -> None:
        self.script = repository / "deploy" / "quickstart"
        self.state = folder / "state"
        self.port = free_port()
        self.environment = {
            **os.environ,
            "DOCKER_HOST": engine_url,
            "HEADWAY_STATE": str(self.state),
            "HEADWAY_PORT": str(self.port),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }

    def __call__(
        self, *options: str, prefix: tuple[str, ...] = (), more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*prefix, "bash", str(self.script), *options],
            env={**self.environment, **(more or {})},
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def quickstart(repository: Path, tmp_path: Path, docker_engine: Engine) -> Iterator[Quickstart]:
    script = Quickstart(repository, tmp_path, docker_engine.url)
    yield script
    script("--stop")
    docker_engine.remove_containers()


def _refused(done: subprocess.CompletedProcess[str], sentence: str) -> None:
    assert done.returncode == 1
    assert done.stdout == ""
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def test_what_can_not_work_is_refused_in_one_sentence_before_anything_is_done(quickstart: Quickstart) -> None:
    # Somebody else, who can read the checkout all the same: it may lie below a home of mode 0700.
    may_read = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    not_root = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *may_read, "--")
    _refused(quickstart(prefix=not_root), "run it as root")
    _refused(quickstart("--prot", "1"), "unknown option --prot")
    _refused(quickstart("--port", "99999"), "a port is a number from 1 to 65535, not 99999")
    _refused(quickstart("--stop"), "nothing that an earlier quickstart")
    with socket.create_server(("127.0.0.1", quickstart.port)):
        _refused(quickstart(), f"port {quickstart.port} is taken by another program")
    assert not quickstart.state.exists()


def test_a_full_disk_and_an_engine_that_is_away_are_told(quickstart: Quickstart, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", full], check=True)
    try:
        done = quickstart(more={"HEADWAY_STATE": str(full / "state")})
        _refused(done, f"the disk that holds {full}/state has 1 MiB free")
        assert not (full / "state").exists()
    finally:
        subprocess.run(["umount", full], check=True)
    done = quickstart(more={"DOCKER_HOST": "unix:///nonexistent/docker.sock"})
    assert done.returncode == 1
    assert done.stderr.endswith("DOCKER_HOST=unix:///nonexistent/docker.sock does not answer\n")
    assert processes.naming(str(quickstart.state)) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_from_nothing_to_a_finished_job_again_in_seconds_and_to_a_stop(
    quickstart: Quickstart, python_image: str
) -> None:
    first = quickstart()
    assert first.returncode == 0, first.stderr
    assert "better: support vectors" in first.stdout
    assert f"http://127.0.0.1:{quickstart.port}" in first.stdout
    name, password = (quickstart.state / "first-admin").read_text().splitlines()
    assert f"{name}, password {password}" in first.stdout
    with urllib.request.urlopen(f"http://127.0.0.1:{quickstart.port}/") as page:
        assert b"<html" in page.read()

    # The job that the second run submits is a second job on the same platform.
    second = quickstart(more={"HEADWAY_PORT": ""})
    assert second.returncode == 0, second.stderr
    assert "accuracy" in second.stdout
    assert len(_jobs(quickstart)) == 2

    stopped = quickstart("--stop")
    assert stopped.returncode == 0
    assert stopped.stdout == "stopped: Headway\n"  # the engine is not its own
    assert processes.naming(str(quickstart.state)) == []


def _jobs(quickstart: Quickstart) -> list[object]:
    done = subprocess.run(
        [quickstart.script.parents[1] / ".venv" / "bin" / "headway", "ps", "-a", "-o", "json"],
        env=quickstart.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    answer = json.loads(done.stdout)
    jobs: list[object] = answer["jobs"] if isinstance(answer, dict) else answer
    return jobs
