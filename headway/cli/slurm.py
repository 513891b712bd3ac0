"""Options of Slurm and what they are for ``headway run``. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import Final

from ..units import format_duration

LONG_NAMES: Final = {
    "-t": "--time",
    "-G": "--gpus",
    "-c": "--cpus-per-task",
    "-J": "--job-name",
    "-D": "--chdir",
    "-C": "--constraint",
    "-n": "--ntasks",
    "-N": "--nodes",
    "-p": "--partition",
    "-A": "--account",
    "-q": "--qos",
    "-a": "--array",
    "-o": "--output",
    "-e": "--error",
    "-d": "--dependency",
    "-w": "--nodelist",
}
_GPUS: Final = ("--gres", "--gpus", "--gpus-per-node", "--gpus-per-task", "--gpus-per-socket")
_TIME = re.compile(r"(?:([0-9]{1,4})-)?([0-9]{1,6})(?::([0-9]{1,2}))?(?::([0-9]{1,2}))?")
_MEMORY = re.compile(r"([0-9]{1,9})([KMGT]?)", re.IGNORECASE)
_GPU = re.compile(r"(?:gpu:)?(?:([A-Za-z][\w.-]*):)?([0-9]{1,4})|gpu(?::([A-Za-z][\w.-]*))?")


def meaning(option: str, value: str) -> str:
    """An option of Slurm with its value, as ``headway run`` has it; empty: it has none, or the value is odd."""
    name = LONG_NAMES.get(option, option)
    if name in _GPUS:
        return _gpus(value)
    if name == "--time":
        duration = _duration(value)
        return f"--timeout {duration}" if duration else ""
    if name in ("--mem", "--mem-per-cpu", "--mem-per-gpu"):
        found = _MEMORY.fullmatch(value)
        return f"--memory {found[1]}{(found[2] or 'M').upper()}iB" if found and int(found[1]) else ""
    if name == "--cpus-per-task":
        return f"--cpus {value}" if re.fullmatch("[0-9]{1,4}", value) else ""
    if name == "--job-name":
        return f"--name {shlex.quote(value)}" if value else ""
    return ""


def of_script(lines: Iterable[str]) -> tuple[list[str], list[str]]:
    """What the ``#SBATCH`` lines of a script mean for ``headway run``, and the names of the options that mean nothing
    there."""
    known: dict[str, str] = {}
    unknown: list[str] = []
    for line in lines:
        if line.strip() and not line.startswith("#"):
            break  # Slurm reads none behind the first command either
        if not line.startswith("#SBATCH"):
            continue
        for option, value in _pairs(line.removeprefix("#SBATCH")):
            name = LONG_NAMES.get(option, option)
            if told := meaning(option, value):
                known[told.partition(" ")[0]] = told
            elif name not in unknown:
                unknown.append(name)
    return list(known.values()), unknown


def _pairs(text: str) -> Iterable[tuple[str, str]]:
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        words = text.split()
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if not word.startswith("-"):
            continue
        option, equals, value = word.partition("=")
        if not word.startswith("--") and len(word) > 2:
            option, value = word[:2], word[2:]
        elif not equals and at < len(words) and not words[at].startswith("-"):
            value = words[at]
            at += 1
        yield option, value


def _gpus(value: str) -> str:
    found = _GPU.fullmatch(value)
    if not found:
        return ""
    model = found[1] or found[3]
    return f"--gpus {found[2] or 1}" + (f" --gpu-model {model.upper()}" if model else "")


def _duration(value: str) -> str:
    """Slurm's ``M``, ``M:S``, ``H:M:S``, ``D-H``, ``D-H:M`` and ``D-H:M:S``."""
    found = _TIME.fullmatch(value)
    if not found:
        return ""
    days, *clock = found.groups()
    first, second, third = (int(one or 0) for one in clock)
    if days is not None:
        seconds = ((int(days) * 24 + first) * 60 + second) * 60 + third
    elif clock[2] is not None:
        seconds = (first * 60 + second) * 60 + third
    else:
        seconds = first * 60 + second
    return format_duration(seconds) if seconds else ""
