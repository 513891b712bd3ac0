"""How many bytes of a disk files and processes use. It is asked only when a disk has become critical.

The engine's own figure counts lengths: a sparse file of a terabyte looks like a terabyte. Here blocks count.
All functions block, and none follows links.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from ..box import open_below
from ..container_paths import CODE_DIR, DATASETS_DIR, HOME, NFS_DIR

_BLOCK = 512  # of st_blocks, whatever the file system's block size is
_LIMIT_S = 15.0  # for one walk; the answer is what was found until then


def tree_bytes(
    folder: Path, device: int, *, changed_since: float | None = None, now: Callable[[], float] = time.monotonic
) -> int:
    """Bytes that files below ``folder`` use on ``device``. A file with several names counts once.

    ``changed_since`` (epoch seconds): only files that were made or written since then. A missing folder has 0 bytes.
    """
    give_up_at = now() + _LIMIT_S
    total, seen, folders = 0, set[int](), [""]
    try:
        top = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        # Not os.walk, which recurses: a task can nest folders as deep as it likes.
        while folders and now() < give_up_at:
            path = folders.pop()
            for name, facts in _facts(top, path):
                if facts.st_dev != device:
                    continue
                if stat.S_ISDIR(facts.st_mode):
                    folders.append(f"{path}/{name}" if path else name)
                elif facts.st_nlink > 1 and facts.st_ino in seen:
                    continue
                if changed_since is None or facts.st_ctime >= changed_since:
                    total += facts.st_blocks * _BLOCK
                    seen.add(facts.st_ino)
    finally:
        os.close(top)
    return total


def _facts(top: int, path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Names and facts in a folder below ``top``. What is gone meanwhile, or became a link, is left out."""
    try:
        folder = open_below(top, path) if path else os.dup(top)
    except OSError:
        return
    try:
        with os.scandir(folder) as found:
            for entry in found:
                with contextlib.suppress(OSError):
                    yield entry.name, entry.stat(follow_symlinks=False)
    except OSError:
        return
    finally:
        os.close(folder)


def device_of(path: Path) -> int | None:
    """The device of ``path``. None: the path does not exist."""
    try:
        return path.stat().st_dev
    except OSError:
        return None


def processes_with(pid: int) -> list[int]:
    """All processes of the container whose first process is ``pid``. Empty if it is gone or not visible here."""
    wanted = _pid_namespace(pid)
    if wanted is None or wanted == _pid_namespace(os.getpid()):
        return []
    return [one for one in map(int, filter(str.isdigit, os.listdir("/proc"))) if _pid_namespace(one) == wanted]


def unlinked_bytes(pids: Collection[int], devices: Collection[int | None]) -> int:
    """Bytes of deleted files on these devices that the processes still hold open."""
    files: dict[tuple[int, int], int] = {}
    for pid in pids:
        for entry in _entries(Path(f"/proc/{pid}/fd")):
            try:
                facts = os.stat(entry.path)  # of the open file itself, whatever its name was
            except OSError:
                continue
            if stat.S_ISREG(facts.st_mode) and facts.st_nlink == 0 and facts.st_dev in devices:
                files[facts.st_dev, facts.st_ino] = facts.st_blocks * _BLOCK
    return sum(files.values())


def home_devices(pid: int) -> set[int]:
    """The devices of what a container has stacked at and below its ``/root``. Empty if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return set()
    return stacked_at_home(lines)


def stacked_at_home(mountinfo: Iterable[str]) -> set[int]:
    """The same from the lines of ``mountinfo``. The shared folders there are no part of the container. Pure."""
    found = set[int]()
    for line in mountinfo:
        ours, _, kind = line.partition(" - ")
        fields = ours.split(" ")
        path = f"{fields[4]}/"
        shared = path.startswith((f"{NFS_DIR}/", f"{DATASETS_DIR}/", f"{CODE_DIR}/"))
        if kind.startswith("overlay ") and path.startswith(f"{HOME}/") and not shared:
            major, _, minor = fields[2].partition(":")
            found.add(os.makedev(int(major), int(minor)))
    return found


def written_bytes(pids: Collection[int]) -> int:
    """Bytes that these processes and their ended children have written to any disk."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/io").read_text().splitlines()
        except OSError:
            continue
        facts = {name: int(value) for name, _, value in (line.partition(":") for line in lines)}
        total += max(0, facts.get("write_bytes", 0) - facts.get("cancelled_write_bytes", 0))
    return total


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            yield from found
    except OSError:
        return  # gone, or not visible here


def _pid_namespace(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return None
