"""Personal spaces over HTTP."""

from __future__ import annotations

import asyncio
import math
import os
import stat
from collections.abc import AsyncIterable, AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from email.utils import formatdate
from typing import TypeVar
from urllib.parse import unquote_to_bytes

from fastapi.responses import Response, StreamingResponse

from headway.clock import Clock
from headway.errors import InvalidInput, MountUnavailable, NotAllowed, NotFound
from headway.logs import get_logger
from headway.mount import Layout, MountKind, MountProbe, ensure_home

from .. import ranges
from .. import schemas as s
from ..auth.accounts import Accounts
from ..auth.model import Account
from ..disposition import attachment
from . import names
from .kernel import acting_as, drop_groups, open_beneath
from .space import Found, OpenFile, Space, Upload

log = get_logger(__name__)
T = TypeVar("T")

_READ_BYTES = 256 * 1024
_WRITE_BYTES = 1 << 20  # gathered before a thread is troubled
_THREADS = 8
_MOUNT_LOOK_S = 3.0


class Files:
    """Each account in its own home. Admins may name another account; then they act as that one."""

    def __init__(self, layout: Layout, mount: MountProbe, accounts: Accounts, clock: Clock) -> None:
        self._layout = layout
        self._mount = mount
        self._accounts = accounts
        self._clock = clock
        self._mount_good_until = -math.inf
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="files", initializer=drop_groups)

    def close(self) -> None:
        """Lets go of the threads; those that hang on a dead mount are left behind."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def get(
        self, account: Account, path: tuple[str, ...], *, byte_range: str | None, limit: int, cursor: str, of: str
    ) -> Response:
        """A file's bytes, or a folder's listing.

        Raises:
            NotFound, NotAllowed, Conflict: see Space.
            RangeInvalid: outside of the file.
        """
        owner = await self._owner(account, of)
        opened = await self._in(owner, lambda space: space.open(path))
        if opened is None:
            return await self._listing(owner, path, limit, cursor)
        headers = {
            "Content-Disposition": attachment(path[-1]),
            "Accept-Ranges": "bytes",
            "Last-Modified": formatdate(opened.modified_ns / 1e9, usegmt=True),
            "ETag": f'"{opened.modified_ns:x}-{opened.size:x}"',
        }
        status, start, length = 200, 0, opened.size
        try:
            wanted = ranges.parse(byte_range)
            if wanted is not None:
                start, length = wanted.of(opened.size)
                status = 206
                headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{opened.size}"
        except BaseException:
            os.close(opened.descriptor)
            raise
        headers["Content-Length"] = str(length)
        return _FileResponse(self._read(opened, start, length), status, headers, opened.descriptor)

    async def _read(self, opened: OpenFile, start: int, length: int) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        at, end = start, start + length
        while at < end:
            want = min(_READ_BYTES, end - at)
            data = await loop.run_in_executor(self._threads, os.pread, opened.descriptor, want, at)
            if not data:
                # Shorter than promised: without its end the answer can't be taken for whole.
                raise MountUnavailable("The file became shorter while it was sent.")
            at += len(data)
            yield data

    async def _listing(self, owner: Account, path: tuple[str, ...], limit: int, cursor: str) -> Response:
        after = os.fsdecode(unquote_to_bytes(cursor))
        found, more = await self._in(owner, lambda space: space.list(path, after, limit))
        listing = s.FileList(
            path=names.shown("/".join(path)),
            entries=[_entry(entry) for entry in found],
            next_cursor=names.encoded(found[-1].name) if more and found else None,
        )
        return Response(listing.model_dump_json(), media_type="application/json")

    async def put(
        self,
        account: Account,
        path: tuple[str, ...],
        body: AsyncIterable[bytes],
        *,
        overwrite: bool,
        parents: bool,
        of: str,
    ) -> tuple[int, bool]:
        """Writes a file; answers its size and whether it replaced one. A body that breaks off changes nothing.

        Raises:
            StoreFull: no space or quota.
            Conflict: see Space.begin.
        """
        owner = await self._owner(account, of)
        upload = await self._in(owner, lambda space: space.begin(path, overwrite=overwrite, parents=parents), adds=True)
        try:
            await self._fill(owner, upload, body)
            existed = await self._as(owner, upload.finish)
        except BaseException:
            # Under a shield: also a client that went away must leave nothing behind.
            await asyncio.shield(self._as(owner, upload.abort))
            raise
        log.info("file.stored", owner=owner.name, bytes=upload.size, by=account.name)
        return upload.size, existed

    async def _fill(self, owner: Account, upload: Upload, body: AsyncIterable[bytes]) -> None:
        gathered: list[bytes] = []
        size = 0
        async for chunk in body:
            gathered.append(chunk)
            size += len(chunk)
            if size >= _WRITE_BYTES:
                data = b"".join(gathered)
                gathered, size = [], 0
                await self._as(owner, lambda data=data: upload.write(data))  # type: ignore[misc]
        if size:
            await self._as(owner, lambda: upload.write(b"".join(gathered)))

    async def delete(self, account: Account, path: tuple[str, ...], *, recursive: bool, of: str) -> None:
        """Deletes; see Space.delete."""
        owner = await self._owner(account, of)
        await self._in(owner, lambda space: space.delete(path, recursive=recursive))
        log.info("file.deleted", owner=owner.name, by=account.name)

    async def mkdir(self, account: Account, path: tuple[str, ...], *, of: str) -> None:
        """Makes a folder; see Space.make."""
        owner = await self._owner(account, of)
        await self._in(owner, lambda space: space.make(path), adds=True)

    async def move(self, account: Account, path: tuple[str, ...], body: s.FileMove | None, *, of: str) -> s.FileDone:
        """Renames; see Space.move.

        Raises:
            InvalidInput: without a body.
        """
        if body is None:
            raise InvalidInput('To move, say where to: {"to": "new/path"}.')
        to = names.components(body.to)
        owner = await self._owner(account, of)
        await self._in(owner, lambda space: space.move(path, to, overwrite=body.overwrite))
        return s.FileDone(path=names.shown("/".join(to)))

    # -- inside ---------------------------------------------------------------------------------

    async def _owner(self, account: Account, of: str) -> Account:
        if of in ("", account.name):
            return account
        if not account.admin:
            raise NotAllowed("Another account's files are for that account and admins only.")
        owner = self._accounts.get(of)
        if owner is None:
            raise NotFound(f"There is no account `{of}`.")
        return owner

    async def _in(self, owner: Account, work: Callable[[Space], T], *, adds: bool = False) -> T:
        # A look writes and syncs; thousands of small files need not pay for one each.
        if self._clock.monotonic() > self._mount_good_until:
            # On a full mount people look for what they can delete, and from a read-only one they rescue what they
            # have.
            state = await self._mount.require(MountKind.READ_ONLY, *(() if adds else (MountKind.FULL,)))
            if state.ok:
                self._mount_good_until = self._clock.monotonic() + _MOUNT_LOOK_S
        home = self._layout.home(owner.name)

        def working() -> T:
            ensure_home(self._layout, owner.name, owner.uid, owner.gid)
            with ExitStack() as stack:
                # The home's own parent is Headway's, so it is opened as Headway; all below as the account.
                parent = os.open(home.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                stack.callback(os.close, parent)
                root = open_beneath(parent, home.name, os.O_PATH | os.O_DIRECTORY, links=False)
                stack.callback(os.close, root)
                stack.enter_context(acting_as(owner.uid, owner.gid))
                return work(Space(root))

        return await asyncio.get_running_loop().run_in_executor(self._threads, working)

    async def _as(self, owner: Account, work: Callable[[], T]) -> T:
        def working() -> T:
            with acting_as(owner.uid, owner.gid):
                return work()

        return await asyncio.get_running_loop().run_in_executor(self._threads, working)


class _FileResponse(StreamingResponse):
    """Closes the file however the sending ends."""

    def __init__(self, chunks: AsyncIterator[bytes], status: int, headers: dict[str, str], descriptor: int) -> None:
        super().__init__(chunks, status, headers, "application/octet-stream")
        self._descriptor = descriptor

    async def __call__(self, scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        try:
            await super().__call__(scope, receive, send)
        finally:
            os.close(self._descriptor)


def _entry(found: Found) -> s.FileEntry:
    kind = s.FileKind.OTHER
    if stat.S_ISREG(found.mode):
        kind = s.FileKind.FILE
    elif stat.S_ISDIR(found.mode):
        kind = s.FileKind.FOLDER
    elif stat.S_ISLNK(found.mode):
        kind = s.FileKind.LINK
    return s.FileEntry(
        name=names.shown(found.name),
        encoded=names.encoded(found.name),
        kind=kind,
        size_bytes=found.size,
        modified_at=found.modified_at,
        mode=f"{stat.S_IMODE(found.mode):04o}",
        uid=found.uid,
        link_target=None if found.target is None else names.shown(found.target),
    )
