"""Reads what the kernel and the system say about this machine's addresses. Pure: texts in, values out."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from ipaddress import AddressValueError, IPv4Address, IPv4Network

from .ranges import Taken

BRIDGES = "hw-"
"""Interfaces of Headway's networks begin with it, whoever's Worker made them. Others must not."""
_LEAF = re.compile(r"\|-- (?P<address>[\d.]+)$")
_ROUTE = re.compile(r"/(?P<length>\d+) \w+ (?P<kind>LOCAL|UNICAST|BLACKHOLE|UNREACHABLE|PROHIBIT)\b")
_LOOPBACK = IPv4Network("127.0.0.0/8")


def interfaces_of(route: str) -> dict[IPv4Network, str]:
    """``/proc/net/route``: the interface of each network that this machine reaches, the default route left out."""
    out: dict[IPv4Network, str] = {}
    for line in route.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8:
            continue
        with contextlib.suppress(ValueError):
            address, mask = (int.from_bytes(bytes.fromhex(fields[i]), "little") for i in (1, 7))
            network = IPv4Network((address, mask.bit_count()))
            if network.prefixlen:
                out.setdefault(network, fields[0])
    return out


def in_use(fib_trie: str, interfaces: dict[IPv4Network, str]) -> list[Taken]:
    """``/proc/net/fib_trie``: all networks and addresses of this machine in every routing table."""
    ours = [network for network, name in interfaces.items() if name.startswith(BRIDGES)]
    out: list[Taken] = []
    for network in sorted(set(_prefixes(fib_trie)) | set(interfaces)):
        if not network.prefixlen or network.subnet_of(_LOOPBACK):
            continue
        name = interfaces.get(network) or next((of for wide, of in interfaces.items() if network.subnet_of(wide)), "")
        is_ours = any(network.subnet_of(own) for own in ours)
        out.append(Taken(network, f"interface {name}" if name else "a route of this machine", ours=is_ours))
    return out


def _prefixes(fib_trie: str) -> Iterator[IPv4Network]:
    address = ""
    for line in fib_trie.splitlines():
        leaf, route = _LEAF.search(line), _ROUTE.search(line)
        if leaf:
            address = leaf["address"]
        elif route and address:
            with contextlib.suppress(ValueError):
                yield IPv4Network(f"{address}/{route['length']}", strict=False)


def name_servers(resolv_confs: Iterable[str], daemon_json: str = "") -> tuple[IPv4Address, ...]:
    """Whom the engine asks for names: those of ``resolv.conf``, and of the engine's own settings.

    Loopback addresses are left out. The engine asks those itself, outside of the containers.
    """
    words: list[str] = []
    for text in resolv_confs:
        lines = (line.split() for line in text.splitlines())
        words += [fields[1] for fields in lines if len(fields) > 1 and fields[0] == "nameserver"]
    with contextlib.suppress(ValueError, AttributeError):
        said = json.loads(daemon_json or "{}").get("dns")
        words += [str(one) for one in said] if isinstance(said, list) else []
    out: list[IPv4Address] = []
    for word in words:
        with contextlib.suppress(AddressValueError):
            address = IPv4Address(word)
            if not address.is_loopback and address not in out:
                out.append(address)
    return tuple(out)


def has_interface(dev: str, name: str) -> bool:
    """``/proc/net/dev``: whether there is an interface of this name."""
    return any(line.partition(":")[0].strip() == name for line in dev.splitlines())
