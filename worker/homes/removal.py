"""Takes homes away: first what is mounted, then the folders."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from ..box import remove_tree
from .system_calls import unmount

_MOUNTS = Path("/proc/self/mountinfo")
_TRIES = 3  # a propagated mount may come up under another


def clear(top: Path) -> None:
    """Unmount what a home mounts in its folder, and remove the folder. Safe twice, and where a part is left.

    Raises OSError. EBUSY: something else is mounted inside, in which nothing may be deleted.
    """
    for _ in range(_TRIES):
        ours = [point for point in mounted_below(top) if _is_ours(point, top)]
        if not ours:
            break
        for point in reversed(ours):  # the last one mounted lies on top
            unmount(point)
    if left := mounted_below(top):
        raise OSError(errno.EBUSY, "something is mounted here, unmount it first", str(left[0]))
    remove_tree(top)


def mounted_below(top: Path) -> list[Path]:
    """Mount points at or below a folder, in the order of mounting. Raises OSError."""
    return points_below(_MOUNTS.read_bytes().splitlines(), top)


def points_below(mountinfo: Iterable[bytes], top: Path) -> list[Path]:
    """The same from the lines of ``mountinfo``. Pure."""
    wanted = os.fsencode(top)
    points = (_unescaped(line.split(b" ", 5)[4]) for line in mountinfo)
    return [Path(os.fsdecode(point)) for point in points if point == wanted or point.startswith(wanted + b"/")]


def _unescaped(word: bytes) -> bytes:
    """The kernel writes four characters as a backslash and three octal digits."""
    for character in b" \t\n\\":
        word = word.replace(b"\\%03o" % character, bytes((character,)))
    return word


def _is_ours(point: Path, top: Path) -> bool:
    parts = point.relative_to(top).parts
    return parts == ("root",) or (len(parts) == 2 and parts[0] in ("layers", "own", "shares"))
