"""usage: what was used over a span of time; past runs as a trace for simulate."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

import click

from ..client import Client
from ..client.usage import UsageClient
from ..units import counted
from ..when import BadSpan, parse_span
from .common import client, output_option, print_json, safe, span, table, whole_file
from .transfer import progress

_BY = ("user", "group", "day", "job", "node")
_FORMS = "2026-11-01 (UTC), 2026-11-01T14:30Z, or 7d (ago)"


@click.command()
@click.option("--by", type=click.Choice(_BY), help="What each row sums up.")
@click.option("--from", "begin", metavar="DATE", default="", help=f"{_FORMS}. Default: 30 days before the end.")
@click.option(
    "--to", "end", metavar="DATE", default="", help="The end, in the same form; not part of the span. Default: now."
)
@click.option("--user", metavar="NAME", default="", help="Usage of this account only.")
@click.option("--all", "everybody", is_flag=True, help="Usage of all accounts.")
@click.option("-n", "--limit", type=click.IntRange(0), default=100, show_default=True, help="Rows; 0 for all.")
@click.option(
    "--trace",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Write past runs as CSV for `headway simulate --trace`; - for standard output.",
)
@click.option(
    "--csv",
    "csv_file",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Write all rows and all numbers as CSV; - for standard output.",
)
@click.option("--daily", is_flag=True, help="With --csv: rows for each day (UTC).")
@output_option
@click.pass_context
def usage(
    ctx: click.Context,
    by: str | None,
    begin: str,
    end: str,
    user: str,
    everybody: bool,
    limit: int,
    trace: Path | None,
    csv_file: Path | None,
    daily: bool,
    output: str,
) -> None:
    """Show usage: GPU, CPU and memory hours, waiting times, and how much of the booked time was used or wasted.

    GPU hours are wasted by attempts that failed, were lost, timed out or ran out of memory, and by booked GPUs that did
    nothing.

    It is your own unless you say --all, or --by user or group. Only admins get others' runs in a trace.
    """
    if user and everybody:
        raise click.UsageError("--user NAME and --all exclude each other")
    try:
        parse_span(begin, end, time.time())
    except BadSpan as error:
        raise click.BadParameter(f"{error.message}.", param_hint=f"'--{error.field}'") from error
    if csv_file is not None and trace is not None:
        raise click.UsageError("--csv FILE and --trace FILE exclude each other")
    if daily and (csv_file is None or by == "day"):
        raise click.UsageError("--daily goes with --csv FILE, and with any --by but day")
    if csv_file is not None and (output != "table" or _given(ctx, "limit")):
        raise click.UsageError("--csv writes all rows: it goes without -n and -o")
    if trace is not None:
        if by or output != "table" or _given(ctx, "limit"):
            raise click.UsageError("--trace writes single runs as CSV: it goes without --by, -n and -o")
        with client() as http:
            _write_trace(http, trace, begin=begin, end=end, user=user, everybody=everybody)
        return
    whose = user or ("" if everybody or by in ("user", "group") else "me")
    with client() as http:
        if csv_file is not None:
            _write_csv(http, csv_file, by=by or "user", begin=begin, end=end, user=whose, daily=daily)
            return
        found = UsageClient(http).sums(by=by or "user", begin=begin, end=end, user=whose, most=limit)
    if output == "json":
        print_json(found)
    elif by is None and whose:
        _print_one(found)
    else:
        _print_rows(found)


def _given(ctx: click.Context, option: str) -> bool:
    return ctx.get_parameter_source(option) is click.core.ParameterSource.COMMANDLINE


# -- sums -------------------------------------------------------------------------------------------


def _print_one(found: dict[str, Any]) -> None:
    sums = found["total"]
    click.echo(_heading(found))
    if not sums["attempts"]:
        click.echo("nothing ran")
        return
    attempts = counted(sums["attempts"], "attempt")
    booked = _booked(sums)
    if sums["booked_used"] is not None:
        booked += f" of {_hours(sums['booked_gpu_hours'])} GPU hours"
    for name, value in (
        ("GPU hours", _hours(sums["gpu_hours"])),
        ("GPU hours wasted", _wasted(sums)),
        ("CPU hours", _hours(sums["cpu_hours"])),
        ("memory GiB hours", _hours(sums["memory_gib_hours"])),
        ("tasks", f"{sums['tasks']}, in {attempts}"),
        ("killed at the timeout", f"{sums['timed_out']} of {sums['ended']} that ended"),
        ("mean wait", span(sums["mean_wait_s"])),
        ("booked time used", booked),
        ("mean GPU utilisation", _share(sums.get("mean_gpu_utilisation"))),
    ):
        click.echo(f"{name:<22} {value}")


def _print_rows(found: dict[str, Any]) -> None:
    click.echo(_heading(found))
    by, rows = found["by"], found["rows"]
    if not found["total"]["attempts"]:
        click.echo("nothing ran")
        return
    cells = [[_name(by, row), *_cells(row)] for row in rows]
    if found["rows_in_all"] > 1:
        cells.append(["total", *_cells(found["total"])])
    columns = [
        "GPU h",
        "wasted",
        "CPU h",
        "memory GiB h",
        "tasks",
        "attempts",
        "killed at timeout",
        "mean wait",
        "booked used",
    ]
    widths = [max(len(head), *(len(row[i + 1]) for row in cells)) for i, head in enumerate(columns)]
    table(
        [by, *(head.rjust(width) for head, width in zip(columns, widths, strict=True))],
        [[row[0], *(cell.rjust(width) for cell, width in zip(row[1:], widths, strict=True))] for row in cells],
    )
    if left := found["rows_in_all"] - len(rows):
        click.echo(f"… and {counted(left, by)} more (-n {found['rows_in_all']})")


def _heading(found: dict[str, Any]) -> str:
    whose = safe(found["user"]) if found["user"] else "everybody"
    return f"{whose}, {_moment(found['from_at'])} to {_moment(found['to_at'])} (UTC)"


def _name(by: str, row: dict[str, Any]) -> str:
    if by == "job" and not row["key"]:
        return safe(row["job_name"])
    if by == "job":
        return f"{row['key']} {safe(row['job_name'] or '')} ({safe(row['owner'] or '')})"
    return safe(row["key"]) or "(in no group)"


def _cells(sums: dict[str, Any]) -> list[str]:
    return [
        _hours(sums["gpu_hours"]),
        _hours(sums.get("wasted_gpu_hours") or 0.0),
        _hours(sums["cpu_hours"]),
        _hours(sums["memory_gib_hours"]),
        str(sums["tasks"]),
        str(sums["attempts"]),
        str(sums["timed_out"]),
        span(sums["mean_wait_s"]),
        _booked(sums),
    ]


def _booked(sums: dict[str, Any]) -> str:
    return _share(sums["booked_used"])


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.0f} %"


def _wasted(sums: dict[str, Any]) -> str:
    """How much, and of what kind: what failed may have been idle as well."""
    parts = [
        f"{what} {_hours(sums.get(name) or 0.0)}"
        for what, name in (("failed", "failed_gpu_hours"), ("idle", "idle_gpu_hours"))
        if sums.get(name)
    ]
    return _hours(sums.get("wasted_gpu_hours") or 0.0) + (f" ({', '.join(parts)})" if parts else "")


def _hours(hours: float) -> str:
    return f"{hours:,.1f}" if hours >= 10 or not hours else f"{hours:.3f}"


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at))


# -- past runs --------------------------------------------------------------------------------------


class _Lines:
    """Counts the lines that go through."""

    def __init__(self, target: BinaryIO) -> None:
        self._target = target
        self.count = 0

    def write(self, data: bytes) -> int:
        self.count += data.count(b"\n")
        return self._target.write(data)


def _write_csv(http: Client, place: Path, **asked: Any) -> None:
    if str(place) == "-":
        UsageClient(http).csv(sys.stdout.buffer, **asked)
        sys.stdout.flush()
        return
    with whole_file(place) as file, progress("usage", None) as step:
        lines = _Lines(file)
        UsageClient(http).csv(lines, progress=step, **asked)  # type: ignore[arg-type]
    click.echo(f"{safe(place)}: {counted(lines.count - 1, 'row')}", err=True)


def _write_trace(http: Client, place: Path, **asked: Any) -> None:
    if str(place) == "-":
        lines = _Lines(sys.stdout.buffer)
        UsageClient(http).trace(lines, **asked)  # type: ignore[arg-type]
        sys.stdout.flush()
    else:
        with whole_file(place) as file, progress("past runs", None) as step:
            lines = _Lines(file)
            UsageClient(http).trace(lines, progress=step, **asked)  # type: ignore[arg-type]
    runs = lines.count - 1  # the first line names the columns
    if runs <= 0:
        click.echo("headway: no run of this span has ended: the trace has a header and no rows", err=True)
    elif str(place) != "-":
        click.echo(f"{safe(place)}: {counted(runs, 'run')}", err=True)
