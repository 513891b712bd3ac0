"""A whole Headway of five real service processes, each of which a test may kill and start again.

    with a_cluster(tmp_path, workers=2) as cluster:
        job = cluster.client.submit(b"...")
        cluster.kill9("task_manager")
        cluster.start("task_manager")

Runs with the scripted runtime unless told otherwise; every port is free, every file lies under the given folder.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from headway.client import Client, Profile
from headway.trust.files import TrustFiles
from headway.trust.identity import MANAGERS, Role

from . import mounts
from .certificates import CertificateMaker, trust_files
from .ports import free_ports
from .settings_file import write_settings
from .waiting import soon

# Leases and health by the second, so that a test needs not wait for what takes minutes elsewhere.
QUICK_LEASES: dict[str, Any] = {
    "cluster__lease_s": 12,
    "cluster__heartbeat_s": 1,
    "cluster__lease_stop_s": 6,
    "cluster__lease_grace_s": 1,
    "resource_manager__poll_s": 1,
    "resource_manager__suspect_after_s": 3,
    "resource_manager__down_after_s": 6,
}
SERVICES = ("resource_manager", "task_manager", "job_manager", "httpserver")


@dataclass
class Cluster:
    """Five or more processes on one machine; ``settings`` are keys of headway.toml over the defaults."""

    folder: Path
    workers: tuple[str, ...] = ("n1",)
    settings: Mapping[str, Any] = field(default_factory=dict)
    worker_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)  # process to the version that it shall be
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    tls: bool = False  # the services have certificates of `authority` instead of a token
    authority: CertificateMaker | None = None
    _client: Client | None = None

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.mount = self.folder / "mount"
        self._sockets = Path(tempfile.mkdtemp(prefix="hw-"))  # a socket's path must be short
        self.http_port, http_rpc, jobs, tasks, nodes, *workers = free_ports(5 + len(self.workers))
        self.url = f"http://127.0.0.1:{self.http_port}"
        self._common = {
            **self._proof(),
            "cluster.mount": str(self.mount),
            "cluster.state_dir": str(self.folder / "state"),
            "httpserver.port": self.http_port,
            "httpserver.grpc_bind": f"127.0.0.1:{http_rpc}",
            "httpserver.first_admin_file": str(self.folder / "first-admin"),
            "job_manager.bind": f"127.0.0.1:{jobs}",
            "task_manager.bind": f"127.0.0.1:{tasks}",
            "resource_manager.bind": f"127.0.0.1:{nodes}",
            "worker.runtime": "scripted",
            "worker.local_images": True,
            "log.level": "info",
            "log.format": "text",
            **self.settings,
        }
        (self.folder / "state").mkdir(exist_ok=True)
        write_settings(self.folder / "headway.toml", self._common)
        self._worker_ports = dict(zip(self.workers, workers, strict=True))
        for node, port in zip(self.workers, workers, strict=True):
            own = {
                "worker.node_id": node,
                "worker.bind": f"127.0.0.1:{port}",
                "worker.folder": str(self.folder / "workers" / node),
                "worker.gpu_socket": str(self.gpu_socket(node)),
            }
            if self.tls:
                own["cluster.trust_dir"] = str(self.trust(node).folder)
            (self.folder / "workers" / node).mkdir(parents=True, exist_ok=True)
            write_settings(self.folder / f"{node}.toml", {**self._common, **own, **self.worker_settings.get(node, {})})
        from headway.mount import prepare_local

        prepare_local(self.mount, "headway")

    def _proof(self) -> dict[str, Any]:
        """By what services know each other."""
        if not self.tls:
            token = self.folder / "token"
            token.write_text(secrets.token_hex(16))
            token.chmod(0o600)
            return {"cluster.token_file": str(token)}
        self.authority = CertificateMaker()
        self.authority.give_authority(self.trust())
        for role in MANAGERS:
            self.authority.give(self.trust(), role)
        for node in self.workers:
            self.authority.give(self.trust(node), Role.WORKER, node)
        return {"cluster.trust_dir": str(self.trust().folder)}

    def trust(self, node: str = "") -> TrustFiles:
        """Where the certificates of a node's machine lie; without a name those of the managers' machine."""
        return trust_files(self.folder / "trust" / (node or "managers"))

    @property
    def names(self) -> tuple[str, ...]:
        """All processes: the four services, then the workers by their node's name."""
        return (*SERVICES, *self.workers)

    def start(self, *names: str) -> None:
        """Starts these (all that don't run, when none is named); does not wait."""
        for name in names or tuple(n for n in self.names if n not in self.processes):
            assert name not in self.processes, f"{name} runs already"
            service = "worker" if name in self.workers else name
            config = self.folder / (f"{name}.toml" if name in self.workers else "headway.toml")
            with (self.folder / f"{name}.log").open("ab") as log:
                version = self.versions.get(name)
                program = ("tests.support.as_version", version) if version else ("headway",)
                self.processes[name] = subprocess.Popen(
                    [sys.executable, "-m", *program, "serve", service, "--config", str(config)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self.environment},
                    start_new_session=True,
                )

    def kill9(self, *names: str) -> None:
        """Ends these without a chance to tidy up."""
        for name in names:
            process = self.processes.pop(name)
            process.send_signal(signal.SIGKILL)
            process.wait()

    def stop(self, *names: str, within_s: float = 20.0) -> None:
        """Asks these to stop and waits; their exit code must be 0."""
        for name in names or tuple(self.processes):
            process = self.processes.pop(name)
            process.send_signal(signal.SIGTERM)
            try:
                code = process.wait(within_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise AssertionError(f"{name} did not stop within {within_s:g} s\n{self.log(name)[-3000:]}") from None
            assert code == 0, f"{name} ended with {code}\n{self.log(name)[-3000:]}"

    def restart(self, *names: str) -> None:
        """Kills and starts."""
        self.kill9(*names)
        self.start(*names)

    def close(self) -> None:
        """Ends whatever runs."""
        if self._client is not None:
            self._client.__exit__(None, None, None)
        for name in tuple(self.processes):
            self.kill9(name)
        if os.geteuid() == 0:
            mounts.unmount_below(self.folder / "workers")  # homes of tasks that ran
        shutil.rmtree(self._sockets, ignore_errors=True)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text("utf-8", "replace")

    def wait_ready(self, within_s: float = 60.0) -> None:
        """Until the page answers, all services are up and every node may take work."""

        def ready() -> bool:
            for name, process in self.processes.items():
                code = process.poll()
                assert code is None, f"{name} ended with {code}\n{self.log(name)[-3000:]}"
            try:
                return httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200
            except httpx.TransportError:
                return False

        soon(ready, within_s=within_s, every_s=0.1, what="/readyz answers 200")
        wanted = {n for n in self.workers if n in self.processes}
        soon(
            lambda: wanted <= {n["id"] for n in self.client.nodes() if n["health"] == "READY"},
            within_s=within_s,
            every_s=0.1,
            what=f"nodes {wanted} are READY",
        )

    @property
    def client(self) -> Client:
        """Signed in as the first admin."""
        if self._client is None:
            name, password = (self.folder / "first-admin").read_text().split("\n")[:2]
            with Client(Profile(url=self.url)) as anonymous:
                answer = anonymous.login(name, password)
            self._client = Client(Profile(url=self.url, token=answer["token"], user=name))
        return self._client

    def address(self, service: str) -> str:
        """Where one of the four services listens for gRPC."""
        return str(self._common[f"{service}.{'grpc_bind' if service == 'httpserver' else 'bind'}"])

    def worker_address(self, node: str) -> str:
        """Where a Worker listens for gRPC."""
        return f"127.0.0.1:{self._worker_ports[node]}"

    def user(self, name: str, **fields: Any) -> Client:
        """A new account, signed in."""
        password = secrets.token_hex(8)
        self.client.create_user(name=name, password=password, **fields)
        with Client(Profile(url=self.url)) as anonymous:
            answer = anonymous.login(name, password)
        return Client(Profile(url=self.url, token=answer["token"], user=name))

    def gpu_socket(self, node: str) -> Path:
        """By which people's own processes on the machine hold GPUs."""
        return self._sockets / f"{node}.sock"

    def environ(self) -> dict[str, str]:
        """For the command line as the first admin."""
        profile = self.client.profile
        return {**os.environ, "HEADWAY_URL": profile.url, "HEADWAY_TOKEN": profile.token}

    def headway(self, *arguments: str, input: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        """Runs the command line."""
        return subprocess.run(
            [sys.executable, "-m", "headway", *arguments],
            input=input,
            capture_output=True,
            env=self.environ(),
            timeout=100,
            check=False,
        )


@contextmanager
def a_cluster(
    folder: Path, *, workers: int | tuple[str, ...] = 1, start: bool = True, tls: bool = False, **settings: Any
) -> Iterator[Cluster]:
    """A cluster, ready unless ``start`` is False; ``settings`` with ``__`` for the dot: ``cluster__lease_s=30``."""
    names = workers if isinstance(workers, tuple) else tuple(f"n{i + 1}" for i in range(workers))
    cluster = Cluster(folder, names, {key.replace("__", "."): value for key, value in settings.items()}, tls=tls)
    try:
        if start:
            began = time.monotonic()
            cluster.start()
            cluster.wait_ready()
            print(f"cluster ready after {time.monotonic() - began:.1f} s")
        yield cluster
    finally:
        cluster.close()


def scripted_task(
    name: str = "a", *, run_s: float = 0.0, needs: Any = (), exit_code: int = 0, **fields: Any
) -> dict[str, Any]:
    """A task for the scripted runtime, as in a JSON job file."""
    env = {"HEADWAY_SCRIPTED_RUN_S": str(run_s), "HEADWAY_SCRIPTED_EXIT": str(exit_code), **fields.pop("env", {})}
    return {
        "name": name,
        "image": "scripted",
        "command": ["true"],
        "timeout": "10m",
        "needs": list(needs) if not isinstance(needs, dict) else needs,
        "env": env,
        **fields,
    }


def a_job(*tasks: dict[str, Any], name: str = "test") -> bytes:
    """A JSON job file."""
    import json

    return json.dumps({"version": 1, "name": name, "tasks": list(tasks)}).encode()


def submitted(client: Client, run_s: float, **fields: Any) -> str:
    """The id of a new job of one scripted task."""
    return str(client.submit(a_job(scripted_task(run_s=run_s, **fields)))["id"])


def first_state(client: Client, job: str) -> str:
    """The state of a job's first task."""
    return str(client.job(job)["tasks"][0]["state"])


def first_attempts(client: Client, job: str) -> list[dict[str, Any]]:
    """The attempts of a job's first task, oldest first."""
    return list(client.job(job)["tasks"][0]["attempts"])
