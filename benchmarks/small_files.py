"""A folder of many tiny files on its way up, by the command line as people call it."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.cluster import a_cluster

from .measure import Figure, cpu_seconds

FILES = 1_500
GOAL_S = 5.0


def small_files() -> Iterator[Figure]:
    """``files put -r``, beside as many files written and synced one after another on the same disk."""
    with tempfile.TemporaryDirectory(prefix="hwb") as folder, a_cluster(Path(folder)) as cluster:
        source = Path(folder) / "source"
        source.mkdir()
        for number in range(FILES):
            (source / f"{number:06d}").write_bytes(b"small\n")
        began = time.monotonic()
        bare = Path(folder) / "bare"
        bare.mkdir()
        for number in range(FILES):
            _written(bare / f"{number:06d}", b"small\n")
        bare_s = time.monotonic() - began
        server = cluster.processes["httpserver"].pid
        before_s, began = cpu_seconds(server), time.monotonic()
        done = cluster.headway("files", "put", "-r", str(source), "there")
        took_s = time.monotonic() - began
        assert done.returncode == 0, done.stderr.decode()
        used_ms = (cpu_seconds(server) - before_s) / FILES * 1000
        there = cluster.mount / "homes" / cluster.client.me()["name"] / "there"
        assert sum(1 for _ in there.iterdir()) == FILES
    note = f"written and synced bare {bare_s:.1f} s; HttpServer's CPU time {used_ms:.2f} ms a file"
    yield Figure(f"small files: {FILES} of 6 bytes put", took_s, "s", GOAL_S, note=note)
    yield Figure("  against the bare files", took_s / bare_s, "x")


def _written(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o644)
    try:
        os.write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
