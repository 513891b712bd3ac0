"""An image as a download: made while it is sent, never all of it in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator
from typing import cast

from fastapi.responses import StreamingResponse

from ..filesystem.reading import telling_breaks
from ..http.disposition import attachment
from .service import ImageDownload, ImageMarket


class ArchiveResponse(StreamingResponse):
    """Its content stays on the mount until the sending has ended, however it ends."""

    def __init__(self, archive: ImageDownload, market: ImageMarket) -> None:
        headers = {
            "Content-Length": str(archive.composed.size),
            "Content-Disposition": attachment(archive.full_name.replace("/", "-").replace(":", "-") + ".tar"),
            "ETag": f'"{archive.digest}"',
            "Headway-Image-Digest": archive.digest,
        }
        super().__init__(self._chunks(archive, market), 200, headers, "application/x-tar")
        self._reading = market.reading(archive.digest)

    async def __call__(self, scope, receive, send) -> None:  # type: ignore[no-untyped-def]
        with self._reading:
            if scope["method"] == "HEAD":
                await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            await super().__call__(scope, receive, send)

    async def _chunks(self, archive: ImageDownload, market: ImageMarket) -> AsyncIterator[bytes]:
        # The next piece is read when the last one has gone out: a slow client costs a piece of memory and no thread.
        pieces = cast("Generator[bytes]", archive.composed.chunks())
        try:
            with telling_breaks("The image"):
                while (piece := await market.in_thread(lambda: next(pieces, None))) is not None:
                    yield piece
        finally:
            await asyncio.shield(market.in_thread(pieces.close))
