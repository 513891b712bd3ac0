"""Whether the Worker takes an attempt. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway.errors import Fenced, HeadwayError, MountUnavailable, Stopping, StoreFull, Unavailable

from ..model import Condition, Launch, Record, Stage


@dataclass(frozen=True, slots=True)
class Accept:
    """Take it; ``known``: it was taken before, and nothing is to be done."""

    known: bool = False


@dataclass(frozen=True, slots=True)
class Refuse:
    """An ordinary answer. ``again_later``: the node is unfit now, the attempt itself is fine."""

    error: HeadwayError
    again_later: bool


_ERRORS: dict[str, type[HeadwayError]] = {
    "mount_unavailable": MountUnavailable,
    "disk_full": StoreFull,
    "stopping": Stopping,
}


def verdict(
    launch: Launch, *, record: Record | None, incarnation: int, conditions: Sequence[Condition]
) -> Accept | Refuse:
    """Idempotent on the attempt: what was taken before is taken again, what has ended or was stopped never is."""
    if record is not None:
        if record.stage is Stage.LIVE and record.stop is None:
            return Accept(known=True)
        if record.launch is None:
            return Refuse(Fenced("A stop for this attempt came before its launch."), again_later=False)
        if record.stage in (Stage.LIVE, Stage.ENDED):
            # Its end will be reported, or is on its way: no second verdict about it.
            return Accept(known=True)
        return Refuse(Fenced("This attempt has already ended here."), again_later=False)
    if launch.incarnation != incarnation:
        return Refuse(Fenced("This worker was restarted since the attempt was placed."), again_later=True)
    for condition in conditions:
        if condition.blocks_work:
            error = _ERRORS.get(condition.word, Unavailable)
            return Refuse(error(condition.sentence), again_later=True)
    return Accept()
