"""What a container has used, by the kernel's own counters: its control group, v1 or v2, and its network.

The container is found by its first process, as this machine numbers it. The engine is never asked. All functions
block, on files of the kernel only.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from ..ports import ContainerCounters

_NS = 1_000_000_000
_US = 1_000_000
_MOST = 1 << 16  # no file read here is longer
UNIFIED = ""  # the one hierarchy of v2, among the controllers


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """Where this machine shows its control groups: mount point and root, by controller."""

    mounts: Mapping[str, tuple[str, str]]

    @classmethod
    def of_machine(cls, proc: Path = Path("/proc")) -> Hierarchies:
        """As this process sees them. Raises nothing: without them nothing is known of any container."""
        lines: list[str] = []
        with contextlib.suppress(OSError):
            lines = (proc / "self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
        return cls(hierarchies_of(lines))


def hierarchies_of(mountinfo: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Mount point and root of each hierarchy, by controller; v2 has an empty name. Pure."""
    found: dict[str, tuple[str, str]] = {}
    for line in mountinfo:
        ours, _, kind = line.partition(" - ")
        fields, words = ours.split(" "), kind.split(" ")
        if len(fields) < 5 or len(words) < 3:
            continue
        place = (fields[4].rstrip("/"), fields[3])
        if words[0] == "cgroup2":
            found.setdefault(UNIFIED, place)
        elif words[0] == "cgroup":
            for controller in words[2].split(","):
                found.setdefault(controller, place)
    return found


@dataclass(frozen=True, slots=True)
class ContainerGroup:
    """The folders of one container's control group. None: not visible here."""

    pid: int
    cpu: str | None = None
    memory: str | None = None
    disk: str | None = None
    unified: bool = False  # v2, which has other files
    own_network: bool = False  # otherwise its counters are those of the machine

    @property
    def known(self) -> bool:
        return bool(self.cpu or self.memory or self.disk)


def group_of(pid: int, hierarchies: Hierarchies, proc: Path = Path("/proc")) -> ContainerGroup | None:
    """The group of a container's first process. None: it is gone, or it is in the group of this process."""
    try:
        lines = (proc / str(pid) / "cgroup").read_text("utf-8", "surrogateescape").splitlines()
        ours = (proc / "self/cgroup").read_text("utf-8", "surrogateescape").splitlines()
        own_network = os.readlink(proc / str(pid) / "ns/net") != os.readlink(proc / "self/ns/net")
    except OSError:
        return None
    found = folders_of(lines, ours, hierarchies.mounts)
    # Where v1 has a controller, v2 does not have it.
    unified = found.get(UNIFIED)
    if any(name in found for name in ("cpuacct", "memory", "blkio")):
        group = ContainerGroup(pid, found.get("cpuacct"), found.get("memory"), found.get("blkio"))
    else:
        group = ContainerGroup(pid, unified, unified, unified, unified=True)
    return replace(group, own_network=own_network) if group.known or own_network else None


def folders_of(cgroup: Iterable[str], ours: Iterable[str], mounts: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """The folder of a process in each hierarchy, by controller. Pure.

    ``ours``: the same lines of this process. A group that both share is no container's, and is left out.
    """
    shared, found = set(ours), {}
    for line in cgroup:
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        if line in shared or ".." in path.split("/"):
            continue
        for name in names.split(","):
            mount = mounts.get(name)
            if mount is None:
                continue
            point, root = mount
            if root == "/":
                found[name] = point + path
            elif path == root or path.startswith(f"{root}/"):
                found[name] = point + path[len(root) :]
    return found


def counters_of(group: ContainerGroup, proc: str = "/proc") -> ContainerCounters | None:
    """What the container has used so far. None: it is gone."""
    cpu_s = _cpu_s(group)
    memory_bytes, peak = _memory(group)
    if cpu_s is None and memory_bytes is None and not os.path.isdir(group.cpu or group.memory or f"{proc}/{group.pid}"):
        return None
    read, written = _disk(group)
    received = sent = None
    if group.own_network:
        received, sent = network_bytes(_read(f"{proc}/{group.pid}/net/dev"))
    return ContainerCounters(cpu_s, memory_bytes, peak, read, written, received, sent)


def _cpu_s(group: ContainerGroup) -> float | None:
    if group.cpu is None:
        return None
    if group.unified:
        microseconds = _fact(_read(f"{group.cpu}/cpu.stat"), b"usage_usec ")
        return None if microseconds is None else microseconds / _US
    nanoseconds = _number(_read(f"{group.cpu}/cpuacct.usage"))
    return None if nanoseconds is None else nanoseconds / _NS


def _memory(group: ContainerGroup) -> tuple[int | None, int | None]:
    """What it uses now, without files that the kernel can drop at once, and the most that it ever had."""
    folder = group.memory
    if folder is None:
        return None, None
    now, peak = ("current", "peak") if group.unified else ("usage_in_bytes", "max_usage_in_bytes")
    used = _number(_read(f"{folder}/memory.{now}"))
    if used is None:
        return None, None
    droppable = _fact(_read(f"{folder}/memory.stat"), b"inactive_file " if group.unified else b"total_inactive_file ")
    return max(0, used - (droppable or 0)), _number(_read(f"{folder}/memory.{peak}"))


def _disk(group: ContainerGroup) -> tuple[int | None, int | None]:
    if group.disk is None:
        return None, None
    if group.unified:
        return io_stat_bytes(_read(f"{group.disk}/io.stat"))
    name = f"{group.disk}/blkio.throttle.io_service_bytes"
    text = _read(f"{name}_recursive")
    return blkio_bytes(_read(name) if text is None else text)


def io_stat_bytes(text: bytes | None) -> tuple[int | None, int | None]:
    """Bytes read and written by ``io.stat`` of v2. Pure."""
    if text is None:
        return None, None
    read = written = 0
    for word in text.split():
        if word.startswith(b"rbytes="):
            read += int(word[7:])
        elif word.startswith(b"wbytes="):
            written += int(word[7:])
    return read, written


def blkio_bytes(text: bytes | None) -> tuple[int | None, int | None]:
    """The same by ``blkio.throttle.io_service_bytes`` of v1. Pure."""
    if text is None:
        return None, None
    read = written = 0
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[1] == b"Read":
            read += int(words[2])
        elif len(words) == 3 and words[1] == b"Write":
            written += int(words[2])
    return read, written


def network_bytes(text: bytes | None) -> tuple[int | None, int | None]:
    """Bytes received and sent by ``net/dev``, without those that a container sends to itself. Pure."""
    if text is None:
        return None, None
    received = sent = 0
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(b":")
        words = rest.split()
        if name.strip() != b"lo" and len(words) >= 9:
            received += int(words[0])
            sent += int(words[8])
    return received, sent


def _fact(text: bytes | None, name: bytes) -> int | None:
    """The number after a name at the beginning of a line."""
    if text is None:
        return None
    at = 0 if text.startswith(name) else text.find(b"\n" + name) + 1
    if at == 0 and not text.startswith(name):
        return None
    return _number(text[at + len(name) :].split(b"\n", 1)[0])


def _number(text: bytes | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None


def _read(path: str) -> bytes | None:
    # Plain calls: this is read every second, of every container.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(descriptor, _MOST)
    except OSError:
        return None
    finally:
        os.close(descriptor)
