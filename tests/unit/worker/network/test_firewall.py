"""The rules in a network namespace of the test's own: a machine with listeners, tasks and strangers on one bridge."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from worker.network.addresses import HardwareAddresses, identity_of
from worker.network.firewall import Firewall
from worker.network.namespace import NetworkNamespace
from worker.network.rules import Facts, Reach, RuleSet, rules_of

pytestmark = pytest.mark.root

ME, OTHER = identity_of("lab", "n1", "/a"), identity_of("lab", "n1", "/b")
STRANGER = "02:42:0a:d5:00:05"  # as Docker gives them
ALLOWED = (Reach.of("192.0.2.9:8001"),)
_LISTEN = """
import socket, sys, time
for port in map(int, sys.argv[1:]):
    one = socket.socket(); one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("0.0.0.0", port)); one.listen(); globals()[f"s{port}"] = one
print("up", flush=True); time.sleep(600)
"""
# All at once: what is dropped without a word costs its second only once.
_CONNECT = """
import errno, select, socket, sys, time
poller, waiting = select.poll(), {}
for place in sys.argv[1:]:
    one = socket.socket(); one.setblocking(False)
    host, port = place.split(" ")
    if one.connect_ex((host, int(port))) in (0, errno.EINPROGRESS):
        poller.register(one, select.POLLOUT); waiting[one.fileno()] = one, place
end = time.monotonic() + 1
while waiting and (ready := poller.poll(max(0, end - time.monotonic()) * 1000)):
    for number, _ in ready:
        poller.unregister(number)
        one, place = waiting.pop(number)
        if one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
            print(place)
"""


def rules(identity: str = ME) -> RuleSet:
    return rules_of(Facts(identity=identity, allowed=ALLOWED))


class House:
    """A machine whose bridge has tasks of two Workers at .2, .3 and .4, and a stranger at .5."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        mine, others = HardwareAddresses(ME), HardwareAddresses(OTHER)
        self.machine = self._holder()
        self.where = NetworkNamespace(self.machine)
        self._in(self.machine, "ip link set lo up; ip link add br0 type bridge; ip link set br0 up")
        self._in(self.machine, "ip addr add 10.213.0.1/18 dev br0; ip addr add 192.0.2.9/32 dev lo")
        self._in(self.machine, "ip addr add 169.254.169.254/32 dev lo; echo 1 > /proc/sys/net/ipv4/ip_forward")
        self.task = self._container(2, mine.take("a", job=False))
        self._container(3, mine.take("b", job=False))
        self._container(4, others.take("c", job=False))
        self.stranger = self._container(5, STRANGER)
        self._listen(self.machine, 8000, 8001)

    def reaches(self, who: int, address: str, port: int) -> bool:
        return bool(self.reached(who, (address, port)))

    def reached(self, who: int, *places: tuple[str, int]) -> list[tuple[str, int]]:
        """Those of the places where somebody answers."""
        words = [f"{address} {port}" for address, port in places]
        enter = ["nsenter", f"--net=/proc/{who}/ns/net", "--"]
        asked = [*enter, sys.executable, "-IS", "-c", _CONNECT, *words]
        lines = subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        return [place for place, word in zip(places, words, strict=True) if word in lines]

    def is_closed(self) -> bool:
        """Whether a task reaches nothing that it must not, and what it may."""
        may = ("192.0.2.9", 8001)
        places = [*((f"10.213.0.{n}", 9000) for n in (3, 4, 5))]
        places += [("10.213.0.1", 8000), ("192.0.2.9", 8000), ("169.254.169.254", 8000)]
        return self.reached(self.task, *places, may) == [may]

    def stranger_reaches_the_machine(self) -> bool:
        places = [("10.213.0.1", 8000), ("192.0.2.9", 8000)]
        return self.reached(self.stranger, *places) == places

    def _container(self, number: int, address: str) -> int:
        pid = self._holder()
        self._in(self.machine, f"ip link add v{number} type veth peer name eth0 netns {pid}")
        self._in(self.machine, f"ip link set v{number} master br0; ip link set v{number} up")
        self._in(pid, f"ip link set eth0 address {address}; ip addr add 10.213.0.{number}/18 dev eth0")
        self._in(pid, "ip link set eth0 up; ip route add default via 10.213.0.1")
        self._listen(pid, 9000)
        return pid

    def _holder(self) -> int:
        process = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo up; exec sleep 600"], stdout=subprocess.PIPE)
        self._stack.callback(lambda: (process.kill(), process.communicate()))
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        return process.pid

    def _listen(self, pid: int, *ports: int) -> None:
        enter = ["nsenter", f"--net=/proc/{pid}/ns/net", "--", sys.executable, "-IS", "-c", _LISTEN, *map(str, ports)]
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


@pytest.mark.parametrize("what", ["flush ruleset", "delete table", "flush table"])
def test_tasks_reach_neither_each_other_nor_the_machine_and_deleted_rules_come_back(house: House, what: str) -> None:
    neighbours = [(f"10.213.0.{n}", 9000) for n in (3, 4, 5)]
    assert house.reached(house.task, *neighbours) == neighbours, "what the rules are for"
    firewall = Firewall()
    assert firewall.hold(house.where, rules()) == ""
    assert house.is_closed()
    assert house.stranger_reaches_the_machine()
    assert not house.reaches(house.stranger, "10.213.0.2", 9000)
    assert house.reaches(house.machine, "10.213.0.2", 9000), "people on the machine look at their tasks"
    if what == "flush ruleset":
        house.where.run("nft", "flush", "ruleset")
    else:
        for family in ("inet", "bridge"):
            house.where.run("nft", *what.split(), family, rules().facts.table)
    assert house.reaches(house.task, "10.213.0.1", 8000)
    assert firewall.hold(house.where, rules()) == ""
    assert house.is_closed()


def test_two_workers_and_strangers_are_left_alone(house: House) -> None:
    house.where.run("nft", "add", "table", "inet", "strangers")
    mine, others = Firewall(), Firewall()
    assert mine.hold(house.where, rules()) == ""
    assert others.hold(house.where, rules(OTHER)) == ""
    assert house.is_closed()
    others.remove(house.where, OTHER)
    assert house.is_closed()
    mine.remove(house.where, ME)
    mine.remove(house.where, ME)
    assert house.where.run("nft", "list", "tables").split("\n")[0] == "table inet strangers"
    assert house.reaches(house.task, "10.213.0.1", 8000)


def test_the_reason_is_told_where_rules_cant_be_had(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worker.network.firewall._PROGRAM", "no-such-program")
    assert Firewall().hold(house.where, rules()) == "no-such-program is not installed"
