"""Headway's kernel: what the five services, the client and the command line share.

import headway

with headway.gpus(1, timeout="2h") as devices:  # on a GPU machine itself, queued like any job
    ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .client.gpu_context import gpus

__all__ = ["gpus"]


def __getattr__(name: str) -> object:
    if name != "gpus":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .client.gpu_context import gpus

    return gpus
