"""nodes drain, replace, forget: a machine is emptied, comes back, or leaves."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import click

from ..client.errors import Refused
from ..client.http import Client
from ..errors import Conflict
from ..units import BadValue, counted, parse_duration
from ..when import parse_ahead
from . import gpus as who_has
from .common import ago, client, output_option, print_json, safe, tone
from .start_times import clock

_EVERY_S = 2.0
_SHOWN = 10


def _duration(ctx: click.Context, option: click.Parameter, text: str | None) -> float | None:
    return _read(text, parse_duration)


def _ahead(ctx: click.Context, option: click.Parameter, text: str | None) -> float | None:
    return _read(text, lambda one: parse_ahead(one, time.time()))


def _read(text: str | None, parse: Callable[[str], float]) -> float | None:
    if text is None:
        return None
    try:
        return parse(text)
    except BadValue as error:
        raise click.BadParameter(error.message) from None


@click.command("drain")
@click.argument("node_id")
@click.option("--deadline", "within_s", callback=_duration, help="What still runs after that, say 2h, goes elsewhere.")
@click.option("--until", "until_at", callback=_ahead, help="The same as a time, such as 2026-11-01T14:30Z.")
@click.option("--no-deadline", is_flag=True, help="Take a deadline back: all ends by itself.")
@click.option("--reason", "--note", "note", default="", help="The reason, shown to everybody.")
@click.option("--return-when-back", is_flag=True, help="Open it by itself once the machine was restarted.")
@click.option("--return-at", callback=_ahead, help="Open it by itself then: 2h, or 2026-11-01T14:30Z.")
@click.option("--wait", is_flag=True, help="Show how far it is, and end once the machine is empty.")
@click.option("--dry-run", is_flag=True, help="Only show what would be touched.")
@click.option("-y", "--yes", is_flag=True, help="Don't ask, though tasks would wait for this machine.")
@output_option
def drain(
    node_id: str, within_s: float | None, until_at: float | None, no_deadline: bool, note: str, return_when_back: bool,
    return_at: float | None, wait: bool, dry_run: bool, yes: bool, output: str,
) -> None:  # fmt: skip
    """Start no new work on a machine and let what runs there end; it is DRAINED then.

    Without a deadline nothing that runs is interrupted. With one, what still runs then is stopped with its grace, and
    its task is run again on another machine. That costs the task no retry, and its owner is told at once.
    """
    if sum((within_s is not None, until_at is not None, no_deadline)) > 1:
        raise click.UsageError("name one of --deadline, --until and --no-deadline")
    wish: dict[str, Any] = {"note": note}
    if within_s is not None:
        wish["within_s"] = within_s
    if until_at is not None or no_deadline:
        wish["until_at"] = until_at or 0.0
    if return_when_back:
        wish["return_when_back"] = True
    if return_at is not None:
        wish["return_at"] = return_at
    with client() as http:
        touched = http.preview_drain(node_id)
        if dry_run:
            if output == "json":
                print_json(touched)
            else:
                _show_touched(node_id, touched)
            return
        if touched["total_stranded"] and not yes and output != "json" and sys.stdin.isatty():
            _show_touched(node_id, touched)
            click.confirm(f"Empty {node_id} all the same?", abort=True)
        node = http.drain_node(node_id, wish)
        if output != "json":
            click.echo(f"{node['id']}: {tone(node['admission'])}")
            if node["changed"]:
                click.echo(safe(node["changed"]))
            if touched["total_stranded"]:
                waits = counted(touched["total_stranded"], "waiting task")
                click.echo(f"{waits} can run nowhere else now")
        if wait:
            node = _wait(http, node_id, quiet=output == "json")
        if output == "json":
            print_json(node)


def _show_touched(node_id: str, touched: dict[str, Any]) -> None:
    click.echo(f"{counted(touched['total_running'], 'task')} running on {node_id}")
    now = time.time()
    for one in touched["running"][:_SHOWN]:
        click.echo(f"  {who_has.task_of(one)}, {safe(one['owner'])}, ends by {who_has.ends_by(one, now)}")
    if touched["total_stranded"]:
        click.echo(f"{counted(touched['total_stranded'], 'waiting task')} could run nowhere else:")
        for one in touched["stranded"][:_SHOWN]:
            click.echo(f"  {one['job_id']}/{safe(one['task'])}, {safe(one['owner'])}")
    else:
        click.echo("no waiting task needs this machine")


def progress(node: dict[str, Any], now: float) -> str:
    """How far a drain is, in a line."""
    drain = node["drain"]
    if drain is None:
        return f"{node['id']}: {node['admission']}"
    left, first = drain["attempts_left"], max(drain["attempts_at_start"], drain["attempts_left"])
    told = f"{node['id']}: {node['admission']}, {left} of {first} left"
    if left and drain["last_ends_by_at"] is not None:
        told += f", the last ends by {clock(drain['last_ends_by_at'], now)}"
    if drain["until_at"] is not None:
        told += f"; deadline {clock(drain['until_at'], now)}"
    if drain["return_when_back"]:
        told += "; opens after a restart of the machine"
    if drain["return_at"] is not None:
        told += f"; opens at {clock(drain['return_at'], now)}"
    return told


def _wait(http: Client, node_id: str, *, quiet: bool) -> dict[str, Any]:
    """Until the machine is empty.

    Raises:
        Conflict: somebody has ended the drain meanwhile.
    """
    told = ""
    while True:
        node = http.node(node_id)
        line = progress(node, time.time())
        if line != told and not quiet:
            click.echo(line)
            told = line
        if node["admission"] == "DRAINED":
            return node
        if node["admission"] != "DRAINING":
            last = safe(node["events"][-1]["sentence"]) if node["events"] else ""
            raise Conflict(f"{node_id} is not being emptied any more: it is {node['admission']}. {last}".strip())
        time.sleep(_EVERY_S)


@click.command("replace")
@click.argument("node_id")
def replace(node_id: str) -> None:
    """Let a machine that was set up anew take this name at once.

    Without that its worker waits until the old one is DOWN, since its state folder is another one.
    """
    with client() as http:
        http.replace_node(node_id)
    click.echo(f"{node_id}: the next worker of this name takes over, unless the old one still answers elsewhere")


@click.command("forget")
@click.argument("node_id")
@click.option("--wait", is_flag=True, help="Wait until its worker, which was stopped, counts as silent.")
def forget(node_id: str, wait: bool) -> None:
    """Take a machine off the list that will not come back, with its history. Stop its worker before."""
    with client() as http:
        while True:
            try:
                http.forget_node(node_id)
                break
            except Refused as error:
                if not wait or error.kind is not Conflict:
                    raise
                time.sleep(_EVERY_S)
    click.echo(f"{node_id}: forgotten")


def shown_events(node: dict[str, Any]) -> list[str]:
    """What happened to a machine, a line each."""
    return [f"{ago(event['at'])}: {safe(event['sentence'])}" for event in node.get("events", [])]
