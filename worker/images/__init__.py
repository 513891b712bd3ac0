"""Images on this machine: brought when a task needs one, ahead of that when it will, and removed when the disk fills.

``ImageManager`` brings and ``Room`` removes, by the ``Ledger`` of what is Headway's; how an engine takes, names and
removes an image is the runtime's.
"""

from __future__ import annotations

from .disk_space import DiskWatermarks
from .manager import ImageManager
from .market import MountedImageMarket
from .ports import ImageMarket, ImageProvider
from .prefetch import ImagePrefetcher

__all__ = ["DiskWatermarks", "ImageManager", "ImageMarket", "ImagePrefetcher", "ImageProvider", "MountedImageMarket"]
