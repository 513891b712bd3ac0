"""Which connections of tasks the rules let pass: each rule has a case that would pass, or fail, without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network

import pytest

from worker.network import nft
from worker.network.rules import Facts, Kind, Reach, Rule, RuleSet, rules_of

FACTS = Facts(
    identity="abcdef01",
    name_servers=(IPv4Address("169.254.169.254"), IPv4Address("10.0.0.2")),
    services=((IPv4Address("203.0.113.5"), 7002),),
    service_ports=(7002, 7004),
    engine_networks=(IPv4Network("172.17.0.0/16"),),
    allowed=(Reach.of("10.1.2.3:27000"), Reach.of("10.4.0.0/16"), Reach.of("10.1.2.9:7004")),
)


def passes(rules: Sequence[Rule], to: str, port: int = 80, *, kind: Kind = Kind.ANY, out: str = "eth0") -> bool:
    """What the first fitting rule says. What none fits passes."""
    for rule in rules:
        if rule.kind is not Kind.ANY and rule.kind is not kind:
            continue
        if rule.out and not out.startswith(rule.out):
            continue
        if rule.to and not any(IPv4Address(to) in network for network in rule.to):
            continue
        if rule.ports and port not in rule.ports:
            continue
        return rule.passes
    return True


@pytest.fixture
def rules() -> RuleSet:
    return rules_of(FACTS)


@pytest.mark.parametrize(
    ("to", "port", "want"),
    [
        ("93.184.216.34", 443, True),  # the world
        ("10.1.2.3", 27_000, True),  # the allow list, with a port
        ("10.1.2.3", 27_001, False),
        ("10.4.9.9", 5_432, True),  # and without
        ("10.4.9.9", 7_004, False),  # but no port of Headway's services
        ("10.1.2.9", 7_004, True),  # unless it is named
        ("10.9.9.9", 80, False),  # private addresses
        ("192.168.1.1", 80, False),
        ("100.64.0.1", 80, False),
        ("203.0.113.5", 7_002, False),  # a service at a public address
        ("203.0.113.5", 443, True),
        ("169.254.169.254", 80, False),  # metadata
        ("169.254.169.254", 53, True),  # that is the name server, too
        ("10.0.0.2", 53, True),
        ("10.0.0.2", 80, False),
        ("168.63.129.16", 80, False),
        ("100.100.100.200", 80, False),
        ("224.0.0.1", 80, False),
        ("172.17.0.2", 80, False),
    ],
)
def test_outward(rules: RuleSet, to: str, port: int, want: bool) -> None:
    assert passes(rules.outward, to, port) is want


def test_private_addresses_may_be_opened_but_not_services_and_other_containers() -> None:
    outward = rules_of(replace(FACTS, private=True)).outward
    assert passes(outward, "10.9.9.9", 80)
    assert not passes(outward, "10.9.9.9", 7_004)
    assert not passes(outward, "172.17.0.2", 80)
    assert not passes(outward, "169.254.1.1", 80)


def test_metadata_services_stay_closed_whatever_is_opened_but_may_be_name_servers() -> None:
    open_wide = replace(
        FACTS,
        private=True,
        allowed=(Reach.of("100.64.0.0/10"), Reach.of("168.0.0.0/8"), Reach.of("168.63.129.16:80")),
        name_servers=(IPv4Address("168.63.129.16"),),
    )
    outward = rules_of(open_wide).outward
    assert not passes(outward, "100.100.100.200", 80)
    assert not passes(outward, "168.63.129.16", 80)
    assert not passes(outward, "168.63.129.16", 32_526)
    assert passes(outward, "168.63.129.16", 53)
    assert passes(outward, "100.100.100.201", 80)


def test_no_other_task_and_no_published_port(rules: RuleSet) -> None:
    assert not passes(rules.outward, "93.184.216.34", out="hw-fffff-out")
    assert passes(rules.outward, "10.213.255.3", kind=Kind.SAME_JOB)
    assert not passes(rules.outward, "10.4.9.9", kind=Kind.TO_TASK)
    assert not passes(rules.outward, "93.184.216.34", kind=Kind.REDIRECTED)
    assert not passes(rules.outward, "93.184.216.34", kind=Kind.SIX)
    assert passes(rules.outward, "10.9.9.9", kind=Kind.REPLY), "an answer to this machine's people"


def test_the_machine_itself_is_closed_but_for_names_and_named_ports(rules: RuleSet) -> None:
    assert not passes(rules.machine, "192.0.2.2", 22)
    assert not passes(rules.machine, "10.4.0.1", 22), "an address of this machine needs its port"
    assert passes(rules.machine, "10.1.2.3", 27_000)
    assert passes(rules.machine, "10.0.0.2", 53)
    assert not passes(rules.machine, "203.0.113.5", 7_002)
    assert not passes(rules.machine, "203.0.113.5", 443)


def test_a_named_network_opens_no_containers_of_this_machine() -> None:
    wide = replace(FACTS, allowed=(Reach.of("172.16.0.0/12"), Reach.of("172.17.0.9:5432")))
    assert not passes(rules_of(wide).outward, "172.17.0.2", 80)
    assert passes(rules_of(wide).outward, "172.17.0.9", 5432)
    assert passes(rules_of(wide).outward, "172.20.0.2", 80)


def test_the_script_says_the_same_rules(rules: RuleSet) -> None:
    text = nft.script(rules)
    assert text.startswith("add table inet headway_abcdef01\ndelete table inet headway_abcdef01\n")
    assert "ip daddr { 10.1.2.3/32 } meta l4proto { tcp, udp } th dport { 27000 } return" in text
    assert "ether saddr & fb:ff:ff:00:00:00 == aa:cd:ef:00:00:00 jump machine" in text
    assert "\n    ct status dnat reject with icmpx type admin-prohibited\n" in text, "nft 0.9 reads no other form"
    switched = nft.bridge_script(rules)
    assert "ether saddr & ff:ff:ff:00:00:00 == aa:cd:ef:00:00:00 drop" in switched
    assert "ether daddr & ff:ff:ff:00:00:00 == aa:cd:ef:00:00:00 drop" in switched
