"""Progress of long work and sharing: what the commands of the markets have in common."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from .common import print_json, safe


def run_all(calls: Iterable[Callable[[], object]], *, lanes: int) -> None:
    """Makes the calls, some at a time. After the first that fails none is begun any more.

    Raises: what that one raised, once those on their way have ended.
    """
    rest, lock = iter(calls), threading.Lock()
    failures: list[BaseException] = []

    def lane() -> None:
        while not failures:
            with lock:
                call = next(rest, None)
            if call is None:
                return
            try:
                call()
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=lane, daemon=True) for _ in range(lanes)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            while thread.is_alive():
                thread.join(0.2)  # a join without limit would swallow Ctrl-C
    except KeyboardInterrupt as error:
        failures.append(error)
        raise
    if failures:
        raise failures[0]


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar with the rate on a terminal, nothing otherwise; what it yields takes the bytes of each step."""
    if not sys.stderr.isatty():
        yield lambda _count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        bar = bars.add_task(label, total=total)
        yield lambda count: bars.update(bar, advance=count)


def share_options(command: Any) -> Any:
    """Adds --user, --group, --unshare-user, --unshare-group and --public/--private."""
    for option in (
        click.option("--public/--private", "public", default=None, help="For everybody who signs in, or not."),
        click.option("--unshare-group", multiple=True, metavar="GROUP", help="No longer share with this group."),
        click.option("--unshare-user", multiple=True, metavar="NAME", help="No longer share with this account."),
        click.option(
            "--group", multiple=True, metavar="GROUP", help="Share with this group; may be given several times."
        ),
        click.option(
            "--user", multiple=True, metavar="NAME", help="Share with this account; may be given several times."
        ),
    ):
        command = option(command)
    return command


def share_changes(found: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """The PATCH that ``share_options`` ask for, over what an image or a dataset has now.

    Raises:
        UsageError: nothing was asked for.
    """
    changes: dict[str, Any] = {}
    if options["public"] is not None:
        changes["public"] = options["public"]
    if any(options[key] for key in ("user", "group", "unshare_user", "unshare_group")):
        now = found["shared_with"]
        changes["shared_with"] = {
            "users": sorted({*now["users"], *options["user"]} - set(options["unshare_user"])),
            "groups": sorted({*now["groups"], *options["group"]} - set(options["unshare_group"])),
        }
    if not changes:
        raise click.UsageError("say with whom: --user NAME, --group GROUP or --public")
    return changes


def audience(found: dict[str, Any]) -> str:
    """The word for who sees it: ``public``, ``shared`` or ``private``."""
    if found["public"]:
        return "public"
    shared = found["shared_with"]
    return "shared" if shared["users"] or shared["groups"] else "private"


def audience_in_full(found: dict[str, Any]) -> str:
    """The same with names."""
    shared = found["shared_with"]
    names = [*shared["users"], *(f"group {name}" for name in shared["groups"])]
    word = audience(found)
    return f"{word} (with {', '.join(names)})" if names else word


def print_waits(answer: dict[str, Any] | None, what: str, output: str) -> None:
    """What a deletion led to: None: all is gone; else the jobs that it waits for."""
    live = answer["live_jobs"] if answer else []
    if output == "json":
        print_json({"live_jobs": live})
    elif live:
        click.echo(f"{what} when these jobs end: {', '.join(live)}", err=True)


def print_audience(found: dict[str, Any], name: str, output: str) -> None:
    """What sharing led to; ``name`` is how people call the image or dataset."""
    if output == "json":
        print_json(found)
    else:
        click.echo(f"{safe(name)}: {safe(audience_in_full(found))}")
