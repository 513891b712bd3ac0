"""Runs programs where the container engine keeps its networks, and reads the kernel's files there.

Mostly that is this machine's own network namespace. An engine may have another one. Its process tells, which the
kernel names for each connection to a Unix socket.
"""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CONNECT_S = 2.0
_PROGRAM_S = 10.0
_UNIX = "unix://"


class ProgramFailed(Exception):
    """A program is missing, or ended with an error. The text is what it said, on one line."""


@dataclass(frozen=True, slots=True)
class NetworkNamespace:
    """The network namespace of one process. ``pid`` None: that of this one."""

    pid: int | None = None

    def run(self, program: str, *arguments: str, text: str = "") -> str:
        """Run a program to its end; what it printed. Blocks. Raises ProgramFailed."""
        path = find_program(program)
        if path is None:
            raise ProgramFailed(f"{program} is not installed")
        enter = () if self.pid is None else ("nsenter", f"--net=/proc/{self.pid}/ns/net", "--")
        try:
            done = subprocess.run(
                [*enter, path, *arguments],
                input=text,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PROGRAM_S,
                env={"PATH": _PATH, "LC_ALL": "C"},
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ProgramFailed(f"{program}: {error}") from error
        if done.returncode:
            said = " ".join((done.stderr or done.stdout).split())
            raise ProgramFailed(f"{program}: {said[:300] or f'ended with {done.returncode}'}")
        return done.stdout

    def kernel_file(self, name: str) -> str:
        """A file below ``/proc/net`` as this namespace has it. Empty: it can't be read."""
        try:
            return Path("/proc", str(self.pid or "self"), "net", name).read_text()
        except OSError:
            return ""

    def setting(self, name: str) -> str:
        """A setting below ``/proc/sys/net`` as this namespace has it. Empty: it can't be read."""
        try:
            return self.run("cat", f"/proc/sys/net/{name}").strip()
        except ProgramFailed:
            return ""


def namespace_of(engine_url: str) -> NetworkNamespace | None:
    """Where the engine at this address keeps its networks. None: it does not answer. Blocks for a moment at most.

    An engine on another machine counts as being here. The guard finds out, since its bridges are not here.
    """
    if not engine_url.startswith(_UNIX):
        return NetworkNamespace()
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(_CONNECT_S)
            connection.connect(engine_url.removeprefix(_UNIX))
            said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    except OSError:
        return None
    pid = struct.unpack("3i", said)[0]
    try:
        here = os.stat("/proc/self/ns/net").st_ino
        if pid <= 0 or os.stat(f"/proc/{pid}/ns/net").st_ino == here:
            return NetworkNamespace()
    except OSError:
        return NetworkNamespace()  # a process that this one may not look at, or can't see
    return NetworkNamespace(pid)


def find_program(name: str) -> str | None:
    """Where a program is. A service's own PATH often lacks the folders of administration."""
    return shutil.which(name, path=_PATH)


def read_first(paths: Sequence[str]) -> str:
    """The first of these files that can be read. Empty: none can."""
    for path in paths:
        try:
            return Path(path).read_text(errors="replace")
        except OSError:
            continue
    return ""
