"""Looking at the machine's processes through /proc."""

from __future__ import annotations

import os
from pathlib import Path


def naming(text: str) -> list[int]:
    """The pids of other processes that have ``text`` in their command line."""
    wanted = os.fsencode(text)
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if wanted in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue  # it ended meanwhile
    return found


def children(parent: int) -> list[int]:
    """The pids of a process's children."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # Its name, in brackets, may hold anything.
            _, _, after = (entry / "stat").read_text("utf-8", "replace").rpartition(")")
        except OSError:
            continue  # it ended meanwhile
        if int(after.split()[1]) == parent:
            found.append(int(entry.name))
    return found
