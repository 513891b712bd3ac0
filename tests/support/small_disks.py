"""Small file systems of a test's own, to be filled, taken away and given back. Needs root."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .mounts import unmount_below
from .waiting import soon


class SmallDisk:
    """A tmpfs of ``mib`` MiB that is seen at ``at``; what lies on it outlives being taken away."""

    def __init__(self, at: Path, mib: int) -> None:
        self.at = at
        self._real = at.with_name(f"{at.name}.disk")
        self._real.mkdir(parents=True)
        at.mkdir(parents=True, exist_ok=True)
        _run("mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=755", "headway-test", str(self._real))
        self.put_back()

    def fill(self) -> None:
        """Leaves not one free block."""
        descriptor = os.open(self._real / ".filling", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            for size in (1 << 20, 4096):
                with suppress(OSError):
                    while True:
                        os.write(descriptor, b"x" * size)
        finally:
            os.close(descriptor)

    def limit(self, mib: int | None = None) -> None:
        """Another size; by default what is used, rounded up: so it is full as soon as a MiB more comes, and takes no
        memory for that."""

        def remounted() -> bool:  # refused while what is used has just become more
            size = f"remount,size={mib or self.used_mib()}m"
            words = ("mount", "-o", size, str(self._real))
            return subprocess.run(words, check=False, capture_output=True).returncode == 0

        soon(remounted, what="the disk has its new size")

    def used_mib(self) -> int:
        """What lies on it, rounded up."""
        found = os.statvfs(self._real)
        return -(-(found.f_blocks - found.f_bfree) * found.f_frsize >> 20)

    def make_room(self) -> None:
        """Undoes ``fill``."""
        (self._real / ".filling").unlink(missing_ok=True)

    def take_away(self) -> None:
        """Leaves the bare folder."""
        _run("umount", "-l", str(self.at))

    def put_back(self) -> None:
        """Undoes ``take_away``."""
        _run("mount", "--bind", str(self._real), str(self.at))

    def read_only(self, on: bool) -> None:
        """As a disk with errors is mounted anew by the kernel."""
        # Refused while a file is open for writing; those of a probe are closed soon.
        words = ("mount", "-o", f"remount,bind,{'ro' if on else 'rw'}", str(self.at))
        soon(lambda: subprocess.run(words, check=False, capture_output=True).returncode == 0, what=" ".join(words))

    def close(self) -> None:
        unmount_below(self.at)
        unmount_below(self._real)


@contextmanager
def small_disks(*disks: tuple[Path, int]) -> Iterator[list[SmallDisk]]:
    """Disks at these places with so many MiB each; gone at the end."""
    made: list[SmallDisk] = []
    try:
        for at, mib in disks:
            made.append(SmallDisk(at, mib))
        yield made
    finally:
        for disk in made:
            disk.close()


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
