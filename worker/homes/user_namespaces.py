"""User namespaces, of which only the maps are used: idmapped mounts take them from there."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

from .id_maps import IdMaps, render

_WAIT_S = 10.0
_MOST = 64


class UserNamespaces:
    """One namespace for each pair of maps, kept for the next one. Any thread may ask."""

    def __init__(self, child: Sequence[str], most: int = _MOST) -> None:
        self._child = tuple(child)
        self._most = most
        self._made: dict[IdMaps, int] = {}
        self._lock = threading.Lock()

    def of(self, maps: IdMaps) -> int:
        """A descriptor of a namespace with these maps, to be closed by the caller. Raises OSError."""
        with self._lock:
            found = self._made.pop(maps, None)
            if found is None:
                while len(self._made) >= self._most:
                    os.close(self._made.pop(next(iter(self._made))))
                found = new_user_namespace(self._child, maps)
            self._made[maps] = found  # behind all others: the one that waited longest goes first
            return os.dup(found)


def new_user_namespace(child: Sequence[str], maps: IdMaps) -> int:
    """A descriptor of a new user namespace with these maps. Raises OSError: they can't be made, or not written."""
    pipe = subprocess.PIPE
    # It has nothing of the Worker's environment, and can't outlive the pipe.
    with subprocess.Popen(child, stdin=pipe, stdout=pipe, stderr=pipe, env={}, close_fds=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if process.stdout.readline() != b"\n":
            _, said = process.communicate(timeout=_WAIT_S)
            raise OSError(errno.EPERM, f"no user namespace: {' '.join(said.decode(errors='replace').split())[:200]}")
        try:
            at = Path("/proc", str(process.pid))
            (at / "uid_map").write_text(render(maps.uids))
            (at / "gid_map").write_text(render(maps.gids))
            return os.open(at / "ns/user", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            process.stdin.close()
