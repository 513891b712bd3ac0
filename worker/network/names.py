"""Addresses of Headway's services, for rules that have to know them."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from ipaddress import AddressValueError, IPv4Address

from headway.clock import Clock

_EVERY_S = 60.0
_PATIENCE_S = 5.0
_THREADS = 8


class ServiceAddresses:
    """Asks for each name once a minute at most, in threads of its own: a dead name server holds up nobody for long.

    What was found counts until there is another answer.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked: dict[str, tuple[float, Future[None]]] = {}
        self._found: dict[str, tuple[IPv4Address, ...]] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="names")

    def of(self, hosts: Collection[str]) -> Mapping[str, tuple[IPv4Address, ...]]:
        """What is known now, without loopback, which containers don't share.

        Blocks for some seconds at most, and only where a name was never asked for.
        """
        new = []
        for host in hosts:
            before, now = self._asked.get(host), self._clock.monotonic()
            if before is not None and (now - before[0] < _EVERY_S or not before[1].done()):
                continue
            asked = self._threads.submit(self._ask, host)
            self._asked[host] = now, asked
            if before is None:
                new.append(asked)
        wait(new, timeout=_PATIENCE_S)
        return {host: self._found.get(host, ()) for host in hosts}

    def close(self) -> None:
        """Safe twice. Waits for nobody."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask(self, host: str) -> None:
        try:
            found = {one[4][0] for one in socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)}
        except (OSError, UnicodeError):
            return
        self._found[host] = tuple(sorted(_without_loopback(map(str, found))))


def _without_loopback(texts: Iterable[str]) -> list[IPv4Address]:
    out = []
    for text in texts:
        try:
            address = IPv4Address(text)
        except AddressValueError:
            continue
        if not address.is_loopback and not address.is_unspecified:
            out.append(address)
    return out
