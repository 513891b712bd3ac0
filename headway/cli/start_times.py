"""When waiting tasks start, in words; and `headway queue preview`: when tasks would start that nobody has submitted."""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import click

from ..units import counted
from .common import client, moment, output_option, print_json, safe, span, table
from .foreign import job_text

_MOST_VARIANTS = 20
_SHOWN = 10


def starts_about(start: dict[str, Any], now: float) -> str:
    """The estimated start of a queue entry, of a task's place or of a preview; `~` marks a rough one."""
    at = start["estimated_start_at"]
    if start.get("at_once"):
        return "at once"
    if at is None:
        return "-"
    rough = "~" if start["estimate_rough"] else ""
    return f"{rough}{clock(at, now)} (in {rough}{span(round(at - now))})"


def promised(start: dict[str, Any], now: float) -> str:
    """No later than when it starts."""
    return "-" if start["promised_start_at"] is None else clock(start["promised_start_at"], now)


def _promise(start: dict[str, Any], now: float) -> str:
    """The same for what nobody has submitted, or from when on it could be promised."""
    if start["promised_start_at"] is None and start["promise_from_at"] is not None:
        return f"after {clock(start['promise_from_at'], now)}"
    return promised(start, now) if start["promised_start_at"] is None else f"by {promised(start, now)}"


def clock(at: float, now: float) -> str:
    """An instant by this machine's clock with its zone, without the day where it is today."""
    same_day = time.localtime(at)[:3] == time.localtime(now)[:3]
    return moment(at, "%H:%M:%S" if same_day else "%Y-%m-%d %H:%M")


def place_line(place: dict[str, Any], now: float) -> str:
    """When a waiting task starts, as a sentence; empty where nobody can tell."""
    if place["estimated_start_at"] is None:
        return ""
    line = f"starts about {starts_about(place, now)}"
    if place["estimate_rough"]:
        line += ", a rough estimate"
    if place["promised_start_at"] is not None:
        line += f", no later than {promised(place, now)}"
        first = place.get("first_promised_start_at")
        line += "" if first is None else f" (promised first: {clock(first, now)})"
    else:
        line += "; no start is promised now"
    return line


def print_preview(preview: dict[str, Any] | None) -> None:
    """When the tasks of a job would start."""
    if preview is None:
        click.echo("when it would start is not known: the queue can't be asked now")
        return
    for start in preview["starts"][:_SHOWN]:
        click.echo(f"{start['task']}: {safe(start['sentence'])}")
        if start["waits"] and not start["refused"]:
            click.echo(f"  {safe(start['waits'][0]['sentence'])}")
    more = preview["queued_count"] - min(len(preview["starts"]), _SHOWN)
    if more > 0:
        click.echo(f"(and {counted(more, 'more task')} in the queue at once; -o json shows all)")
    later = preview["after_needs_count"]
    if later:
        names = ", ".join(preview["after_needs"][:5]) + (" …" if later > 5 else "")
        click.echo(
            f"after the tasks that it needs: {names}"
            if later == 1
            else f"{later} tasks after those that they need: {names}"
        )


@click.command("preview")
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--timeout", "timeouts", help="Timeouts to compare, for instance 10m,1h,1d.")
@click.option("--gpus", default="0", show_default=True, help="Numbers of GPUs to compare, for instance 1,2,4.")
@click.option("--gpu-model", multiple=True, help="Any of these models; may be given several times.")
@click.option("--cpus", help="For instance 2 or 0.5; 1 unless given.")
@click.option("--memory", help="For instance 4GiB; 2GiB unless given.")
@click.option("--priority", type=click.Choice(["low", "normal", "high"]), default="normal", show_default=True)
@output_option
def preview_command(
    file: str | None,
    timeouts: str | None,
    gpus: str,
    gpu_model: tuple[str, ...],
    cpus: str | None,
    memory: str | None,
    priority: str,
    output: str,
) -> None:
    """Show when tasks would start if they were submitted now. Nothing is stored.

    Name a job FILE (- for standard input). Or compare every timeout with every number of GPUs:

    \b
      headway queue preview --timeout 10m,1h,1d --gpus 1,2
    """
    if (file is None) == (timeouts is None):
        raise click.UsageError("name a job FILE, or timeouts to compare, for instance --timeout 10m,1h")
    with client() as http:
        if file is not None:
            answer = http.preview(
                job_text(file), media="application/json" if file.endswith(".json") else "application/yaml"
            )
        else:
            asked = {"gpu_model": list(gpu_model), "cpus": _number("--cpus", cpus), "memory": memory}
            shared = {key: value for key, value in asked.items() if value} | {"priority": priority}
            answer = http.preview_variants(_variants(timeouts or "", gpus, shared))
    if output == "json":
        print_json(answer)
    elif file is not None:
        print_preview(answer)
    else:
        _print_variants(answer)


def _variants(timeouts: str, gpus: str, shared: dict[str, Any]) -> list[dict[str, Any]]:
    pairs = list(product(_words(timeouts), (_number("--gpus", word, whole=True) for word in _words(gpus))))
    if not 0 < len(pairs) <= _MOST_VARIANTS:
        raise click.UsageError(
            f"timeouts times numbers of GPUs make {len(pairs)} rows; 1 to {_MOST_VARIANTS} may be asked"
        )
    return [{"timeout": timeout, "gpus": count, **shared} for timeout, count in pairs]


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _number(option: str, text: str | None, *, whole: bool = False) -> float | int | None:
    if text is None:
        return None
    try:
        return int(text) if whole else float(text)
    except ValueError:
        kind = "whole numbers such as 1,2" if whole else "a number such as 2 or 0.5"
        raise click.BadParameter(f"{option} is {kind}, not {text!r}") from None


def _print_variants(answer: dict[str, Any]) -> None:
    now = answer["at"]
    click.echo(
        f"{answer['total_waiting']} waiting, {answer['total_running']} running; if submitted at {clock(now, now)}:"
    )
    rows = [
        [
            span(start["timeout_s"]),
            start["resources"]["gpus"],
            start["position"] or "-",
            "never" if start["refused"] else starts_about(start, now),
            _promise(start, now),
            safe(start["refused"] or (start["waits"][0]["sentence"] if start["waits"] else "")),
        ]
        for start in answer["starts"]
    ]
    table(["timeout", "gpus", "place", "starts about", "promise", "why"], rows)
    click.echo('promise: the task starts by this time; "after": none can be given before that time; "-": none now')
