"""Which image to remove when the disk fills, and whether there is space for another. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from headway.units import format_size

from ..machine.disks import DiskReading

# A load writes the archive to the engine's disk, unpacks it, and then removes it. Measured on overlay2: the peak is the
# sum of both. A pull keeps the compressed layers in the same way.
_PULL_FACTOR = 2.0


@dataclass(frozen=True, slots=True)
class FetchedImage:
    """An image that Headway fetched, as the journal has it. Instants are epoch seconds.

    ``key`` is ``WantedImage.key``. ``image_id`` is empty during the fetch. ``names`` are those that the fetch gave it
    on the engine, without Headway's mark.
    """

    key: str
    image_id: str = ""
    names: tuple[str, ...] = ()
    size_bytes: int = 0
    fetched_at: float = 0.0
    used_at: float = 0.0


@dataclass(frozen=True, slots=True)
class EvictionCandidate:
    """An image that may be removed, with all its entries in the journal."""

    image_id: str
    keys: tuple[str, ...]
    names: tuple[str, ...]
    used_at: float


def least_recent(
    images: Iterable[FetchedImage], *, needed: Collection[str], spared: Collection[str] = (), used_before: float
) -> EvictionCandidate | None:
    """Headway's least recently used image, if its last use was before ``used_before``.

    ``needed`` holds keys and ids of images that a task needs or will need here. ``spared`` holds ids of images that
    could not be removed a moment ago.
    """
    by_id: dict[str, list[FetchedImage]] = {}
    for one in images:
        if one.image_id:
            by_id.setdefault(one.image_id, []).append(one)
    candidates = [
        EvictionCandidate(
            image_id,
            tuple(one.key for one in entries),
            tuple(name for one in entries for name in one.names),
            max(one.used_at for one in entries),
        )
        for image_id, entries in by_id.items()
        if image_id not in needed and image_id not in spared and not any(one.key in needed for one in entries)
    ]
    candidates = [one for one in candidates if one.used_at < used_before]
    return min(candidates, key=lambda one: (one.used_at, one.image_id), default=None)


def is_above(disk: DiskReading, mark: float) -> bool:
    """Whether more than this share of the disk is in use."""
    return disk.total_bytes - disk.free_bytes > mark * disk.total_bytes


def goes_above(disk: DiskReading, more_bytes: int, mark: float) -> bool:
    """Whether so many more bytes would fill it above the watermark."""
    return disk.total_bytes - disk.free_bytes + more_bytes > mark * disk.total_bytes


def pull_peak_bytes(size_bytes: int) -> int:
    """Bytes of disk that a pull needs at its peak. 0: the image's size is not known."""
    return round(_PULL_FACTOR * size_bytes)


def not_enough_disk_sentence(node: str, name: str, needs: int, disk: DiskReading) -> str:
    """Why an image is not fetched."""
    return (
        f"Not enough disk on the machine {node} for the image {name}: it needs {_about(needs)}, and "
        f"{_about(disk.free_bytes)} are free"
    )


def _about(size_bytes: int) -> str:
    """Rounded to a tenth of a GiB or a whole MiB."""
    step = (1 << 30) // 10 if size_bytes >= 1 << 30 else 1 << 20
    if size_bytes >= 1 << 30:
        return f"{size_bytes / (1 << 30):.1f}GiB"
    return format_size(max(1, round(size_bytes / step)) * step)
