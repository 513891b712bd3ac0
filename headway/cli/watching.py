"""A table that is shown anew every few seconds: `ps --watch`, `nodes top`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import click

from ..client import NoService
from .common import span

EVERY_S = 2.0


def watch(ask: Callable[[], Any], show: Callable[[Any], None]) -> None:
    """Asks and shows again and again, until Ctrl-C. While the server is away the last answer stays, with its age."""
    answer, as_of = ask(), time.monotonic()
    away = ""
    while True:
        if sys.stdout.isatty():
            click.clear()
        show(answer)
        if away:
            click.echo(f"(as of {span(time.monotonic() - as_of)} ago: {away})", err=True)
        time.sleep(EVERY_S)
        try:
            answer, as_of, away = ask(), time.monotonic(), ""
        except NoService as error:
            away = error.message
