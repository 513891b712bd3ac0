"""Image archives: read with suspicion, kept by content, given out as what every engine loads.

    store = ImageStore(layout)
    info = ingest(upload, store)                       # ArchiveRefused says why not; SeveralImages asks which
    for chunk in store.compose(info.digest).chunks():  # a docker archive without tags
        ...

An image is known by the digest of its config, which is what engines call the image's id. Everything here blocks:
call it from a thread.
"""

from .compose import Composed, omittable
from .ingest import IngestCancelled, ingest
from .model import ArchiveLimits, ArchiveRefused, ImageDamaged, ImageInfo, LayerInfo, SeveralImages
from .store import ImageStore

__all__ = [
    "ArchiveLimits",
    "ArchiveRefused",
    "Composed",
    "ImageDamaged",
    "ImageInfo",
    "ImageStore",
    "IngestCancelled",
    "LayerInfo",
    "SeveralImages",
    "ingest",
    "omittable",
]
