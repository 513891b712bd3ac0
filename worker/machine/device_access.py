"""Whether a running container can still open its GPUs' device files.

A machine may forget them: `systemctl daemon-reload` writes the device rules of each unit anew. GPUs that came by a hook
are not in systemd's books. Then every GPU call inside fails from that moment on. All blocks.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Iterable
from pathlib import Path

from ..box import Box, holder
from .cgroups import UNIFIED, folders_of, hierarchies_of

_PROC = Path("/proc")
_GPU_FILE = re.compile(r"nvidia(\d+|ctl|-uvm|-uvm-tools|-modeset)")
_MOST = 128
_LIMIT_S = 5.0
# It joins the group first, so that the rules of the container are those of this shell. Then it only opens.
_OPEN = 'echo $$ > "$1" || exit 9; shift; for file; do (: <> "$file") || :; done'
_NOT_PERMITTED = "Operation not permitted"


def lost_devices_of(attempt_folder: Path) -> list[str]:
    """What the container of this attempt can't open any more; see ``lost_devices``."""
    pid = holder(Box(attempt_folder / "box"))
    try:
        return lost_devices(pid) if pid is not None else []
    except OSError:
        return []  # it ends, or this machine's groups are not to be seen from here


def lost_devices(pid: int, proc: Path = _PROC) -> list[str]:
    """The GPU files that this process sees and is not allowed to open. ``pid`` is the container's first process.

    Empty also where that can't be found out.
    """
    there = device_files(proc / str(pid) / "root" / "dev")
    if not there:
        return []
    groups = (proc / str(pid) / "cgroup").read_text().splitlines()
    mounts = (proc / "self" / "mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    folders = folders_of(groups, (), hierarchies_of(mounts))
    if "devices" in folders:
        return refused_by_list(Path(folders["devices"], "devices.list").read_text().splitlines(), there)
    return refused_by_kernel(Path(folders[UNIFIED]), there) if UNIFIED in folders else []


def device_files(folder: Path) -> dict[Path, tuple[int, int]]:
    """The GPU files in a container's ``/dev``, with their numbers."""
    found = {}
    try:
        names = sorted(name for name in os.listdir(folder) if _GPU_FILE.fullmatch(name))[:_MOST]
    except OSError:
        return {}
    for name in names:
        try:
            what = os.stat(folder / name, follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISCHR(what.st_mode):
            found[folder / name] = os.major(what.st_rdev), os.minor(what.st_rdev)
    return found


def refused_by_list(lines: Iterable[str], there: dict[Path, tuple[int, int]]) -> list[str]:
    """What ``devices.list`` of a group does not allow (cgroup v1). Pure."""
    allowed = set()
    for line in lines:
        kind, _, rest = line.strip().partition(" ")
        numbers, _, rights = rest.partition(" ")
        if kind in ("a", "c") and "r" in rights and "w" in rights:
            allowed.add(tuple(numbers.split(":")))
    return [
        file.name
        for file, (major, minor) in there.items()
        if not allowed & {(str(major), str(minor)), (str(major), "*"), ("*", "*"), ("*", str(minor))}
    ]


def refused_by_kernel(group: Path, there: dict[Path, tuple[int, int]]) -> list[str]:
    """What a process of the group is not allowed to open (cgroup v2 has no list that can be read).

    Another error, such as that of a card which fell off the bus, is no refusal.
    """
    files = list(there)
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", _OPEN, "sh", str(group / "cgroup.procs"), *map(str, files)],
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    if done.returncode:
        return []
    refused = [line for line in done.stderr.splitlines() if _NOT_PERMITTED in line]
    return [file.name for file in files if any(f"{file}:" in line for line in refused)]
