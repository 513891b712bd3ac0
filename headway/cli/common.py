"""What the commands share: the client, ``-o json``, references to jobs, tables and times."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

from ..client import Client, Profile
from ..model.tones import Tone, tone_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])

_COLOURS = {Tone.GOOD: "green", Tone.LIVE: "cyan", Tone.BAD: "red", Tone.WAIT: "yellow"}


def client() -> Client:
    """A client of the server that the environment or ``headway login`` names."""
    return Client(Profile.load())


def output_option(command: F) -> F:
    """Adds ``-o json``."""
    option = click.option(
        "-o",
        "--output",
        "output",
        type=click.Choice(["table", "json"]),
        default="table",
        help="json for programs; a table otherwise.",
    )
    return option(command)


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def content_of(file: str) -> bytes:
    """The content of the file that was named, or of standard input for ``-``.

    Raises:
        OSError: it can't be read.
    """
    if file != "-":
        return Path(file).read_bytes()
    if sys.stdin is None:
        raise click.ClickException("standard input is closed: name a file, or send one to it")
    return sys.stdin.buffer.read()


def lines_of_input(count: int) -> list[str]:
    """So many lines of standard input, for passwords of scripts. How a line ends is no part of it, nor is a mark of the
    byte order before it; blanks are. What isn't there is empty."""
    if sys.stdin is None:
        raise click.ClickException("standard input is closed: send the password to it")
    try:
        lines = [sys.stdin.readline().removesuffix("\n").removesuffix("\r") for _ in range(count)]
    except UnicodeDecodeError:
        raise click.ClickException("standard input is not UTF-8: send the password as UTF-8") from None
    return [lines[0].removeprefix("\ufeff"), *lines[1:]]


@contextmanager
def whole_file(place: Path) -> Iterator[BinaryIO]:
    """A file to write that appears at ``place`` once it is complete; what was there, and its neighbours, stay till
    then. A link is followed, and what is no regular file (a device, a pipe) is written into; ``-`` is standard output.

    Raises:
        OSError: the folder isn't there, or full, or closed.
    """
    if str(place) == "-":
        sys.stdout.flush()
        yield sys.stdout.buffer
        sys.stdout.flush()
        return
    if place.exists() and not place.is_file():
        with place.open("wb") as file:
            yield file
        return
    target = Path(os.path.realpath(place))
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", suffix=".part", dir=target.parent)
    except OSError as error:
        # By the name that was typed, not by one that nobody knows.
        raise OSError(error.errno, error.strerror, str(place)) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            mask = os.umask(0)
            os.umask(mask)
            os.fchmod(file.fileno(), 0o666 & ~mask)
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def safe(text: object) -> str:
    """Text of users without control characters, which could paint over a terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def grants(user: dict[str, Any]) -> list[str]:
    """What an account may do besides what all may, in few words."""
    words = {"may_use_high_priority": "high priority", "may_use_image_user": "image user"}
    return [word for key, word in words.items() if user.get(key)]


def tone(state: str) -> str:
    """The state, coloured when standard output is a terminal."""
    return click.style(state, fg=_COLOURS.get(tone_of(state))) if sys.stdout.isatty() else state


def table(
    headers: Sequence[str], rows: Iterable[Sequence[object]], *, as_typed: bool = False, err: bool = False
) -> None:
    """Prints aligned columns; wide characters and colours count as what they show. ``as_typed``: heads are names, not
    words of ours in capitals; ``err``: to standard error."""
    from rich.cells import cell_len

    cells = [[str(c) for c in row] for row in rows]
    plain = [[cell_len(click.unstyle(c)) for c in row] for row in cells]
    widths = [max([cell_len(h), *(row[i] for row in plain)]) for i, h in enumerate(headers)]
    last = len(headers) - 1

    def pad(text: str, length: int, column: int) -> str:
        return text if column == last else text + " " * (widths[column] - length)

    heads = headers if as_typed else [h.upper() for h in headers]
    click.echo("  ".join(pad(h, cell_len(h), i) for i, h in enumerate(heads)), err=err)
    for row, lengths in zip(cells, plain, strict=True):
        click.echo("  ".join(pad(c, n, i) for i, (c, n) in enumerate(zip(row, lengths, strict=True))), err=err)


def ago(at: float | None, now: float | None = None) -> str:
    """``5m ago``; a dash for None."""
    if at is None:
        return "-"
    return f"{span((time.time() if now is None else now) - at)} ago"


def moment(at: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """An instant by this machine's clock, with its zone: ``2026-03-01 14:05:09 +01:00``. The hour that comes twice in
    autumn is told apart by it."""
    there = time.localtime(at)
    zone = time.strftime("%z", there)
    return f"{time.strftime(form, there)} {zone[:3]}:{zone[3:5]}"


def span(seconds: float | None) -> str:
    """A duration of two units at most: ``850ms``, ``4.2s``, ``3m10s``, ``2h5m``, ``3d4h``."""
    if seconds is None:
        return "-"
    seconds = max(0.0, seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    if seconds < 60:
        return f"{seconds:.1f}s".replace(".0s", "s")
    whole = int(seconds)
    for size, unit, small, small_unit in ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size}{unit}" + (f"{rest}{small_unit}" if rest else "")
    raise AssertionError("unreachable")


def size(count: float | None) -> str:
    """Bytes in binary units: ``1.5 GiB``."""
    if count is None:
        return "-"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


@dataclass(frozen=True, slots=True)
class Reference:
    """``ID[/TASK[/ATTEMPT]]`` as typed."""

    job: str
    task: str = ""
    attempt: str = "latest"

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Raises click.BadParameter for anything else."""
        parts = text.split("/")
        if not parts[0] or len(parts) > 3 or any(not p for p in parts[1:]):
            raise click.BadParameter(f"{text!r} is not ID, ID/TASK or ID/TASK/ATTEMPT")
        if len(parts) == 3 and not (parts[2] == "latest" or (parts[2].isdecimal() and int(parts[2]) > 0)):
            raise click.BadParameter(f"an attempt is a number from 1, not {parts[2]!r}")
        return cls(*parts)


class ReferenceType(click.ParamType):  # type: ignore[type-arg]
    """Click's door to :class:`Reference`."""

    name = "id[/task[/attempt]]"

    def __init__(self, most: int = 3) -> None:
        self.most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Reference:
        if isinstance(value, Reference):
            return value
        if value.count("/") >= self.most:
            forms = " or ".join(["ID", "ID/TASK", "ID/TASK/ATTEMPT"][: self.most])
            self.fail(f"{value!r} names too much: {forms} is wanted", param, ctx)
        return Reference.parse(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from .completion import references

        return references(incomplete, self.most)


def task_exit_status(task: dict[str, Any]) -> int:
    """The exit status of ``run`` for an ended task: its code, or 124, 130, 125; see docs/interfaces.md."""
    if task["state"] == "SUCCEEDED":
        return 0
    reason = task.get("reason") or {}
    if task["state"] == "TIMED_OUT":
        return 124
    if task["state"] == "CANCELLED":
        return 130
    if reason.get("fault") == "platform":
        return 125
    if reason.get("exit_code") is not None:
        return int(reason["exit_code"]) or 125
    if reason.get("signal") is not None:
        return 128 + int(reason["signal"])
    return 137 if task["state"] == "OUT_OF_MEMORY" else 125


def job_exit_status(job: dict[str, Any]) -> int:
    """The exit status of ``wait`` and ``submit --wait``.

    A job with a single task gives that task's own; others give 0, 1, or 130 when cancelled.
    """
    if len(job["tasks"]) == 1:
        return task_exit_status(job["tasks"][0])
    return {"SUCCEEDED": 0, "CANCELLED": 130}.get(job["state"], 1)
