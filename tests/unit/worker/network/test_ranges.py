"""Which addresses the networks of tasks get, and how a clash with the machine is told."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest

from headway.config import load, split_reach
from headway.errors import ConfigInvalid
from worker.network.machine import has_interface, in_use, interfaces_of, name_servers
from worker.network.ranges import Taken, clash, first_free, job_subnets

RANGE = IPv4Network("10.213.0.0/16")
ROUTE = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
hw-a-out\t0000D50A\t00000000\t0001\t0\t0\t0\t00C0FFFF\t0\t0\t0
"""
TRIE = """Local:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     |-- 10.213.0.0
        /18 link UNICAST
     |-- 10.213.0.1
        /32 host LOCAL
     |-- 127.0.0.1
        /32 host LOCAL
     |-- 192.0.2.2
        /32 host LOCAL
     |-- 10.9.0.0
        /24 universe UNICAST
"""


def test_each_job_has_its_own_part() -> None:
    first = first_free(job_subnets(RANGE), [])
    assert first == IPv4Network("10.213.0.0/24")
    assert first_free(job_subnets(RANGE), [Taken(first, "a job", ours=True)]) == IPv4Network("10.213.1.0/24")
    assert first_free(job_subnets(RANGE), [Taken(RANGE, "all")]) is None


def test_the_kernels_files_tell_what_is_in_use() -> None:
    interfaces = interfaces_of(ROUTE)
    assert interfaces == {IPv4Network("192.0.2.0/24"): "eth0", IPv4Network("10.213.0.0/18"): "hw-a-out"}
    taken = {str(one.network): (one.by, one.ours) for one in in_use(TRIE, interfaces)}
    assert taken == {
        "10.9.0.0/24": ("a route of this machine", False),
        "10.213.0.0/18": ("interface hw-a-out", True),
        "10.213.0.1/32": ("interface hw-a-out", True),
        "192.0.2.0/24": ("interface eth0", False),
        "192.0.2.2/32": ("interface eth0", False),
    }
    assert has_interface("Inter-|\n eth0: 1 2\n", "eth0")
    assert not has_interface("Inter-|\n eth0: 1 2\n", "eth")


@pytest.mark.parametrize(
    ("taken", "needed", "why"),
    [
        (Taken(IPv4Network("10.0.0.0/8"), "interface tun0"), "192.0.2.7", "10.0.0.0/8 is used by interface tun0"),
        (Taken(IPv4Network("10.213.9.1/32"), "interface lo"), "192.0.2.7", "10.213.9.1/32 is used by interface lo"),
        (Taken(IPv4Network("192.0.2.0/24"), "interface eth0"), "10.213.4.5", "10.213.4.5 is a name server"),
    ],
)
def test_a_range_that_clashes_is_told_in_one_sentence(taken: Taken, needed: str, why: str) -> None:
    said = clash(RANGE, [taken], [(IPv4Address(needed), "a name server")])
    assert why in said
    assert "worker.network_job_range 10.213.0.0/16" in said


def test_networks_of_another_worker_are_no_clash() -> None:
    assert clash(RANGE, [Taken(IPv4Network("10.213.0.0/18"), "interface hw-a-out", ours=True)], []) == ""


def test_name_servers_are_those_that_containers_ask_themselves() -> None:
    found = name_servers(
        ["# x\nnameserver 127.0.0.53\nnameserver 10.0.0.2\nnameserver fe80::1\n"], '{"dns": ["10.0.0.3"]}'
    )
    assert found == (IPv4Address("10.0.0.2"), IPv4Address("10.0.0.3"))
    assert name_servers(["nameserver 10.0.0.2"], "[1") == (IPv4Address("10.0.0.2"),)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("licence.lab", "a name may mean another address tomorrow"),
        ("10.1.2.3/8", "must be IPv4 addresses or networks"),
        ("10.1.2.3:http", "a port from 1 to 65535"),
        ("10.1.2.3:0", "a port from 1 to 65535"),
        ("0.0.0.0/0", "networks of /8 or smaller"),
        ("169.254.169.254:80", "no task reaches them"),
        ("127.0.0.1:8080", "no task reaches them"),
        ("fd00::1", "must be IPv4 addresses or networks"),
    ],
)
def test_words_and_unreachable_places_in_an_allow_list_are_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        split_reach(text)


def test_an_entry_of_an_allow_list() -> None:
    assert split_reach("10.1.2.3:27000") == (IPv4Network("10.1.2.3/32"), 27_000)
    assert split_reach("10.4.0.0/16") == (IPv4Network("10.4.0.0/16"), None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("job-network", "an IPv4 network such as 10.213.0.0/16"),
        ("10.213.0.7/16", "an IPv4 network such as"),
        ("10.213.0.0/24", "a network of /8 to /22"),
        ("203.0.112.0/22", "a network of private addresses"),
        ("fd00::/16", "an IPv4 network such as"),
    ],
)
def test_a_range_for_jobs_that_cant_be_is_refused_with_the_key(text: str, why: str) -> None:
    with pytest.raises(ConfigInvalid, match=rf"\[worker\] network_job_range must .*{why}"):
        load(None, env={}, overrides={"worker.network_job_range": text, "cluster.token": "x" * 16})


def test_an_allow_list_with_words_is_refused_with_the_key() -> None:
    with pytest.raises(
        ConfigInvalid, match=r"\[worker\] network_allow must .*: a name may mean another address tomorrow"
    ):
        load(None, env={}, overrides={"worker.network_allow": ("licence.lab:27000",), "cluster.token": "x" * 16})
