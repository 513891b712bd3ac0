"""Ending what runs in a control group, and the group itself, under cgroup v1 and v2."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


def processes(name: str) -> set[int]:
    """The pids in the top-level group ``name`` and below it, in every hierarchy."""
    found: set[int] = set()
    for group in _groups(name):
        try:
            found.update(int(line) for line in (group / "cgroup.procs").read_text().split())
        except OSError:
            continue  # the group went away meanwhile
    return found


def remove(name: str, *, within_s: float = 10) -> None:
    """Kill what is in the group and remove it."""
    give_up_at = time.monotonic() + within_s
    while time.monotonic() < give_up_at:
        pids = processes(name)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if not pids:
            break
        time.sleep(0.05)
    for group in sorted(_groups(name), key=lambda path: len(path.parts), reverse=True):
        try:
            group.rmdir()
        except OSError:
            continue  # still busy: the kernel frees it when its last process is reaped


def _groups(name: str) -> list[Path]:
    tops = [_ROOT / name, *(hierarchy / name for hierarchy in _ROOT.iterdir() if hierarchy.is_dir())]
    return [path for top in tops if top.is_dir() for path in [top, *(p for p in top.rglob("*") if p.is_dir())]]
