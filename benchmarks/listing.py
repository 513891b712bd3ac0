"""Pages of a folder with a hundred thousand files."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.cluster import a_cluster

from .measure import Figure, median

FILES = 100_000
PAGE = 1_000
GOAL_MS = 300.0


def listing() -> Iterator[Figure]:
    """All pages one after the other, right after the folder was filled and again when its names are kept."""
    with tempfile.TemporaryDirectory(prefix="hwb") as folder, a_cluster(Path(folder)) as cluster:
        client = cluster.client
        client.make_folder("many")
        many = cluster.mount / "homes" / client.me()["name"] / "many"
        for number in range(FILES):
            os.close(os.open(many / f"sample-{number:06d}.png", os.O_CREAT | os.O_WRONLY, 0o644))
        for what in ("just filled", "at rest"):
            took: list[float] = []
            count, cursor = 0, ""
            while True:
                params = {"limit": PAGE, **({"cursor": cursor} if cursor else {})}
                began = time.monotonic()
                page = client._send("GET", client._file_path("many"), params=params).json()
                took.append((time.monotonic() - began) * 1000)
                count += len(page["entries"])
                cursor = page["next_cursor"] or ""
                if not cursor:
                    break
            assert count == FILES
            note = f"{len(took)} pages of {PAGE}, median {median(took):.0f} ms, first {took[0]:.0f} ms"
            yield Figure(f"listing: {FILES} files, slowest page, {what}", max(took), "ms", GOAL_MS, note=note)
            time.sleep(2.0)
