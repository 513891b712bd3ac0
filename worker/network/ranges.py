"""Which addresses the networks of tasks get, and what stands in their way. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

_OUTGOING_BITS = 2  # a quarter of the range: one address for each running task
_JOB_BITS = 8


@dataclass(frozen=True, slots=True)
class Taken:
    """Addresses that are in use. ``by`` reads on after "is used by"."""

    network: IPv4Network
    by: str
    ours: bool = False  # by a network of Headway's, perhaps of another Worker on this machine


def outgoing_subnets(whole: IPv4Network) -> Iterator[IPv4Network]:
    """Candidates for the network of `outgoing`, the first one first."""
    return whole.subnets(prefixlen_diff=_OUTGOING_BITS)


def job_subnets(whole: IPv4Network) -> Iterator[IPv4Network]:
    """Candidates for the network of one job, from the end: the beginning belongs to `outgoing`."""
    step = 1 << (32 - whole.prefixlen - _JOB_BITS)
    last = int(whole.broadcast_address) + 1 - step
    for address in range(last, int(whole.network_address) - 1, -step):
        yield IPv4Network((address, whole.prefixlen + _JOB_BITS))


def first_free(candidates: Iterable[IPv4Network], taken: Sequence[Taken]) -> IPv4Network | None:
    """The first one that overlaps nothing in use. None: there is none."""
    for one in candidates:
        if not any(one.overlaps(other.network) for other in taken):
            return one
    return None


def clash(whole: IPv4Network, taken: Iterable[Taken], needed: Iterable[tuple[IPv4Address, str]]) -> str:
    """Why the range can't be used on this machine, in one sentence. Empty: it can.

    Networks of Headway's may lie in it. ``needed`` are addresses that must stay reachable, and what they are.
    """
    for other in taken:
        if not other.ours and other.network.overlaps(whole):
            return _sentence(whole, f"{other.network} is used by {other.by}")
    for address, what in needed:
        if address in whole:
            return _sentence(whole, f"{address} is {what}")
    return ""


def _sentence(whole: IPv4Network, why: str) -> str:
    return (
        f"The tasks' networks can't use worker.network_range {whole}: {why}. An admin has to choose a private range "
        "that this machine does not use."
    )
