"""Files and folders of the image store: durable, of one owner and mode, and their errors as sentences."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from ..errors import MountUnavailable, StoreFull

_FOLDER_MODE, _FILE_MODE = 0o711, 0o644


@contextlib.contextmanager
def as_problems(what: str) -> Iterator[None]:
    """Turns what the file system says into what a person can act on."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise StoreFull(
                f"The disk of the shared folder is full; nothing was stored. {what} needs more room."
            ) from error
        raise MountUnavailable(f"{what} can't be read or written: {error.strerror or error}.") from error


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_durable(descriptor: int) -> None:
    """Gives an open file the mode that all files here have, and waits until it is on the disk."""
    os.fchmod(descriptor, _FILE_MODE)
    os.fsync(descriptor)


def make_folder(folder: Path) -> None:
    """A folder that may be passed through and not listed; fine if it is there."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(_FOLDER_MODE)


def write_durably(path: Path, content: bytes) -> None:
    """A new file with this content, on the disk."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        make_durable(file.fileno())


def take_away(folder: Path) -> int:
    """Removes a folder with all that is in it; the bytes given back."""
    freed = bytes_below(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return freed


def bytes_below(folder: Path) -> int:
    """What goes when this is removed: files that have another name elsewhere don't count."""
    total = 0
    for base, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                found = os.lstat(os.path.join(base, name))
                total += found.st_size if found.st_nlink == 1 else 0
    return total
