"""Why a task waits, in one cell of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

# What no other task's end will change. The rest passes by itself.
_LASTS = frozenset(
    {
        "held",
        "may_still_run",
        "image_missing",
        "no_such_node_yet",
        "gpu_unavailable",
        "gpu_busy_outside",
        "disk_full",
        "mount_unavailable",
    }
)


def why_cell(waits: Sequence[Mapping[str, Any]]) -> str:
    """The most telling reason, and how many more there are. The first of those that last comes before all others."""
    if not waits:
        return ""
    shown = next((one for one in waits if one["word"] in _LASTS), waits[0])
    more = f" (+{len(waits) - 1})" if len(waits) > 1 else ""
    return f"{shown['sentence']}{more}"
