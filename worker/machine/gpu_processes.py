"""Who uses a GPU: the processes on it, told apart by whether Headway started them."""

from __future__ import annotations

import os
import pwd
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from headway.safe_text import printable_text
from headway.units import round_size

from ..box import box_of_process
from ..ports import GpuProcess

_MOST_TEXT, _MOST_WORDS = 60, 4
_STEPS, _LAST_STEP = ((100 << 20, 1 << 20), (1 << 30, 10 << 20)), 128 << 20
_PROC = Path("/proc")


class GpuProcesses:
    """Tells of the processes on a card what the machine knows of them. It looks only at ``/proc``.

    A process of an attempt sees the attempt's box as a mount, whatever became of its container. One that the driver
    still lists while the machine has it no more stays whose it was. Where that is not known it counts as nobody's:
    then only the card's memory tells.
    """

    def __init__(self, attempts_dir: Path, proc: Path = _PROC) -> None:
        self._attempts_dir = attempts_dir
        self._proc = proc
        self._known: dict[int, tuple[str, str, GpuProcess]] = {}  # by pid: its start, its box and its description

    def split(self, found: Sequence[GpuProcess]) -> tuple[dict[str, list[GpuProcess]], list[GpuProcess]]:
        """Those of Headway by the folder of their attempt, and all others. Each is described."""
        ours: dict[str, list[GpuProcess]] = {}
        others: list[GpuProcess] = []
        for process in found:
            told = self._told(process)
            if told is not None:
                (ours.setdefault(told[0], []) if told[0] else others).append(told[1])
        return ours, others

    def forget(self, listed: Sequence[int]) -> None:
        """Keep only what is known of these."""
        self._known = {pid: self._known[pid] for pid in listed if pid in self._known}

    def _told(self, process: GpuProcess) -> tuple[str, GpuProcess] | None:
        """Whose it is, by the folder of its attempt, and its description."""
        if process.owner or process.command or process.attempt:
            return process.attempt, process  # of a rehearsal
        folder = self._proc / str(process.pid)
        started = _started(folder)
        known = self._known.get(process.pid)
        if started and (known is None or known[0] != started):
            told = replace(process, owner=_owner(folder), command=_command(folder))
            known = self._known[process.pid] = started, box_of_process(self._attempts_dir, folder), told
        if known is None:
            return None
        return known[1], replace(known[2], memory_used_bytes=process.memory_used_bytes)


def most(processes: Sequence[GpuProcess]) -> GpuProcess | None:
    """The one that holds most memory."""
    return max(processes, key=lambda one: (one.memory_used_bytes or 0, -one.pid), default=None)


def whose(processes: Sequence[GpuProcess], used_bytes: int | None = None) -> str:
    """In words, for people who wait: `ann's python train.py, 300 MB`. ``used_bytes``: where no process says."""
    first = most(processes)
    if first is None:
        size = "" if used_bytes is None else f", {roundly(used_bytes)}"
        return f"a process outside Headway{size}"
    what = first.command or f"process {first.pid}"
    text = f"{first.owner}'s {what}" if first.owner else what
    held = first.memory_used_bytes if first.memory_used_bytes is not None else used_bytes
    if held is not None:
        text += f", {roundly(held)}"
    rest = len(processes) - 1
    if rest:
        text += f", and {rest} more process{'es' if rest > 1 else ''}"
    return text


def roundly(size: int) -> str:
    """A size without digits that change all the time."""
    step = next((step for most, step in _STEPS if size < most), _LAST_STEP)
    return round_size(size // step * step if size >= step else size)


def _owner(folder: Path) -> str:
    try:
        uid = os.stat(folder).st_uid
    except OSError:
        return ""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _command(folder: Path) -> str:
    """The program without its folder, and its first arguments."""
    words = [word.decode("utf-8", "replace") for word in _bytes(folder / "cmdline").split(b"\0") if word][:_MOST_WORDS]
    if not words:
        return _cut(_bytes(folder / "comm").decode("utf-8", "replace"))
    words[0] = words[0].rpartition("/")[2] or words[0]
    return _cut(" ".join(words))


def _cut(text: str) -> str:
    text = " ".join(printable_text(text).split())
    return text if len(text) <= _MOST_TEXT else f"{text[: _MOST_TEXT - 1]}…"


def _started(folder: Path) -> str:
    """When it started, so that a pid that is used anew is another process."""
    fields = _bytes(folder / "stat").rpartition(b")")[2].split()
    return fields[19].decode() if len(fields) > 19 else ""


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(4_096)
    except OSError:
        return b""
