"""Images: fetched when a task needs one or soon will, and removed when the disk fills.

``ImageManager`` fetches images and ``ImageDiskSpace`` removes them. ``ImageUseLedger`` knows which of them Headway
fetched. The runtime knows how an engine loads, names and removes an image.
"""

from __future__ import annotations

from .disk_space import DiskWatermarks
from .manager import ImageManager
from .market import MountedMarketArchives
from .ports import ImageProvider, MarketArchives
from .prefetch import ImagePrefetcher

__all__ = [
    "DiskWatermarks",
    "ImageManager",
    "ImagePrefetcher",
    "ImageProvider",
    "MarketArchives",
    "MountedMarketArchives",
]
