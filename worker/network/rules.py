"""Which connections of tasks pass. Pure: settings and facts in, rules out; ``nft`` writes them.

The rules only take away. What passes here still has to pass all other rules of the machine. They count for packets
that come from a task, told by its hardware address. Nobody else's packets are looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv4Address, IPv4Network

from headway.config import METADATA, NEVER_REACHED, PRIVATE, split_reach

from .addresses import Marks, marks_of
from .machine import BRIDGES

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

    identity: str  # of the Worker: part of its tasks' hardware addresses and of its tables' name
    name_servers: tuple[IPv4Address, ...] = ()
    services: tuple[tuple[IPv4Address, int], ...] = ()  # where Headway's services listen for each other
    service_ports: tuple[int, ...] = ()
    engine_networks: tuple[IPv4Network, ...] = ()  # of containers on this machine
    allowed: tuple[Reach, ...] = ()
    private: bool = False

    @property
    def marks(self) -> Marks:
        return marks_of(self.identity)

    @property
    def table(self) -> str:
        return table_of(self.identity)


def table_of(identity: str) -> str:
    """The name of this Worker's tables."""
    return f"headway_{identity}"


class Kind(Enum):
    """What a packet has to be, besides its address and port."""

    ANY = "any"
    REPLY = "reply"  # an answer to a connection that came from the other side
    RELATED = "related"  # an error message about one that passed
    REDIRECTED = "redirected"  # this machine has changed its target: a published port of another container
    SIX = "six"  # IPv6, which the tasks' networks don't have
    SAME_JOB = "same job"  # inside the network of one job
    TO_TASK = "to task"  # inside a bridge, to a task


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. The first that fits a packet decides. Empty fields fit all."""

    passes: bool
    kind: Kind = Kind.ANY
    to: tuple[IPv4Network, ...] = ()
    ports: tuple[int, ...] = ()  # of TCP and UDP
    out: str = ""  # leaves by an interface that begins with it


@dataclass(frozen=True, slots=True)
class RuleSet:
    """All rules of one Worker. What no rule fits passes."""

    facts: Facts
    outward: tuple[Rule, ...]  # from a task through this machine
    machine: tuple[Rule, ...]  # from a task to this machine itself


def rules_of(facts: Facts) -> RuleSet:
    """The rules for these facts."""
    answers = (Rule(True, Kind.REPLY), Rule(True, Kind.RELATED))
    servers = tuple(IPv4Network(address) for address in facts.name_servers)
    names = (Rule(True, to=servers, ports=(_NAMES,)),) if servers else ()
    services = tuple(Rule(False, to=(IPv4Network(address),), ports=(port,)) for address, port in facts.services)
    exact = tuple(Rule(True, to=(one.network,), ports=(one.port,)) for one in facts.allowed if one.port is not None)
    wide = tuple(Rule(True, to=(one.network,)) for one in facts.allowed if one.port is None)
    ports = tuple(sorted(set(facts.service_ports)))
    near = tuple(sorted(set(facts.engine_networks)))
    outward = (
        Rule(False, Kind.SIX),
        # Where the kernel shows the packets inside a bridge here, too.
        Rule(True, Kind.SAME_JOB),
        Rule(False, Kind.TO_TASK),
        *answers,
        Rule(False, out=BRIDGES),
        Rule(False, Kind.REDIRECTED),
        *names,
        Rule(False, to=NEVER_REACHED),
        Rule(False, to=METADATA),
        *services,
        *exact,
        *((Rule(False, to=near),) if near else ()),
        # Workers on other machines listen at addresses that nobody knows here.
        *((Rule(False, to=PRIVATE, ports=ports),) if ports else ()),
        *wide,
        *(() if facts.private else (Rule(False, to=PRIVATE),)),
    )
    machine = (Rule(False, Kind.SIX), *answers, *names, *services, *exact, Rule(False))
    return RuleSet(facts, outward, machine)
