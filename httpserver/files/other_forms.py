"""Names that look alike and are not the same bytes: an é of one letter, or of two, as macOS writes it."""

from __future__ import annotations

import os
import unicodedata

from ..filesystem.system_calls import open_beneath
from .messages import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_NAMES_COMPARED = 100_000


def as_stored(root: int, path: Path) -> Path:
    """``path`` with each name as it is below the folder ``root``, where it isn't there in just these bytes and exactly
    one name reads alike. From the first on that is nowhere, names stay as they are. It blocks."""
    if all(name.isascii() for name in path) or _is_there(root, path):
        return path
    found: Path = ()
    for depth, name in enumerate(path):
        if _is_there(root, (*found, name)):
            found = (*found, name)
            continue
        alike = _alike(root, found, name)
        if len(alike) != 1:
            return (*found, *path[depth:])
        found = (*found, alike[0])
    return found


def _is_there(root: int, path: Path) -> bool:
    try:
        os.close(open_beneath(root, "/".join(path), os.O_PATH | os.O_NOFOLLOW))
    except OSError as error:
        return not isinstance(error, FileNotFoundError)  # what can't be looked at is told by who opens it
    return True


def _alike(root: int, folder: Path, name: str) -> list[str]:
    if name.isascii():
        return []
    wanted = unicodedata.normalize("NFC", name)
    try:
        descriptor = open_beneath(root, "/".join(folder), _FOLDER)
    except OSError:
        return []
    found = []
    try:
        with os.scandir(descriptor) as entries:
            for number, entry in enumerate(entries):
                if number >= _NAMES_COMPARED:
                    break
                if not entry.name.isascii() and unicodedata.normalize("NFC", entry.name) == wanted:
                    found.append(entry.name)
    finally:
        os.close(descriptor)
    return found
