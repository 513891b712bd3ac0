"""Shares of one GPU's memory, as the schedule counts them: in whole units of one card. Pure."""

from __future__ import annotations

from typing import Final

UNIT_BYTES: Final = 256 << 20


def units_of_share(share_bytes: int) -> int:
    """How many units a share of so many bytes takes, rounded up."""
    return -(-share_bytes // UNIT_BYTES)


def units_of_card(memory_bytes: int) -> int:
    """How many units a card of so many bytes has, rounded down."""
    return memory_bytes // UNIT_BYTES
