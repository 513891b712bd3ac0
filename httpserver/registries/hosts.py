"""Which hosts are asked, how, and at which addresses.

Users choose the host by the name of an image, and this service runs inside the network. So it never calls link-local
addresses, among them the metadata services of clouds. It calls this machine itself only where the name says so
openly. It connects to exactly the address that was checked. An admin can go further and list the allowed registries.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.request import getproxies, proxy_bypass

import certifi

from headway.config import METADATA

from .failure import FailureKind, RegistryFailure
from .names import split_host

Address = IPv4Address | IPv6Address
_MOST_ADDRESSES = 3
# Metadata services of clouds that are not at a link-local address.
_METADATA = frozenset({ip_address("fd00:ec2::254"), *(one.network_address for one in METADATA)})


class RegistryHosts:
    """See the module."""

    def __init__(
        self, *, asks: bool = True, allowed: Collection[str] = (), insecure: Collection[str] = (), threads: int = 4
    ) -> None:
        self._asks = asks
        self._allowed = frozenset(host.lower() for host in allowed)
        self._insecure = frozenset(host.lower() for host in insecure)
        # Of their own: a name server that hangs must not keep others from their files.
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="lookup")
        self._tls: ssl.SSLContext | None = None

    @property
    def asks(self) -> bool:
        """Whether registries are asked at all."""
        return self._asks

    def permit(self, registry: str) -> None:
        """Raises RegistryFailure for one that is not asked here."""
        if self._allowed and registry not in self._allowed:
            named = ", ".join(sorted(self._allowed)[:10])
            raise RegistryFailure(
                FailureKind.NOT_HERE,
                f"Images from {registry} are not taken here; an admin allows these registries: {named}.",
            )

    def plain(self, host: str) -> bool:
        """Whether plain http is spoken with it: this machine, and what the admin named."""
        name, _ = split_host(host)
        return host.lower() in self._insecure or name.lower() in self._insecure or _is_loopback(name)

    async def addresses(self, host: str, port: int, registry: str) -> Sequence[str]:
        """Where to connect to; at most three. ``registry`` is named in messages.

        Raises:
            RegistryFailure: there is none, or none that may be called.
        """
        loop = asyncio.get_running_loop()
        try:
            found = await loop.run_in_executor(self._threads, _look_up, host, port)
        except OSError as error:
            raise RegistryFailure(
                FailureKind.UNREACHABLE, f"The registry {registry} can't be reached: no address is known for {host}."
            ) from error
        usable = [address for address in found if self._may_call(host, address)]
        if not usable:
            raise _not_called(host)
        return usable[:_MOST_ADDRESSES]

    def proxy(self, scheme: str, host: str) -> str | None:
        """The proxy that the environment names for this host, as engines use it. It then looks the name up itself.

        Raises:
            RegistryFailure: the host is an address that is not called.
        """
        if (address := _literal(host)) is not None and not self._may_call(host, str(address)):
            raise _not_called(host)
        if _is_loopback(host) or proxy_bypass(host):
            return None
        return getproxies().get(scheme)

    async def tls(self) -> ssl.SSLContext:
        """Trusts what this machine trusts."""
        if self._tls is None:
            self._tls = await asyncio.get_running_loop().run_in_executor(self._threads, _tls)
        return self._tls

    def close(self) -> None:
        """Waits for nothing."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _may_call(self, host: str, address: str) -> bool:
        found = _literal(address)
        if found is None:
            return False
        if found.is_link_local or found.is_multicast or found.is_unspecified or found in _METADATA:
            return False
        if found.is_loopback:
            # Whoever writes localhost means it; a public name that leads here is a trick, unless the admin knows it.
            return _is_loopback(host) or any(split_host(name)[0] == host for name in self._allowed | self._insecure)
        return True


def _not_called(host: str) -> RegistryFailure:
    return RegistryFailure(
        FailureKind.NOT_HERE,
        f"{host} is not a registry that Headway asks: its address is inside this machine or network.",
    )


def _look_up(host: str, port: int) -> list[str]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())  # a bare machine has none of its own
    return context


def _literal(host: str) -> Address | None:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return None
    # ::ffff:169.254.169.254 is that very address.
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    address = _literal(host)
    return address is not None and address.is_loopback
