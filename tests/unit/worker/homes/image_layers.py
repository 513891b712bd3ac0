"""Layers of images as Docker's overlay2 keeps them: a folder each, removed names as devices 0/0."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Entry:
    """What a layer has at a path. ``kind`` is folder, file, link, whiteout or pipe."""

    kind: str = "file"
    text: str = ""  # of a file; where a link leads
    mode: int | None = None
    uid: int = 0
    gid: int = 0
    opaque: bool = False


GONE = Entry("whiteout")


def folder(mode: int = 0o755, uid: int = 0, gid: int = 0, *, opaque: bool = False) -> Entry:
    return Entry("folder", mode=mode, uid=uid, gid=gid, opaque=opaque)


def link(to: str) -> Entry:
    return Entry("link", to)


def make_layers(top: Path, *layers: dict[str, Entry | str]) -> tuple[Path, ...]:
    """A folder for each layer, top first. A text alone is a file of root. Folders above are made, as root's."""
    made = []
    for number, entries in enumerate(layers):
        made.append(top / f"layer{number}")
        made[-1].mkdir(parents=True)
        for path, entry in entries.items():
            _make(made[-1] / path, Entry(text=entry) if isinstance(entry, str) else entry)
    return tuple(made)


def _make(path: Path, entry: Entry) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    match entry.kind:
        case "folder":
            path.mkdir(exist_ok=True)
        case "file":
            path.write_text(entry.text)
        case "link":
            path.symlink_to(entry.text)
        case "whiteout":
            os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))
        case "pipe":
            os.mkfifo(path)
    if entry.opaque:
        os.setxattr(path, "trusted.overlay.opaque", b"y")
    if (entry.uid, entry.gid) != (0, 0):
        os.chown(path, entry.uid, entry.gid, follow_symlinks=False)
    if entry.mode is not None:
        path.chmod(entry.mode)


def snapshot(layers: Sequence[Path]) -> dict[str, tuple[int, int, int, int, int]]:
    """Owner, mode, size and change time of all that layers hold: a change of anything shows."""
    out = {}
    for layer in layers:
        for path in (layer, *layer.rglob("*")):
            facts = path.lstat()
            out[str(path)] = (facts.st_uid, facts.st_gid, facts.st_mode, facts.st_size, facts.st_ctime_ns)
    return out
