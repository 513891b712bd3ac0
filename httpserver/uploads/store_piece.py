"""Stores one piece from its first byte to its last, or to where it breaks off."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from headway.errors import HeadwayError, StoreFull, TooLarge
from headway.logs import get_logger

from . import tus
from .errors import PieceBroken, WrongOffset
from .limits import refuse_beyond, size
from .live_upload import LiveUpload
from .receiving import SendingRequest, UploadWriter
from .records import UploadRecords
from .upload_files import UploadFiles

log = get_logger(__name__)

_ASK_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class UploadPiece:
    """What a request with bytes says of them."""

    offset: int
    checksum: tus.Checksum | None = None
    body_bytes: int | None = None  # None: not known before its end


async def store(
    disk: UploadFiles,
    records: UploadRecords,
    upload: LiveUpload,
    holder: SendingRequest,
    piece: UploadPiece,
    body: AsyncIterator[bytes],
    max_bytes: int,
    admit: Callable[[int], Awaitable[None]] | None,
) -> None:
    """Writes what comes behind what is stored. Returns, or raises, when nothing is written any more. ``admit`` is asked
    now and then whether the upload may have so many bytes.

    Raises:
        see Uploads.append; and whatever the reading of ``body`` raises.
    """
    descriptor, there = await disk.open(upload.record.place)
    try:
        if there != upload.offset:
            upload.offset = there
            raise WrongOffset(f"The stored bytes end at {there}, and this piece begins at {piece.offset}.")
        if piece.checksum is not None:
            upload.record = await records.change(upload.record, unchecked_from=there)
    except BaseException:
        os.close(descriptor)
        raise
    storing = _Storing(disk, records, upload, piece, descriptor, there)
    broken: BaseException | None = None
    try:
        await storing.receive(holder, body, max_bytes, admit)
    except BaseException as error:
        broken = error
    # In a task of its own: however this one ends, the file is closed only after the last write to it.
    settling = asyncio.ensure_future(storing.settle(broken))
    try:
        await asyncio.shield(settling)
    except asyncio.CancelledError:
        await asyncio.wait((settling,))
        raise


class _Storing:
    def __init__(
        self,
        disk: UploadFiles,
        records: UploadRecords,
        upload: LiveUpload,
        piece: UploadPiece,
        descriptor: int,
        there: int,
    ) -> None:
        self._disk = disk
        self._records = records
        self._upload = upload
        self._checksum = piece.checksum
        self._descriptor = descriptor
        self._there = there
        digest = upload.digest_at(there)
        self._before = None if digest is None else digest.copy()
        self._check = None if piece.checksum is None else piece.checksum.start()
        self._writer = UploadWriter(disk, descriptor, there, digest, self._check)
        if self._check is None:
            upload.writer = self._writer

    async def receive(
        self,
        holder: SendingRequest,
        body: AsyncIterator[bytes],
        max_bytes: int,
        admit: Callable[[int], Awaitable[None]] | None,
    ) -> None:
        taken = asked = self._there
        while (data := await holder.next(body)) is not None:
            if data:
                taken += len(data)
                refuse_beyond(taken, self._upload.record.length, max_bytes)
                if admit is not None and taken - asked >= _ASK_BYTES:
                    asked = taken
                    await admit(taken)
                await self._writer.add(data)

    async def settle(self, broken: BaseException | None) -> None:
        """Stores the rest, or goes back to the beginning; then raises what went wrong."""
        upload, error = self._upload, broken
        async with upload.size_lock:
            try:
                upload.has_unchecked_bytes = self._check is not None
                try:
                    await self._writer.end()
                except HeadwayError as failed:
                    error = error or failed
                upload.offset = self._writer.offset
                if not self._may_stay(error):
                    await self._disk.run(lambda: os.ftruncate(self._descriptor, self._there))
                    upload.offset, upload.digest = self._there, self._before
                    error = error or PieceBroken("The piece is not what its checksum says; send it again.")
                if self._check is not None:
                    upload.record = await self._records.change(upload.record, unchecked_from=None)
                upload.has_unchecked_bytes = False
            finally:
                upload.writer = None
                os.close(self._descriptor)
        if isinstance(error, StoreFull):
            log.warning("upload.no_room", upload=upload.record.id, stored_bytes=upload.offset, reason=error.message)
            whole = "" if upload.record.length is None else f" of {size(upload.record.length)}"
            error = StoreFull(f"{error.message} {size(upload.offset)}{whole} are stored: make room, then go on.")
        if error is not None:
            raise error

    def _may_stay(self, error: BaseException | None) -> bool:
        if isinstance(error, TooLarge):
            return False  # who sends more than was announced is mistaken about the rest, too
        if self._check is None or self._checksum is None:
            return True
        return error is None and self._check.digest() == self._checksum.digest
