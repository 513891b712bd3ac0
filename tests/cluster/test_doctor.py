"""`headway doctor` beside real services of `headway init` and `headway join`, with each fault made for real."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headway.client import Client
from tests.cluster.test_init_and_join import Machines
from tests.support import compiling
from tests.support.waiting import soon

pytestmark = pytest.mark.slow
SHIM = Path(compiling.__file__).parent / "wall_clock.c"


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    machines = Machines(tmp_path)
    yield machines
    machines.stop()


def looked(machines: Machines, machine: str, *, status: int | None = None) -> dict[str, tuple[str, str, str]]:
    """Level, sentence and remedy of each check on a machine."""
    said = _doctor(machines, "--config", str(machines.folder / machine / "headway.toml"), "-o", "json")
    return _rows(said, status)


def looked_at_all(machines: Machines, client: Client, *, status: int) -> dict[str, tuple[str, str, str]]:
    return _rows(_doctor(machines, "--cluster", "-o", "json", client=client), status)


def _doctor(machines: Machines, *arguments: str, client: Client | None = None) -> dict[str, Any]:
    variables = {} if client is None else {"HEADWAY_URL": client.profile.url, "HEADWAY_TOKEN": client.profile.token}
    done = subprocess.run(
        [sys.executable, "-m", "headway", "doctor", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        timeout=100,
        check=False,
    )
    assert done.stderr == ""
    return {"status": done.returncode, **json.loads(done.stdout)}


def _rows(said: dict[str, Any], status: int | None) -> dict[str, tuple[str, str, str]]:
    assert {"ok": 0, "warning": 1, "problem": 2}[said["level"]] == said["status"]
    assert status is None or said["status"] == status, said
    assert all(bool(one["remedy"]) is (one["level"] != "ok") for one in said["checks"])
    return {one["name"]: (one["level"], one["sentence"], one["remedy"]) for one in said["checks"]}


def end(machines: Machines, name: str) -> None:
    process = machines.processes.pop(name)
    process.send_signal(signal.SIGTERM)
    process.wait(30)


def test_each_fault_of_a_cluster_is_told_where_it_is_with_its_remedy(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines.init()
    before = looked(machines, "a", status=2)
    for role in ("http_server", "job_manager", "task_manager", "resource_manager"):
        level, sentence, remedy = before[f"service {role}"]
        assert (level, "does not run here" in sentence) == ("problem", True)
        assert "systemctl start headway-" in remedy
        assert before[f"certificate of {role}"][0] == "ok"
    assert before["database of job_manager"][1].endswith("is made at the first start.")
    assert "systemctl start headway-httpserver" in before["service http_server"][2]

    machines.start("a")
    with machines.admin() as admin:
        machines.join("b", machines.invite(admin, "--name", "n1"))
        machines.start("b")
        soon(lambda: [n["health"] for n in admin.nodes() if n["id"] == "n1"] == ["READY"], within_s=30, what="n1")
        for machine, ours in (("a", "task_manager"), ("b", "worker")):
            well = looked(machines, machine)
            assert not [one for one in well.items() if one[1][0] == "problem"]
            assert well[f"service {ours}"][0] == "ok"
            assert well["Headway"][0] == "ok"
            assert "within 2 s of the cluster's" in well["clock"][1]
        assert well["way to task_manager"][0] == "ok"
        assert "way to job_manager" not in well, "no Worker calls it"
        assert not [one for one in looked_at_all(machines, admin, status=0).values() if one[0] != "ok"]

        # A clock that is wrong, seen by the cluster's own.
        clock = machines.folder / "clock"
        clock.write_text("90")
        with monkeypatch.context() as patch:
            shim = compiling.compiled(SHIM, "wall_clock.so", "-shared", "-fPIC", "-O1")
            patch.setenv("LD_PRELOAD", str(shim))
            patch.setenv("HEADWAY_TESTS_CLOCK", str(clock))
            level, sentence, remedy = looked(machines, "b", status=2)["clock"]
        assert (level, "chrony" in remedy) == ("problem", True)
        assert "+90 s off" in sentence

        # A key that others may read, and one of another service.
        key = machines.folder / "b" / "state" / "trust" / "worker" / "key.pem"
        key.chmod(0o644)
        assert looked(machines, "b", status=2)["certificate of worker"][2] == f"`chmod 600 {key}`"
        key.chmod(0o600)

        # A service that ended, and another program in its place.
        end(machines, "a-headway-task-manager")
        assert looked(machines, "a", status=2)["service task_manager"][0] == "problem"
        level, sentence, remedy = looked(machines, "b", status=2)["way to task_manager"]
        assert (level, "firewall" in remedy) == ("problem", True)
        assert "can't be reached from here" in sentence
        level, _, remedy = looked_at_all(machines, admin, status=2)["service TaskManager"]
        assert (level, "journalctl -u headway-task-manager" in remedy) == ("problem", True)
        with socket.create_server(("127.0.0.1", machines.ports[2])):
            assert "gives no good answer" in looked(machines, "b", status=2)["way to task_manager"][1]

        # Events that nobody takes, as TaskManager is away.
        database = machines.folder / "a" / "state" / "job_manager.db"
        with closing(sqlite3.connect(database, timeout=10)) as connection, connection:
            row = ("somebody", "k", b"", 1.0)
            connection.execute("INSERT INTO outbox (target, kind, payload, created_at) VALUES (?, ?, ?, ?)", row)
        level, sentence, remedy = looked(machines, "a", status=2)["events of job_manager for somebody"]
        assert (level, sentence.startswith("1 wait"), "None is lost" in remedy) == ("warning", True, True)

        # A machine that is silent, closed, or shut out.
        end(machines, "b-headway-worker")
        machines.headway("nodes", "cordon", "n1", client=admin)
        assert "does not run here" in looked(machines, "b", status=2)["service worker"][1]
        machines.headway("certs", "revoke", "n1", client=admin)
        serials = (machines.folder / "a" / "state" / "trust" / "revoked.json").read_text()
        (machines.folder / "b" / "state" / "trust" / "revoked.json").write_text(serials)
        level, sentence, remedy = looked(machines, "b", status=2)["certificate of worker"]
        assert "was revoked" in sentence
        assert "--renew" in remedy

        # Without the authority no certificate is renewed.
        authority = machines.folder / "a" / "state" / "trust" / "authority"
        authority.rename(authority.with_name("gone"))
        assert looked(machines, "a", status=2)["authority"][0] == "problem"


def test_a_machine_without_headway_and_a_broken_file_are_told(machines: Machines, tmp_path: Path) -> None:
    config = tmp_path / "headway.toml"
    (tmp_path / "token").write_text("t" * 40)
    (tmp_path / "token").chmod(0o600)
    config.write_text(
        '[cluster]\ntoken_file = "token"\n[peers]\nhttp_server = "192.0.2.1:7000"\njob_manager = "192.0.2.1:7001"\n'
    )
    with config.open("a") as file:
        file.write('task_manager = "192.0.2.1:7002"\nresource_manager = "192.0.2.1:7003"\n')
    said = machines.headway("doctor", "--config", str(config), status=2)
    assert "No service of Headway is set up on this machine" in said
    config.write_text("[cluster]\nnme = 'x'\n[worker]\ncpus = 'many'\n")
    said = machines.headway("doctor", "--config", str(config), status=2)
    assert "nme" in said
    assert "cpus" in said
    assert "Usage" in machines.headway("doctor", "--cluster", "--role", "worker", status=2)
    assert sorted(os.listdir(tmp_path)) == ["headway.toml", "token"]
