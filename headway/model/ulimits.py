"""Limits of the kernel on processes: their names, what is more than what, and how people are told."""

from __future__ import annotations

from typing import Final

from ..units import round_size

NOFILE: Final = "nofile"
MEMLOCK: Final = "memlock"
UNLIMITED: Final = -1  # as Docker's API has it


def exceeds(value: int, limit: int) -> bool:
    """Whether the value is more than the limit. Either may be UNLIMITED."""
    return limit != UNLIMITED and (value == UNLIMITED or value > limit)


def told(name: str, value: int) -> str:
    """A limit for people: `64MiB`, `1,048,576`, `unlimited`."""
    if value == UNLIMITED:
        return "unlimited"
    return round_size(value) if name == MEMLOCK else f"{value:,}"
