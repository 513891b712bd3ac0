"""Errors of the file system as sentences for users."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator

from headway.errors import Conflict, HeadwayError, InvalidInput, MountUnavailable, NotAllowed, NotFound, StoreFull

from ..filesystem.paths import shown

Path = tuple[str, ...]


def shown_path(path: Path) -> str:
    """The path as sentences show it."""
    return shown("/".join(path)) or "/"


@contextlib.contextmanager
def os_errors_explained(path: Path) -> Iterator[None]:
    """Turns an OSError inside into a HeadwayError that explains it for ``path``."""
    try:
        yield
    except OSError as error:
        raise _in_words(error, path) from error


def _in_words(error: OSError, path: Path) -> HeadwayError:
    name, code = shown_path(path), error.errno
    if code == errno.ENOENT:
        return NotFound(f"There is no `{name}` in the personal space.")
    if code in (errno.EACCES, errno.EPERM):
        return NotAllowed(f"The account's own rights don't allow this with `{name}`.")
    if code == errno.EXDEV:
        return NotAllowed(
            f"`{name}` leads through a link out of the personal space. A link with an absolute target always does, "
            "also one to /root/nfs: make it relative (`ln -sr`)."
        )
    if code == errno.ELOOP:
        return NotAllowed(f"`{name}` leads through links in a circle, or through more than are followed.")
    if code == errno.EEXIST:
        return Conflict(f"`{name}` is there already.")
    if code == errno.ENOTEMPTY:
        return Conflict(f"`{name}` is a folder that is not empty; -r (in the API: recursive=true) deletes all of it.")
    if code == errno.ENOTDIR:
        return Conflict(f"A part of `{name}` is not a folder.")
    if code == errno.EISDIR:
        return Conflict(f"`{name}` is a folder.")
    if code in (errno.ENAMETOOLONG, errno.EINVAL, errno.EILSEQ):
        return InvalidInput(f"The shared folder does not take the name `{name[:200]}`.")
    if code in (errno.ENOSPC, errno.EDQUOT):
        return StoreFull(
            "The shared folder is full, or the account's quota is used up; nothing was stored. Delete files for good, "
            "or empty the trash."
        )
    if code in (errno.ENXIO, errno.ETXTBSY, errno.EBUSY):
        return Conflict(f"`{name}` is in use: {error.strerror}.")
    if code in (errno.EMFILE, errno.ENFILE):
        return HeadwayError("The server has too many files open.")
    if code == errno.EROFS:
        return MountUnavailable("The shared folder can only be read now; what is in it is not lost.")
    return MountUnavailable(f"The shared folder can't do that now: {error.strerror}.")


def size_text(bytes: int) -> str:
    """A size for people, to three figures or so."""
    size, unit = float(bytes), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.1f} {unit}"
