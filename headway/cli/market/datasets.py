"""datasets: the data market from the command line."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from ...client import Client, Refused
from ...client.market import MarketClient
from ...units import counted
from ..common import ago, client, output_option, print_json, safe, size, table, whole_file
from ..transfer import audience, audience_in_full, print_audience, print_waits, share_changes, share_options

_POLL_S = 0.5


@click.group()
def datasets() -> None:
    """Named, versioned, read-only data; inside a task at /root/datasets/NAME."""


@datasets.command("ls")
@click.argument("query", default="")
@output_option
def ls(query: str, output: str) -> None:
    """List datasets; QUERY is part of a name or description."""
    with client() as http:
        found = MarketClient(http).datasets(query)
    if output == "json":
        print_json(found)
        return
    rows = []
    for one in found:
        ready = [v for v in one["versions"] if v["state"] == "ready"]
        newest = ready[-1] if ready else None
        rows.append(
            [
                safe(one["name"]),
                safe(newest["version"]) if newest else "-",
                size(newest["size_bytes"]) if newest else "-",
                safe(one["owner"]) or "-",
                audience(one),
                ago(newest["published_at"]) if newest else _states(one),
            ]
        )
    if rows:
        table(["name", "newest", "size", "owner", "for", "published"], rows)


@datasets.command("show")
@click.argument("name")
@output_option
def show(name: str, output: str) -> None:
    """Show one dataset with its versions and who uses it."""
    with client() as http:
        found = MarketClient(http).dataset(name)
    if output == "json":
        print_json(found)
        return
    click.echo(f"{safe(found['name'])} of {safe(found['owner']) or 'nobody'}, {safe(audience_in_full(found))}")
    if found["description"]:
        click.echo(safe(found["description"].splitlines()[0]))
    rows = [
        [
            safe(v["version"]),
            v["state"],
            size(v["size_bytes"]),
            "-" if v["files"] is None else v["files"],
            v["method"] or "-",
            v["checksum"] or "-",
            safe(v["problem"] or ""),
        ]
        for v in found["versions"]
    ]
    table(["version", "state", "size", "files", "stored as", "checksum", ""], rows)
    for use in found["used_by"]:
        click.echo(f"used by {safe(use['account'])} in {counted(use['jobs'], 'job')}, last {ago(use['last_used_at'])}")


@datasets.command("publish")
@click.argument("name")
@click.argument("path")
@click.option("--version", help="1, 2, 3 … unless given.")
@click.option("--description", help="Markdown.")
@click.option("--public/--private", "public", default=None, help="For everybody who signs in; private unless given.")
@click.option("--copy", is_flag=True, help="Copy the bytes where they can't be shared with your space.")
@click.option("--no-wait", is_flag=True, help="Return at once; `datasets show` tells how far it is.")
@output_option
def publish(name: str, path: str, no_wait: bool, output: str, **fields: Any) -> None:
    """Publish the folder PATH of your personal space as a new version of the dataset NAME."""
    fields["copy"] = fields["copy"] or None
    with client() as http:
        market = MarketClient(http)
        before = _versions(market, name)
        found = market.publish(name=name, path=path, **fields)
        version = fields["version"] or next(v["version"] for v in found["versions"] if v["version"] not in before)
        if not no_wait:
            found = _published(market, http, name, version)
    if output == "json":
        print_json(found)
    elif no_wait:
        click.echo(f"{safe(name)}@{safe(version)}")
    else:
        done = next(v for v in found["versions"] if v["version"] == version)
        click.echo(f"{safe(name)}@{safe(version)}: {counted(done['files'], 'file')}, {size(done['size_bytes'])}")


def _versions(market: MarketClient, name: str) -> set[str]:
    try:
        return {v["version"] for v in market.dataset(name)["versions"]}
    except Refused as refused:
        if refused.status != 404:
            raise
        return set()


def _published(market: MarketClient, http: Client, name: str, version: str) -> dict[str, Any]:
    from ...errors import Conflict

    told = -1
    while True:
        found = http.patiently(lambda: market.dataset(name))
        one = next((v for v in found["versions"] if v["version"] == version), None)
        if one is None or one["state"] == "failed":
            why = one["problem"] if one else "it was deleted meanwhile"
            raise Conflict(f"{name}@{version} was not published: {why}")
        if one["state"] == "ready":
            return found
        percent = int(100 * (one["progress"] or 0))
        if percent != told and sys.stderr.isatty():
            click.echo(f"\rpublishing {safe(name)}@{safe(version)}: {percent} %", err=True, nl=False)
            told = percent
        time.sleep(_POLL_S)


@datasets.command("share")
@click.argument("name")
@share_options
@output_option
def share(name: str, output: str, **options: Any) -> None:
    """Say who may use a dataset of yours."""
    with client() as http:
        market = MarketClient(http)
        found = market.change_dataset(name, share_changes(market.dataset(name), options))
    print_audience(found, found["name"], output)


@datasets.command("rm")
@click.argument("name")
@click.option("--wait", is_flag=True, help="If jobs still use it: off the lists now, its data deleted when they end.")
@output_option
def rm(name: str, wait: bool, output: str) -> None:
    """Remove a dataset of yours, or one version: NAME@VERSION."""
    name, at, version = name.partition("@")
    if at and not version.strip():
        raise click.UsageError(f"{name}@ names no version; without the @ all of them are meant")
    with client() as http:
        answer = MarketClient(http).delete_dataset(name, version, wait=wait)
    print_waits(answer, "its data goes", output)


@datasets.command("checksums")
@click.argument("name")
@click.option("--file", "place", type=click.Path(path_type=Path), help="Write them here instead of standard output.")
def checksums(name: str, place: Path | None) -> None:
    """Print the checksums of NAME@VERSION as `sha256sum --check` reads them."""
    name, _, version = name.partition("@")
    if not version:
        raise click.UsageError("say which version: NAME@VERSION")
    with client() as http:
        if place is None:
            MarketClient(http).checksums(name, version, sys.stdout.buffer)
            return
        with whole_file(place) as file:
            MarketClient(http).checksums(name, version, file)


def _states(found: dict[str, Any]) -> str:
    return ", ".join(sorted({v["state"] for v in found["versions"]})) or "-"
