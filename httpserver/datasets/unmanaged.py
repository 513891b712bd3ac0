"""Folders that an admin put below <mount>/datasets by hand: usable by everybody, read-only, changed by hand only.

Blocking.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")


@dataclass(frozen=True, slots=True)
class UnmanagedDataset:
    """``versions``: name and time of change, the one that counts as newest last."""

    name: str
    versions: tuple[tuple[str, float], ...]


def find(root: Path, name: str) -> UnmanagedDataset | None:
    """The folder of that name, if it has versions."""
    if not _NAME.fullmatch(name):
        return None
    found: list[tuple[str, float]] = []
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(root / name) as entries:
        found += [
            (entry.name, entry.stat(follow_symlinks=False).st_mtime)
            for entry in entries
            if _VERSION.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        ]
    if not found or not stat.S_ISDIR((root / name).lstat().st_mode):
        return None
    return UnmanagedDataset(name, tuple(sorted(found, key=lambda version: version[1])))


def find_all(root: Path, managed: Collection[str]) -> list[UnmanagedDataset]:
    """All of them, by name, but for those that Headway manages."""
    with suppress(FileNotFoundError):
        names = sorted(name for name in os.listdir(root) if name not in managed)
        return [found for name in names if (found := find(root, name)) is not None]
    return []
