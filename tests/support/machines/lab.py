"""A Headway on ten machines: five services, three Workers (two with an engine), two bricks, and PostgreSQL.

    with a_lab(folder) as lab:                  # this thread is on the lab's network then
        job = lab.client.submit(b"...")
        lab.machines["n1"].line.unplug()

The machines are network namespaces of one kernel, so one boot clock counts on all. Nothing of it reaches the network of
the machine that runs the tests. Services talk by mutual TLS, and each machine holds only the certificate of its own.
With ``tls=False`` gRPC is plain text with a token.
"""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from headway.client import Client, Profile
from headway.mount import prepare_local
from tests.support import images, mounts
from tests.support.cluster import QUICK_LEASES, SERVICES
from tests.support.compiling import compiled
from tests.support.dockerd import Engine
from tests.support.images import Entry
from tests.support.postgres import Postgres
from tests.support.settings_file import write_settings
from tests.support.small_disks import SmallDisk, small_disks
from tests.support.waiting import soon

from . import trust
from .machine import Machine
from .network import Namespace, Switch
from .storage import Mounted, Store, Volume

IMAGE = "headway-test/told:1"
ENGINES = ("n1", "n2")
SCRIPTED = "n3"
WORKERS = (*ENGINES, SCRIPTED)
GPUS = 2  # of each Worker; pretend ones
_NET = "10.79.0."
_ADDRESSES = {
    **{name: f"{_NET}{number}" for number, name in enumerate(SERVICES, 2)},
    "database": f"{_NET}7",
    "store1": f"{_NET}8",
    "store2": f"{_NET}9",
    **{name: f"{_NET}{number}" for number, name in enumerate(WORKERS, 11)},
}
_DESK = f"{_NET}100"
_PORTS = {"httpserver": 7000, "job_manager": 7001, "task_manager": 7002, "resource_manager": 7003}
_HTTP = 8080
_WORKER = 7004
BRICK_MIB = 768
DISK_MIB = 192

# Stands for runc. It shows each container the folder of witnesses, and waits in a start for as long as a test wants.
_RUNTIME = """#!/bin/sh
bundle=
before=
for word in "$@"; do
    [ "$before" = --bundle ] && bundle=$word
    before=$word
done
case " $* " in *" create "*)
    mount='{{"destination":"/witness","type":"bind","source":"{witness}","options":["bind","rw"]}}'
    sed -i 's|"mounts":\\[|&'"$mount,|" "$bundle/config.json";;
esac
runc "$@"
rc=$?
case " $* " in *" start "*)
    echo >>{starts}
    if [ -e {slow} ]; then sleep 1; fi;;
esac
exit $rc
"""


class Lab:
    """See the module. ``settings`` are keys of headway.toml over the lab's own; ``tls``: gRPC is mutual TLS."""

    def __init__(self, folder: Path, settings: Mapping[str, Any] | None = None, *, tls: bool = True) -> None:
        self.folder = folder
        self.tls = tls
        folder.chmod(0o755)
        self.witness = folder / "witness"
        self.witness.mkdir()
        self.witness.chmod(0o1777)
        self._stack = ExitStack()
        self._settings = dict(settings or {})
        self.engines: dict[str, Engine] = {}
        self.mounts: dict[str, Mounted] = {}
        self.disks: dict[str, SmallDisk] = {}
        self._client: Client | None = None
        self.url = f"http://{_ADDRESSES['httpserver']}:{_HTTP}"

    def start(self) -> Lab:
        """Start everything and wait until it takes work."""
        began = time.monotonic()
        try:
            self._make_machines()
            self._start_storage()
            self._start_database()
            for name in ENGINES:
                self._start_engine(name)
            self._configure()
            for name in (*SERVICES, *WORKERS):
                self.start_service(name)
            self._stack.enter_context(self._desk.entered())
            self.wait_ready()
        except BaseException:
            self.close()
            raise
        print(f"lab ready after {time.monotonic() - began:.1f} s in {self.folder}", flush=True)
        return self

    def close(self) -> None:
        """Takes everything down and removes its files."""
        if self._client is not None:
            self._client.__exit__(None, None, None)
        self._stack.close()
        mounts.unmount_below(self.folder)

    # --- what runs where

    def start_service(self, name: str) -> None:
        """Starts one of the services or Workers on its machine."""
        machine = self.machines[name]
        kind = "worker" if name in WORKERS else name
        words = [sys.executable, "-m", "headway", "serve", kind, "--config", str(machine.folder / "headway.toml")]
        machine.start("headway", words, own_clock=True)

    def log(self, name: str) -> str:
        """What a service or Worker has logged, over all its lives."""
        return self.machines[name].log("headway").read_text("utf-8", "replace")

    def power_off(self, name: str) -> None:
        """Ends all that a Worker's machine runs, containers included, without a chance to say a word."""
        machine = self.machines[name]
        machine.line.unplug()
        machine.kill9("headway")
        engine = self.engines.get(name)
        if engine is not None:
            engine.power_off()
        self.mounts[name].kill()

    def power_on(self, name: str) -> None:
        """Undoes :meth:`power_off`."""
        self.machines[name].line.heal()
        self.mounts[name].again()
        engine = self.engines.get(name)
        if engine is not None:
            engine.start_containerd()
            engine.start()
        self.start_service(name)

    def start_database(self) -> None:
        """Starts PostgreSQL after it was killed."""
        self.postgres.start()

    def slow_starts(self, name: str, on: bool) -> None:
        """Whether an engine takes a second to note that it has started a program."""
        marker = self.machines[name].folder / "slow"
        if on:
            marker.touch()
        else:
            marker.unlink(missing_ok=True)

    def starts(self, name: str) -> int:
        """How many programs an engine has started so far."""
        file = self.machines[name].folder / "starts"
        return file.stat().st_size if file.exists() else 0

    # --- as people see it

    @property
    def client(self) -> Client:
        """Signed in as the first admin. Only for threads that are on the lab's network."""
        if self._client is None:
            self._client = self.new_client()
        return self._client

    def new_client(self, *, timeout_s: float = 30.0, tries: int = 4) -> Client:
        """Another one, for another thread."""
        name, password = (self.machines["httpserver"].folder / "first-admin").read_text().split("\n")[:2]
        if not hasattr(self, "_token"):
            with Client(Profile(url=self.url), transport=_ByProxy()) as anonymous:
                self._token = str(anonymous.login(name, password)["token"])
        profile = Profile(url=self.url, token=self._token, user=name)
        return Client(profile, timeout_s=timeout_s, tries=tries, transport=_ByProxy())

    @contextmanager
    def at_desk(self) -> Iterator[None]:
        """This thread is on the lab's network meanwhile."""
        with self._desk.entered():
            yield

    def wait_ready(self, within_s: float = 120.0) -> None:
        """Until the page answers, all services are up and every node may take work."""

        def ready() -> bool:
            for name in (*SERVICES, *WORKERS):
                code = self.machines[name].processes["headway"].poll()
                assert code is None, f"{name} ended with {code}\n{self.log(name)[-3000:]}"
            try:
                return httpx.get(f"{self.url}/readyz", timeout=5, trust_env=False).status_code == 200
            except httpx.TransportError:
                return False

        soon(ready, within_s=within_s, every_s=0.2, what="/readyz answers 200")

        def open_nodes() -> bool:
            found = self.client.nodes()
            bad = {node["id"]: (node["health"], [c["word"] for c in node["conditions"]]) for node in found}
            good = {
                n["id"] for n in found if n["health"] == "READY" and not any(c["blocks_work"] for c in n["conditions"])
            }
            assert good == set(WORKERS), bad
            return True

        soon(open_nodes, within_s=within_s, every_s=0.3, what="all nodes take work")

    # --- parts

    def _make_machines(self) -> None:
        self._switch = Switch()
        self._stack.callback(self._switch.close)
        self.machines: dict[str, Machine] = {}
        for name, address in _ADDRESSES.items():
            machine = Machine.on(self._switch, name, address, self.folder / name)
            self.machines[name] = machine
            self._stack.callback(machine.close)
        self._desk = Namespace()
        self._stack.callback(self._desk.close)
        self._switch.join(self._desk, f"{_DESK}/24")

    def _start_storage(self) -> None:
        places = {
            **{name: (self.folder / f"brick-{name}", BRICK_MIB) for name in ("store1", "store2")},
            **{name: (self.machines[name].folder / "worker", DISK_MIB) for name in WORKERS},
        }
        made = self._stack.enter_context(small_disks(*places.values()))
        self.disks = dict(zip(places, made, strict=True))
        stores = (Store(self.machines[name], places[name][0] / "data") for name in ("store1", "store2"))
        self.volume = Volume(*stores)
        self._stack.callback(self.volume.close)
        self.volume.make()
        for name in ("httpserver", *WORKERS):
            self.mounts[name] = self.volume.mounted(self.machines[name], self.folder / f"mount-{name}")
            self._stack.callback(self.mounts[name].close)
        prepare_local(self.mounts["httpserver"].at, "headway")

    def _start_database(self) -> None:
        machine = self.machines["database"]
        self.postgres = Postgres(machine.folder / "pg", enter=machine.network.words(), address=machine.address)
        self._stack.callback(self.postgres.close)
        self.postgres.start()
        self.databases = {service: self.postgres.tcp_url(self.postgres.new_database()) for service in SERVICES}

    def _start_engine(self, name: str) -> None:
        machine = self.machines[name]
        folder = machine.folder / f"d{name}"  # its control group is named after it
        text = _RUNTIME.format(witness=self.witness, starts=machine.folder / "starts", slow=machine.folder / "slow")
        engine = Engine(folder, runtime=text, network=machine.network.descriptor)
        self.engines[name] = engine
        self._stack.callback(engine.close)
        engine.start()
        client = engine.client()
        try:
            _import(client)
        finally:
            client.close()

    def _configure(self) -> None:
        token = secrets.token_hex(16)
        authority = trust.authority_of(self.machines["resource_manager"].folder) if self.tls else None
        for name in (*SERVICES, *WORKERS):
            machine = self.machines[name]
            proof = trust.certified(machine, authority) if authority else trust.with_token(machine, token)
            (machine.folder / "state").mkdir(exist_ok=True)
            write_settings(machine.folder / "headway.toml", {**proof, **self._common(machine), **self._of_worker(name)})

    def _common(self, machine: Machine) -> dict[str, Any]:
        quick = {key.replace("__", "."): value for key, value in QUICK_LEASES.items()}
        mount = self.mounts.get(machine.name, self.mounts["httpserver"]).at
        binds = {
            f"{name}.{'grpc_bind' if name == 'httpserver' else 'bind'}": f"{_ADDRESSES[name]}:{port}"
            for name, port in _PORTS.items()
        }
        return {
            "cluster.mount": mount,
            "cluster.state_dir": machine.folder / "state",
            "httpserver.bind": _ADDRESSES["httpserver"],
            "httpserver.port": _HTTP,
            "httpserver.behind_proxy": [f"{_DESK}/32"],
            "httpserver.first_admin_file": machine.folder / "first-admin",
            "httpserver.ask_registries": False,
            **binds,
            **{f"{name}.database": url for name, url in self.databases.items()},
            "worker.local_images": True,
            "worker.pull_images": False,
            "worker.engine_timeout_s": 10,
            "worker.cpus": 2,
            "worker.memory_bytes": 8 << 30,
            "worker.simulated_gpus": GPUS,
            "worker.disk_low_bytes": 48 << 20,
            "task_manager.platform_retries": 100,
            "task_manager.loss_retries": 100,
            "task_manager.platform_retry_delay_s": 0.5,
            "job_manager.compare_s": 10,
            "log.level": "info",
            "log.format": "text",
            **quick,
            **self._settings,
        }

    def _of_worker(self, name: str) -> dict[str, Any]:
        if name not in WORKERS:
            return {"worker.runtime": "scripted"}
        machine = self.machines[name]
        own = {
            "worker.node_id": name,
            "worker.bind": f"{machine.address}:{_WORKER}",
            "worker.folder": machine.folder / "worker",
            "worker.gpu_socket": machine.folder / "gpu.sock",
        }
        if name in self.engines:
            return {**own, "worker.runtime": "docker", "worker.docker_host": self.engines[name].url}
        return {**own, "worker.runtime": "scripted"}


def _import(client: Any) -> None:
    """The image of ``task.c``."""
    target = f"{platform.machine()}-linux-musl"
    program = compiled(Path(__file__).with_name("task.c"), "task", "-target", target, "-static", "-Os", "-s")
    folders = [Entry(name) for name in ("dev", "etc", "proc", "sys", "root", "witness")]
    entries = [*folders, Entry("tmp", mode=0o1777), Entry("task", program.read_bytes())]
    images.import_image(client, IMAGE, images.layer(entries))


class _ByProxy(httpx.HTTPTransport):
    """Stands for the proxy in front of HttpServer, which would do TLS."""

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.headers["X-Forwarded-For"] = _DESK
        request.headers["X-Forwarded-Proto"] = "https"
        return super().handle_request(request)


@contextmanager
def a_lab(folder: Path, *, tls: bool = True, **settings: Any) -> Iterator[Lab]:
    """A lab in a folder with a short path; ``settings`` with ``__`` for the dot. Files go at the end."""
    lab = Lab(folder, {key.replace("__", "."): value for key, value in settings.items()}, tls=tls)
    try:
        yield lab.start()
    finally:
        lab.close()
        if os.environ.get("HEADWAY_KEEP_LAB") != "1":
            shutil.rmtree(folder, ignore_errors=True)
