"""One layer on its way from the archive into the store: unpacked, hashed, checked and looked at in one pass."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass

from .inspection import LayerInspection
from .model import ArchiveLimits, ArchiveRefused
from .places import DECIDING, PlacesOfLayer
from .streams import CHUNK, Incomplete, Reader, packing, unpacked
from .tar import Member, MemberKind, members, shown
from .unpacking import Unpacking

# Devices that a minimal system's /dev has, and that every container has anyway: null, zero, full, random, urandom,
# tty, console, ptmx. 0:0 is how overlay file systems write a removed file.
_HARMLESS = frozenset(((1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2), (0, 0)))
_CLIMBING = 10_000


@dataclass(frozen=True, slots=True)
class CopiedLayer:
    """A layer that has gone past. ``packed`` says whether what was written is gzip."""

    size_bytes: int
    packed: bool
    look: LayerInspection


class Meter:
    """Counts over all layers of one archive, and refuses what grows too much."""

    def __init__(self, limits: ArchiveLimits, unpacked: Callable[[int], None]) -> None:
        self.limits = limits
        self._unpacked = unpacked
        self._members = 0

    def one_more(self) -> None:
        """A header was read."""
        self._members += 1
        if self._members > self.limits.layer_members:
            raise ArchiveRefused(
                f"The image has more than {self.limits.layer_members} files; pack data into fewer files, or make a "
                "dataset of it."
            )

    def grow(self, count: int) -> None:
        """Counts so many unpacked bytes more."""
        self._unpacked(count)


def copy_layer(
    content: Iterator[bytes],
    *,
    name: str,
    diff_id: str,
    digest: str,
    meter: Meter,
    write: Callable[[bytes], None] | None,
    deciding: Set[str] = DECIDING,
) -> CopiedLayer:
    """Reads a layer to its end. ``write`` gets the bytes to keep: gzip as it came, everything else as a plain tar.

    Raises:
        ArchiveRefused: it is damaged or hostile, or not what ``diff_id`` or ``digest`` ("": not known) promise.
    """
    where = f"The layer {shown(name)}"
    head = next(content, b"")
    how = packing(head)
    if how == "xz":
        raise ArchiveRefused(f"{where} is packed with xz, which no engine reads in a layer.")
    keep_packed = how == "gzip"
    outside = hashlib.new(digest.partition(":")[0]) if digest and (how or digest != diff_id) else None
    inside = hashlib.sha256()
    size = 0

    def as_it_came() -> Iterator[bytes]:
        piece = head
        while piece:
            if outside:
                outside.update(piece)
            if keep_packed and write:
                write(piece)
            yield piece
            piece = next(content, b"")

    def plain() -> Iterator[bytes]:
        nonlocal size
        for piece in unpacked(as_it_came(), how, where):
            size += len(piece)
            meter.grow(len(piece))
            inside.update(piece)
            if write and not keep_packed:
                write(piece)
            yield piece

    try:
        look = _look(Reader(plain()), meter, where, deciding)
    except Incomplete:
        raise ArchiveRefused(f"{where} is incomplete: it ends too soon. Save and send the image again.") from None
    if outside and outside.hexdigest() != digest.partition(":")[2]:
        raise ArchiveRefused(f"{where} doesn't have the digest {digest}: it was changed or damaged.")
    if f"sha256:{inside.hexdigest()}" != diff_id:
        raise ArchiveRefused(f"{where} is not the layer {diff_id} that the image's config names: changed or damaged.")
    return CopiedLayer(size, keep_packed, look)


def _look(reader: Reader, meter: Meter, where: str, deciding: Set[str]) -> LayerInspection:
    look = LayerInspection(places=PlacesOfLayer(deciding))
    climbing: set[str] = set()
    unpacking = Unpacking(where)
    for member in members(reader, meter.limits, meter.one_more, where=where):
        path = _checked(member, where)
        if climbing and _passes(climbing, path, member):
            raise ArchiveRefused(f"{where} goes through a link that leads out of the image: {shown(member.name)}.")
        if member.kind is MemberKind.SYMLINK and ".." in member.link and _climbs(path, member.link):
            # By itself it does no harm: inside a container nothing lies above the root.
            climbing.add(path)
            if len(climbing) > _CLIMBING:
                raise ArchiveRefused(f"{where} has more than {_CLIMBING} links that lead out of the image.")
        unpacking.add(path, member)
        look.places.add(unpacking.real, member.kind, member.link)
        if look.add(path, member):
            look.read(path, reader.exactly(member.size))
    while reader.some(CHUNK):
        pass  # what follows the end mark belongs to the digest all the same
    return look


def _checked(member: Member, where: str) -> str:
    """The plain path of a member inside the image.

    Raises:
        ArchiveRefused: it, or what it links to, leads out; or it is a device.
    """
    name = member.name
    if ".." in name and ".." in name.split("/"):
        raise ArchiveRefused(f"{where} has a member that leads out of the image: {shown(name)}.")
    if name[0] == "/" and name.strip("/."):
        raise ArchiveRefused(
            f"{where} has a member with an absolute name, {shown(name)}: pack it with names that begin below the root."
        )
    match member.kind:
        case MemberKind.HARDLINK:
            if ".." in member.link.split("/"):
                raise ArchiveRefused(
                    f"{where} has a hard link that leads out of the image: {shown(name)} to {shown(member.link)}."
                )
        case MemberKind.BLOCK:
            raise ArchiveRefused(f"{where} has a block device, {shown(name)}; an image must have none.")
        case MemberKind.CHAR:
            if member.device not in _HARMLESS:
                major, minor = member.device
                raise ArchiveRefused(
                    f"{where} has the device {major}:{minor}, {shown(name)}; only null, zero, full, random, urandom, "
                    "tty, console and ptmx may be in an image."
                )
    if name[:1] in ("/", ".") or name[-1] == "/" or "//" in name or "/." in name:
        return "/".join(part for part in name.split("/") if part not in ("", "."))
    return name


def _passes(links: set[str], path: str, member: Member) -> bool:
    """Whether a member lies below one of the links, or is a hard link to something below one."""
    for way in (path, member.link.lstrip("/") if member.kind is MemberKind.HARDLINK else ""):
        while (cut := way.rfind("/")) > 0:
            way = way[:cut]
            if way in links:
                return True
    return False


def _climbs(path: str, target: str) -> bool:
    """Whether a link's target, read word by word, goes above the image's root."""
    depth = 0 if target.startswith("/") else path.count("/")
    for part in target.split("/"):
        if part == "..":
            depth -= 1
            if depth < 0:
                return True
        elif part not in ("", "."):
            depth += 1
    return False
