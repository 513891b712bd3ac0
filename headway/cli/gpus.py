"""gpus: who holds each GPU, and what is free. Also the words for it that other commands share."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from ..units import counted
from .common import ago, client, output_option, print_json, safe, size, table
from .start_times import clock

# Word of the API: as people read it.
_STATES: Final[Mapping[str, str]] = {"busy_outside": "busy outside", "shared": "shared", "sick": "faulty"}


@click.group(invoke_without_command=True)
@output_option
@click.pass_context
def gpus(ctx: click.Context, output: str) -> None:
    """Show each GPU: who holds it, since when, and by when it is free at the latest.

    A booked GPU is kept for its task, whether or not it is in use; USE is what was measured. A free GPU may be kept for
    a task that waits: see `headway queue`. Admins can return a GPU that was taken out for a fault.
    """
    if ctx.invoked_subcommand is None:
        _show(output)
    elif output != "table":
        raise click.UsageError(f"write -o {output} behind {ctx.invoked_subcommand}")


@gpus.command("return")
@click.argument("node_id", metavar="NODE")
@click.argument("gpu", metavar="GPU")
@click.option("--gone", is_flag=True, help="It was taken out of the machine for good: show it no longer.")
@output_option
def return_gpu(node_id: str, gpu: str, gone: bool, output: str) -> None:
    """Give out a GPU again that was taken out for a fault (admins).

    It is looked at first, and stays out if it is not clean. GPU is its UUID, or its number on the machine, as `headway
    nodes show NODE` has both. That says what is wrong with it, too.
    """
    with client() as http:
        uuid = _numbered(http.node_list()["nodes"], node_id, int(gpu)) if gpu.isascii() and gpu.isdigit() else gpu
        answer = http.return_gpu(node_id, uuid, gone=gone)
    if output == "json":
        print_json(answer)
    else:
        click.echo(safe(answer["sentence"]))


def _numbered(nodes: Sequence[Mapping[str, Any]], node_id: str, number: int) -> str:
    """The UUID of the GPU with this number."""
    found = [gpu["uuid"] for node in nodes if node["id"] == node_id for gpu in node["gpus"] if gpu["index"] == number]
    if len(found) == 1:
        return str(found[0])
    if found:
        raise click.ClickException(f"{len(found)} GPUs of {node_id} have the number {number}: name one by its UUID")
    raise click.ClickException(f"{node_id} has no GPU {number}: `headway nodes ls` and `headway nodes show` list them")


def _show(output: str) -> None:
    with client() as http:
        found = http.node_list()
    if output == "json":
        print_json(found)
        return
    now = time.time()
    rows = [row for node in found["nodes"] for gpu in node["gpus"] for row in _rows(node, gpu, now)]
    if rows:
        table(["node", "gpu", "model", "state", "use", "task", "owner", "since", "ends by", "job"], rows)
    for line in outside_lines(found["nodes"]):
        click.echo(line)
    for node in found["nodes"]:
        closed = (node.get("booked") or {}).get("closed")
        if closed and node["gpus"]:
            click.echo(f"! {safe(closed)}")
    click.echo(summary(found, now))


def _rows(node: dict[str, Any], gpu: dict[str, Any], now: float) -> list[list[object]]:
    """A row for a GPU; of one that is shared, one for each task on it and one for what is free."""
    rows = [_row(node, {**gpu, "booking": share}, now) for share in gpu.get("shares") or []]
    for row, share in zip(rows, gpu.get("shares") or [], strict=True):
        row[5] = f"{row[5]} ({size(share['resources']['gpu_share_bytes'])})"
    if gpu.get("free_share_bytes") and gpu.get("state") in ("free", "shared"):
        free = f"{size(gpu['free_share_bytes'])} of it free for shares"
        return [*rows, _row(node, {**gpu, "note": gpu["note"] or free}, now)]
    return rows or [_row(node, gpu, now)]


def _row(node: dict[str, Any], gpu: dict[str, Any], now: float) -> list[object]:
    booking = gpu.get("booking")
    use = gpu.get("utilisation")
    label = safe(gpu["model"]) + (" (simulated)" if gpu["simulated"] else "")
    start = [node["id"], gpu["index"], label, state_of(gpu), "-" if use is None else f"{use:.0%}"]
    if booking is None:
        return [*start, "-", "-", "-", "-", safe(gpu["note"])]
    held = [task_of(booking), safe(booking["owner"]), ago(booking["since_at"], now), ends_by(booking, now)]
    return [*start, *held, safe(booking["job_name"])]


def state_of(gpu: dict[str, Any]) -> str:
    """What it is good for now, in a word or two."""
    state = gpu.get("state") or ("sick" if gpu["sick"] else "busy_outside" if gpu["busy_outside"] else "unknown")
    return "booked, faulty" if state == "booked" and gpu["sick"] else _STATES.get(state, state)


def outside_lines(nodes: list[dict[str, Any]]) -> list[str]:
    """What runs on cards without Headway, a line for each process."""
    return [
        f"! GPU {gpu['index']} of {node['id']}: {process_words(one)}"
        for node in nodes
        for gpu in node["gpus"]
        for one in gpu.get("processes") or []
    ]


def process_words(process: dict[str, Any]) -> str:
    """A process on a GPU that Headway did not start."""
    what = safe(process["command"]) or "a process"
    by = f" of {safe(process['owner'])}" if process["owner"] else ""
    held = process["memory_used_bytes"]
    used = "" if held is None else f", {size(held)}"
    return f"{what}{by} (process {process['pid']}{used}) runs on it without Headway"


def task_of(booking: dict[str, Any]) -> str:
    """The task as other commands take it."""
    return f"{booking['job_id']}/{booking['task']}"


def ends_by(booking: dict[str, Any], now: float) -> str:
    """By when all that it holds is free."""
    return "overdue" if booking["overdue"] else clock(booking["ends_by_at"], now)


def summary(found: dict[str, Any], now: float) -> str:
    """What is free now and when the next GPU is, in a sentence."""
    if not found["nodes"]:
        return "no machine has registered yet"
    told = found.get("gpus")
    if told is None:
        return "this server is too old to tell who holds the GPUs"
    if told["total"] == 0:
        return "no machine has a GPU"
    if told["free"] is None:
        sentences = " ".join(safe(one["sentence"]) for one in found["missing"])
        return f"{counted(told['total'], 'GPU')}. {sentences}"
    parts = [f"{told['free']} of {counted(told['total'], 'GPU')} free"]
    if told["unusable"]:
        parts.append(f"{told['unusable']} can't be used now")
    if told["next_free_at"] is not None:
        parts.append(f"the next is free at {clock(told['next_free_at'], now)} at the latest")
    return "; ".join(parts)
