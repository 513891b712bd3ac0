"""Which connections of tasks pass. Pure: settings and facts in, rules out; ``nft`` and ``iptables`` write them.

The rules only take away. What passes here still has to pass all other rules of the machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv4Network

from headway.config import NEVER_REACHED, split_reach

from .machine import BRIDGES

PRIVATE = tuple(
    IPv4Network(text)
    for text in ("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15")
)
_NAMES = 53


@dataclass(frozen=True, slots=True)
class Reach:
    """What an admin lets tasks reach."""

    network: IPv4Network
    port: int | None = None

    @classmethod
    def of(cls, text: str) -> Reach:
        """Of one entry of ``worker.network_allow``. Raises ValueError."""
        return cls(*split_reach(text))


@dataclass(frozen=True, slots=True)
class Facts:
    """What the rules follow from."""

    identity: str  # of the Worker: part of the names of its bridges and tables
    outgoing: IPv4Network | None = None  # the subnet of the network of `outgoing`, once it is there
    job_bridges: tuple[str, ...] = ()
    name_servers: tuple[IPv4Address, ...] = ()
    services: tuple[tuple[IPv4Address, int], ...] = ()  # where Headway's services listen for each other
    service_ports: tuple[int, ...] = ()
    engine_networks: tuple[IPv4Network, ...] = ()  # of other containers on this machine
    allowed: tuple[Reach, ...] = ()
    private: bool = False

    @property
    def bridges(self) -> str:
        """What the names of this Worker's bridges begin with."""
        return bridge_prefix(self.identity)

    @property
    def table(self) -> str:
        return f"headway_{self.identity}"


def bridge_prefix(identity: str) -> str:
    return f"{BRIDGES}{identity}-"


class Kind(Enum):
    """What a packet has to be, besides its address and port."""

    ANY = "any"
    REPLY = "reply"  # an answer to a connection that came from the other side
    RELATED = "related"  # an error message about one that passed
    REDIRECTED = "redirected"  # this machine has changed its target: a published port of another container
    SIX = "six"  # IPv6, which the tasks' networks don't have


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. The first that fits a packet decides. Empty fields fit all."""

    passes: bool
    kind: Kind = Kind.ANY
    to: tuple[IPv4Network, ...] = ()
    ports: tuple[int, ...] = ()  # of TCP and UDP
    same: str = ""  # comes from this interface and leaves by it
    out: str = ""  # leaves by an interface that begins with it


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules of one Worker. What no rule fits passes."""

    facts: Facts
    outward: tuple[Rule, ...]  # from a task through this machine
    inward: tuple[Rule, ...]  # through this machine to a task
    machine: tuple[Rule, ...]  # from a task to this machine itself


def rules_of(facts: Facts) -> RuleSet:
    """The rules for these facts."""
    answers = (Rule(True, Kind.REPLY), Rule(True, Kind.RELATED))
    pairs = tuple(Rule(True, same=bridge) for bridge in sorted(facts.job_bridges))
    servers = tuple(IPv4Network(address) for address in facts.name_servers)
    names = (Rule(True, to=servers, ports=(_NAMES,)),) if servers else ()
    services = tuple(Rule(False, to=(IPv4Network(address),), ports=(port,)) for address, port in facts.services)
    exact = tuple(Rule(True, to=(one.network,), ports=(one.port,)) for one in facts.allowed if one.port is not None)
    wide = tuple(Rule(True, to=(one.network,)) for one in facts.allowed if one.port is None)
    ports = tuple(sorted(set(facts.service_ports)))
    near = tuple(sorted(set(facts.engine_networks)))
    outward = (
        Rule(False, Kind.SIX),
        *answers,
        *pairs,
        Rule(False, out=BRIDGES),
        Rule(False, Kind.REDIRECTED),
        *names,
        Rule(False, to=NEVER_REACHED),
        *services,
        *exact,
        # Workers on other machines listen at addresses that nobody knows here.
        *((Rule(False, to=PRIVATE, ports=ports),) if ports else ()),
        *wide,
        *((Rule(False, to=near),) if near else ()),
        *(() if facts.private else (Rule(False, to=PRIVATE),)),
    )
    inward = (*answers, *pairs, Rule(False))
    machine = (Rule(False, Kind.SIX), *answers, *names, *services, *exact, Rule(False))
    return RuleSet(facts, outward, inward, machine)
