"""metrics: what a task uses and used, as small plots, a table of all samples, or as it comes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from ..client import Client, Refused
from ..client.samples import SampleClient
from ..errors import HeadwayError
from ..units import counted, format_cpus, round_duration, round_size
from .common import Reference, ReferenceType, client, moment, output_option, print_json, safe, size, span, whole_file

_WIDTH = 48  # points of a small plot
_LEVELS = "▁▂▃▄▅▆▇█"
_PLAIN_LEVELS = "_.-=+*%#"
# What a small plot shows of each column: its name, and how its values are written.
_SHOWN = {
    "cpu_used": "CPUs in use",
    "memory_bytes": "memory",
    "disk_read_bytes_per_s": "disk read",
    "disk_written_bytes_per_s": "disk written",
    "network_received_bytes_per_s": "network in",
    "network_sent_bytes_per_s": "network out",
    "utilisation": "utilisation",
    "memory_utilisation": "memory copy",
    "memory_used_bytes": "memory",
    "temperature_c": "temperature",
    "power_w": "power",
}


@click.command()
@click.argument("reference", type=ReferenceType(3))
@click.option(
    "--csv",
    "table",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Write every sample to this file; - for standard output.",
)
@click.option("-f", "--follow", is_flag=True, help="Print samples as they come, until its end.")
@output_option
def metrics(reference: Reference, table: Path | None, follow: bool, output: str) -> None:
    """Show what a task (ID/TASK) uses or used: CPU, memory, disk, network, and each of its GPUs.

    The latest attempt counts unless you name another: ID/TASK/2. A job with one task needs no /TASK. With -o json and
    --follow each line is one event.
    """
    if table is not None and (follow or output != "table"):
        raise click.UsageError("--csv writes every sample that there is: it goes without --follow and -o")
    with client() as http:
        job_id = http.meant(reference.job)
        samples = SampleClient(http, job_id, reference.task or _only_task(http, job_id), reference.attempt)
        if table is not None:
            write_file(samples, "csv", table)
        elif follow:
            _follow(samples, output)
        elif output == "json":
            print_json(samples.points())
        else:
            for line in lines_of(samples.points(points=_WIDTH)):
                click.echo(line)


def write_file(samples: SampleClient, form: str, place: Path) -> None:
    """The samples as ``csv``, or plots as ``svg``, in a file that is whole or not there."""
    try:
        with whole_file(place) as file:
            samples.write(form, file)
    except OSError as error:
        raise click.ClickException(f"{place} can't be written: {error.strerror}.") from error


def only_task(job: dict[str, Any], named: str) -> str:
    """The task that was named, or the job's only one."""
    tasks = job["tasks"]
    if named or len(tasks) == 1:
        return str(named or tasks[0]["name"])
    raise click.UsageError(f"the job has {counted(len(tasks), 'task')}: name one of them, {job['id']}/TASK")


def _only_task(http: Client, job_id: str) -> str:
    return only_task(http.job(job_id, attempts=False), "")


def seen(http: Client, job_id: str, task: str) -> Any:
    """Samples and asked against used of the latest attempt, thinned for small plots. None: an older server, a task
    that has not started, or somebody else's; what was asked for is shown without them."""
    try:
        return SampleClient(http, job_id, task).points(points=_WIDTH)
    except Refused:
        return None
    except HeadwayError as error:
        click.echo(f"(not complete: {safe(error.message)})", err=True)
        return None


# -- as text ----------------------------------------------------------------------------------------


def lines_of(found: Any) -> Iterator[str]:
    """Small plots and the efficiency card."""
    if not found["samples"]:
        yield safe(found["sentence"] or "Nothing was measured.")
    else:
        every, begun = span(found["every_s"]), moment(found["began_at"])
        yield f"attempt {found['attempt']}: {counted(found['samples'], 'sample')}, one every {every}, from {begun} on"
        if found["sentence"]:
            yield safe(found["sentence"])
        yield ""
        yield from plot_lines(found)
    yield from card_lines(found)


def plot_lines(found: Any) -> Iterator[str]:
    """A line for each column that was measured: mean, maximum, and how it went."""
    gpus = found.rows("gpus")
    last: int | None = None
    yield f"{'':<16}{'MEAN':>12}{'MOST':>12}"
    for column in found.rows("columns"):
        gpu, means = column.get("gpu"), [value for value in column["mean"] if value is not None]
        if not means or column["name"] not in _SHOWN:
            continue
        if gpu is not None and gpu != last and gpu < len(gpus):
            simulated = " (simulated)" if gpus[gpu]["simulated"] else ""
            yield f"GPU {gpu}, {safe(gpus[gpu]['model']) or 'unknown'}{simulated}"
        last = gpu
        most = max(value for value in (*column["max"], *means) if value is not None)
        mean, top = (_written(value, column["unit"]) for value in (sum(means) / len(means), most))
        name = ("  " if gpu is not None else "") + _SHOWN[column["name"]]
        yield f"{name:<16}{mean:>12}{top:>12}  {spark(column['mean'], 1.0 if column['unit'] == 'share' else 0.0)}"


def card_lines(found: Any) -> Iterator[str]:
    """Asked against used, and what to ask for next time."""
    card = found.get("efficiency")
    if card is None or not card.rows("rows"):
        return
    yield ""
    yield "asked against used" + ("" if card["final"] else ", so far")
    for row in card.rows("rows"):
        yield f"  {row['share']:>4.0%} {safe(row['resource']).replace('_', ' '):<16} {safe(row['sentence'])}"
    for sentence in card["sentences"]:
        yield f"  {safe(sentence)}"
    if wish := _wish(card.part("suggested")):
        yield f"  next time: {wish}"


def _wish(suggested: Any) -> str:
    """As a job file says it."""
    parts = []
    if (timeout_s := suggested.get("timeout_s")) is not None:
        parts.append(f"timeout={round_duration(timeout_s)}")
    if (cpus := suggested.get("cpus")) is not None:
        parts.append(f"cpus={format_cpus(round(cpus * 100))}")
    for name, key in (("memory", "memory_bytes"), ("gpu_memory", "gpu_memory_bytes")):
        if (amount := suggested.get(key)) is not None:
            parts.append(f"{name}={round_size(amount)}")
    if (gpus := suggested.get("gpus")) is not None:
        parts.append(f"gpus={gpus}")
    return " ".join(parts)


def spark(values: Sequence[float | None], top: float = 0.0) -> str:
    """A plot of one line; a blank where nothing was measured."""
    levels = _LEVELS if _can_show(_LEVELS) else _PLAIN_LEVELS
    highest = max((value for value in values if value is not None), default=0.0)
    ceiling = max(highest, top)
    return "".join(_level(value, ceiling, levels) for value in values).rstrip()


def _level(value: float | None, ceiling: float, levels: str) -> str:
    if value is None:
        return " "
    share = value / ceiling if ceiling > 0 else 0.0
    return levels[min(len(levels) - 1, max(0, int(share * len(levels))))]


def _can_show(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _written(value: float, unit: str) -> str:
    if unit == "share":
        return f"{value:.0%}"
    if unit.startswith("bytes"):
        return size(value) + ("/s" if unit.endswith("/s") else "")
    if unit == "celsius":
        return f"{value:.0f} °C" if _can_show("°") else f"{value:.0f} C"
    return f"{value:.0f} W" if unit == "watt" else f"{value:.2f}"


# -- as they come -----------------------------------------------------------------------------------


def _follow(samples: SampleClient, output: str) -> None:
    columns: list[Any] = []
    for name, event in samples.follow():
        if output == "json":
            click.echo(json.dumps({"event": name, **event}, ensure_ascii=False))
        elif name == "head":
            columns = event.rows("columns")
        elif name == "sample":
            click.echo(
                f"{moment(event['at'], '%H:%M:%S').partition(' ')[0]}  {_line(columns, event.get('values') or [])}"
            )
        elif name == "end" and event["sentence"]:
            click.echo(safe(event["sentence"]), err=True)


def _line(columns: Sequence[Any], values: Sequence[float | None]) -> str:
    """What people look at: CPUs, memory, and of each GPU how busy it is, its memory, temperature and power."""
    parts, last = [], None
    for column, value in zip(columns, values, strict=False):
        gpu, name = column.get("gpu"), column["name"]
        if value is None or name.endswith("_per_s") or name not in _SHOWN:
            continue
        text = _written(value, column["unit"])
        if gpu is not None and gpu != last:
            parts.append(f"| GPU {gpu}:")
        last = gpu
        parts.append(f"{text} CPUs" if name == "cpu_used" else f"{text} copy" if name == "memory_utilisation" else text)
    return "  ".join(parts)
