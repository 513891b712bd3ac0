"""Which uids and gids accounts may have. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from headway.errors import Conflict, InvalidInput, Problem

from .model import Account

# `nobody`, to whom file servers give what has no owner, and the number that some systems take for "no id".
_NOBODY = frozenset({65_534, 65_535})


def check(uid: int | None, gid: int | None, *, least: int) -> None:
    """Checks ids that an admin named.

    Raises:
        InvalidInput: below ``least`` they are of the machines' own users and groups; 65534 is nobody.
    """
    for name, value in (("uid", uid), ("gid", gid)):
        if value is None:
            continue
        if value < least:
            raise _refused(
                name,
                f"The {name} {value} is below {least} (`cluster.account_uid_min`): it may belong to the machines' own "
                "users and groups.",
            )
        if value in _NOBODY:
            raise _refused(name, f"The {name} {value} is `nobody`, to whom file servers give what has no owner.")


def refuse_taken(uid: int, gid: int | None, others: Iterable[Account]) -> None:
    """
    Raises:
        Conflict: another account has, or had, one of these ids.
    """
    for other in others:
        for name, value in (("uid", uid), ("gid", uid if gid is None else gid)):
            if value in (other.uid, other.gid):
                sentence = f"The {name} {value} belongs to another account."
                raise Conflict(sentence, problems=[Problem(f"/{name}", sentence)])


def free(range_: range, others: Iterable[Account]) -> int:
    """The next uid of the range.

    It is never one that was used before, since files of that owner may still lie around: no gap is filled.

    Raises:
        Conflict: all of them are used.
    """
    taken = {id for other in others for id in (other.uid, other.gid) if id in range_}
    uid = max(taken) + 1 if taken else range_.start
    while uid in _NOBODY:
        uid += 1
    if uid not in range_:
        raise Conflict(f"All uids from {range_.start} to {range_.stop - 1} are used; name one yourself.")
    return uid


def _refused(name: str, sentence: str) -> InvalidInput:
    return InvalidInput(sentence, problems=[Problem(f"/{name}", sentence)])
