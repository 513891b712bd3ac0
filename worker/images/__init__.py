"""Images on this machine: brought when a task needs one, ahead of that when it will, and removed when the disk fills.

``ImageKeeper`` brings and ``Room`` removes, by the ``Ledger`` of what is Headway's; how an engine takes, names and
removes an image is the runtime's.
"""

from __future__ import annotations

from .disk_space import Marks
from .manager import ImageKeeper
from .market import MarketShelf
from .ports import Images, Shelf
from .prefetch import Prefetch

__all__ = ["ImageKeeper", "Images", "MarketShelf", "Marks", "Prefetch", "Shelf"]
