"""The paths of a box's files."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path

from .files import write_atomic
from .folders import FOLDER, folder_of
from .records import Stream


def container_attempt_dir(place: str) -> str:
    """Where the container of a box at ``place`` has its attempt folder."""
    return f"{place}/attempt"


def container_launcher(place: str) -> str:
    """Where it has the launcher."""
    return f"{place}/launcher"


def container_command(place: str) -> str:
    """Where it has the script."""
    return f"{place}/attempt/command"


@dataclass(frozen=True, slots=True)
class Box:
    """Paths of one attempt's box."""

    root: Path
    launcher: Path = field(init=False)
    attempt: Path = field(init=False)
    command: Path = field(init=False)
    deadline: Path = field(init=False)
    lock: Path = field(init=False)
    run: Path = field(init=False)
    ticket: Path = field(init=False)
    ticket_taken: Path = field(init=False)
    ticket_withdrawn: Path = field(init=False)
    spec: Path = field(init=False)
    launch: Path = field(init=False)
    lease: Path = field(init=False)
    limits: Path = field(init=False)
    stop: Path = field(init=False)
    started: Path = field(init=False)
    taken: Path = field(init=False)
    stdout: Path = field(init=False)
    stderr: Path = field(init=False)
    index: Path = field(init=False)
    end: Path = field(init=False)
    secrets: Path = field(init=False)
    launcher_log: Path = field(init=False)

    def __post_init__(self) -> None:
        attempt, run = self.root / "attempt", self.root / "run"
        paths = {
            "launcher": self.root / "launcher",
            "attempt": attempt,
            "command": attempt / "command",
            "deadline": attempt / "deadline",
            "lock": self.root / "lock",
            "run": run,
            "ticket_taken": run / "ticket.taken",
            "ticket_withdrawn": run / "ticket.withdrawn",
            "secrets": run / "secrets",
            "launcher_log": run / "launcher.log",
        }
        names = (
            "ticket",
            "spec",
            "launch",
            "lease",
            "limits",
            "stop",
            "started",
            "taken",
            "stdout",
            "stderr",
            "index",
            "end",
        )
        paths.update({name: run / name for name in names})
        for name, path in paths.items():
            object.__setattr__(self, name, path)

    def spool(self, stream: Stream) -> Path:
        """The raw spool of a stream."""
        return self.stdout if stream is Stream.STDOUT else self.stderr


def create(root: Path, *, launcher: Path | None = None, command: str | None = None) -> Box:
    """Make a box: folders with their modes, the lock, a copy of the launcher, the script. Safe twice.

    The launcher is copied, never linked: a program that runs as root could change a linked file.
    Raises OSError.
    """
    box = Box(root)
    box.root.mkdir(parents=True, exist_ok=True)
    for folder, mode in ((box.root, 0o755), (box.attempt, 0o755), (box.run, 0o700)):
        # Nothing is made or changed through a link: a task that is root may have put one there.
        with folder_of(folder) as above:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder.name, mode, dir_fd=above)
            descriptor = os.open(folder.name, FOLDER, dir_fd=above)
        try:
            os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)
    with folder_of(box.lock) as inside:
        # Never replaced: a launcher may hold it.
        flags = os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(box.lock.name, flags, 0o600, dir_fd=inside))
    if launcher is not None:
        write_atomic(box.launcher, launcher.read_bytes(), mode=0o755)
    if command is not None:
        write_atomic(box.command, command.encode("utf-8", "surrogateescape"), mode=0o555)
    return box
