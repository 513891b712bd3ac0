"""files: the personal space from the command line."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ..client import Client, Refused
from .common import client, output_option, print_json, safe, size, table, whole_file


@click.group()
def files() -> None:
    """List, fetch, put and remove files of your personal space (/root/nfs inside a task)."""


@files.command("ls")
@click.argument("path", default="")
@output_option
def ls(path: str, output: str) -> None:
    """List a folder."""
    with client() as http:
        entries = list(http.files(path))
    if output == "json":
        print_json(entries)
        return
    rows = [
        [
            entry["mode"],
            size(entry["size_bytes"]) if entry["kind"] == "file" else "-",
            time.strftime("%Y-%m-%d %H:%M", time.localtime(entry["modified_at"])),
            safe(entry["name"])
            + {"folder": "/", "link": f" -> {safe(entry['link_target'])}", "other": " (special)"}.get(
                entry["kind"], ""
            ),
        ]
        for entry in entries
    ]
    if rows:
        table(["mode", "size", "modified", "name"], rows)


@files.command("get")
@click.argument("path")
@click.argument("target", required=False, type=click.Path(path_type=Path))
def get(path: str, target: Path | None) -> None:
    """Fetch a file to TARGET (default: its own name here; - for standard output)."""
    with client() as http:
        if target == Path("-"):
            http.get_file(path, sys.stdout.buffer)
            return
        name = path.rstrip("/").rsplit("/", 1)[-1]
        place = target or Path(name)
        if place.is_dir():
            place = place / name
        with whole_file(place) as file, _progress(f"get {name}", None) as step:
            http.get_file(path, file, step)


@files.command("put")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.argument("path", required=False)
@click.option("-r", "--recursive", is_flag=True, help="Put a folder with all that is in it.")
def put(source: Path, path: str | None, recursive: bool) -> None:
    """Put a file (or, with -r, a folder) at PATH of your personal space; its own name by default.

    PATH ending in / names a folder to put it into.
    """
    target = path or source.resolve().name
    if target.endswith("/"):
        target += source.resolve().name
    if source.is_dir() and not recursive:
        raise click.UsageError(f"{source} is a folder: put it with -r")
    with client() as http:
        if source.is_dir():
            _put_folder(http, source, target)
        else:
            _put_file(http, source, target)


def _put_file(http: Client, source: Path, target: str) -> None:
    with _progress(f"put {source.name}", source.stat().st_size) as step:
        http.put_file(target, source, step)


def _put_folder(http: Client, source: Path, target: str) -> None:
    _make_folder(http, target)
    for folder, names, file_names in os.walk(source):
        names.sort()
        below = Path(folder).relative_to(source).as_posix()
        place = target if below == "." else f"{target}/{below}"
        for name in names:
            _make_folder(http, f"{place}/{name}")
        for name in sorted(file_names):
            if (Path(folder) / name).is_file():
                _put_file(http, Path(folder) / name, f"{place}/{name}")


def _make_folder(http: Client, path: str) -> None:
    try:
        http.make_folder(path)
    except Refused as refused:
        if refused.status != 409:  # there already
            raise


@files.command("rm")
@click.argument("paths", nargs=-1, required=True)
@click.option("-r", "--recursive", is_flag=True, help="Remove a folder with all that is in it.")
def rm(paths: tuple[str, ...], recursive: bool) -> None:
    """Remove files."""
    with client() as http:
        for path in paths:
            http.delete_file(path, recursive=recursive)


@files.command("mkdir")
@click.argument("path")
def mkdir(path: str) -> None:
    """Make a folder."""
    with client() as http:
        http.make_folder(path)


@files.command("mv")
@click.argument("path")
@click.argument("to")
def mv(path: str, to: str) -> None:
    """Move or rename."""
    with client() as http:
        http.move_file(path, to)


@contextmanager
def _progress(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar with the rate on a terminal, nothing otherwise."""
    if not sys.stderr.isatty():
        yield lambda _count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task(label, total=total)
        yield lambda count: progress.update(bar, advance=count)
