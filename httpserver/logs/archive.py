"""A ZIP archive that is written as it is sent, in flat memory."""

from __future__ import annotations

import asyncio
import io
import time
import zipfile
from collections.abc import AsyncIterator
from dataclasses import dataclass

from headway.errors import HeadwayError
from headway.logs import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    """One file to come; ``size`` only hints whether it may pass 4 GiB."""

    name: str
    size: int
    chunks: AsyncIterator[bytes]


class _Sink(io.RawIOBase):
    """Takes what zipfile writes until it is fetched; it can't seek, so sizes follow the data."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        part = bytes(data)  # type: ignore[call-overload]
        self._parts.append(part)
        return len(part)

    def take(self) -> bytes:
        out = b"".join(self._parts)
        self._parts.clear()
        return out


async def archive(entries: AsyncIterator[Entry]) -> AsyncIterator[bytes]:
    """The archive's bytes. What can't be read is named in a last file ``missing.txt`` instead of breaking it off."""
    sink = _Sink()
    missing: list[str] = []
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED, allowZip64=True, compresslevel=1) as whole:
        try:
            async for entry in entries:
                info = zipfile.ZipInfo(entry.name, time.localtime()[:6])
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = 0o644 << 16
                with whole.open(info, "w", force_zip64=True) as file:
                    try:
                        async for chunk in entry.chunks:
                            # zlib lets others run while it works, so it belongs in a thread.
                            await asyncio.to_thread(file.write, chunk)
                            if data := sink.take():
                                yield data
                    except HeadwayError as error:
                        log.warning("logs.archive_gap", file=entry.name, reason=error.message)
                        missing.append(f"{entry.name}: {error.message}")
                if data := sink.take():
                    yield data
        except HeadwayError as error:
            log.warning("logs.archive_cut", reason=error.message)
            missing.append(f"The rest could not be read: {error.message}")
        if missing:
            whole.writestr("missing.txt", "\n".join(missing) + "\n")
    yield sink.take()
