"""What an image left for its own user below a ``/root`` of another, mostly root.

The kernel shows the files of one owner as another's. So a task can't be the owner of root's files and of its own in one
mount. Folders of its own get a mount each, and small files are copied. The search is short: a start must not wait.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from .image_tree import Found, FoundKind, ImageTree, opened

_DEPTH = 3
_MOST_ENTRIES = 2_000
_MOST_SEARCHED = 64
_MOST_FOLDERS = 16
_MOST_FILES = 64
_FILE_BYTES = 1 << 20
_PASSED_BY_ALL = 0o001
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass(frozen=True, slots=True)
class OwnFiles:
    """The topmost folders of the task's uid, and files outside of them. ``left``: there are more, or larger ones."""

    folders: tuple[Found, ...] = ()
    files: tuple[Found, ...] = ()
    left: bool = False


def own_files(tree: ImageTree, home: Found, owner: int, uid: int, places: Collection[str]) -> OwnFiles:
    """What belongs to ``uid`` below a home of ``owner``. Raises OSError.

    Args:
        places: paths in the image that are the platform's, in the form of ``Found.path``: nothing there is looked for.
    """
    if uid == owner:
        return OwnFiles()
    search = _Search(tree, owner, uid, places)
    level = [home]
    for _ in range(_DEPTH):
        level = [inner for above in level[:_MOST_SEARCHED] for inner in search.look_into(above)]
    return OwnFiles(tuple(search.folders), tuple(search.files), search.left)


class _Search:
    def __init__(self, tree: ImageTree, owner: int, uid: int, places: Collection[str]) -> None:
        self._tree = tree
        self._owner = owner
        self._uid = uid
        self._places = places
        self._most = _MOST_ENTRIES
        self.folders: list[Found] = []
        self.files: list[Found] = []
        self.left = False

    def look_into(self, above: Found) -> list[Found]:
        """Note what is found in a folder. Returns the folders in it that may hold more."""
        inner = []
        for name in sorted(self._promising(above)):
            found = self._tree.step(above, name)
            if found.kind in (FoundKind.MISSING, FoundKind.LINK) or self._is_platforms(found):
                continue
            facts = self._tree.facts(found)
            if facts.st_uid == self._uid:
                self._note(found, facts)
            elif found.kind is FoundKind.FOLDER and (facts.st_uid == self._owner or facts.st_mode & _PASSED_BY_ALL):
                inner.append(found)
        return inner

    def _note(self, found: Found, facts: os.stat_result) -> None:
        if found.kind is FoundKind.FOLDER and len(self.folders) < _MOST_FOLDERS:
            self.folders.append(found)
        elif stat.S_ISREG(facts.st_mode) and facts.st_size <= _FILE_BYTES and len(self.files) < _MOST_FILES:
            self.files.append(found)
        else:
            self.left = True

    def _is_platforms(self, found: Found) -> bool:
        return any(found.below(place) or f"{place}/".startswith(f"{found.path}/") for place in self._places)

    def _promising(self, above: Found) -> set[str]:
        """Names of folders, and of what belongs to the uid in any layer."""
        names: set[str] = set()
        for layer in above.layers:
            with opened(layer, above.path, _LIST) as folder, os.scandir(folder) as entries:
                for entry in entries:
                    self._most -= 1
                    if self._most < 0:
                        return names
                    if entry.is_dir(follow_symlinks=False) or entry.stat(follow_symlinks=False).st_uid == self._uid:
                        names.add(entry.name)
        return names


def copy_file(found: Found, target: Path, uid: int) -> None:
    """Copy a small file of an image with its mode. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with opened(found.layers[0], found.path, os.O_RDONLY | os.O_NOFOLLOW) as source:
        facts = os.fstat(source)
        with os.fdopen(os.open(target, flags, 0o600), "wb") as copy, os.fdopen(os.dup(source), "rb") as original:
            copy.write(original.read(_FILE_BYTES))
            copy.flush()
            os.fchown(copy.fileno(), uid, facts.st_gid)
            os.fchmod(copy.fileno(), stat.S_IMODE(facts.st_mode) & 0o777)
