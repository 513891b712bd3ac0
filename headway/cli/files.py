"""files: the personal space from the command line."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from ..client import Client, Refused
from ..errors import Conflict
from ..units import counted
from .common import ago, client, moment, output_option, print_json, safe, size, span, table, whole_file
from .completion import remote_files
from .transfer import progress, run_all

# From so many bytes on an upload that is cut off goes on where it was.
_RESUMABLE_BYTES = 8 << 20
# So many files on their way at once: small ones wait for the line, and not for the disk.
_LANES = 8


@click.group()
def files() -> None:
    """List, fetch, put and remove files of your personal space (/root/nfs inside a task)."""


@files.command("ls")
@click.argument("path", default="", shell_complete=remote_files)
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
            moment(entry["modified_at"], "%Y-%m-%d %H:%M"),
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
@click.argument("path", shell_complete=remote_files)
@click.argument("target", required=False, type=click.Path(path_type=Path))
@click.option("-r", "--recursive", is_flag=True, help="Fetch a folder with all that is in it, as a ZIP archive.")
def get(path: str, target: Path | None, recursive: bool) -> None:
    """Fetch a file to TARGET (default: its own name here; - for standard output)."""
    with client() as http:
        fetch = http.get_folder if recursive else http.get_file
        if target == Path("-"):
            fetch(path, sys.stdout.buffer)
            return
        name = path.strip("/").rsplit("/", 1)[-1] or "files"
        if recursive:
            name += ".zip"
        place = target or Path(name)
        if place.is_dir():
            place = place / name
        with whole_file(place) as file, progress(f"get {name}", None) as step:
            fetch(path, file, step)


@files.command("put")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.argument("path", required=False, shell_complete=remote_files)
@click.option("-r", "--recursive", is_flag=True, help="Put a folder with all that is in it.")
def put(source: Path, path: str | None, recursive: bool) -> None:
    """Put a file (or, with -r, a folder) at PATH of your personal space; its own name by default.

    PATH ending in / names a folder to put it into. Folders on the way are made.
    """
    target = path or source.resolve().name
    if target.endswith("/"):
        target += source.resolve().name
    if source.is_dir() and not recursive:
        raise click.UsageError(f"{source} is a folder: put it with -r")
    with client() as http:
        if source.is_dir():
            _make_folder(http, target)
            _put_folder(http, source, target)
        else:
            with progress(f"put {source.name}", source.stat().st_size) as step:
                _put_file(http, source, target, step)


def _put_file(http: Client, source: Path, target: str, step: Callable[[int], None]) -> None:
    if source.stat().st_size < _RESUMABLE_BYTES:
        http.put_file(target, source, step, parents=True)
        return
    from ..client.uploads import upload

    status = upload(http, "files", source, {"path": target}, step)
    if status["state"] == "failed":
        raise Conflict(status["problem"]["detail"])


def _put_folder(http: Client, source: Path, target: str) -> None:
    folders, found, left_out = _walk(source)
    # It has begun, so a server that is started anew meanwhile is waited for.
    for below in folders:
        http.patiently(partial(_make_folder, http, f"{target}/{below}"))
    with progress(f"put {source.name}", sum(length for _, length in found)) as step:
        run_all(
            (partial(http.patiently, partial(_put_file, http, source / b, f"{target}/{b}", step)) for b, _ in found),
            lanes=_LANES,
        )
    if left_out:
        click.echo(f"headway: {counted(left_out, 'thing')} left out: links to folders, or no file at all", err=True)


def _walk(source: Path) -> tuple[list[str], list[tuple[str, int]], int]:
    """The folders below ``source``, outer ones first; the files with their lengths in bytes; how many other things."""
    folders, found, left_out = [], [], 0
    for folder, names, file_names in os.walk(source):
        here = Path(folder)
        linked = {name for name in names if (here / name).is_symlink()}
        left_out += len(linked)
        names[:] = sorted(set(names) - linked)
        below = here.relative_to(source)
        folders += [(below / name).as_posix() for name in names]
        for name in sorted(file_names):
            if (here / name).is_file():
                found.append(((below / name).as_posix(), (here / name).stat().st_size))
            else:
                left_out += 1
    return folders, found, left_out


def _make_folder(http: Client, path: str) -> None:
    try:
        http.make_folder(path)
    except Refused as refused:
        if refused.status != 409:  # there already
            raise


@files.command("rm")
@click.argument("paths", nargs=-1, required=True)
@click.option("-r", "--recursive", is_flag=True, help="Remove a folder with all that is in it.")
@click.option("--permanent", is_flag=True, help="At once and for good, not to the trash.")
def rm(paths: tuple[str, ...], recursive: bool, permanent: bool) -> None:
    """Remove files. You can restore them from the trash for a while."""
    with client() as http:
        for path in paths:
            http.delete_file(path, recursive=recursive, permanent=permanent)


@files.command("mkdir")
@click.argument("path", shell_complete=remote_files)
def mkdir(path: str) -> None:
    """Make a folder."""
    with client() as http:
        http.make_folder(path)


@files.command("mv")
@click.argument("path", shell_complete=remote_files)
@click.argument("to")
def mv(path: str, to: str) -> None:
    """Move or rename."""
    with client() as http:
        http.move_file(path, to)


@files.command("space")
@output_option
def space(output: str) -> None:
    """Show how much your space holds, and how much it may hold."""
    with client() as http:
        found = http.space()
    if output == "json":
        print_json(found)
        return
    of = f" of {size(found['quota_bytes'])}" if found["quota_bytes"] is not None else ""
    click.echo(f"{size(found['used_bytes'])}{of} used" + (f": {found['sentence']}" if found["sentence"] else ""))


@files.group("trash")
def trash() -> None:
    """What was removed lately: list it, put it back, or remove it for good."""


@trash.command("ls")
@output_option
def trash_ls(output: str) -> None:
    """List what you can restore, and for how long."""
    with client() as http:
        found = http.trash()
    if output == "json":
        print_json(found)
        return
    rows = [
        [
            item["id"],
            "-" if item["path"] is None else safe(item["path"]) + ("/" if item["kind"] == "folder" else ""),
            size(item["size_bytes"]) if item["kind"] == "file" else "-",
            ago(item["deleted_at"]),
            span(item["expires_at"] - time.time()),
        ]
        for item in found
    ]
    if rows:
        table(["id", "was at", "size", "removed", "kept for"], rows)


@trash.command("restore")
@click.argument("ids", nargs=-1, required=True)
@output_option
def trash_restore(ids: tuple[str, ...], output: str) -> None:
    """Put removed files back where they were."""
    restored = []
    with client() as http:
        for one in ids:
            restored.append(http.restore(one))
            if output != "json":
                click.echo(safe(restored[-1]["path"]))
    if output == "json":
        print_json(restored)


@trash.command("rm")
@click.argument("ids", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that is in the trash.")
def trash_rm(ids: tuple[str, ...], everything: bool) -> None:
    """Remove for good."""
    if everything == bool(ids):
        raise click.UsageError("name what to remove, or say --all")
    with client() as http:
        for one in ids or (None,):
            http.empty_trash(one)
