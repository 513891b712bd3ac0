"""Where a request comes from: client address, scheme, host, and whether a browser sent it from another site. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network
from urllib.parse import urlsplit

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

# What a form on any page can send without asking first.
FORM_TYPES = frozenset({"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"})

Networks = Sequence[IPv4Network | IPv6Network]


@dataclass(frozen=True, slots=True)
class Origin:
    """The request as its sender sees it, with the trusted proxies taken out."""

    client: str
    secure: bool
    host: str  # lower case, with port when one was given
    proxied: bool = False  # a trusted proxy sent it on


def find(
    *,
    peer: str,
    scheme: str,
    host: str,
    forwarded_for: str,
    forwarded_proto: str,
    forwarded_host: str,
    trusted: Networks,
) -> Origin:
    """Headers of proxies count only when the peer itself is one of ``trusted``. The client is then the last address
    that is not a trusted proxy, since anybody may have made up what comes before it."""
    if not _is_in(peer, trusted):
        return Origin(peer, scheme == "https", host.lower())
    client = peer
    for part in reversed([p.strip() for p in forwarded_for.split(",") if p.strip()]):
        client = part
        if not _is_in(part, trusted):
            break
    secure = forwarded_proto.split(",")[-1].strip().lower() == "https" if forwarded_proto else scheme == "https"
    return Origin(client, secure, (forwarded_host.split(",")[-1].strip() or host).lower(), bool(forwarded_for))


def host_name(host: str) -> str:
    """The name without the port: ``[::1]:80`` gives ``::1``."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, _, port = host.rpartition(":")
    return name if name and port.isdigit() else host


def host_allowed(host: str, allowed: Iterable[str]) -> bool:
    """Whether the service may be called under this name; an empty list allows all."""
    names = frozenset(allowed)
    return not names or host_name(host).rstrip(".") in names


def same_origin(*, site: str, origin: str, referer: str, host: str, secure: bool) -> bool:
    """Whether a browser says that the request comes from this very origin.

    ``site`` is Sec-Fetch-Site, which no script can set. Old browsers lack it: then Origin, then Referer, must name
    this host. With none of them it isn't known to be ours, so it is not.
    """
    if site:
        return site == "same-origin"
    source = origin or referer
    if not source or source == "null":
        return False
    parts = urlsplit(source)
    if parts.scheme not in ("http", "https") or (secure and parts.scheme != "https"):
        return False
    return _with_port(parts.netloc.lower(), parts.scheme) == _with_port(host, "https" if secure else "http")


def from_elsewhere(*, site: str, origin: str, host: str, secure: bool) -> bool:
    """Whether a browser says that the request comes from another site; programs say nothing and pass."""
    if site:
        return site not in ("same-origin", "none")
    if not origin:
        return False
    return not same_origin(site="", origin=origin, referer="", host=host, secure=secure)


def _with_port(netloc: str, scheme: str) -> str:
    name = host_name(netloc)
    default = "443" if scheme == "https" else "80"
    port = netloc.rpartition(":")[2] if netloc != name and not netloc.endswith("]") else default
    return f"{name}:{port}"


def _is_in(address: str, networks: Networks) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return any(parsed in network for network in networks)
