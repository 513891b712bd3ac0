"""Images: fetched when a task needs one or soon will, and removed when the disk fills.

``ImageManager`` fetches images and ``ImageDiskSpace`` removes them. ``ImageUseLedger`` knows which of them Headway
fetched. The runtime knows how an engine loads, names and removes an image.
"""

from __future__ import annotations

from .disk_space import DiskWatermarks
from .manager import ImageManager
from .market import MountedImageMarket
from .ports import ImageMarket, ImageProvider
from .prefetch import ImagePrefetcher

__all__ = ["DiskWatermarks", "ImageManager", "ImageMarket", "ImagePrefetcher", "ImageProvider", "MountedImageMarket"]
