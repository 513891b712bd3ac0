"""`headway init`, services from the files that it wrote, an invitation, and `headway join` of a second "machine"."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from headway.client import Client, Profile
from tests.support.cluster import a_job, scripted_task
from tests.support.ports import free_ports
from tests.support.waiting import soon

pytestmark = pytest.mark.slow


@dataclass
class Machines:
    """What stands for two machines: a state folder, a configuration and a folder of units each."""

    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.page, *self.ports = free_ports(7)
        self.url = f"http://127.0.0.1:{self.page}"

    def headway(self, *arguments: str, status: int = 0, client: Client | None = None) -> str:
        profile = client.profile if client is not None else Profile(url=self.url)
        environ = {**os.environ, "HEADWAY_URL": profile.url, "HEADWAY_TOKEN": profile.token}
        done = subprocess.run(
            [sys.executable, "-m", "headway", *arguments],
            capture_output=True,
            text=True,
            env=environ,
            timeout=100,
            check=False,
        )
        assert done.returncode == status, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def init(self, *more: str, status: int = 0) -> str:
        keys = ("httpserver.grpc_bind", "job_manager.bind", "task_manager.bind", "resource_manager.bind")
        binds = [f"--set={key}=127.0.0.1:{port}" for key, port in zip(keys, self.ports, strict=False)]
        return self.headway(
            *("init", "--cluster", "lab", *self.places("a"), f"--set=httpserver.port={self.page}"),
            *("--set=worker.runtime=scripted", *binds, *more),
            status=status,
        )

    def places(self, machine: str) -> tuple[str, ...]:
        place = self.folder / machine
        return ("--state", str(place / "state"), "--config", str(place / "headway.toml"), "--unit-dir", str(place))

    def join(self, machine: str, token: str, *more: str, port: int = 4, status: int = 0) -> str:
        door = f"127.0.0.1:{self.ports[port]}"
        return self.headway(
            *("join", self.url, "--token", token, "--address", door, *self.places(machine)),
            *("--set=worker.runtime=scripted", "--set=worker.local_images=true", *more),
            status=status,
        )

    def start(self, machine: str) -> None:
        """Starts what the units of the machine start."""
        for unit in sorted((self.folder / machine).glob("*.service")):
            command = re.search("^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
            assert command is not None
            with (self.folder / f"{machine}-{unit.stem}.log").open("ab") as log:
                self.processes[f"{machine}-{unit.stem}"] = subprocess.Popen(
                    command[1].split(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=dict(os.environ),
                    start_new_session=True,
                )

    def stop(self) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def admin(self) -> Client:
        soon(self._ready, within_s=60, every_s=0.1, what="the page answers")
        name, password = (self.folder / "a" / "state" / "first-admin").read_text().split("\n")[:2]
        with Client(Profile(url=self.url)) as anonymous:
            token = anonymous.login(name, password)["token"]
        return Client(Profile(url=self.url, token=token))

    def _ready(self) -> bool:
        for name, process in self.processes.items():
            assert process.poll() is None, (self.folder / f"{name}.log").read_text()[-3000:]
        try:
            return httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def invite(self, client: Client, *more: str) -> str:
        said = self.headway("nodes", "invite", *more, client=client)
        found = re.search(r"headway join \S+ --token (\S+)", said)
        assert found is not None, said
        return found[1]


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    machines = Machines(tmp_path)
    yield machines
    machines.stop()


def modes_below(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_cluster_is_set_up_a_machine_joins_and_a_job_runs_there(machines: Machines) -> None:
    said = machines.init()
    trust = machines.folder / "a" / "state" / "trust"
    modes = modes_below(trust)
    keys = {name for name in modes if name.endswith("key.pem")}
    roles = {"authority", "http_server", "job_manager", "resource_manager", "task_manager"}
    assert keys == {f"{role}/key.pem" for role in roles}
    assert {modes[name] for name in keys} == {0o600}
    assert stat.S_IMODE((machines.folder / "a" / "state").stat().st_mode) == 0o700
    assert "headway nodes invite" in said

    before = {path: path.read_bytes() for path in machines.folder.rglob("*") if path.is_file()}
    twice = machines.init(status=2)
    assert "Headway was set up here already" in twice
    assert {path: path.read_bytes() for path in machines.folder.rglob("*") if path.is_file()} == before

    machines.start("a")
    with machines.admin() as admin:
        token = machines.invite(admin, "--name", "n1")
        said = machines.join("b", token)
        assert "This machine is worker n1 of the cluster lab" in said
        assert re.search(r"way to resource_manager +ok", said)
        state = machines.folder / "b" / "state"
        assert modes_below(state / "trust")["worker/key.pem"] == 0o600
        assert not (state / "trust" / "authority").exists()
        assert not (state / ".join-key").exists()
        assert (state / "trust" / "ca.pem").read_bytes() == (trust / "ca.pem").read_bytes()

        machines.start("b")
        soon(lambda: [n["health"] for n in admin.nodes() if n["id"] == "n1"] == ["READY"], within_s=30, what="n1")
        job = admin.submit(a_job(scripted_task(run_s=0.1)))
        assert admin.wait(job["id"], timeout_s=60)["state"] == "SUCCEEDED"
        assert admin.job(job["id"])["tasks"][0]["attempts"][0]["node_id"] == "n1"

        # A token counts once, a name belongs to one machine, and nothing is overwritten.
        assert "was used already" in machines.join("c", token, status=4)
        assert not (machines.folder / "c").exists()
        again = machines.invite(admin)
        assert "There is a worker n1 in this cluster already" in machines.join(
            "c", again, "--name", "n1", port=5, status=4
        )
        assert "already, and nothing of it was changed" in machines.join("b", again, "--name", "n2", status=2)
        assert not (machines.folder / "c").exists()
        listed = json.loads(machines.headway("nodes", "invitations", "-o", "json", client=admin))
        assert [(one["used_as"], one["used_at"] is None) for one in listed] == [("", True), ("n1", False)]

        # Renewed by a token that names it; the configuration stays as the person made it.
        config = machines.folder / "b" / "headway.toml"
        config.write_text(config.read_text() + "\n# mine\n")
        key = (state / "trust" / "worker" / "key.pem").read_bytes()
        refused = machines.join("b", machines.invite(admin), "--name", "n1", "--renew", status=4)
        assert "headway nodes invite --name n1" in refused
        machines.join("b", machines.invite(admin, "--name", "n1"), "--renew")
        assert "# mine" in config.read_text()
        assert (state / "trust" / "worker" / "key.pem").read_bytes() != key

        # Its disk was lost: the same words bring it back, with all that a new machine gets.
        shutil.rmtree(machines.folder / "b")
        by_name = machines.invite(admin, "--name", "n1")
        assert "add --renew, with a token that names it" in machines.join("b", by_name, status=4)
        assert "This machine is worker n1 of the cluster lab" in machines.join("b", by_name, "--renew")
        assert {path.suffix for path in (machines.folder / "b").iterdir() if path.is_file()} == {".toml", ".service"}

        said = machines.headway("certs", "revoke", "n1", client=admin)
        assert said.count("revoked") == 3
        assert "n1: gets no new work now" in said
        assert admin.node("n1")["admission"] == "CORDONED"
        revoked = json.loads((trust / "revoked.json").read_text())
        certs = json.loads(machines.headway("certs", "list", "-o", "json", client=admin))
        assert sorted(one["serial"] for one in certs if one["revoked_at"] is not None) == revoked
        assert {(one["role"], one["origin"]) for one in certs} >= {("worker", "join"), ("http_server", "init")}
        assert "keeps the list" in machines.headway("certs", "revoke", "resource_manager", status=4, client=admin)


def test_a_cluster_with_certificates_comes_back_from_its_backup(machines: Machines) -> None:
    mount = machines.folder / "mount"
    mount.mkdir()
    machines.init("--mount", str(mount))
    machines.start("a")
    config, backup = str(machines.folder / "a" / "headway.toml"), str(machines.folder / "backup.tar.zst")
    with machines.admin() as admin:
        machines.join("b", machines.invite(admin, "--name", "n1"))
        machines.start("b")
        soon(lambda: [n["health"] for n in admin.nodes() if n["id"] == "n1"] == ["READY"], within_s=30, what="n1")
        unused = machines.invite(admin)
        runs_on = admin.submit(a_job(scripted_task(run_s=15)))["id"]
        soon(lambda: admin.job(runs_on)["state"] == "RUNNING", within_s=30, what="it runs")
        machines.headway("backup", backup, "--config", config)
    for name in [name for name in machines.processes if name.startswith("a-")]:
        process = machines.processes.pop(name)
        process.kill()
        process.wait()
    shutil.rmtree(machines.folder / "a" / "state")
    (machines.folder / "a" / "headway.toml").unlink()

    said = machines.headway("restore", backup, "--config", config)
    assert "1 token to join with was unused" in said
    machines.start("a")
    with machines.admin() as admin:
        assert admin.wait(runs_on, timeout_s=90)["state"] == "SUCCEEDED"
        assert len(admin.job(runs_on)["tasks"][0]["attempts"]) == 1, "its machine kept it, and was believed"
        assert "knows no such token" in machines.join("c", unused, port=5, status=4)
        after = admin.submit(a_job(scripted_task(run_s=0.1)))
        assert admin.wait(after["id"], timeout_s=60)["state"] == "SUCCEEDED"


def test_a_machine_of_another_cluster_or_with_a_wrong_token_is_refused_before_anything_changes(
    machines: Machines,
) -> None:
    machines.init()
    machines.start("a")
    with machines.admin() as admin:
        token = machines.invite(admin)
        form, cluster, name, secret, fingerprint = token.split(":")
        other = ":".join((form, "elsewhere", name, secret, fingerprint))
        assert "is one of the cluster 'elsewhere'" in machines.join("b", other, status=4)
        wrong = ":".join((form, cluster, name, "A" * 43, fingerprint))
        assert "knows no such token" in machines.join("b", wrong, status=4)
        forged = ":".join((form, cluster, name, secret, "0" * 64))
        assert "is not the one that the token names" in machines.join("b", forged, status=4)
        assert not (machines.folder / "b").exists()
        mount = machines.folder / "other-mount"
        mount.mkdir()
        (mount / ".headway-mount").write_text("theirs\n")
        refused = machines.join("d", machines.invite(admin), f"--set=cluster.mount={mount}", status=4)
        assert "belongs to the cluster 'theirs'" in refused
        assert not (machines.folder / "d").exists()
        machines.headway("nodes", "uninvite", name, client=admin)
        assert "knows no such token" in machines.join("e", token, status=4)
