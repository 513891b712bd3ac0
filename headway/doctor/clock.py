"""Whether this machine's clock is kept right."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable

from ..model.findings import Check, ok, problem, warning

NAME = "clock"
_REMEDY = "Install chrony (`apt-get install chrony`), or start systemd-timesyncd."
_UNSYNCHRONISED = 5  # TIME_ERROR of adjtimex(2)
_MOST_OFF_S = 60.0
_SOME_OFF_S = 2.0


def kept_right() -> bool | None:
    """What the kernel knows of it; None: it can't be asked. Blocks for no time."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "adjtimex"):
        return None
    buffer = ctypes.create_string_buffer(512)  # struct timex, all zero: only asks
    state = libc.adjtimex(buffer)
    return None if state < 0 else state != _UNSYNCHRONISED


def clock(off_s: float | None = None, ask: Callable[[], bool | None] = kept_right) -> Check:
    """``off_s``: by how much it is ahead of the cluster's, where that is known."""
    if off_s is not None and abs(off_s) > _MOST_OFF_S:
        return problem(NAME, f"It is {off_s:+.0f} s off the cluster's.", _REMEDY)
    if off_s is not None and abs(off_s) > _SOME_OFF_S:
        return warning(NAME, f"It is {off_s:+.1f} s off the cluster's.", _REMEDY)
    synchronised = ask()
    near = "" if off_s is None else f"It is within {_SOME_OFF_S:g} s of the cluster's. "
    if synchronised is False and not _in_container():
        return warning(NAME, f"{near}No program keeps it right, as the kernel says.", _REMEDY)
    return ok(NAME, near.strip() or ("A program keeps it right." if synchronised else "Its machine keeps it."))


def _in_container() -> bool:
    return os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv")
