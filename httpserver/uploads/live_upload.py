"""One upload in memory, while it is not over."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from . import tus
from .ports import FinishWatch
from .receiving import SendingRequest, UploadWriter
from .records import RecordState, UploadRecord
from .upload_files import RunningDigest


@dataclass(eq=False, slots=True)
class LiveUpload:
    """The record, and what only this process knows."""

    record: UploadRecord
    touched_at: float  # the last byte, or the end
    offset: int | None = None  # where the stored bytes end; None: the file was not looked at yet
    has_unchecked_bytes: bool = False  # the file may hold bytes that were never checked (UploadRecord.unchecked_from)
    digest: RunningDigest | None = None  # of the first bytes, where the whole file has a checksum
    holder: SendingRequest | None = None
    writer: UploadWriter | None = None  # while bytes of a piece without a checksum come
    watch: FinishWatch | None = None  # while it is being checked
    finishing: asyncio.Task[None] | None = None
    size_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def stored_bytes(self) -> int | None:
        """Where the stored bytes end at this moment."""
        return self.offset if self.writer is None else self.writer.offset

    @property
    def complete(self) -> bool:
        """Whether all bytes have come."""
        return self.offset is not None and self.offset == self.record.length

    @property
    def shown_state(self) -> str:
        """The word for people."""
        if self.record.state is not RecordState.OPEN:
            return self.record.state.value
        return "checking" if self.complete else "receiving"

    def digest_at(self, offset: int) -> RunningDigest | None:
        """The digest of the first ``offset`` bytes, to be continued.

        None: the upload has no checksum, or a restart of the server has lost the digest.
        """
        if self.digest is not None and self.digest.bytes != offset:
            self.digest = None
        if self.digest is None and offset == 0 and tus.sha256_of(self.record.metadata):
            self.digest = RunningDigest()
        return self.digest
