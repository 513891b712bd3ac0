"""Tasks that tell whether they ran twice at once, or again after they had ended well.

Each writes into a file of its own in its owner's space, and holds a lock on that file while it lives. All machines of
a test are one kernel, so the lock holds between them.
"""

from __future__ import annotations

import fcntl
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker

from tests.support.compiling import compiled
from tests.support.images import Entry, import_image, layer

TICKER = "headway-test/ticker:1"


@dataclass(frozen=True, slots=True)
class Told:
    """What the lines of one task's file say."""

    begun: tuple[str, ...]  # attempt numbers, in order
    ended: tuple[str, ...]
    at_once: bool  # an attempt wrote while another one lived
    again: bool  # an attempt began after the task had ended well


def import_ticker(client: docker.DockerClient) -> str:
    """The image of :func:`ticking_task`."""
    target = f"{platform.machine()}-linux-musl"
    source = Path(__file__).with_name("ticker.c")
    program = compiled(source, "ticker", "-target", target, "-static", "-Os", "-s")
    folders = [Entry(name) for name in ("dev", "etc", "proc", "sys", "tmp", "root")]
    return import_image(client, TICKER, layer([*folders, Entry("ticker", program.read_bytes())]))


def ticking_task(name: str, *, ticks: int, tick_s: float = 0.5, folder: str = "", **fields: Any) -> dict[str, Any]:
    """A task of that image; its file is ``folder/name`` in the home."""
    path = "/".join(part for part in ("/root/nfs", folder, name) if part)
    return {
        "name": name,
        "image": TICKER,
        "command": ["/ticker", path, str(ticks), str(round(tick_s * 1000))],
        "timeout": "10m",
        "resources": {"cpus": 0.04, "memory": "16MiB"},
        **fields,
    }


def told_by(lines: Sequence[str]) -> Told:
    """What these lines prove. Pure."""
    begun: list[str] = []
    ended: list[str] = []
    at_once = again = False
    for line in lines:
        what, _, attempt = line.partition(" ")
        if what == "twice":
            at_once = True
        elif what == "begin":
            again = again or bool(ended)
            begun.append(attempt)
        elif begun and attempt != begun[-1]:
            at_once = True  # an older one still writes
        if what == "end":
            ended.append(attempt)
    return Told(tuple(begun), tuple(ended), at_once, again)


def read_file(file: Path) -> Told:
    """What a task's file says. One that is not there tells nothing."""
    return told_by(file.read_text("utf-8").splitlines() if file.exists() else [])


def still_runs(file: Path) -> bool:
    """Whether somebody still holds the lock of a task's file."""
    if not file.exists():
        return False
    with file.open("rb") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
