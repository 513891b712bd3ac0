"""What is mounted where."""

from __future__ import annotations

import subprocess
from pathlib import Path


def mounted_below(folder: Path) -> list[Path]:
    """Mount points at or below ``folder``, innermost first."""
    points: list[Path] = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        # Spaces and the like are written as octal escapes.
        point = Path(line.split()[4].encode().decode("unicode_escape"))
        if point == folder or folder in point.parents:
            points.append(point)
    return sorted(points, key=lambda point: len(point.parts), reverse=True)


def unmount_below(folder: Path) -> None:
    """Unmount everything at or below ``folder``; lazily what is still busy."""
    for point in mounted_below(folder):
        if subprocess.run(["umount", str(point)], check=False, capture_output=True).returncode != 0:
            subprocess.run(["umount", "-l", str(point)], check=False, capture_output=True)
