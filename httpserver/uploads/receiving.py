"""Writes one piece of an upload from the network to the disk, and decides which request may send."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator
from itertools import islice

from headway.errors import HeadwayError

from .tus import Hash
from .upload_files import RunningDigest, UploadFiles

_GATHER_BYTES = 1 << 20  # a thread is troubled for so much
_GATHER_PIECES = 512
PATIENCE_S = 2.0  # a connection that is silent for so long may be replaced
_RELEASE_S = 10.0
_LOOK_S = 0.05


class UploadWriter:
    """Appends to a file. While a thread writes and hashes, the next bytes are gathered, and no more than those."""

    def __init__(
        self, disk: UploadFiles, descriptor: int, offset: int, digest: RunningDigest | None, check: Hash | None
    ) -> None:
        self._disk = disk
        self._descriptor = descriptor
        self._digest = digest
        self._check = check
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._writing: asyncio.Future[None] | None = None
        self._failed = False
        self.offset = offset  # what is on the disk ends here; true while no write is going on

    async def add(self, data: bytes) -> None:
        """Takes the next bytes; waits while the disk is behind.

        Raises:
            StoreFull, MountUnavailable: of an earlier piece; what is before ``offset`` is stored.
        """
        self._gathered.append(data)
        self._gathered_bytes += len(data)
        if self._gathered_bytes >= _GATHER_BYTES or len(self._gathered) >= _GATHER_PIECES:
            await self._hand_over()

    async def end(self) -> None:
        """Everything added is on its way to the disk, or a write has failed and the rest is dropped.

        Raises:
            StoreFull, MountUnavailable: a write failed.
        """
        if self._gathered:
            await self._hand_over()
        await self._written()

    async def _hand_over(self) -> None:
        await self._written()
        pieces: deque[bytes | memoryview] = deque(self._gathered)
        self._gathered, self._gathered_bytes = [], 0
        if not self._failed:
            self._writing = asyncio.ensure_future(self._disk.run(lambda: self._write(pieces)))

    async def _written(self) -> None:
        if self._writing is None:
            return
        try:
            # Under a shield: a thread can't be called back, and the file must not be closed under it.
            await asyncio.shield(self._writing)
        except asyncio.CancelledError:
            raise
        except BaseException:
            self._failed = True
            self._writing = None
            raise
        self._writing = None

    def _write(self, pieces: deque[bytes | memoryview]) -> None:
        while pieces:
            done = os.pwritev(self._descriptor, list(islice(pieces, _GATHER_PIECES)), self.offset)
            self.offset += done
            while done:
                piece = pieces.popleft()
                if len(piece) > done:
                    piece = memoryview(piece)
                    pieces.appendleft(piece[done:])
                    piece = piece[:done]
                done -= len(piece)
                if self._digest is not None:
                    self._digest.add(piece)
                if self._check is not None:
                    self._check.update(piece)


class SendingRequest:
    """The one request that may write to an upload now."""

    def __init__(self) -> None:
        self._received = 0
        self._waiting: asyncio.Timeout | None = None
        self._why: HeadwayError | None = None
        self._released = asyncio.Event()

    async def next(self, body: AsyncIterator[bytes]) -> bytes | None:
        """The next bytes of its body; None at the end.

        Raises:
            HeadwayError: it was cut.
        """
        if self._why is not None:
            raise self._why
        try:
            async with asyncio.timeout(None) as self._waiting:
                data = await anext(body)
        except StopAsyncIteration:
            return None
        except TimeoutError:
            if self._why is None:
                raise
            raise self._why from None
        finally:
            self._waiting = None
        self._received += 1
        return data

    def cut(self, why: HeadwayError) -> None:
        """Ends the request at its next wait; what came is stored."""
        if self._why is None:
            self._why = why
            if self._waiting is not None:
                self._waiting.reschedule(asyncio.get_running_loop().time())

    def release(self) -> None:
        """The file is closed, and others may have it."""
        self._released.set()

    async def released(self) -> bool:
        """Waits for :meth:`release`; False if that takes too long."""
        try:
            async with asyncio.timeout(_RELEASE_S):
                await self._released.wait()
        except TimeoutError:
            return False
        return True

    async def yields_to_another(self, why: HeadwayError) -> bool:
        """Whether another may have the upload: this one has ended, or was silent for a while and so was cut. A client
        whose line is dead goes on by another long before this one would be given up."""
        received, loop = self._received, asyncio.get_running_loop()
        until = loop.time() + PATIENCE_S
        while loop.time() < until:
            if self._released.is_set():
                return True
            if self._received != received or self._waiting is None:
                return False
            await asyncio.sleep(_LOOK_S)
        self.cut(why)
        return await self.released()
