"""secrets: values that the account's tasks are given; the server keeps them encrypted and shows none."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ..client.own import OwnAccount
from ..jobfile.secrets import secret_name
from ..units import BadValue
from .common import ago, client, output_option, print_json, safe, size, table

_MOST_BYTES = 64 * 1024  # as the server takes it


@click.group()
def secrets() -> None:
    """Secrets for your tasks, such as tokens and keys. A job file names them in `secrets:`."""


@secrets.command("set")
@click.argument("name")
@click.option(
    "--file",
    "source",
    type=click.Path(path_type=Path, allow_dash=True),
    help="The file whose bytes are the value; - is standard input.",
)
@output_option
def set_(name: str, source: Path | None, output: str) -> None:
    """Store a value under NAME, or replace it. It is asked for without an echo, or taken from a file or a pipe.

    Of what a pipe sends, the last line break is no part; a file is taken byte by byte.
    """
    try:
        secret_name(name)
    except BadValue as bad:
        raise click.BadParameter(bad.message, param_hint="NAME") from None
    value = _value(name, source)
    if not value:
        raise click.ClickException("the value is empty: a secret has at least one byte")
    if len(value) > _MOST_BYTES:
        raise click.ClickException("the value has more than 64 KiB, which is the most a secret may have")
    with client() as http:
        stored = OwnAccount(http).set_secret(name, value)
    if output == "json":
        print_json(stored)
        return
    only = "; it has a NUL byte, so tasks can have it as a file only" if stored["file_only"] else ""
    click.echo(
        f"{safe(name)}: stored, {size(stored['size_bytes'])}{only}. Tasks that start from now on get it.", err=True
    )


@secrets.command("list")
@output_option
def list_(output: str) -> None:
    """List your secrets, without their values."""
    with client() as http:
        found = OwnAccount(http).secrets()
    if output == "json":
        print_json(found)
    elif found:
        rows = [
            [safe(one["name"]), size(one["size_bytes"]), "file" if one["file_only"] else "any", ago(one["changed_at"])]
            for one in found
        ]
        table(["name", "size", "usable as", "changed"], rows)


@secrets.command("remove")
@click.argument("name")
def remove(name: str) -> None:
    """Forget the secret NAME. Tasks that name it and have not started fail at their start."""
    with client() as http:
        OwnAccount(http).remove_secret(name)


def _value(name: str, source: Path | None) -> bytes:
    if source is not None and str(source) != "-":
        try:
            with source.open("rb") as file:
                return file.read(_MOST_BYTES + 1)
        except OSError as error:
            raise click.ClickException(f"{source} can't be read: {error.strerror}") from None
    if sys.stdin is None:
        raise click.ClickException("standard input is closed: name a file with --file")
    if source is not None:
        return sys.stdin.buffer.read(_MOST_BYTES + 1)
    if sys.stdin.isatty():
        return str(click.prompt(f"Value of {name}", hide_input=True, err=True)).encode("utf-8", "surrogateescape")
    return sys.stdin.buffer.read(_MOST_BYTES + 2).removesuffix(b"\n").removesuffix(b"\r")
