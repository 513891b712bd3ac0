"""A ZIP archive of logs that is written as it is sent, in flat memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from headway.errors import HeadwayError
from headway.logs import get_logger

from ..http.zip_stream import LARGE_BYTES, ZipWriter

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LogArchiveEntry:
    """One file to come; a log that is being written may become longer than ``size``."""

    name: str
    size: int
    chunks: AsyncIterator[bytes]


async def archive(entries: AsyncIterator[LogArchiveEntry]) -> AsyncIterator[bytes]:
    """The archive's bytes. What can't be read does not break it off: a last file ``missing.txt`` names it."""
    whole = ZipWriter()
    missing: list[str] = []
    now = time.time()
    try:
        try:
            async for entry in entries:
                yield whole.begin(entry.name, max(entry.size, LARGE_BYTES), now)
                try:
                    async for chunk in entry.chunks:
                        # zlib lets others run while it works, so it belongs in a thread.
                        if data := await asyncio.to_thread(whole.write, chunk):
                            yield data
                except HeadwayError as error:
                    log.warning("logs.archive_gap", file=entry.name, reason=error.message)
                    missing.append(f"{entry.name}: {error.message}")
                yield whole.end()
        except HeadwayError as error:
            log.warning("logs.archive_cut", reason=error.message)
            missing.append(f"The rest could not be read: {error.message}")
        if missing:
            text = ("\n".join(missing) + "\n").encode()
            yield whole.begin("missing.txt", len(text), now) + whole.write(text) + whole.end()
        for data in whole.finish():
            yield data
    finally:
        whole.close()
