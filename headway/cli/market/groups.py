"""groups: who belongs together, so that images and datasets can be shared with all of them at once."""

from __future__ import annotations

from typing import Any

import click

from ...client.market import MarketClient
from ..common import client, output_option, print_json, safe, table


@click.group()
def groups() -> None:
    """Groups of accounts, for sharing. Everybody can list them; only admins change them."""


@groups.command("ls")
@output_option
def ls(output: str) -> None:
    """List groups with their members."""
    with client() as http:
        found = MarketClient(http).groups()
    if output == "json":
        print_json(found)
    else:
        table(["name", "members"], [[safe(g["name"]), safe(", ".join(g["members"])) or "-"] for g in found])


@groups.command("create")
@click.argument("name")
@click.argument("members", nargs=-1)
@output_option
def create(name: str, members: tuple[str, ...], output: str) -> None:
    """Make a group NAME of MEMBERS."""
    with client() as http:
        _told(MarketClient(http).create_group(name, list(members)), output)


@groups.command("add")
@click.argument("name")
@click.argument("members", nargs=-1, required=True)
@output_option
def add(name: str, members: tuple[str, ...], output: str) -> None:
    """Take MEMBERS into the group NAME."""
    with client() as http:
        _told(MarketClient(http).change_group(name, add=list(members), remove=[]), output)


@groups.command("remove")
@click.argument("name")
@click.argument("members", nargs=-1, required=True)
@output_option
def remove(name: str, members: tuple[str, ...], output: str) -> None:
    """Take MEMBERS out of the group NAME."""
    with client() as http:
        _told(MarketClient(http).change_group(name, add=[], remove=list(members)), output)


@groups.command("rm")
@click.argument("name")
def rm(name: str) -> None:
    """Remove a group. Its members lose access to what was shared with it."""
    with client() as http:
        MarketClient(http).delete_group(name)


def _told(group: dict[str, Any], output: str) -> None:
    if output == "json":
        print_json(group)
    else:
        click.echo(f"{safe(group['name'])}: {safe(', '.join(group['members'])) or 'nobody'}")
