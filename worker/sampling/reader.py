"""Streams an attempt's samples from the Worker's own disk, also while they grow. They reach the mount later."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

from headway.backoff import Backoff
from headway.clock import Clock
from headway.errors import NotFound
from headway.ids import AttemptId
from headway.samples.reading import FileSource, SampleFile

from ..box import open_regular
from ..model import AttemptRecord, AttemptStage
from .sampler import Sampler

CHUNK_BYTES = 256 << 10
_MIN_PAUSE_S, _MAX_PAUSE_S = 0.2, 1.0


@dataclass(frozen=True, slots=True)
class SamplesPart:
    """Bytes from ``offset`` on, whole records. ``ended``: no byte will follow."""

    data: bytes
    offset: int
    ended: bool


class SamplesReader:
    """See the module."""

    def __init__(self, find: Callable[[AttemptId], AttemptRecord | None], sampler: Sampler, clock: Clock) -> None:
        self._find = find
        self._sampler = sampler
        self._clock = clock

    async def read(self, attempt: AttemptId, *, offset: int = 0, follow: bool = False) -> AsyncIterator[SamplesPart]:
        """What is there from ``offset`` on, in parts; at least one, perhaps empty. With ``follow`` until the end.

        Raises:
            NotFound: this machine does not know the attempt, or has its samples no more.
        """
        if self._find(attempt) is None:
            raise NotFound(f"This machine does not know {str(attempt)!r}.")
        at, pauses = offset, Backoff(_MIN_PAUSE_S, _MAX_PAUSE_S, factor=1.5)
        first = True
        while True:
            # Before the bytes are looked at: what is written after that is read in the next turn.
            ended = self._has_ended(attempt)
            data = await asyncio.to_thread(_whole_records, self._sampler.file_of(attempt), at)
            if data is None:
                if ended:
                    raise NotFound(f"There are no samples of {attempt} on this machine any more.")
                data = b""
            over = ended and not data
            if data or first or over:
                yield SamplesPart(data, at, over)
                first = False
            at += len(data)
            if over or (not follow and not data):
                return
            if data:
                pauses.reset()
            else:
                await self._clock.sleep(pauses.next_s())

    def _has_ended(self, attempt: AttemptId) -> bool:
        record = self._find(attempt)
        return record is None or record.stage is not AttemptStage.LIVE


def _whole_records(path: Path, offset: int) -> bytes | None:
    """At most so many bytes, up to the end of a record. None: there is no such file. Blocks."""
    try:
        descriptor = open_regular(path)
    except OSError:
        return None
    try:
        file = SampleFile(FileSource(descriptor))
        if file.size < file.begin or offset >= file.size:
            return b""
        end = min(file.size, offset + CHUNK_BYTES)
        if end > file.begin:
            end -= (end - file.begin) % file.record_size
        return os.pread(descriptor, max(0, end - offset), offset)
    finally:
        os.close(descriptor)
