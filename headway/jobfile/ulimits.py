"""Limits of the kernel on a task's processes, as Docker's users write them.

``nofile: 65536`` is the soft and the hard limit, ``nofile: {soft: 1024, hard: 65536}`` says both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from headway.jobfile import fields
from headway.jobfile.source import printable
from headway.model.ulimits import MEMLOCK, NOFILE, UNLIMITED
from headway.units import BadValue, format_size

# Fewer would end the launcher, which runs under the same limit.
LEAST_NOFILE: Final = 64
MOST_NOFILE: Final = 2**31 - 64  # the kernel has no larger one (fs.nr_open)
PARTS: Final = ("soft", "hard")


@dataclass(frozen=True, slots=True)
class Ulimit:
    """One limit. ``soft``: what a process has at first; ``hard``: how far it may raise that. UNLIMITED: no limit."""

    name: str
    soft: int
    hard: int


_nofile = fields.whole(MOST_NOFILE, LEAST_NOFILE)


def nofile(raw: Any) -> int:
    if _is_unlimited(raw):
        raise BadValue("can't be unlimited on Linux; write a number, for instance 1048576", suggestion="1048576")
    return _nofile(raw)


def memlock(raw: Any) -> int:
    """Bytes, or UNLIMITED."""
    if _is_unlimited(raw):
        return UNLIMITED
    if isinstance(raw, int) and not isinstance(raw, bool) and raw > 0:
        # Docker counts bytes here and the shell's `ulimit -l` KiB.
        bytes_, kib = format_size(raw), format_size(raw * 1024)
        raise fields.quoting(
            raw,
            lambda typed: BadValue(
                f"'{printable(typed, 60)}' has no unit; write {bytes_} if it is in bytes, as for Docker, or {kib} if "
                "it is in KiB, as for `ulimit -l`"
            ),
        )
    try:
        return fields.size(raw)
    except BadValue as bad:
        bad.allowed = ("unlimited", *bad.allowed)
        raise


def _is_unlimited(raw: Any) -> bool:
    return raw == "unlimited" or (raw == -1 and not isinstance(raw, bool | float))


READERS: Final[dict[str, Callable[[Any], int]]] = {MEMLOCK: memlock, NOFILE: nofile}


def as_json(ulimits: Iterable[Ulimit]) -> dict[str, Any]:
    """As in a job file, in the short notation where it says the same."""
    return {
        one.name: _one_as_json(one.name, one.soft)
        if one.soft == one.hard
        else {"soft": _one_as_json(one.name, one.soft), "hard": _one_as_json(one.name, one.hard)}
        for one in ulimits
    }


def _one_as_json(name: str, value: int) -> str | int:
    if value == UNLIMITED:
        return "unlimited"
    return format_size(value) if name == MEMLOCK else value


def merged(defaults: Iterable[Ulimit], own: Iterable[Ulimit]) -> tuple[Ulimit, ...]:
    """Those of the task, and of the defaults those that it does not name."""
    by_name = {one.name: one for one in (*defaults, *own)}
    return tuple(by_name[name] for name in sorted(by_name))
