"""Reads uploaded archives into the store of images, each in a process of its own.

Reading the members of a tar keeps the interpreter busy. In a thread, two archives of many small files made other calls
wait for 250 ms (p99).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from headway.archive import ImageInfo, SeveralImages
from headway.errors import HeadwayError, Unavailable, by_slug

from ..uploads.ports import FinishWatch

_LINE_BYTES = 64 << 20
_LOOK_EVERY_S = 0.3


async def ingest_apart(
    root: Path, cluster: str, path: PurePosixPath, *, choose: str, keep_free_bytes: int, watch: FinishWatch
) -> ImageInfo:
    """``headway.archive.ingest`` of a file below the mount's root.

    Raises:
        HeadwayError: as ingest does.
        Unavailable: the process was ended from outside.
    """
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "httpserver.market.ingest_child",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=_LINE_BYTES,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    stop = asyncio.create_task(_end_when_cancelled(child.stdin, watch))
    try:
        request = {
            "root": str(root),
            "cluster": cluster,
            "path": str(path),
            "choose": choose,
            "keep_free_bytes": keep_free_bytes,
        }
        child.stdin.write(json.dumps(request).encode() + b"\n")
        async for line in child.stdout:
            message = json.loads(line)
            if "total" in message:
                watch.report(message["done"], message["total"])
            else:
                return _answer(message)
        raise Unavailable("The check of this image was ended from outside; it is made again.")
    finally:
        stop.cancel()
        child.stdin.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(child.wait()), 5.0)
        if child.returncode is None:
            child.kill()
            await child.wait()


def _answer(message: dict[str, Any]) -> ImageInfo:
    if "info" in message:
        return ImageInfo.from_json(message["info"])
    if "choices" in message:
        raise SeveralImages(message["message"], message["choices"])
    kind: type[HeadwayError] = by_slug(message["slug"])
    raise kind(message["message"])


async def _end_when_cancelled(stdin: asyncio.StreamWriter, watch: FinishWatch) -> None:
    while True:
        if watch.cancelled():
            stdin.close()
            return
        await asyncio.sleep(_LOOK_EVERY_S)
