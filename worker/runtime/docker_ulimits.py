"""How high the kernel lets a container engine set the limits of a container. Nothing is started to find out."""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path
from typing import Final

from headway.model.ulimits import MEMLOCK, NOFILE, UNLIMITED

PROC: Final = Path("/proc")
_CAP_SYS_RESOURCE: Final = 24
_FIRST_USER_NAMESPACE: Final = "user:[4026531837]"  # PROC_USER_INIT_INO
_NAMES: Final = {"Max open files": NOFILE, "Max locked memory": MEMLOCK}
_ENGINE: Final = "dockerd"


def engine_ulimits(url: str, proc: Path = PROC) -> tuple[tuple[str, int], ...]:
    """The highest limits that the engine can give a container. Empty: not known, as for one on another machine."""
    if not url.startswith("unix://"):
        return ()
    pid = engine_pid(url.removeprefix("unix://"), proc)
    return () if pid is None else most_ulimits(pid, proc)


def engine_pid(socket_path: str, proc: Path = PROC) -> int | None:
    """The engine behind a Unix socket. None: it is another program, or not seen from here."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(2.0)
        try:
            connection.connect(socket_path)
            peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        except OSError:
            return None
    pid: int = struct.unpack("3i", peer)[0]
    if pid and _name(proc, pid) == _ENGINE:
        return pid
    # systemd listens for the engine where docker.socket is in use, and is the peer then.
    return _only_engine(proc) if pid == 1 else None


def _only_engine(proc: Path) -> int | None:
    found = [
        int(entry.name) for entry in proc.iterdir() if entry.name.isdecimal() and _name(proc, entry.name) == _ENGINE
    ]
    return found[0] if len(found) == 1 else None


def _name(proc: Path, pid: int | str) -> str:
    try:
        return (proc / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


def most_ulimits(pid: int, proc: Path = PROC) -> tuple[tuple[str, int], ...]:
    """The hard limits that the process can give its children, by their names. Empty: they can't be read.

    A process may raise them at will where it has CAP_SYS_RESOURCE on the machine. Open files end at ``fs.nr_open``.
    Any other process hands on at most its own.
    """
    try:
        own = _own_limits((proc / str(pid) / "limits").read_text())
        if not _may_raise(pid, proc):
            return tuple(sorted(own.items()))
        return ((MEMLOCK, UNLIMITED), (NOFILE, int((proc / "sys/fs/nr_open").read_text())))
    except (OSError, ValueError):
        return ()


def _own_limits(text: str) -> dict[str, int]:
    found = {}
    for line in text.splitlines():
        for title, name in _NAMES.items():
            if line.startswith(title):
                hard = line[len(title) :].split()[1]
                found[name] = UNLIMITED if hard == "unlimited" else int(hard)
    return found


def _may_raise(pid: int, proc: Path) -> bool:
    status = (proc / str(pid) / "status").read_text()
    powers = next((int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff:")), 0)
    if not powers >> _CAP_SYS_RESOURCE & 1:
        return False
    try:
        return os.readlink(proc / str(pid) / "ns" / "user") == _FIRST_USER_NAMESPACE
    except PermissionError:
        return False  # a Worker without rights on the engine's process: its own limits are surely given
