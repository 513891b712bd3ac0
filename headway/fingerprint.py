"""What makes two runs comparable: the same account, image and command, or else the same account and task name.

Prints are numbers of 63 bits, small enough to be kept with each attempt and to be asked about by the thousand. Accounts
are in them, so nobody learns from another's runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache


def kind_of(image: str, command: str | Sequence[str], *, entrypoint: str = "") -> bytes:
    """What runs, whoever runs it. ``command`` is a script's text or the words of an argv; ``entrypoint`` tells how it
    goes with the image's own. Its environment is not in it: that is where runs of one program differ."""
    return _kind(image, command if isinstance(command, str) else tuple(command), entrypoint)


@lru_cache(maxsize=2_048)
def command_print(owner: str, kind: bytes) -> int:
    """The print of one account's runs of a kind (``kind_of``)."""
    return _number("command", owner, kind.hex())


def task_print(owner: str, name: str) -> int:
    """The print of one account's runs of tasks of a name."""
    return _number("task", owner, name)


# The tasks of a job are mostly alike, and come by the thousand.
@lru_cache(maxsize=2_048)
def _kind(image: str, command: str | tuple[str, ...], entrypoint: str) -> bytes:
    return _digest((image, entrypoint, command), size=16)


def _number(*words: str) -> int:
    return int.from_bytes(_digest(words, size=8)) >> 1


def _digest(words: Sequence[str | tuple[str, ...]], *, size: int) -> bytes:
    # JSON tells a text from a list, and where one word ends.
    return hashlib.blake2b(json.dumps(words).encode("ascii"), digest_size=size).digest()
