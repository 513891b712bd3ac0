"""Hashes of files that have not changed, so that the next snapshot of a folder reads only what has."""

from __future__ import annotations

import hashlib
import json
import os
import time
from contextlib import suppress
from pathlib import Path

# A file that is younger may be written again within the same tick of the file system's clock.
_SETTLED_NS = 2_000_000_000


class HashCache:
    """The hashes of one folder's files; None keeps nothing. A cache that can't be read or written costs time only."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._known: dict[str, list[object]] = {}
        self._now: dict[str, list[object]] = {}
        if file is not None:
            with suppress(OSError, ValueError):
                loaded = json.loads(file.read_text("utf-8"))
                if isinstance(loaded, dict):
                    self._known = loaded

    @classmethod
    def of(cls, folder: Path) -> HashCache:
        """In the user's cache folder."""
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:32]
        return cls(Path(base, "headway", "code", f"{name}.json"))

    def get(self, path: str, info: os.stat_result) -> str | None:
        """The hash, if the file is what it was."""
        entry = self._known.get(path)
        if entry is None or entry[:3] != _key(info) or len(entry) != 4:
            return None
        self._now[path] = entry
        return str(entry[3])

    def put(self, path: str, info: os.stat_result, sha256: str) -> None:
        """``info`` is from before the file was read."""
        if time.time_ns() - info.st_mtime_ns > _SETTLED_NS:
            self._now[path] = [*_key(info), sha256]

    def save(self) -> None:
        """Keeps what was got and put; all else is forgotten."""
        if self._file is None or self._now == self._known:
            return
        with suppress(OSError):
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            temporary = self._file.with_name(f"{self._file.name}.{os.getpid()}")
            temporary.write_text(json.dumps(self._now), "utf-8")
            temporary.replace(self._file)
        self._known = dict(self._now)


def _key(info: os.stat_result) -> list[object]:
    return [info.st_size, info.st_mtime_ns, info.st_ino]
