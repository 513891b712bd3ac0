"""An image's files, read in the folders of its layers as its containers see them."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from ..box import open_beneath
from .model import HomeImpossible

_LINKS = 40  # as many as the kernel follows
# An image that takes more was made to hold a node. A usual one takes some hundred questions, so a millisecond or two.
_MOST_QUESTIONS = 20_000
_WITHIN_S = 10.0
_TOO_MUCH = "The image's volumes and folders below /root take too long to look through."
_PATH = os.O_PATH | os.O_NOFOLLOW
_OPAQUE = "trusted.overlay.opaque"
_NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class ImageTooLarge(HomeImpossible):
    """The image takes too many questions, today and tomorrow."""


class LayerMark(Enum):
    """What one layer has at a path."""

    MISSING = auto()
    FOLDER = auto()
    OPAQUE = auto()  # a folder that hides those in the layers below
    WHITEOUT = auto()  # the path was removed in this layer
    LINK = auto()
    OTHER = auto()


class FoundKind(Enum):
    """What the image has at a path."""

    MISSING = auto()
    FOLDER = auto()
    LINK = auto()
    OTHER = auto()


def counting(marks: Iterable[LayerMark]) -> tuple[FoundKind, tuple[int, ...]]:
    """What is seen where the layers, top first, have these marks, and which layers have part in it. Pure."""
    folders: list[int] = []
    for at, mark in enumerate(marks):
        if mark is LayerMark.MISSING:
            continue
        if mark in (LayerMark.FOLDER, LayerMark.OPAQUE):
            folders.append(at)
            if mark is LayerMark.FOLDER:
                continue
        elif mark is not LayerMark.WHITEOUT and not folders:
            return FoundKind.LINK if mark is LayerMark.LINK else FoundKind.OTHER, (at,)
        break  # nothing below is seen
    return (FoundKind.FOLDER if folders else FoundKind.MISSING), tuple(folders)


@dataclass(frozen=True, slots=True)
class Found:
    """What is at a path. ``path`` has no links and no leading slash, and is the same in each of ``layers``."""

    path: str
    kind: FoundKind
    layers: tuple[Path, ...] = ()

    def below(self, other: str) -> bool:
        """Whether it is at ``other`` or below, a path of the same form."""
        return not other or f"{self.path}/".startswith(f"{other}/")


class ImageTree:
    """The files of an image. Links lead within it, as in a container. All methods block.

    At the paths in ``closed`` something else is mounted in a container: nothing of the image is seen there.
    What was seen is remembered. The number of questions has a limit, and so has the time since the tree was made:
    beyond them every method raises HomeImpossible.
    """

    def __init__(self, layers: Sequence[Path], closed: Collection[str] = ()) -> None:
        self._layers = tuple(layers)
        self._closed = frozenset(path.strip("/") for path in closed)
        self._steps: dict[str, Found] = {}
        self._facts: dict[str, os.stat_result] = {}
        self._until = time.monotonic() + _WITHIN_S
        self.questions = 0  # put to single layers

    def check(self) -> None:
        """Raises HomeImpossible: a layer is not on this machine."""
        for layer in self._layers:
            if not layer.is_absolute() or not layer.is_dir():
                raise HomeImpossible(f"The image's layer {layer} can't be read on this machine.")

    def look(self, path: str) -> Found:
        """What the image has at a path, and where that is after all links. Raises OSError."""
        parts = [part for part in reversed(path.split("/")) if part]
        here = [Found("", FoundKind.FOLDER, self._layers)]
        followed = 0
        while parts:
            part = parts.pop()
            if part in (".", ".."):
                if part == ".." and len(here) > 1:
                    here.pop()
                continue
            above = here[-1]
            found = self.step(above, part)
            if found.kind is FoundKind.LINK:
                followed += 1
                if followed > _LINKS:
                    raise OSError(errno.ELOOP, "too many links in the image", path)
                target = self.read_link(found)
                if target.startswith("/"):
                    del here[1:]
                parts += [piece for piece in reversed(target.split("/")) if piece]
            else:
                here.append(found)
        return here[-1]

    def step(self, above: Found, name: str) -> Found:
        """What is in a folder by this name, be it a link. Raises OSError."""
        path = f"{above.path}/{name}" if above.path else name
        if path in self._closed or above.kind is not FoundKind.FOLDER:
            return Found(path, FoundKind.MISSING)
        known = self._steps.get(path)  # a path without links is in the same layers at each look
        if known is not None:
            return known
        kind, at = counting(self._mark(layer, path) for layer in above.layers)
        found = Found(path, kind, tuple(above.layers[one] for one in at))
        self._steps[path] = found
        return found

    def _mark(self, layer: Path, path: str) -> LayerMark:
        self.questions += 1
        if self.questions > _MOST_QUESTIONS:
            raise ImageTooLarge(_TOO_MUCH)
        if time.monotonic() > self._until:
            raise HomeImpossible(_TOO_MUCH)
        return _mark(layer, path)

    def read_link(self, found: Found) -> str:
        """Where a link leads. Raises OSError."""
        with opened(found.layers[0], found.path, _PATH) as descriptor:
            return os.readlink("", dir_fd=descriptor)

    def facts(self, found: Found) -> os.stat_result:
        """Owner and mode of what the topmost layer has. Raises OSError."""
        known = self._facts.get(found.path)
        if known is None:
            with opened(found.layers[0], found.path, _PATH) as descriptor:
                known = self._facts[found.path] = os.fstat(descriptor)
        return known

    def read(self, path: str, most: int) -> bytes | None:
        """The first ``most`` bytes of a regular file. None: there is none. Raises OSError."""
        found = self.look(path)
        if found.kind is not FoundKind.OTHER or not stat.S_ISREG(self.facts(found).st_mode):
            return None
        with opened(found.layers[0], found.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK) as descriptor:
            pieces, have = [], 0
            while have < most and (piece := os.read(descriptor, most - have)):
                pieces.append(piece)
                have += len(piece)
        return b"".join(pieces)


@contextlib.contextmanager
def opened(layer: Path, path: str, flags: int) -> Iterator[int]:
    """A descriptor of what a layer has at a path. Not even a link in the layer leads out of it. Raises OSError."""
    top = os.open(layer, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        descriptor = open_beneath(top, path, flags, mounts=False)
    finally:
        os.close(top)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _mark(layer: Path, path: str) -> LayerMark:
    try:
        with opened(layer, path, _PATH) as descriptor:
            facts = os.fstat(descriptor)
            if stat.S_ISDIR(facts.st_mode):
                return LayerMark.OPAQUE if _is_opaque(descriptor) else LayerMark.FOLDER
    except OSError as error:
        if error.errno in _NOTHING:
            return LayerMark.MISSING
        raise
    if stat.S_ISCHR(facts.st_mode) and facts.st_rdev == 0:
        return LayerMark.WHITEOUT
    return LayerMark.LINK if stat.S_ISLNK(facts.st_mode) else LayerMark.OTHER


def _is_opaque(folder: int) -> bool:
    try:
        return os.getxattr(f"/proc/self/fd/{folder}", _OPAQUE) == b"y"
    except OSError as error:
        if error.errno in (errno.ENODATA, errno.ENOTSUP):
            return False
        raise
