"""The processes of a hold: whether its holder lives, and what was started from it."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from .record import Holder

MARK = "HEADWAY_HOLD"  # in the environment of all that a holder starts
_PROC = Path("/proc")


def start_ticks(pid: int) -> int | None:
    """When the process began, in ticks since boot. None: it is gone, or only its parent has not noticed its end."""
    try:
        after_name = (_PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if after_name[0] in (b"Z", b"X") else int(after_name[19])


def lives(holder: Holder) -> bool:
    """Whether this very process lives."""
    return start_ticks(holder.pid) == holder.start_ticks


def watch(holder: Holder) -> int | None:
    """A file descriptor that can be read once the process has ended. None: it has ended already, or none can be had."""
    try:
        descriptor = os.pidfd_open(holder.pid)
    except OSError:
        return None
    if lives(holder):
        return descriptor
    os.close(descriptor)
    return None


def kill(holder: Holder, number: int = signal.SIGKILL) -> None:
    """Send a signal to this very process. What this Worker may not do is left to its client."""
    with contextlib.suppress(OSError):
        descriptor = os.pidfd_open(holder.pid)
        try:
            if lives(holder):
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


def started_from(hold: str, *, besides: int) -> list[Holder]:
    """The living processes that have this hold's mark, but the holder itself. Blocks: it looks at all processes."""
    mark, found = f"{MARK}={hold}".encode(), []
    for entry in os.scandir(_PROC):
        if not entry.name.isdigit() or int(entry.name) in (besides, os.getpid()):
            continue
        try:
            marked = mark in (_PROC / entry.name / "environ").read_bytes().split(b"\0")
            uid = entry.stat().st_uid
        except OSError:
            continue  # gone, or not to be read by this user
        ticks = start_ticks(int(entry.name)) if marked else None
        if ticks is not None:
            found.append(Holder(int(entry.name), ticks, uid))
    return found
