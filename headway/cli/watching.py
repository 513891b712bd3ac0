"""A table that is shown anew every few seconds: `ps --watch`, `nodes top`."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

import click

from ..client import NoService
from .common import span

EVERY_S = 2.0
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


def watch(ask: Callable[[], Any], show: Callable[[Any], None]) -> None:
    """Asks and shows again and again, until Ctrl-C. While the server is away the last answer stays, with its age."""
    answer, as_of = ask(), time.monotonic()
    away = ""
    while True:
        note = f"(as of {span(time.monotonic() - as_of)} ago: {away})" if away else ""
        if sys.stdout.isatty():
            screen = _Screen()
            with contextlib.redirect_stdout(screen):
                show(answer)
            columns, lines = shutil.get_terminal_size()
            taken = 1 + -(-len(note) // columns)  # the note, and the cursor's line
            click.clear()
            for line in fitted(screen.getvalue().splitlines(), columns, lines - taken):
                click.echo(line)
        else:
            show(answer)
        if note:
            click.echo(note, err=True)
        time.sleep(EVERY_S)
        try:
            answer, as_of, away = ask(), time.monotonic(), ""
        except NoService as error:
            away = error.message


class _Screen(io.StringIO):
    """Keeps what is printed, with its colours."""

    def isatty(self) -> bool:
        return True


def fitted(shown: list[str], columns: int, lines: int) -> list[str]:
    """What fits into a terminal. A table that wraps or scrolls can't be read while it is shown anew."""
    if len(shown) > lines:
        kept = max(1, lines - 1)
        shown = [*shown[:kept], f"({len(shown) - kept} more lines do not fit here)"]
    return [_cut(line, columns) for line in shown]


def _cut(line: str, columns: int) -> str:
    from rich.cells import cell_len, set_cell_size

    out, left = [], columns
    for part in _COLOUR.split(line):
        if _COLOUR.fullmatch(part):
            out.append(part)
            continue
        kept = part if cell_len(part) <= left else set_cell_size(part, left)
        left -= cell_len(kept)
        out.append(kept)
    return "".join(out)
