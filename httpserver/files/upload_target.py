"""Files of personal spaces as a kind of upload."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
from collections.abc import Callable, Collection, Mapping
from pathlib import PurePosixPath

from headway.errors import Conflict, InvalidInput, NotFound
from headway.logs import get_logger
from headway.mount import Layout

from ..auth.accounts import Accounts
from ..auth.model import Account
from ..filesystem.paths import components, shown
from ..filesystem.system_calls import open_beneath, rename_no_replace
from ..uploads.errors import UploadOver
from ..uploads.ports import FinishWatch, StoredUpload, UploadOutcome, UploadPlace
from .homes import Homes
from .messages import Path, os_errors_explained
from .quotas import SpaceQuotas
from .space import RUN, UPLOADS, PersonalSpace

log = get_logger(__name__)

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY
_INSTANT = re.compile(r"-?[0-9]{1,11}(\.[0-9]{1,9})?")
_NO_LINKS_HERE = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})


class FileUploadTarget:
    """Upload-Metadata: ``path``; ``overwrite`` (``false``: refused where something is), ``modified_at`` (seconds since
    the epoch), ``account`` (whose space; admins only). Missing folders are made."""

    kind = "files"
    at_once = 4

    def __init__(self, layout: Layout, homes: Homes, accounts: Accounts, spaces: SpaceQuotas) -> None:
        self._layout = layout
        self._homes = homes
        self._accounts = accounts
        self._spaces = spaces

    async def begin(self, account: Account, length: int | None, metadata: Mapping[str, str]) -> UploadPlace:
        path = _path(metadata)
        overwrite = _flag(metadata, "overwrite", default=True)
        _instant(metadata)
        owner = self._homes.owner(account, metadata.get("account", ""))
        await self._homes.within(owner, lambda space: _look(space, path, overwrite=overwrite), adds=True)
        name = f"{UPLOADS}/{secrets.token_hex(16)}"
        await self._spaces.require_quota(owner, length or 0, hold=name)
        home = PurePosixPath(self._layout.home(owner.name).relative_to(self._layout.root))
        return UploadPlace(str(home), name, owner.uid, owner.gid)

    async def admit(self, upload: StoredUpload, place: UploadPlace, length: int) -> None:
        await self._spaces.require_quota(self._owner_of(place), length, hold=place.name)

    def resumed(self, place: UploadPlace, length: int) -> None:
        owner = self._accounts.get(PurePosixPath(place.folder).name)
        if owner is not None:
            self._spaces.hold(owner, place.name, length)

    async def finish(self, upload: StoredUpload, place: UploadPlace, watch: FinishWatch) -> UploadOutcome:
        path = _path(upload.metadata)
        overwrite = _flag(upload.metadata, "overwrite", default=True)
        modified_at = _instant(upload.metadata)
        owner = self._owner_of(place)

        def publish(space: PersonalSpace) -> bool:
            space.make(path[:-1])
            with os_errors_explained(path), space.folder((UPLOADS,)) as source, space.folder(path[:-1]) as target:
                return _publish(source, place.path.name, target, path[-1], overwrite=overwrite, modified_at=modified_at)

        replaced = await self._homes.within(owner, publish)
        self._spaces.let_go(owner, place.name, stored=True)
        if replaced:
            self._spaces.freed(owner)
        log.info("file.stored", owner=owner.name, bytes=upload.length, by=upload.account)
        return UploadOutcome({"path": shown("/".join(path))})

    async def abandon(self, upload: StoredUpload, place: UploadPlace) -> None:
        owner = self._accounts.get(PurePosixPath(place.folder).name)
        if owner is not None:
            self._spaces.let_go(owner, place.name, stored=False)

    async def sweep(self, live: Collection[UploadPlace]) -> None:
        known = {place.path.name for place in live}
        for account in await self._accounts.all():
            with contextlib.suppress(OSError):  # no home, or never an upload in it
                await self._homes.run(lambda a=account: self._homes.blocking(a, _sweeper(known), make=False))  # type: ignore[misc]

    def _owner_of(self, place: UploadPlace) -> Account:
        owner = self._accounts.get(PurePosixPath(place.folder).name)
        if owner is None:
            raise NotFound("The account of this personal space is not there any more.")
        return owner


def _path(metadata: Mapping[str, str]) -> Path:
    path = components(metadata.get("path", ""))
    if not path:
        raise InvalidInput("Upload-Metadata must say the `path` of the file in the personal space.")
    if path[0] == UPLOADS:
        raise InvalidInput(f"`{UPLOADS}` holds what is being uploaded; choose another folder.")
    return path


def _flag(metadata: Mapping[str, str], key: str, *, default: bool) -> bool:
    value = metadata.get(key, "")
    if value not in ("", "true", "false"):
        raise InvalidInput(f"`{key}` in Upload-Metadata is `true` or `false`, and not {shown(value)[:40]!r}.")
    return default if not value else value == "true"


def _instant(metadata: Mapping[str, str]) -> float | None:
    value = metadata.get("modified_at", "")
    if value and not _INSTANT.fullmatch(value):
        raise InvalidInput(f"`modified_at` in Upload-Metadata is in seconds since 1970, and not {shown(value)[:40]!r}.")
    return float(value) if value else None


def _look(space: PersonalSpace, path: Path, *, overwrite: bool) -> None:
    """Refuses early what :func:`_publish` would refuse after all bytes have come."""
    with os_errors_explained(path):
        try:
            with space.folder(path[:-1]) as folder:
                _refuse(folder, path[-1], path, overwrite=overwrite)
        except FileNotFoundError:
            _refuse_file_on_the_way(space, path)


def _refuse_file_on_the_way(space: PersonalSpace, path: Path) -> None:
    for depth in range(1, len(path)):
        try:
            with space.folder(path[:depth]):
                pass
        except FileNotFoundError:
            return


def _refuse(folder: int, name: str, path: Path, *, overwrite: bool) -> None:
    try:
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(there.st_mode):
        raise Conflict(f"`{shown('/'.join(path))}` is a folder.")
    if not overwrite:
        raise Conflict(f"`{shown('/'.join(path))}` is there already.")


def _publish(source: int, name: str, target: int, new_name: str, *, overwrite: bool, modified_at: float | None) -> bool:
    """Puts the file in its place in one step, and leaves its old name. So a second call, after a kill, sees that it was
    done. The caller removes the old name once that is recorded. Answers whether something was replaced."""
    ours = _prepared(source, name, target, new_name, modified_at)
    there = _stat(target, new_name)
    if there is None or (there.st_dev, there.st_ino) != (ours.st_dev, ours.st_ino):
        if not overwrite:
            try:
                os.link(name, new_name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
            except OSError as error:
                if error.errno not in _NO_LINKS_HERE:
                    raise
                rename_no_replace(source, name, target, new_name)
        else:
            _replace(source, name, target, new_name)
    os.fsync(target)
    return there is not None


def _replace(source: int, name: str, target: int, new_name: str) -> None:
    second = f"{name}.again"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(second, dir_fd=source)
    try:
        os.link(name, second, src_dir_fd=source, dst_dir_fd=source, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS_HERE:
            raise
        second = name
    try:
        os.rename(second, new_name, src_dir_fd=source, dst_dir_fd=target)
    except BaseException:
        if second != name:
            with contextlib.suppress(OSError):
                os.unlink(second, dir_fd=source)
        raise


def _prepared(source: int, name: str, target: int, new_name: str, modified_at: float | None) -> os.stat_result:
    try:
        descriptor = open_beneath(source, name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, links=False)
    except FileNotFoundError:
        raise UploadOver("The bytes of this upload are not there any more; upload the file again.") from None
    try:
        there = _stat(target, new_name)
        plain = there is not None and stat.S_ISREG(there.st_mode)
        os.fchmod(descriptor, stat.S_IMODE(there.st_mode) & 0o777 if there is not None and plain else 0o644)
        if modified_at is not None:
            os.utime(descriptor, (modified_at, modified_at))
        os.fsync(descriptor)
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _stat(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _sweeper(known: Collection[str]) -> Callable[[PersonalSpace], None]:
    def sweep(space: PersonalSpace) -> None:
        descriptor = open_beneath(space.root, UPLOADS, _FOLDER_FLAGS, links=False)
        try:
            for name in _names(descriptor):
                if name not in known and not name.startswith(RUN):
                    with contextlib.suppress(OSError):
                        os.unlink(name, dir_fd=descriptor)
                        log.info("upload.swept", name=name)
        finally:
            os.close(descriptor)
        with contextlib.suppress(OSError):  # what is under way is in it
            os.rmdir(UPLOADS, dir_fd=space.root)

    return sweep


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries]
