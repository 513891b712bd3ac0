"""Counts the steps of a computation, so that a test can bound its work without a clock.

A step is a call of a function, in Python or C. Their number is the same on a busy machine and on an idle one. Work that
grows faster than its input shows in it: each look at an item is at least one call.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Steps:
    """``taken``: function calls of this thread so far."""

    def __init__(self) -> None:
        self.taken = 0

    def _count(self, frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            self.taken += 1


@contextmanager
def counted() -> Iterator[Steps]:
    """Counts the calls of this thread within the block, those of other threads left out."""
    steps = Steps()
    before = sys.getprofile()
    sys.setprofile(steps._count)
    try:
        yield steps
    finally:
        sys.setprofile(before)
