"""nodes top: what each machine and each GPU does now."""

from __future__ import annotations

import time
from typing import Any

import click

from . import gpus as who_has
from .common import client, output_option, print_json, safe, size, table, tone
from .watching import watch


@click.command("top")
@click.argument("node_ids", nargs=-1, metavar="[NODE]...")
@click.option("--once", is_flag=True, help="Show it once and end.")
@output_option
def nodes_top(node_ids: tuple[str, ...], once: bool, output: str) -> None:
    """Watch what machines and GPUs do, every 2 seconds, until Ctrl-C.

    Of a GPU: utilisation, memory, memory copies, temperature and power; who holds it, and by when it is free. A dash
    stands for what is not measured. -o json prints it once.
    """
    with client() as http:

        def look() -> Any:
            found = http.node_list()
            if node_ids:
                for node_id in node_ids:
                    if all(node["id"] != node_id for node in found["nodes"]):
                        http.node(node_id)  # the server says that there is none
                found["nodes"] = [node for node in found["nodes"] if node["id"] in node_ids]
            return found

        if output == "json":
            print_json(look())
        elif once:
            _show(look(), with_summary=not node_ids)
        else:
            watch(look, lambda found: _show(found, with_summary=not node_ids))


def _show(found: dict[str, Any], *, with_summary: bool) -> None:
    now = time.time()
    nodes = found["nodes"]
    if nodes:
        heads = ["node", "health", "cpu", "of", "memory", "of", "disk free", "of", "load", "running", ""]
        table(heads, [_of_node(node) for node in nodes])
    cards = [_of_gpu(node, gpu, now) for node in nodes for gpu in node["gpus"]]
    if cards:
        click.echo()
        heads = [
            *("node", "gpu", "model", "use", "memory", "of", "copy", "temp", "power"),
            *("state", "task", "owner", "ends by"),
        ]
        table(heads, cards)
    for missing in found.get("missing", []):
        click.echo(safe(missing["sentence"]))
    if with_summary:
        click.echo(who_has.summary(found, now))


def _of_node(node: dict[str, Any]) -> list[object]:
    now = {} if _is_away(node) else node
    load = now.get("load1")
    notes = [safe(condition["sentence"]) for condition in node["conditions"]]
    if node["health_sentence"]:
        notes.insert(0, safe(node["health_sentence"]))
    if node["admission"] != "OPEN":
        notes.insert(0, tone(node["admission"]))
    return [
        node["id"],
        tone(node["health"]),
        _number(now.get("cpus_used")),
        f"{node['cpus']:g}",
        size(now.get("memory_used_bytes")),
        size(node["memory_bytes"]),
        size(now.get("disk_free_bytes")),
        size(node.get("disk_total_bytes")),
        "-" if load is None else f"{load:.2f}",
        node["live_attempts"],
        "; ".join(notes),
    ]


def _is_away(node: dict[str, Any]) -> bool:
    """What was read of it last is too old to be shown as what it does now."""
    return bool(node["health"] == "DOWN")


def _of_gpu(node: dict[str, Any], gpu: dict[str, Any], now: float) -> list[object]:
    readings = {} if _is_away(node) else gpu
    booking = gpu.get("booking")
    held = ["-", "-", "-"]
    if booking is not None:
        held = [who_has.task_of(booking), safe(booking["owner"]), who_has.ends_by(booking, now)]
    elif gpu["note"]:
        held[0] = safe(gpu["note"])
    return [
        node["id"],
        gpu["index"],
        safe(gpu["model"]) + (" (simulated)" if gpu["simulated"] else ""),
        _share(readings.get("utilisation")),
        size(readings.get("memory_used_bytes")),
        size(gpu["memory_bytes"]),
        _share(readings.get("memory_utilisation")),
        _number(readings.get("temperature_c"), "°C"),
        _number(readings.get("power_w"), "W"),
        who_has.state_of(gpu),
        *held,
    ]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _number(value: float | None, unit: str = "") -> str:
    if value is None:
        return "-"
    return f"{value:.0f} {unit}" if unit else f"{value:.1f}"
