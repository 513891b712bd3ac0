"""When the rules are set, when work is refused, and what the node says."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import Any

import pytest

from tests.support.clock import FakeClock
from tests.support.waiting import eventually
from worker.network import guard as module
from worker.network.firewall import Firewall
from worker.network.guard import RANGE, RULES, UNKNOWN, EngineNetwork, GuardSettings, NetworkGuard, Unknown
from worker.network.namespace import NetworkNamespace
from worker.network.rules import RuleSet
from worker.ports import EngineUnavailable

BRIDGE = EngineNetwork("bridge", bridge="docker0", subnets=(IPv4Network("172.17.0.0/16"),), default=True)
OF_A_JOB = EngineNetwork("headway-j1", bridge="hw-abcde-1", subnets=(IPv4Network("10.213.0.0/24"),), job="j1")
MACVLAN = EngineNetwork("lan", driver="macvlan", subnets=(IPv4Network("10.1.0.0/16"),))


class PretendFirewall(Firewall):
    def __init__(self) -> None:
        super().__init__()
        self.why = ""
        self.rules: RuleSet | None = None
        self.removed = 0
        self.held = 0

    def hold(self, where: NetworkNamespace, rules: RuleSet) -> str:
        self.held += 1
        self.rules = None if self.why else rules
        return self.why

    def remove(self, where: NetworkNamespace, identity: str) -> None:
        self.rules = None
        self.removed += 1


class Bench:
    """A guard with a pretended engine and firewall."""

    def __init__(self, **settings: Any) -> None:
        self.networks: Sequence[EngineNetwork] | None = [BRIDGE, MACVLAN]
        self.firewall = PretendFirewall()
        self.said: dict[str, tuple[str, bool]] = {}
        self.swept = 0
        self.sweeps_end = True
        self.unknown = Unknown()
        self.clock = FakeClock()
        self.guard = NetworkGuard(
            GuardSettings("n1", "abcdef01", **{"job_range": IPv4Network("10.213.0.0/16"), **settings}),
            engine_url="tcp://pretended",
            read=self._read,
            sweep=self._sweep,
            unknown=lambda: self.unknown,
            tell=lambda word, sentence, blocks: self.said.__setitem__(word, (sentence, blocks)),
            clock=self.clock,
            firewall=self.firewall,
        )

    async def _read(self) -> Sequence[EngineNetwork]:
        if self.networks is None:
            raise EngineUnavailable("gone")
        return self.networks

    async def _sweep(self) -> None:
        self.swept += 1
        if not self.sweeps_end:
            await asyncio.Event().wait()

    @property
    def services(self) -> list[str]:
        """Addresses in the rules that hold now."""
        assert self.firewall.rules is not None
        return [str(address) for address, _ in self.firewall.rules.facts.services]


@pytest.fixture(autouse=True)
def docker0_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "has_interface", lambda dev, name: name == "docker0")


async def test_nothing_starts_before_the_rules_are_there() -> None:
    bench = Bench()
    with pytest.raises(EngineUnavailable):
        bench.guard.refusal()
    bench.networks = None
    assert not await bench.guard.look()
    with pytest.raises(EngineUnavailable, match="not set on n1 yet"):
        bench.guard.refusal()
    sentence, blocks = bench.said[RULES]
    assert "the container engine has not told its networks" in sentence
    assert blocks
    bench.networks = [BRIDGE]
    assert await bench.guard.look()
    assert bench.guard.refusal() == ""
    assert bench.said[RULES] == ("", True)
    assert bench.firewall.rules is not None


async def test_an_engine_that_comes_late_holds_up_only_where_rules_are_required() -> None:
    bench = Bench(mode="wanted")
    bench.networks = None
    assert not await bench.guard.look()
    assert bench.guard.refusal() == ""
    assert RULES not in bench.said


async def test_an_engine_without_a_namespace_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    monkeypatch.setattr(module, "namespace_of", lambda url: None)
    assert not await bench.guard.look()
    with pytest.raises(EngineUnavailable):
        bench.guard.refusal()
    assert bench.said[RULES][1]


async def test_rules_that_cant_be_had_block_work_and_are_told() -> None:
    bench = Bench()
    assert await bench.guard.look()
    bench.firewall.why = "nft is not installed"
    assert not await bench.guard.look()
    sentence, blocks = bench.said[RULES]
    assert "can't be set on n1: nft is not installed. An admin can" in sentence
    assert blocks
    assert bench.guard.refusal() == sentence
    bench.firewall.why = ""
    assert await bench.guard.look()
    assert bench.said[RULES] == ("", True)


async def test_an_admin_may_do_without_but_the_node_says_so() -> None:
    bench = Bench(mode="wanted")
    assert bench.guard.refusal() == ""
    bench.firewall.why = "nft is not installed"
    await bench.guard.look()
    sentence, blocks = bench.said[RULES]
    assert sentence
    assert not blocks
    assert bench.guard.refusal() == ""


async def test_off_removes_what_was_set_once() -> None:
    bench = Bench(mode="off")
    assert await bench.guard.look()
    assert await bench.guard.look()
    assert bench.firewall.removed == 1
    assert (bench.said[RULES][0], bench.guard.refusal()) == ("", "")


async def test_an_engine_on_another_machine_has_its_bridge_there() -> None:
    bench = Bench()
    bench.networks = [EngineNetwork("bridge", bridge="docker9", default=True)]
    assert not await bench.guard.look()
    assert "the engine's bridge docker9 is not on this machine" in bench.guard.refusal()


async def test_an_engine_that_goes_with_its_namespace_is_no_lack_of_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    lives = [NetworkNamespace(4), NetworkNamespace(4), None, NetworkNamespace(5), NetworkNamespace(5)]
    monkeypatch.setattr(module, "namespace_of", lambda url: lives.pop(0))
    assert await bench.guard.look()
    bench.firewall.why = "nsenter: cannot open /proc/4/ns/net"
    assert not await bench.guard.look()
    assert bench.guard.refusal() == ""
    assert not await bench.guard.look(), "the next one has none either"
    assert bench.guard.refusal()


async def test_rules_hold_while_the_engine_is_away() -> None:
    bench = Bench()
    assert await bench.guard.look()
    bench.networks = None
    bench.firewall.rules = None
    assert await bench.guard.look()
    assert bench.firewall.rules is not None, "set again without the engine"


async def test_facts_of_the_machine_and_the_settings() -> None:
    bench = Bench(services=("127.0.0.1:7001", "192.0.2.7:7002"), private=True)
    await bench.guard.look()
    assert bench.firewall.rules is not None
    facts = bench.firewall.rules.facts
    assert facts.engine_networks == BRIDGE.subnets, "a network of the site's own is no network of this machine"
    assert [(str(address), port) for address, port in facts.services] == [("192.0.2.7", 7002)]
    assert facts.service_ports == (7001, 7002)
    assert facts.private


async def test_rules_stay_when_the_network_of_a_job_comes_or_goes() -> None:
    bench = Bench()
    await bench.guard.look()
    without = bench.firewall.rules
    bench.networks = [BRIDGE, MACVLAN, OF_A_JOB]
    await bench.guard.look()
    assert bench.firewall.rules == without


async def test_name_servers_stay_open_for_tasks_that_began_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()

    async def with_servers(*now: str) -> list[str]:
        """Those in the rules when the machine has these."""
        text = "".join(f"nameserver {one}\n" for one in now)
        monkeypatch.setattr(module, "read_first", lambda paths: text if "/etc/resolv.conf" in paths else "")
        assert await bench.guard.look()
        assert bench.firewall.rules is not None
        return [str(address) for address in bench.firewall.rules.facts.name_servers]

    assert await with_servers("10.0.0.2") == ["10.0.0.2"]
    both = ["10.0.0.2", "10.0.0.3"]
    assert await with_servers("10.0.0.3") == both
    assert await with_servers() == both
    assert await with_servers("10.0.0.2") == both, "another order is nothing new"
    assert await with_servers("10.0.0.3", "10.0.0.2") == both
    for n in range(10, 26):
        found = await with_servers(f"10.0.0.{n}")
    assert found == [f"10.0.0.{n}" for n in range(10, 26)], "at most 16, and the newest"


async def test_containers_from_before_are_told_and_an_engine_that_ignores_addresses_is_refused() -> None:
    bench = Bench()
    bench.unknown = Unknown(2)
    assert await bench.guard.look()
    assert bench.said[UNKNOWN][0].startswith("No firewall rule holds for 2 containers on n1")
    assert bench.guard.refusal() == ""
    bench.unknown = Unknown(3, engine_ignores=True)
    assert not await bench.guard.look()
    assert "the engine does not give containers the hardware addresses" in bench.guard.refusal()
    assert "or somebody has connected one of them to another network" in bench.guard.refusal()
    assert bench.said[UNKNOWN][0] == ""


async def test_a_clash_is_told_and_blocks_nothing() -> None:
    bench = Bench(job_range=IPv4Network("172.16.0.0/12"))
    assert await bench.guard.look()
    sentence, blocks = bench.said[RANGE]
    assert "172.17.0.0/16 is used by" in sentence
    assert not blocks


async def test_leaving_takes_the_rules_and_the_networks_along() -> None:
    bench = Bench()
    await bench.guard.look()
    await bench.guard.leave()
    assert (bench.firewall.removed, bench.swept) == (1, 1)
    await bench.guard.close()


async def test_a_sweep_that_hangs_keeps_no_rules_from_being_looked_at() -> None:
    bench = Bench()
    bench.networks, bench.sweeps_end = [BRIDGE, OF_A_JOB], False
    assert await bench.guard.look()
    running = asyncio.create_task(bench.guard.run())
    try:
        await eventually(lambda: bench.swept == 1 and bench.clock.sleeping == 1)
        before = bench.firewall.held
        for n in (1, 2, 3):
            await bench.clock.advance(5)
            await eventually(lambda n=n: bench.firewall.held == before + n and bench.clock.sleeping == 1)
        assert bench.swept == 1
    finally:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


class Names:
    """A pretended name server. ``answer`` empty: it is dead. ``open`` cleared: it does not even say so."""

    def __init__(self, answer: str = "") -> None:
        self.answer = answer
        self.asked = 0
        self.open = threading.Event()
        self.open.set()

    def getaddrinfo(self, host: str, *_: Any) -> list[Any]:
        self.asked += 1
        self.open.wait()
        if not self.answer:
            raise socket.gaierror("no answer")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (self.answer, 0))]


async def test_a_dead_name_server_is_asked_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, names = Bench(services=("head.lab:7002",)), Names()
    monkeypatch.setattr(socket, "getaddrinfo", names.getaddrinfo)
    for _ in range(10):
        assert await bench.guard.look()
        bench.clock.tick(5)
    assert (names.asked, bench.services) == (1, [])
    names.answer = "192.0.2.7"
    bench.clock.tick(10)
    assert await bench.guard.look()
    await eventually(lambda: names.asked == 2)

    async def known() -> bool:
        return await bench.guard.look() and bench.services == ["192.0.2.7"]

    await eventually(known)
    assert names.asked == 2


async def test_what_a_name_meant_counts_until_there_is_another_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, names = Bench(services=("head.lab:7002",)), Names("192.0.2.7")
    monkeypatch.setattr(socket, "getaddrinfo", names.getaddrinfo)
    await bench.guard.look()
    assert bench.services == ["192.0.2.7"]
    names.answer = ""
    names.open.clear()
    bench.clock.tick(60)
    assert await bench.guard.look(), "nobody waits for a name server that hangs"
    await eventually(lambda: names.asked == 2)
    assert bench.services == ["192.0.2.7"]
    bench.clock.tick(60)
    await bench.guard.look()
    assert names.asked == 2, "it has not answered yet"
    names.open.set()

    async def asked_again() -> bool:
        await bench.guard.look()
        return names.asked == 3

    await eventually(asked_again)
    await bench.guard.look()
    assert bench.services == ["192.0.2.7"]
    names.answer = "192.0.2.8"
    bench.clock.tick(60)

    async def known() -> bool:
        return await bench.guard.look() and bench.services == ["192.0.2.8"]

    await eventually(known)
