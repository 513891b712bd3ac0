"""Personal spaces over HTTP."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from email.utils import formatdate
from urllib.parse import unquote_to_bytes

from fastapi.responses import Response, StreamingResponse

from headway.errors import InvalidInput, MountUnavailable
from headway.logs import get_logger
from headway.store import Timers

from .. import schemas as s
from ..auth.model import Account
from ..filesystem import paths
from ..filesystem.reading import telling_breaks
from ..http import ranges
from ..http.disposition import attachment
from . import trash_bin
from .folder_zip import FolderZip
from .homes import Homes
from .listing import ListedEntry, NameCache
from .quotas import SpaceQuotas
from .space import TRASH, FileWrite, OpenFile, PersonalSpace

log = get_logger(__name__)
_READ_BYTES = 256 * 1024
_WRITE_BYTES = 1 << 20  # gathered before a thread is troubled


class Files:
    """Each account in its own home. Admins may name another account; then they act as that one."""

    def __init__(self, homes: Homes, spaces: SpaceQuotas, timers: Timers) -> None:
        self._homes = homes
        self._spaces = spaces
        self._timers = timers
        self._names = NameCache()

    async def get(
        self, account: Account, path: tuple[str, ...], *, byte_range: str | None, limit: int, cursor: str, of: str
    ) -> Response:
        """A file's bytes, or a folder's listing.

        Raises:
            NotFound, NotAllowed, Conflict: see PersonalSpace.
            RangeInvalid: outside of the file.
        """
        owner = self._homes.owner(account, of)
        opened = await self._homes.within(owner, lambda space: space.open(path))
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
            with telling_breaks("The file"):
                data = await loop.run_in_executor(self._homes.threads, os.pread, opened.descriptor, want, at)
            if not data:
                # Shorter than promised: without its end the answer can't be taken for whole.
                raise MountUnavailable("The file became shorter while it was sent.")
            at += len(data)
            yield data

    async def zip(self, account: Account, path: tuple[str, ...], *, of: str) -> Response:
        """A folder with all that is in it, as a streamed archive.

        Raises:
            NotFound, NotAllowed, Conflict: see PersonalSpace.open_folder.
        """
        owner = self._homes.owner(account, of)
        name = path[-1] if path else owner.name
        whole = await self._homes.within(owner, lambda space: FolderZip(space.open_folder(path), name))
        headers = {"Content-Disposition": attachment(f"{name}.zip"), "Cache-Control": "no-store"}
        return _ZipResponse(self._pieces(owner, whole), headers, lambda: self._homes.run(whole.close))

    async def _pieces(self, owner: Account, whole: FolderZip) -> AsyncIterator[bytes]:
        while data := await self._homes.acting(owner, whole.next):
            yield data

    async def _listing(self, owner: Account, path: tuple[str, ...], limit: int, cursor: str) -> Response:
        after = os.fsdecode(unquote_to_bytes(cursor))

        def listed(space: PersonalSpace) -> str:
            found, more = space.list(path, after, limit, self._names)
            listing = s.FileList(
                path=paths.shown("/".join(path)),
                entries=[_entry(entry) for entry in found],
                next_cursor=paths.encoded(found[-1].name) if more and found else None,
            )
            return listing.model_dump_json()

        return Response(await self._homes.within(owner, listed), media_type="application/json")

    async def put(
        self,
        account: Account,
        path: tuple[str, ...],
        body: AsyncIterable[bytes],
        *,
        length: int | None,
        overwrite: bool,
        parents: bool,
        of: str,
    ) -> tuple[int, bool]:
        """Writes a file; answers its size and whether it replaced one. A body that breaks off changes nothing.
        ``length`` is None when the client did not send it.

        Raises:
            StoreFull: no space or quota.
            Conflict: see PersonalSpace.begin.
        """
        owner = self._homes.owner(account, of)
        await self._spaces.require_quota(owner, length or 0)
        upload = await self._homes.within(
            owner, lambda space: space.begin(path, overwrite=overwrite, parents=parents), adds=True
        )
        try:
            await self._fill(owner, upload, body)
            existed = await self._homes.acting(owner, upload.finish)
        except BaseException:
            # Under a shield: also a client that went away must leave nothing behind.
            await asyncio.shield(self._homes.acting(owner, upload.abort))
            self._spaces.added(owner, -upload.size)
            raise
        if existed:
            self._spaces.freed(owner)
        else:
            self._spaces.one_more(owner)
        log.info("file.stored", owner=owner.name, bytes=upload.size, by=account.name)
        return upload.size, existed

    async def _fill(self, owner: Account, upload: FileWrite, body: AsyncIterable[bytes]) -> None:
        gathered: list[bytes] = []
        size = 0
        async for chunk in body:
            gathered.append(chunk)
            size += len(chunk)
            if size >= _WRITE_BYTES:
                await self._write(owner, upload, b"".join(gathered))
                gathered, size = [], 0
        if size:
            await self._write(owner, upload, b"".join(gathered))

    async def _write(self, owner: Account, upload: FileWrite, data: bytes) -> None:
        await self._spaces.require_quota(owner, len(data))
        await self._homes.acting(owner, lambda: upload.write(data))
        self._spaces.added(owner, len(data))

    async def delete(
        self, account: Account, path: tuple[str, ...], *, recursive: bool, permanent: bool, of: str
    ) -> str | None:
        """Deletes; the id in the trash, or None where it was for good: what lies in the trash already, too.

        Raises:
            Conflict, NotFound: see trash_bin.put and PersonalSpace.delete.
        """
        owner = self._homes.owner(account, of)
        trash_id: str | None = None
        if permanent or path[:1] == (TRASH,):
            await self._homes.within(owner, lambda space: space.delete(path, recursive=recursive), removes=recursive)
            self._spaces.freed(owner)
        else:
            now = self._timers.now()  # nobody sets it, so the trash keeps things for as long as it says
            trash_id = await self._homes.within(
                owner, lambda space: trash_bin.put(space, path, recursive=recursive, now=now)
            )
        log.info("file.deleted", owner=owner.name, by=account.name, trash=trash_id)
        return trash_id

    async def mkdir(self, account: Account, path: tuple[str, ...], *, of: str) -> None:
        """Makes a folder; see PersonalSpace.make."""
        owner = self._homes.owner(account, of)
        self._spaces.refuse_more_files(owner)
        await self._homes.within(owner, lambda space: space.make(path), adds=True)
        self._spaces.one_more(owner)

    async def move(self, account: Account, path: tuple[str, ...], body: s.FileMove | None, *, of: str) -> s.FileDone:
        """Renames; see PersonalSpace.move.

        Raises:
            InvalidInput: without a body.
        """
        if body is None:
            raise InvalidInput('To move, say where to: {"to": "new/path"}.')
        to = paths.components(body.to)
        owner = self._homes.owner(account, of)
        await self._homes.within(owner, lambda space: space.move(path, to, overwrite=body.overwrite))
        return s.FileDone(path=paths.shown("/".join(to)))


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


class _ZipResponse(StreamingResponse):
    """Lets go of the folder however the sending ends."""

    def __init__(
        self, pieces: AsyncIterator[bytes], headers: dict[str, str], close: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(pieces, 200, headers, "application/zip")
        self._close = close

    async def __call__(self, scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        try:
            await super().__call__(scope, receive, send)
        finally:
            await asyncio.shield(self._close())


def _entry(found: ListedEntry) -> s.FileEntry:
    kind = s.FileKind.OTHER
    if stat.S_ISREG(found.mode):
        kind = s.FileKind.FILE
    elif stat.S_ISDIR(found.mode):
        kind = s.FileKind.FOLDER
    elif stat.S_ISLNK(found.mode):
        kind = s.FileKind.LINK
    return s.FileEntry(
        name=paths.shown(found.name),
        encoded=paths.encoded(found.name),
        kind=kind,
        size_bytes=found.size,
        modified_at=found.modified_at,
        mode=f"{stat.S_IMODE(found.mode):04o}",
        uid=found.uid,
        link_target=None if found.target is None else paths.shown(found.target),
    )
