"""Hardware addresses of containers. By them the rules tell this Worker's tasks from everybody else's containers. Pure.

A task can't change or forge its address: it has neither NET_ADMIN nor NET_RAW.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass

# The low half of the first byte. Bit 2: nobody has bought the address. Bit 8 tells it from Docker's own ones, which
# begin with 02. Bit 4: the container is in the network of its job.
_OUTGOING, _JOB, _JOB_BIT = 0x0A, 0x0E, 0x04
_PREFIX = 3  # bytes that all containers of a Worker share
_NUMBERS = 1 << 24


@dataclass(frozen=True, slots=True)
class Mark:
    """Addresses that are ``value`` under ``mask``, as rules write them."""

    mask: str
    value: str

    def fits(self, address: str) -> bool:
        return _number(address) & _number(self.mask) == _number(self.value)


@dataclass(frozen=True, slots=True)
class Marks:
    """What the addresses of one Worker's tasks have in common."""

    all: Mark
    outgoing: Mark
    job: Mark


def identity_of(*parts: str) -> str:
    """Eight hex digits that belong to one Worker."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]


def marks_of(identity: str) -> Marks:
    own, full = _own(identity), "ff:ff:ff:00:00:00"
    both = f"{0xFF & ~_JOB_BIT:02x}:ff:ff:00:00:00"
    outgoing, job = _text(own, _OUTGOING, 0), _text(own, _JOB, 0)
    return Marks(all=Mark(both, outgoing), outgoing=Mark(full, outgoing), job=Mark(full, job))


class HardwareAddresses:
    """Gives each container an address of its own. Two with one address on a bridge would disturb each other."""

    def __init__(self, identity: str) -> None:
        self._own = _own(identity)
        self._taken: dict[int, Hashable] = {}

    def take(self, who: Hashable, *, job: bool) -> str:
        """The address of this container: the same each time until ``give_back``."""
        number = next((n for n, other in self._taken.items() if other == who), None)
        if number is None:
            number = self._first_free(who)
            self._taken[number] = who
        return _text(self._own, _JOB if job else _OUTGOING, number)

    def seen(self, who: Hashable, address: str) -> None:
        """A container of this Worker has this address, perhaps from before a restart."""
        if address:
            self._taken[_number(address) % _NUMBERS] = who

    def give_back(self, who: Hashable) -> None:
        """Safe twice."""
        self._taken = {number: other for number, other in self._taken.items() if other != who}

    def _first_free(self, who: Hashable) -> int:
        first = int.from_bytes(hashlib.sha256(str(who).encode()).digest()[:3], "big")
        return next(n % _NUMBERS for n in range(first, first + _NUMBERS) if n % _NUMBERS not in self._taken)


def _own(identity: str) -> bytes:
    return bytes.fromhex(identity)[:_PREFIX]


def _text(own: bytes, kind: int, number: int) -> str:
    whole = bytes([(own[0] & 0xF0) | kind]) + own[1:] + number.to_bytes(6 - _PREFIX, "big")
    return ":".join(f"{byte:02x}" for byte in whole)


def _number(address: str) -> int:
    return int(address.replace(":", ""), 16)
