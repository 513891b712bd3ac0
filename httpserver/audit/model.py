"""Lines of the audit log as values, and how each hangs on the one before. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final, Literal

DONE: Final = "done"
BEGUN: Final = "begun"
REFUSED: Final = "refused"
FAILED: Final = "failed"
UNKNOWN: Final = "unknown"
Outcome = Literal["done", "begun", "refused", "failed", "unknown"]

NO_HASH: Final = "0" * 64  # what the first line hangs on


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One row as it is stored. ``ends``: the number of the row whose outcome this one tells; 0: it stands alone.

    ``at`` is the wall clock's instant, ``stored_at`` that of the steady clock.
    """

    number: int
    at: float
    stored_at: float
    request_id: str
    who: str
    way: str
    address: str
    word: str
    subject: str
    outcome: Outcome
    problem: str
    detail: str
    ends: int


@dataclass(frozen=True, slots=True)
class AuditPlace:
    """The newest row, and the newest one that retention has removed: number and hash of each."""

    last_number: int = 0
    last_hash: str = NO_HASH
    gone_number: int = 0
    gone_hash: str = NO_HASH


def hash_of(row: AuditRow, before: str) -> str:
    """The row's hash, which holds that of the row before."""
    text = json.dumps(asdict(row), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(f"{before}\n{text}".encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class Broken:
    """Where the chain does not hold: at this number, and why, in a sentence."""

    number: int
    sentence: str


def first_break(rows: Iterable[tuple[AuditRow, str]], number: int, before: str) -> tuple[int, str, Broken | None]:
    """Goes along rows with their stored hashes, behind the row ``number`` whose hash is ``before``.

    Answers the last number and hash that hold, and what is wrong behind them.
    """
    for row, stored in rows:
        if row.number != number + 1:
            missing = f"Line {number + 1} is missing" if row.number == number + 2 else (
                f"The lines {number + 1} to {row.number - 1} are missing"
            )  # fmt: skip
            return number, before, Broken(number + 1, f"{missing}: somebody removed them from the database.")
        if hash_of(row, before) != stored:
            sentence = f"Line {row.number} is not as it was written, or the one before it was another."
            return number, before, Broken(row.number, sentence)
        number, before = row.number, stored
    return number, before, None


def outcome_of(status: int, slug: str, *, outside: bool) -> Outcome:
    """What an HTTP status says of the change. 0: no answer was made, since the client went away."""
    if 300 <= status < 400 and slug:
        return REFUSED  # the way back to the page, which tells what is wrong
    if 200 <= status < 400:
        return DONE
    if status == 0:
        return UNKNOWN
    if outside and status in (502, 503, 504):
        return UNKNOWN  # who owns the change did not answer: it may have happened
    return REFUSED if status < 500 else FAILED
