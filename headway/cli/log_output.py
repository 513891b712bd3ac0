"""Where logs are printed: on one screen in the order of time, or each stream to a place of its own."""

from __future__ import annotations

import io
import os
import sys
import threading
from typing import BinaryIO

import click


def in_one_place() -> bool:
    """Whether standard output and standard error lead to the same terminal, file or pipe."""
    try:
        out, err = (os.fstat(stream.fileno()) for stream in (sys.stdout, sys.stderr))
    except (OSError, ValueError, AttributeError, io.UnsupportedOperation):
        return False
    return (out.st_dev, out.st_ino, out.st_rdev) == (err.st_dev, err.st_ino, err.st_rdev)


def target(stream: str) -> BinaryIO:
    """Standard error for what the task wrote to its own."""
    return sys.stderr.buffer if stream == "stderr" else sys.stdout.buffer


class LogOutput:
    """Prints pieces of logs, and remembers whether a line is open: what is of another log begins on a line of its own.
    ``exact``: a place that holds no other's words gets the bytes as they are."""

    def __init__(self, *, exact: bool) -> None:
        self._lock = threading.Lock()
        self._shared = in_one_place()
        self._exact = exact and not self._shared
        self._open: dict[str, object] = {}  # place: whose line has no end yet

    def write(self, stream: str, of: object, data: bytes) -> None:
        """``of``: the log that the piece is of."""
        place = self._place(stream)
        with self._lock:
            if self._open.get(place, of) != of and not (self._exact and place == "stdout"):
                data = b"\n" + data
            _write(target(stream), data)
            if data.endswith(b"\n"):
                self._open.pop(place, None)
            elif data:
                self._open[place] = of

    def heading(self, text: str) -> None:
        """A line between logs, to standard error."""
        with self._lock:
            broken = self._open.pop(self._place("stderr"), None) is not None
            click.echo(("\n" if broken else "") + text, err=True)

    def _place(self, stream: str) -> str:
        return "stderr" if stream == "stderr" and not self._shared else "stdout"


def _write(to: BinaryIO, data: bytes) -> None:
    to.write(data)
    to.flush()
