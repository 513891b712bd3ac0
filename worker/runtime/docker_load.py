"""Streams an archive into the engine's `load`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docker import APIClient

from headway.errors import HeadwayError

from ..ports import ImageArchive

_LOADED = re.compile(r"Loaded image ID: (sha256:[0-9a-f]{64})")


class LoadFailed(Exception):
    """The engine reported an error in the middle of its answer."""


def load(api: APIClient, archive: ImageArchive) -> list[str]:
    """Load the archive. Returns the ids of the images that the engine made. Blocks.

    An interrupted load leaves nothing behind: the engine unpacks only a whole archive.

    Raises:
        HeadwayError: from the archive.
        LoadFailed: the engine began and then failed.
        APIError: the engine refused it.
    """
    broke: list[HeadwayError] = []

    def chunks() -> Iterator[bytes]:
        try:
            yield from archive.chunks()
        except HeadwayError as error:
            broke.append(error)
            raise OSError(
                "the archive broke off"
            ) from error  # requests passes an OSError on, and closes the connection

    said: list[str] = []
    # Not quiet: lines about progress tell a large image from an engine that hangs.
    try:
        for line in api.load_image(chunks(), quiet=False):  # type: ignore[no-untyped-call]
            if "error" in line:
                raise LoadFailed(str(line["error"]))
            said.append(str(line.get("stream") or ""))
    except Exception:
        if broke:
            raise broke[0] from None
        raise
    return _LOADED.findall("".join(said))
