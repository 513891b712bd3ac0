"""Room on this machine's own disks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ..model.findings import Check, ok, problem, warning

_GIB = 1 << 30
_FEW_INODES = 0.02


def space(folders: Mapping[str, tuple[str, int]]) -> list[Check]:
    """``folders``: what lies there, with its folder and the bytes that must be free; below twice as much it warns."""
    found = []
    for what, (folder, least) in folders.items():
        name, place = f"disk of {what}", _nearest(Path(folder))
        try:
            facts = os.statvfs(place)
        except OSError as error:
            found.append(problem(name, f"{place} can't be looked at: {error.strerror}.", "Look at its disk."))
            continue
        free = facts.f_bavail * facts.f_frsize
        shown = f"{folder} has {free / _GIB:.1f} GiB free"
        remedy = f"Make room on the disk of {folder}, or give it a larger one."
        if facts.f_files and facts.f_favail < facts.f_files * _FEW_INODES:
            found.append(warning(name, f"{shown}, but hardly any inodes: new files fail.", remedy))
        elif free < least:
            found.append(problem(name, f"{shown}; {least / _GIB:.1f} GiB are needed.", remedy))
        elif free < 2 * least:
            found.append(warning(name, f"{shown}, which is little.", remedy))
        else:
            found.append(ok(name, f"{shown}."))
    return found


def _nearest(folder: Path) -> Path:
    """The folder, or the first above it that is there."""
    return next((one for one in (folder, *folder.parents) if one.exists()), Path("/"))
