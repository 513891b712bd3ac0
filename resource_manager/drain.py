"""How a node is emptied, and when it opens by itself again. Pure.

A drain without a deadline interrupts nothing. TaskManager acts on the deadline: it stops what still runs then, and
runs it elsewhere. Instants are epoch seconds of this service's clock.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from headway.errors import InvalidInput
from headway.rpc.v1 import resource_manager_pb2 as pb
from headway.states import Admission
from headway.when import shown_at

_LONGEST_S = 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class Drain:
    """An admin's wish to empty a node."""

    since_at: float
    by: str
    until_at: float = 0.0  # 0: what runs may end by itself
    attempts_at_start: int = 0
    return_when_back: bool = False
    return_at: float = 0.0  # 0: not by the clock


@dataclass(frozen=True, slots=True)
class DrainWish:
    """What an admin asks for; None: as an earlier drain of the node said."""

    until_at: float | None = None
    return_when_back: bool | None = None
    return_at: float | None = None

    @property
    def empty(self) -> bool:
        return self == DrainWish()


def check(wish: DrainWish, now: float) -> None:
    """Refuses a wish that can't be kept.

    Raises:
        InvalidInput: an instant has passed, is no number or lies years ahead, or it opens before it is empty.
    """
    for name, at in (("until_at", wish.until_at), ("return_at", wish.return_at)):
        if not at:
            continue
        if not now < at <= now + _LONGEST_S:  # also refuses what is no number
            raise InvalidInput(f"`{name}` is a time to come, within a year: {at:g} is not, now is {now:.0f}.")
    if wish.until_at and wish.return_at and wish.return_at < wish.until_at:
        raise InvalidInput("`return_at` lies before `until_at`: the machine would open before it is empty.")


def wished(before: Drain | None, wish: DrainWish, *, now: float, by: str, live: int) -> Drain:
    """The drain once ``by`` has asked for ``wish``. What was not said stays as an earlier drain said.

    Raises:
        InvalidInput: the node would open before it is empty.
    """
    known = before if before is not None else Drain(since_at=now, by=by, attempts_at_start=live)
    after = replace(
        known,
        by=by,
        until_at=known.until_at if wish.until_at is None else wish.until_at,
        return_when_back=known.return_when_back if wish.return_when_back is None else wish.return_when_back,
        return_at=known.return_at if wish.return_at is None else wish.return_at,
    )
    if after.until_at and after.return_at and after.return_at < after.until_at:
        raise InvalidInput("It would open before it is empty: `return_at` lies before `until_at`.")
    return after


def opens_when_back(drain: Drain | None, boot_before: str, boot_now: str) -> bool:
    """Whether a node opens now that its Worker has registered: its machine was restarted, as the drain awaited."""
    return drain is not None and drain.return_when_back and bool(boot_before) and boot_now not in ("", boot_before)


def opens_by_clock(drain: Drain | None, now: float) -> bool:
    """Whether a node is to open by itself at this moment."""
    return drain is not None and 0 < drain.return_at <= now


def told_change(
    before: Admission, before_note: str, before_drain: Drain | None, after: Admission, after_drain: Drain | None
) -> str:
    """What others had said of a node and holds no longer, for the admin who has just changed it; empty: nothing."""
    if before is Admission.OPEN or (before is after and before_drain == after_drain):
        return ""
    if before_drain is None:
        said = f"It was {before.value}"
    else:
        until = f", to be empty by {shown_at(before_drain.until_at)}" if before_drain.until_at else ""
        since = shown_at(before_drain.since_at)
        said = f"It was {before.value} since {since}, last asked for by {before_drain.by}{until}"
        if before is after and before_drain.until_at == (after_drain.until_at if after_drain else 0.0):
            said = ""  # only who asked has changed, or how it comes back
            if after_drain is not None and (before_drain.return_at, before_drain.return_when_back) != (
                after_drain.return_at,
                after_drain.return_when_back,
            ):
                said = f"Before, {before_drain.by} had said otherwise how it opens again"
    if not said:
        return ""
    return said + (f" ({before_note.rstrip('.')})." if before_note else ".")


def sentence(drain: Drain, by: str) -> str:
    """The beginning or change of a drain, as an event of its node."""
    parts = [f"{by or 'An operator'} empties it"]
    if drain.until_at:
        parts.append(f"what still runs at {shown_at(drain.until_at)} is run elsewhere")
    if drain.return_when_back:
        parts.append("it opens once its machine was restarted")
    if drain.return_at:
        parts.append(f"it opens at {shown_at(drain.return_at)}")
    return "; ".join(parts) + "."


def to_pb(drain: Drain) -> pb.Drain:
    return pb.Drain(**asdict(drain))


def to_text(drain: Drain | None) -> str:
    """As the database keeps it; empty: none."""
    return "" if drain is None else json.dumps(asdict(drain))


def from_text(text: str) -> Drain | None:
    return Drain(**json.loads(text)) if text else None
