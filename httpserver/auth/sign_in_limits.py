"""How many wrong passwords are allowed. Pure: the caller passes the time.

Limits hold for an account and an address together. Who has signed in from an address before is *known* there, and is
never refused before the password was looked at. So others' guesses at the same address shut nobody out.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass

_MOST_KEYS = 10_000


@dataclass(slots=True)
class _Bucket:
    level: float
    at: float


class FailureLimit:
    """A leaky bucket per key: ``burst`` failures at once, then one each ``every_s`` seconds."""

    def __init__(self, burst: int, every_s: float) -> None:
        self._burst = burst
        self._every_s = every_s
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def wait_s(self, key: str, now: float) -> float:
        """Seconds until the key may try again; 0: now. ``now`` is monotonic."""
        bucket = self._buckets.get(key)
        if bucket is None:
            return 0.0
        level = self._level(bucket, now)
        return 0.0 if level <= self._burst - 1 else (level - self._burst + 1) * self._every_s

    def failed(self, key: str, now: float) -> None:
        """Counts one failure."""
        bucket = self._buckets.pop(key, None) or _Bucket(0.0, now)
        # Beyond one more than the limit nothing is counted: who stops trying does not wait for hours.
        self._buckets[key] = _Bucket(min(self._level(bucket, now) + 1, self._burst + 1.0), now)
        # A guesser with many addresses must not fill the memory: the oldest are forgotten.
        while len(self._buckets) > _MOST_KEYS:
            self._buckets.popitem(last=False)

    def forget(self, key: str) -> None:
        """After a success of someone who may have slipped before."""
        self._buckets.pop(key, None)

    def forgive(self, key: str) -> None:
        """Takes back one failure."""
        bucket = self._buckets.get(key)
        if bucket is not None:
            bucket.level = max(0.0, bucket.level - 1)

    def _level(self, bucket: _Bucket, now: float) -> float:
        return max(0.0, bucket.level - (now - bucket.at) / self._every_s)


class SignInLimits:
    """A small limit per name and address, a larger one per address, and a wide one per name.

    The one per name is wide, so that somebody else's guesses do not soon lock a user out of new addresses. The one per
    address does not count this machine's own: through ``ssh -L`` everybody comes from there.
    """

    def __init__(self) -> None:
        self._pair = FailureLimit(burst=8, every_s=20)
        self._client = FailureLimit(burst=30, every_s=10)
        self._name = FailureLimit(burst=100, every_s=5)

    def wait_s(self, name: str, client: str, now: float) -> float:
        """Seconds until this name may be tried from this address; 0: now."""
        return max(
            self._pair.wait_s(f"{name}\n{client}", now),
            0.0 if is_loopback(client) else self._client.wait_s(client, now),
            self._name.wait_s(name, now),
        )

    def failed(self, name: str, client: str, now: float) -> None:
        """Counts a try; one that proves right is taken back by :meth:`succeeded`."""
        self._pair.failed(f"{name}\n{client}", now)
        self._client.failed(client, now)
        self._name.failed(name, now)

    def succeeded(self, name: str, client: str) -> None:
        """The right password came: earlier slips of this name and address are forgiven."""
        self._pair.forget(f"{name}\n{client}")
        self._client.forgive(client)
        self._name.forgive(name)


def is_loopback(client: str) -> bool:
    """Whether the address is this machine's own."""
    try:
        return ipaddress.ip_address(client).is_loopback
    except ValueError:
        return False


def place_of(client: str) -> str:
    """What is remembered of an address: of IPv6 the network, since machines change the rest by themselves."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client[:64]
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        if not address.is_loopback:
            return str(ipaddress.ip_network((int(address), 64), strict=False))
    return str(address)
