"""Images on this machine: brought when a task needs one, ahead of that when it will, and removed when the disk fills.

``ImageKeeper`` decides and keeps the journal; how an engine takes, names and removes an image is the runtime's.
"""

from __future__ import annotations

from .keeper import ImageKeeper, Shelf
from .market import MarketShelf
from .prefetch import Prefetch

__all__ = ["ImageKeeper", "MarketShelf", "Prefetch", "Shelf"]
