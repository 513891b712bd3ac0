"""What tasks reach over the network, on a real engine: a machine with listeners, a world outside, strangers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from tests.docker.conftest import DOCKER_SETTINGS, Jobs, a_task
from tests.support.cluster import Cluster
from tests.support.dockerd import Engine, start_engine
from tests.support.images import BUSYBOX
from tests.support.namespaces import new_network_namespace
from tests.support.scratch import short_folder
from tests.support.waiting import soon
from worker.network.machine import name_servers

pytestmark = pytest.mark.docker

WORLD, SITE = "198.51.100.9:8000", "10.66.0.9:8000"
ALLOWED_OF_SITE, ALLOWED_OF_MACHINE = "10.66.0.9:8001", "198.51.100.1:8001"
ALLOWED_OF_STRANGER = "198.51.100.1:9101"
CLOSED_OF_MACHINE = ("198.51.100.1:8000", "172.17.0.1:8000", "169.254.169.254:8000")
_SERVE = """
import http.server, sys, threading, time
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"hello")
    def log_message(self, *args): pass
for port in map(int, sys.argv[1:]):
    server = http.server.ThreadingHTTPServer(("0.0.0.0", port), Hello)
    threading.Thread(target=server.serve_forever, daemon=True).start()
print("up", flush=True); time.sleep(3600)
"""
# Answers every question for an IPv4 address with 203.0.113.77.
_NAMES = """
import socket, sys
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); names.bind((sys.argv[1], 53))
print("up", flush=True)
while True:
    asked, who = names.recvfrom(512)
    question = asked[12:asked.index(b"\\0", 12) + 5]
    found = question[-4:-2] == b"\\0\\1"
    record = b"\\xc0\\x0c\\0\\1\\0\\1\\0\\0\\0\\x3c\\0\\4" + bytes([203, 0, 113, 77])
    head = asked[:2] + b"\\x81\\x80\\0\\1\\0" + bytes([found]) + b"\\0\\0\\0\\0"
    names.sendto(head + question + (record if found else b""), who)
"""
SERVER = "hostname -i; while :; do printf 'HTTP/1.0 200 OK\\r\\n\\r\\nhello' | nc -l -p 9000 >/dev/null; done"


def tries(*places: str) -> str:
    """A script that prints which of these places answer."""
    # busybox's own nslookup, since its programs have no resolver.
    return f"""
    for place in {" ".join(places)}; do
        host=${{place%:*}}
        case $host in [a-z]*) host=$(nslookup $host 2>/dev/null | awk '/^Address/ {{a = $NF}} END {{print a}}');; esac
        printf 'GET / HTTP/1.0\\r\\n\\r\\n' | nc -w 2 "$host" ${{place##*:}} 2>/dev/null | grep -q hello && echo $place
    done
    true"""


@dataclass
class Place:
    """A machine with two Workers on one engine.

    ``n2`` lets tasks reach private addresses, and has a range that clashes.
    """

    jobs: Jobs
    engine: Engine
    cluster: Cluster

    def answers(self, *places: str, **fields: Any) -> list[str]:
        """Which of these places a task reaches."""
        return self.jobs.prints(tries(*places), **fields).decode().split()

    def on(self, node: str) -> None:
        """Let only this node take work."""
        for one in ("n1", "n2"):
            self.cluster.client.node_action(one, "uncordon" if one == node else "cordon")

    def inside(self, *words: str) -> str:
        """What a program prints in the engine's network namespace."""
        enter = ["nsenter", f"--net=/proc/{self.engine.pid}/ns/net", "--", *words]
        return subprocess.run(enter, check=True, capture_output=True, text=True).stdout

    def tables(self) -> list[str]:
        return sorted(line for line in self.inside("nft", "list", "tables").splitlines() if "headway_" in line)

    def begin_server(self, **fields: Any) -> tuple[str, str]:
        """A task that listens at port 9000: its job and address."""
        job = self.jobs.begin(a_task(SERVER, "server", timeout="5m", **fields))
        return job, self.address_of(job)

    def address_of(self, job: str, task: str = "server") -> str:
        self.jobs.until_it_prints(job, b"\n", task)
        return self.cluster.client.log(job, task).decode().split()[0]

    def end(self, job: str) -> None:
        self.cluster.client.act("cancel", job)
        self.cluster.client.wait(job, timeout_s=30)

    def job_networks(self) -> list[str]:
        client = self.engine.client()
        try:
            return [one["Name"] for one in client.api.networks(filters={"label": "headway.network-of-job"})]
        finally:
            client.close()

    def condition(self, node: str, word: str) -> dict[str, Any]:
        held = self.cluster.client.node(node)["conditions"]
        return next((one for one in held if one["word"] == word), {})


def name_server() -> str:
    """Whom the engine lets containers ask: this machine's, else Google's."""
    return next(map(str, name_servers([Path("/etc/resolv.conf").read_text()])), "8.8.8.8")


def _serve(stack: ExitStack, network: str, program: str, *arguments: int | str) -> None:
    process = subprocess.Popen(
        ["nsenter", f"--net={network}", "--", sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE,
    )
    stack.callback(lambda: (process.kill(), process.communicate()))
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"


def _connect(network: str, world: str) -> None:
    """Between the engine's network namespace and a world outside: public and private addresses."""
    for script, where in (
        (
            f"ip link add world type veth peer name engine; ip link set engine netns {world}; ip link set world up",
            network,
        ),
        ("ip addr add 198.51.100.1/24 dev world; ip addr add 10.66.0.1/24 dev world", network),
        ("ip addr add 169.254.169.254/32 dev world", network),
        ("ip link set engine up; ip addr add 198.51.100.9/24 dev engine; ip addr add 10.66.0.9/24 dev engine", world),
        (f"ip addr add {name_server()}/32 dev engine", world),
        (f"ip route add {name_server()}/32 dev world", network),
    ):
        subprocess.run(["nsenter", f"--net={where}", "--", "sh", "-ec", script], check=True)


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    folder = short_folder("net")
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        engine = stack.enter_context(start_engine(gpu_hook=False))
        network = f"/proc/{engine.pid}/ns/net"
        descriptor = new_network_namespace()
        stack.callback(os.close, descriptor)
        world = f"/proc/{os.getpid()}/fd/{descriptor}"
        _connect(network, world)
        _serve(stack, network, _SERVE, 8000, 8001)
        _serve(stack, world, _SERVE, 8000, 8001)
        _serve(stack, world, _NAMES, name_server())
        settings = {
            **DOCKER_SETTINGS,
            "worker__docker_host": engine.url,
            "worker__pull_images": False,
            "httpserver__ask_registries": False,
            "worker__network_allow": [ALLOWED_OF_SITE, ALLOWED_OF_MACHINE, ALLOWED_OF_STRANGER],
            "task_manager__platform_retries": 0,
        }
        own = {"n2": {"worker.network_private": True, "worker.network_job_range": "10.66.0.0/16"}}
        dotted = {key.replace("__", "."): value for key, value in settings.items()}
        cluster = Cluster(folder, ("n1", "n2"), dotted, own)
        stack.callback(cluster.close)
        cluster.start()
        cluster.wait_ready()
        found = Place(Jobs(cluster, engine), engine, cluster)
        found.on("n1")
        yield found


def test_the_world_and_the_allow_list_answer_and_nothing_else(place: Place) -> None:
    """S2: tasks reached each other's ports, services of the machine, and the metadata service."""
    job, address = place.begin_server()
    closed = (f"{address}:9000", SITE, *CLOSED_OF_MACHINE)
    assert place.answers(WORLD, ALLOWED_OF_SITE, ALLOWED_OF_MACHINE, *closed) == [
        WORLD,
        ALLOWED_OF_SITE,
        ALLOWED_OF_MACHINE,
    ]
    look = f"import urllib.request as r; print(r.urlopen('http://{address}:9000', timeout=5).read())"
    assert "hello" in place.inside(sys.executable, "-c", look), "the machine's people look at it"
    place.on("n2")
    assert place.answers(SITE, f"{address}:9000", *CLOSED_OF_MACHINE) == [SITE], "private addresses, where allowed"
    place.on("n1")
    place.end(job)


@pytest.mark.parametrize("network", ["outgoing", "job"])
def test_names_resolve_though_the_name_server_is_private(place: Place, network: str) -> None:
    out = place.jobs.prints("nslookup www.example.org 2>&1 || true", network=network)
    assert b"203.0.113.77" in out
    other = f"{name_server()}:8000"
    assert place.answers(other, network=network) == ([] if IPv4Address(name_server()).is_private else [other])


def test_strangers_are_left_alone_and_reach_no_task(place: Place) -> None:
    job, address = place.begin_server()
    client = place.engine.client()
    stranger = client.containers.run(BUSYBOX, ["sh", "-c", SERVER], detach=True, ports={"9000/tcp": [9100, 9101]})
    try:
        stranger.reload()
        its = f"{stranger.attrs['NetworkSettings']['Networks']['bridge']['IPAddress']}:9000"
        said = client.containers.run(
            BUSYBOX, ["sh", "-c", tries(WORLD, SITE, "198.51.100.1:8000", its, f"{address}:9000")], remove=True
        )
        assert said.decode().split() == [WORLD, SITE, "198.51.100.1:8000", its]
        closed = (its, "198.51.100.1:9100", "172.17.0.1:9100", "172.17.0.1:9101")
        assert place.answers(*closed, ALLOWED_OF_STRANGER, WORLD) == [ALLOWED_OF_STRANGER, WORLD]
    finally:
        stranger.remove(force=True)
        client.close()
    place.end(job)


@pytest.mark.parametrize("user", ["account", "image"])
def test_a_task_cannot_change_or_forge_its_hardware_address(place: Place, user: str) -> None:
    """The rules know tasks by it."""
    place.cluster.client.change_user("admin", {"may_use_image_user": True})
    out = place.jobs.prints(
        "cat /sys/class/net/eth0/address; ip link set dev eth0 address 02:42:0a:0b:0c:0d 2>&1 || true; "
        "ip link set dev eth0 down 2>&1 || true; cat /sys/class/net/eth0/address; "
        "grep -E 'Cap(Prm|Eff|Bnd)' /proc/self/status",
        user=user,
    ).decode()
    lines = out.split("\n")
    assert int(lines[0][:2], 16) & 0x0F == 0x0A
    assert out.count(lines[0]) == 2
    for line in out.splitlines():
        if line.startswith("Cap"):
            held = int(line.split()[1], 16)
            assert not held & (1 << 12 | 1 << 13), "NET_ADMIN and NET_RAW"


def test_tasks_of_a_job_meet_by_their_names_and_nobody_else_comes_in(place: Place) -> None:
    two = [a_task(SERVER, "server", network="job", timeout="5m")]
    two.append(a_task(f"sleep 1; {tries('server:9000', WORLD, SITE, *CLOSED_OF_MACHINE)}", "client", network="job"))
    job = place.jobs.begin(*two)
    soon(lambda: _of(place, job, "client")["state"] == "SUCCEEDED", within_s=60, what="the client ends")
    assert place.cluster.client.log(job, "client").decode().split() == ["server:9000", WORLD]
    address = place.address_of(job)
    assert address.startswith("10.213.")
    assert place.answers(f"{address}:9000", WORLD) == [WORLD], "another job, at the default network"
    assert place.answers(f"{address}:9000", "server:9000", WORLD, network="job") == [WORLD], "another job's network"
    assert len(place.job_networks()) == 1
    place.end(job)
    soon(lambda: not place.job_networks(), within_s=30, what="the job's network is removed")
    assert "hw-" not in place.inside("ip", "-o", "link")


def test_a_range_that_clashes_is_told_by_the_node_and_by_the_task(place: Place) -> None:
    soon(lambda: place.condition("n2", "network_range"), within_s=20, what="the node tells it")
    assert "10.66.0.0/24 is used by interface world" in place.condition("n2", "network_range")["sentence"]
    place.on("n2")
    task = place.jobs.task("true", network="job")
    assert task["state"] == "FAILED"
    assert "worker.network_job_range 10.66.0.0/16: 10.66.0.0/24 is used by interface world" in str(task["reason"])
    assert place.jobs.prints("echo well") == b"well\n", "the default network needs no range"
    place.on("n1")


def test_a_flushed_firewall_and_a_restarted_engine_are_mended(place: Place) -> None:
    job, address = place.begin_server()
    before = place.tables()
    assert len(before) == 4, "two Workers with two tables each"
    place.inside("nft", "flush", "ruleset")
    soon(lambda: place.tables() == before, within_s=20, every_s=0.5, what="the rules are back")
    place.engine.restart()
    assert place.tables() == before
    soon(lambda: not place.condition("n1", "engine_unavailable"), within_s=30, what="the node is fit again")
    time.sleep(1)
    closed = (f"{address}:9000", SITE, *CLOSED_OF_MACHINE)
    assert place.answers(WORLD, ALLOWED_OF_MACHINE, *closed) == [WORLD, ALLOWED_OF_MACHINE]
    place.end(job)


def test_rules_stay_with_running_tasks_and_go_with_the_last_one(place: Place) -> None:
    job, _ = place.begin_server()
    place.cluster.stop("n1")
    assert len(place.tables()) == 4, "its task runs on"
    place.cluster.start("n1")
    place.cluster.wait_ready()
    soon(lambda: not place.condition("n1", "stopping"), within_s=30, what="the node has told its new life")
    assert not place.condition("n1", "network_unguarded"), "its address is the Worker's"
    assert not place.condition("n1", "network_rules")
    place.end(job)
    place.jobs.none_is_left()
    place.cluster.stop("n1")
    assert len(place.tables()) == 2, "the other Worker's stay"
    place.cluster.start("n1")
    soon(lambda: len(place.tables()) == 4, within_s=30, what="its rules are back before it takes work")


def _of(place: Place, job: str, task: str) -> dict[str, Any]:
    return next(one for one in place.cluster.client.job(job)["tasks"] if one["name"] == task)
