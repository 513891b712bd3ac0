"""Which proxy, if any, the environment names for an address. Pure.

As curl and most programs read it: ``http_proxy`` or ``https_proxy`` by the address, else ``all_proxy``. Small letters
win over capitals. ``no_proxy`` lists hosts that are reached without one. This machine itself always is.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from ..errors import ConfigInvalid

SCHEMES = ("http", "https", "socks5", "socks5h")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Proxy:
    """``url`` may hold a password; ``shown`` has none. ``variable`` names where it was found."""

    url: str
    shown: str
    variable: str


def proxy_for(url: str, environ: Mapping[str, str]) -> Proxy | None:
    """The proxy for this address, or None.

    Raises:
        ConfigInvalid: the variable names no proxy that can be used.
    """
    to = urlsplit(url)
    host, port = (to.hostname or "").lower(), to.port or _PORTS.get(to.scheme, 0)
    if is_this_machine(host):
        return None
    variable, value = _first(environ, f"{to.scheme}_proxy", "all_proxy")
    if not value or _is_excepted(host, port, _first(environ, "no_proxy")[1]):
        return None
    return _read(variable, value, host)


def is_this_machine(host: str) -> bool:
    """Whether the host is this machine's own loopback."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _address(host)
    return address is not None and (address.is_loopback or address.is_unspecified)


def _first(environ: Mapping[str, str], *names: str) -> tuple[str, str]:
    """Name and value of the first variable that is set. An empty one is set, too: it switches a proxy off."""
    for name in names:
        for variable in (name, name.upper()):
            # In a CGI program anybody's header `Proxy:` becomes HTTP_PROXY.
            if variable in environ and not (variable == "HTTP_PROXY" and "REQUEST_METHOD" in environ):
                return variable, environ[variable].strip()
    return "", ""


def _read(variable: str, value: str, host: str) -> Proxy:
    text = value if "://" in value else f"http://{value}"
    without = f"Mend it, or set NO_PROXY={host} to go without."
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ConfigInvalid(f"{variable} names no address of a proxy ({error}). {without}") from error
    scheme = parts.scheme.lower()
    if scheme not in SCHEMES:
        raise ConfigInvalid(
            f"{variable} names a proxy of the kind {scheme[:20]!r}; known are {', '.join(SCHEMES)}. {without}"
        )
    if not parts.hostname:
        raise ConfigInvalid(f"{variable} names no host of a proxy. {without}")
    return Proxy(text, _shown(scheme, parts, port), variable)


def _shown(scheme: str, parts: SplitResult, port: int | None) -> str:
    host = parts.hostname or ""
    at = f"[{host}]" if ":" in host else host
    # A name alone may be a token.
    user = f"{parts.username}:***@" if parts.password is not None else "***@" if parts.username else ""
    return f"{scheme}://{user}{at}{f':{port}' if port else ''}"


def _is_excepted(host: str, port: int, no_proxy: str) -> bool:
    return any(_matches(entry, host, port) for entry in no_proxy.replace(",", " ").split())


def _matches(entry: str, host: str, port: int) -> bool:
    """Whether an entry means this host: a name, which means those below it, too, an address, a network, or `*`."""
    entry = entry.lower()
    if entry == "*":
        return True
    name, wanted = _without_port(entry)
    if wanted and wanted != str(port):
        return False
    address = _address(host)
    if address is not None:
        try:
            return address in ipaddress.ip_network(name, strict=False)
        except ValueError:
            return False  # a name, or nothing that anybody could read
    name = name.removeprefix("*").removeprefix(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _without_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        if rest.startswith("/"):  # [fd00::]/8
            return name + rest, ""
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address
