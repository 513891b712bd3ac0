"""What makes two runs comparable: the same account, image and command, or else the same account and task name.

Prints are numbers of 63 bits, small enough to be kept with each attempt and to be asked about by the thousand. Accounts
are in them, so nobody learns from another's runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence


def kind_of(image: str, command: str | Sequence[str], *, entrypoint: str = "") -> bytes:
    """What runs, whoever runs it. ``command`` is a script's text or the words of an argv; ``entrypoint`` tells how it
    goes with the image's own. Its environment is not in it: that is where runs of one program differ."""
    words = ("script", command) if isinstance(command, str) else ("argv", *command)
    return _digest((image, entrypoint, *words), size=16)


def command_print(owner: str, kind: bytes) -> int:
    """Of one account's runs of a kind (``kind_of``)."""
    return _number(("command", owner, kind.hex()))


def task_print(owner: str, name: str) -> int:
    """Of one account's runs of tasks of a name."""
    return _number(("task", owner, name))


def _number(words: Iterable[str]) -> int:
    return int.from_bytes(_digest(words, size=8)) >> 1


def _digest(words: Iterable[str], *, size: int) -> bytes:
    digest = hashlib.blake2b(digest_size=size)
    for word in words:
        data = word.encode("utf-8", "surrogateescape")
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.digest()
