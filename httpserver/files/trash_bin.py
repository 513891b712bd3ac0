"""What was deleted, kept for a while in the home itself. Blocking, under the account's rights.

``.headway-trash/<id>`` is the thing, ``.headway-trash/<id>.json`` says where it was. The id begins with the time of the
deletion. So without the second file, which a full disk may refuse, only the old place is lost. A task may change all
of this, since it is the account's own. So it is read like any untrusted input.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from headway.errors import Conflict, HeadwayError, InvalidInput, NotFound
from headway.logs import get_logger

from ..filesystem.paths import components, encoded, from_encoded, shown
from ..filesystem.removal import remove_account_tree
from ..filesystem.system_calls import open_beneath, rename_no_replace, reopen
from .messages import Path, os_errors_explained, shown_path
from .space import TRASH, PersonalSpace

log = get_logger(__name__)

_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_ID = re.compile(r"([0-9a-f]{8,12})-[0-9a-f]{12}")
_INFO = ".json"
_MAX_INFO_BYTES = 64 * 1024
_MAX_ITEMS = 10_000
_COUNTED = 20_000  # entries looked at for the sizes of one listing
_HALF_DONE_S = 600.0  # a note without its thing is of a deletion under way, or one that was killed


@dataclass(frozen=True, slots=True)
class TrashEntry:
    """One thing in the trash.

    ``path`` is where it was; None if that isn't known any more. ``size`` is None where counting its files would take
    too long.
    """

    id: str
    path: Path | None
    mode: int
    size: int | None
    deleted_at: float


def put(space: PersonalSpace, path: Path, *, recursive: bool, now: float) -> str:
    """Moves the file, link or folder at ``path`` into the trash; its id there.

    Raises:
        InvalidInput, NotFound: the space itself; nothing.
        Conflict: a folder that isn't empty and ``recursive`` is False, or the trash can't take it.
    """
    if not path:
        raise InvalidInput("The personal space itself can't be deleted.")
    path = space.stored(path)
    with os_errors_explained(path), space.folder(path[:-1]) as folder:
        info = os.stat(path[-1], dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(info.st_mode) and not recursive:
            _refuse_unless_empty(folder, path[-1])
        with _trash(space, make=True) as trash:
            if trash is None:
                raise Conflict("Something removes the trash at this very moment; try again.")
            id = f"{int(now):08x}-{secrets.token_hex(6)}"
            _note(trash, id, path)
            try:
                _take(folder, path[-1], trash, id)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(id + _INFO, dir_fd=trash)
                raise
    return id


def items(space: PersonalSpace) -> list[TrashEntry]:
    """All, the one deleted last first."""
    with os_errors_explained((TRASH,)), _trash(space, make=False) as trash:
        if trash is None:
            return []
        ids = sorted((name for name in os.listdir(trash) if _ID.fullmatch(name)), reverse=True)
        counting = [_COUNTED]
        found = (_item(trash, id, counting) for id in ids[:_MAX_ITEMS])
        return [item for item in found if item is not None]


def restore(space: PersonalSpace, id: str, to: Path | None) -> Path:
    """Puts it back where it was, or at ``to``; where it is now. Folders on the way are made.

    Raises:
        NotFound: it isn't in the trash.
        Conflict: something is at that place.
        InvalidInput: its old place isn't known, and ``to`` is None.
    """
    with os_errors_explained((TRASH,)), _trash(space, make=False) as trash:
        item = None if trash is None or not _ID.fullmatch(id) else _item(trash, id, [0])
        if item is None or trash is None:
            raise NotFound("This is not in the trash, or not any more.")
        place = to or item.path
        if not place:
            raise InvalidInput("The old place of this is not known any more: name a new one with `to`.")
        if place[0] == TRASH:
            raise InvalidInput("Nothing can be restored to a place inside the trash.")
        with os_errors_explained(place):
            space.make(place[:-1])
            with space.folder(place[:-1]) as folder:
                try:
                    _move(trash, id, folder, place[-1])
                except FileExistsError:
                    raise Conflict(
                        f"`{shown_path(place)}` is there again: rename or delete that first, or restore under another "
                        "name."
                    ) from None
        with contextlib.suppress(OSError):
            os.unlink(id + _INFO, dir_fd=trash)
        return place


def forget(space: PersonalSpace, id: str) -> None:
    """Deletes one thing in the trash for good; one that isn't there is fine."""
    with os_errors_explained((TRASH,)), _trash(space, make=False) as trash:
        if trash is not None and _ID.fullmatch(id):
            _remove(trash, id)


def empty(space: PersonalSpace) -> None:
    """Deletes all that is in the trash for good, whatever put it there."""
    with os_errors_explained((TRASH,)), _trash(space, make=False) as trash:
        if trash is not None:
            for name in os.listdir(trash):
                _remove(trash, name)


def sweep(space: PersonalSpace, *, before: float, now: float) -> int:
    """Deletes for good what was deleted before ``before`` (epoch seconds); how many. What can't be deleted stays, and
    the log says so."""
    gone = 0
    with _trash(space, make=False) as trash:
        if trash is None:
            return 0
        names = set(os.listdir(trash))
        for name in sorted(names):
            id = name.removesuffix(_INFO)
            if not _ID.fullmatch(id):
                continue
            over = _deleted_at(id) < before
            half_done = name != id and id not in names and _deleted_at(id) < now - _HALF_DONE_S
            if over or half_done:
                try:
                    _remove(trash, id)
                except OSError as error:
                    log.warning("trash.kept", id=id, reason=str(error.strerror))
                else:
                    gone += name == id
    return gone


# -- inside -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _trash(space: PersonalSpace, *, make: bool) -> Iterator[int | None]:
    """The folder of the trash, open; None if there is none.

    Raises:
        Conflict: something else has that name.
    """
    try:
        if make:
            with contextlib.suppress(FileExistsError):
                os.mkdir(TRASH, 0o700, dir_fd=space.root)
        descriptor = open_beneath(space.root, TRASH, _FOLDER, links=False, mounts=False)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP, errno.EXDEV, errno.EACCES):
            raise
        raise Conflict(
            f"`{TRASH}` in the personal space can't serve as the trash: it is no folder, or not the account's. Delete "
            "or rename it, or delete for good (permanent=true)."
        ) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _refuse_unless_empty(folder: int, name: str) -> None:
    here = open_beneath(folder, name, _FOLDER, links=False)
    try:
        with os.scandir(here) as entries:
            if next(entries, None) is not None:
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), name)
    finally:
        os.close(here)


def _note(trash: int, id: str, path: Path) -> None:
    data = json.dumps({"path": "/".join(encoded(part) for part in path)}).encode()
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(id + _INFO, flags, 0o600, dir_fd=trash)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)
    except OSError as error:
        # On a full disk people delete to make room. Better without the old place than not at all.
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise


def _take(folder: int, name: str, trash: int, id: str) -> None:
    try:
        _move(folder, name, trash, id)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        raise Conflict(
            f"`{shown(name)}` lies on another disk than the trash: delete it for good (permanent=true)."
        ) from error


def _move(source: int, name: str, target: int, new_name: str) -> None:
    """Renames, also a folder that the account made read-only: to move it, its own `..` has to be written."""
    try:
        rename_no_replace(source, name, target, new_name)
    except PermissionError:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=source)
        try:
            mode = os.fstat(handle).st_mode
            if not stat.S_ISDIR(mode) or mode & 0o200:
                raise
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(mode) | 0o200)
            try:
                rename_no_replace(source, name, target, new_name)
            finally:
                os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(mode))
        finally:
            os.close(handle)


def _remove(trash: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=trash, follow_symlinks=False).st_mode):
            remove_account_tree(trash, name)
        else:
            os.unlink(name, dir_fd=trash)
    with contextlib.suppress(FileNotFoundError, IsADirectoryError):
        os.unlink(name + _INFO, dir_fd=trash)


def _item(trash: int, id: str, counting: list[int]) -> TrashEntry | None:
    try:
        info = os.stat(id, dir_fd=trash, follow_symlinks=False)
    except FileNotFoundError:
        return None
    size = _size(trash, id, counting) if stat.S_ISDIR(info.st_mode) else info.st_size
    return TrashEntry(id, _old_place(trash, id), info.st_mode, size, _deleted_at(id))


def _deleted_at(id: str) -> float:
    return float(int(id.partition("-")[0], 16))


def _old_place(trash: int, id: str) -> Path | None:
    try:
        handle = open_beneath(trash, id + _INFO, os.O_PATH, links=False)
        try:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode) or info.st_size > _MAX_INFO_BYTES:
                return None
            descriptor = reopen(handle)
        finally:
            os.close(handle)
        with open(descriptor, "rb") as file:
            path = json.loads(file.read(_MAX_INFO_BYTES))["path"]
        return components(from_encoded(path)) or None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, HeadwayError):
        return None


def _size(trash: int, id: str, counting: list[int]) -> int | None:
    """Bytes of all files below, or None when ``counting`` (entries left to be looked at) is used up."""
    total, todo = 0, [id]
    while todo:
        path = todo.pop()
        try:
            here = open_beneath(trash, path, _FOLDER, links=False, mounts=False)
        except OSError:
            continue
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    counting[0] -= 1
                    if counting[0] < 0:
                        return None
                    if entry.is_dir(follow_symlinks=False):
                        todo.append(f"{path}/{entry.name}")
                    else:
                        with contextlib.suppress(OSError):
                            total += entry.stat(follow_symlinks=False).st_size
        finally:
            os.close(here)
    return total
