"""The table of a GPU's faults: one row for each word, which says what happened and how it passes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFaultFacts:
    """What follows from a fault. ``what`` is a clause about "it", ``advice`` a sentence for an admin."""

    what: str
    advice: str
    passes: bool  # it comes back by itself once it has been clean for a while; else an admin returns it


_RESET = "Reset the card (`nvidia-smi --gpu-reset`) or restart the machine"


class GpuFaultWord(StrEnum):
    """The stable word for what made a GPU faulty; see docs/gpus.md, "Health"."""

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
            what="its driver reported a fault of the hardware", advice=f"{_RESET}, then return the card.", passes=False
        ),
    )
    ECC_ERRORS = (
        "ecc_errors",
        GpuFaultFacts(
            what="its memory has errors that can't be corrected",
            advice=f"{_RESET}, then return the card.",
            passes=False,
        ),
    )
    ROW_REMAP = (
        "row_remap",
        GpuFaultFacts(
            what="parts of its memory must be replaced by spare ones",
            advice=f"{_RESET}. Then it comes back by itself.",
            passes=True,
        ),
    )
    ROW_REMAP_FAILED = (
        "row_remap_failed",
        GpuFaultFacts(
            what="parts of its memory are broken, and no spare ones are left",
            advice="Have the card replaced.",
            passes=False,
        ),
    )
    OFF_THE_BUS = (
        "off_the_bus",
        GpuFaultFacts(
            what="it fell off the bus",
            advice="Restart the machine. Then it comes back by itself. If it happens again, look at its power, its "
            "cooling and its seat.",
            passes=True,
        ),
    )
    TOO_HOT = (
        "too_hot",
        GpuFaultFacts(
            what="it is too hot",
            advice="Look at fans, dust and the air of the room. It comes back by itself when it has cooled down.",
            passes=True,
        ),
    )
    VANISHED = (
        "vanished",
        GpuFaultFacts(
            what="its driver does not list it any more",
            advice="Restart the machine. If the card was taken out for good, say so by "
            "`headway gpus return NODE UUID --gone`.",
            passes=True,
        ),
    )
    UNREADABLE = (
        "unreadable",
        GpuFaultFacts(
            what="its driver can't read it",
            advice="Look at what `nvidia-smi` says of it. It comes back by itself when it can be read again.",
            passes=True,
        ),
    )
    NOT_CLEAN = (
        "not_clean",
        GpuFaultFacts(
            what="an attempt left processes or memory on it",
            advice="End the processes that `nvidia-smi` shows. It comes back by itself when it is clean.",
            passes=True,
        ),
    )


def fault_of(word: str) -> GpuFaultWord | None:
    """The row of a word in a message. None: there is no fault, or a newer Worker knows it."""
    try:
        return GpuFaultWord(word)
    except ValueError:
        return None
