"""The rules in a network namespace of the test's own: two tasks on a bridge, and a machine with a listener."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from ipaddress import IPv4Network

import pytest

from worker.network.firewall import Firewall, Iptables, Nft, Tool
from worker.network.namespace import NetworkNamespace
from worker.network.rules import Facts, Reach, RuleSet, rules_of

pytestmark = pytest.mark.root

RULES = rules_of(Facts(identity="abcde", outgoing=IPv4Network("10.213.0.0/18"), allowed=(Reach.of("192.0.2.9:8001"),)))
BRIDGE = "hw-abcde-out"
_LISTEN = """
import socket, sys, time
for port in map(int, sys.argv[1:]):
    one = socket.socket(); one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("0.0.0.0", port)); one.listen(); globals()[f"s{port}"] = one
print("up", flush=True); time.sleep(600)
"""
_CONNECT = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 1).close()
except OSError:
    sys.exit(1)
"""


class House:
    """A machine with a bridge of `outgoing`, and two tasks at .2 and .3 on it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.machine, self.a, self.b = (self._holder() for _ in range(3))
        self.where = NetworkNamespace(self.machine)
        self._in(self.machine, f"ip link set lo up; ip link add {BRIDGE} type bridge; ip link set {BRIDGE} up")
        self._in(self.machine, f"ip addr add 10.213.0.1/18 dev {BRIDGE}; ip addr add 192.0.2.9/32 dev lo")
        self._in(self.machine, "ip addr add 169.254.169.254/32 dev lo; echo 1 > /proc/sys/net/ipv4/ip_forward")
        for number, task in ((2, self.a), (3, self.b)):
            self._in(self.machine, f"ip link add v{number} type veth peer name eth0 netns {task}")
            self._in(self.machine, f"ip link set v{number} master {BRIDGE}; ip link set v{number} up")
            self._in(task, f"ip addr add 10.213.0.{number}/18 dev eth0; ip link set eth0 up")
            self._in(task, "ip route add default via 10.213.0.1")
        self._listen(self.machine, 8000, 8001)
        self._listen(self.a, 9000)

    def b_reaches(self, address: str, port: int) -> bool:
        return self._call(self.b, sys.executable, "-c", _CONNECT, address, str(port)) == 0

    def _holder(self) -> int:
        process = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo up; exec sleep 600"], stdout=subprocess.PIPE)
        self._stack.callback(lambda: (process.kill(), process.communicate()))
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        return process.pid

    def _listen(self, pid: int, *ports: int) -> None:
        enter = ["nsenter", f"--net=/proc/{pid}/ns/net", "--", sys.executable, "-c", _LISTEN, *map(str, ports)]
        process = subprocess.Popen(enter, stdout=subprocess.PIPE)
        self._stack.callback(lambda: (process.kill(), process.communicate()))
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"

    def _in(self, pid: int, script: str) -> None:
        assert self._call(pid, "sh", "-ec", script) == 0, script

    def _call(self, pid: int, *words: str) -> int:
        return subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", "--", *words], check=False).returncode


@pytest.fixture
def house() -> Iterator[House]:
    with ExitStack() as stack:
        yield House(stack)


def _closed(house: House) -> bool:
    places = [("10.213.0.2", 9000), ("10.213.0.1", 8000), ("192.0.2.9", 8000), ("169.254.169.254", 8000)]
    return not any(house.b_reaches(*place) for place in places) and house.b_reaches("192.0.2.9", 8001)


def _delete_nft(house: House, rules: RuleSet) -> None:
    for family in ("inet", "bridge"):
        house.where.run("nft", "delete", "table", family, rules.facts.table)


def _delete_iptables(house: House, rules: RuleSet) -> None:
    house.where.run("iptables", "-t", "mangle", "-F", "INPUT")
    house.where.run("iptables", "-t", "mangle", "-F", "FORWARD")


@pytest.mark.parametrize(("tool", "delete"), [(Nft, _delete_nft), (Iptables, _delete_iptables)])
def test_tasks_reach_neither_each_other_nor_the_machine_and_deleted_rules_come_back(
    house: House, tool: Callable[[], Tool], delete: Callable[[House, RuleSet], None]
) -> None:
    assert house.b_reaches("10.213.0.2", 9000), "what the rules are for"
    firewall = Firewall([tool()])
    assert firewall.hold(house.where, RULES) == ""
    assert _closed(house)
    delete(house, RULES)
    assert house.b_reaches("10.213.0.1", 8000)
    assert firewall.hold(house.where, RULES) == ""
    assert _closed(house)


def test_the_reason_is_told_where_rules_cant_be_had(house: House) -> None:
    class Without:
        program = "nft"

        def set(self, where: NetworkNamespace, rules: RuleSet) -> None:
            where.run("no-such-program")

        def listing(self, where: NetworkNamespace, rules: RuleSet) -> str:
            return ""

    assert Firewall([Without()]).hold(house.where, RULES) == "no-such-program is not installed"
