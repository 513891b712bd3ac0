"""Which addresses the networks of tasks get, and what stands in their way. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

_JOB_PREFIX = 24  # of a job's network: 253 tasks on one machine


@dataclass(frozen=True, slots=True)
class Taken:
    """Addresses that are in use. ``by`` reads on after "is used by"."""

    network: IPv4Network
    by: str
    ours: bool = False  # by a network of Headway's, perhaps of another Worker on this machine


def job_subnets(whole: IPv4Network) -> Iterator[IPv4Network]:
    """Candidates for the network of one job."""
    return whole.subnets(new_prefix=_JOB_PREFIX)


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
        f"Networks of jobs can't use worker.network_job_range {whole}: {why}. An admin has to choose a private range "
        "that this machine does not use."
    )
