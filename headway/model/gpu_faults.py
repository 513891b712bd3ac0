"""The table of a GPU's faults: one row for each word, which says how it passes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFaultFacts:
    """What follows from a fault. ``sentence`` says what happened, ``advice`` what an admin can do."""

    sentence: str
    advice: str
    # Whether it comes back by itself once it has been clean for a while. Else an admin returns it.
    passes: bool


class GpuFaultWord(StrEnum):
    """The stable word for what made a GPU sick; see docs/gpus.md, "Health"."""

    # Each word stands with its row.
    facts: GpuFaultFacts

    def __new__(cls, word: str, facts: GpuFaultFacts | None = None) -> Self:
        assert facts is not None, "a word stands with its row"
        member = str.__new__(cls, word)
        member._value_ = word
        member.facts = facts
        return member

    XID_ERROR = (
        "xid_error",
        GpuFaultFacts(
            sentence="The driver reported a fault of the card",
            advice="Reset the card (`nvidia-smi --gpu-reset`) or restart the machine, then return the card.",
            passes=False,
        ),
    )
    ECC_ERRORS = (
        "ecc_errors",
        GpuFaultFacts(
            sentence="Its memory had errors that can't be corrected",
            advice="Reset the card (`nvidia-smi --gpu-reset`) or restart the machine, then return the card.",
            passes=False,
        ),
    )
    ROW_REMAP = (
        "row_remap",
        GpuFaultFacts(
            sentence="Parts of its memory have to be replaced by spare ones",
            advice="Reset the card (`nvidia-smi --gpu-reset`) or restart the machine: it comes back by itself then.",
            passes=True,
        ),
    )
    ROW_REMAP_FAILED = (
        "row_remap_failed",
        GpuFaultFacts(
            sentence="Parts of its memory are broken, and no spare ones are left",
            advice="Replace the card.",
            passes=False,
        ),
    )
    OFF_THE_BUS = (
        "off_the_bus",
        GpuFaultFacts(
            sentence="It fell off the bus",
            advice="Restart the machine. If it happens again, look at power, cooling and seat of the card.",
            passes=False,
        ),
    )
    TOO_HOT = (
        "too_hot",
        GpuFaultFacts(
            sentence="It is too hot",
            advice="Look at fans, dust and the air of the room. It comes back by itself when it has cooled down.",
            passes=True,
        ),
    )
    VANISHED = (
        "vanished",
        GpuFaultFacts(
            sentence="The driver no longer lists it",
            advice="If it was taken out, restart the worker. It comes back by itself when the driver lists it again.",
            passes=True,
        ),
    )
    UNREADABLE = (
        "unreadable",
        GpuFaultFacts(
            sentence="The driver can't read it",
            advice="See what `nvidia-smi` says of it. It comes back by itself when the driver reads it again.",
            passes=True,
        ),
    )
    NOT_CLEAN = (
        "not_clean",
        GpuFaultFacts(
            sentence="An attempt left processes or memory on it",
            advice="End the processes that `nvidia-smi` shows. It comes back by itself when it is clean.",
            passes=True,
        ),
    )
