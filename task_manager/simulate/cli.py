"""The command ``headway simulate``: runs policies on a trace and compares them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from headway.cli.common import output_option, print_json, safe, table, whole_file
from headway.units import BadValue, counted

from . import cluster_spec, comparison, tuning
from .formats import recognition

_STDIO = Path("-")
_PROMISES = ("settled", "late")
_ENDINGS = frozenset({".csv", ".json", ".swf", ".txt", ".log", ".gz"})
_DISCIPLINES = ("conservative", "easy", "greedy", "strict")
# The key in JSON, the name in the table, and whether it is in seconds.
_ROWS = (
    ("mean_wait_s", "mean wait", True),
    ("median_wait_s", "median wait", True),
    ("p95_wait_s", "95 % waited at most", True),
    ("max_wait_s", "longest wait", True),
    ("longest_decile_max_wait_s", "longest wait of the longest tenth", True),
    ("mean_finished_s", "mean finished (wait + run)", True),
    ("median_finished_s", "median finished", True),
    ("p95_finished_s", "95 % finished within", True),
    ("max_finished_s", "longest finished", True),
    ("mean_bounded_slowdown", "mean bounded slowdown", False),
    ("mean_job_finished_s", "mean finished of jobs", True),
    ("makespan_s", "makespan", True),
    ("utilisation", "utilisation", False),
)

# What `--tune` shows of each policy.
_TUNED = ("mean_wait_s", "p95_wait_s", "max_wait_s", "mean_bounded_slowdown")


class _Parsed(click.ParamType):  # type: ignore[type-arg]
    """An option whose text is read by a function that raises BadValue."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except BadValue as error:
            self.fail(f"{error}.", param, ctx)


def _read_dag(text: str) -> tuple[Path, float]:
    """A workflow file, and the second of its submission. ``-`` is standard input."""
    path, at, second = text.rpartition("@")
    if not at or Path(text).exists():
        path, second = text, "0"
    try:
        submit_s = float(second)
    except ValueError:
        raise BadValue(f"{text!r}: after the @ comes the second of submission, not {second!r}") from None
    if not 0 <= submit_s <= 1e9:
        raise BadValue(f"{text!r}: the second of submission is between 0 and 1e9")
    if Path(path) != _STDIO and not Path(path).is_file():
        raise BadValue(f"there is no file {path!r}")
    return Path(path), submit_s


def _factor(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise BadValue(f"{text!r} is not a number") from None
    if not math.isfinite(value) or not 0 < value <= comparison.MAX_TIMEOUT_FACTOR:
        raise BadValue(f"{text!r} is not above 0 and at most {comparison.MAX_TIMEOUT_FACTOR:g}")
    return value


@click.command()
@click.option(
    "--trace",
    "traces",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    help="A trace (CSV with columns submit_s, runtime_s, gpus …; SWF; sacct -P; Philly, Helios, PAI) or a workflow, "
    "also as .gz; - for standard input.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(("auto", *recognition.NAMES)),
    default="auto",
    show_default=True,
    help="Format of the traces; auto: by looking.",
)
@click.option(
    "--dag",
    "dags",
    multiple=True,
    metavar="FILE[@SECOND]",
    type=_Parsed("file", _read_dag),
    help="Workflow (JSON; - for standard input), submitted as one job at this second (default 0).",
)
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME[:param=value]",
    help="Order of the queue; several may be named, also behind one --policy. Default: aging_sjf.",
)
@click.option(
    "--nodes",
    required=True,
    metavar="NODES",
    type=_Parsed("nodes", cluster_spec.parse_cluster),
    help=f"Machines: {cluster_spec.FORM}. Models, CPUs and memory count where they are stated.",
)
@click.option(
    "--discipline",
    "disciplines",
    multiple=True,
    type=click.Choice(_DISCIPLINES),
    default=("conservative",),
    show_default=True,
    help="Which tasks may overtake others; several may be named.",
)
@click.option(
    "--promises",
    type=click.Choice(_PROMISES),
    is_flag=False,
    flag_value=_PROMISES[0],
    help="When starts are promised: once nobody new can come ahead (settled, unless --as-live), or at once, with slack "
    "(late).",
)
@click.option(
    "--no-promises",
    is_flag=True,
    help="Promise no starts. Long queues run faster then, and starts may differ.",
)
@click.option(
    "--timeout-factor",
    metavar="NUMBER",
    type=_Parsed("number", _factor),
    default=1.0,
    show_default=True,
    help="Multiplies all timeouts; a blank timeout means the run time.",
)
@click.option(
    "--as-live",
    is_flag=True,
    help="Book and promise what the live plan does: each timeout, and the time for start and stop, from headway.toml.",
)
@click.option(
    "--skip-too-large",
    is_flag=True,
    help="Leave out tasks that no node could ever run, and count them. Otherwise the trace is refused.",
)
@click.option(
    "--tune",
    is_flag=True,
    help="Try the usual policies and constants beside the present one (the first --policy); say which are no worse.",
)
@click.option(
    "--starts",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Write each task's start as CSV, a column for each policy; - for standard output, the table then goes to "
    "standard error.",
)
@click.option(
    "--plots",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write plots as SVG into this folder.",
)
@click.argument("more", nargs=-1, metavar="[FILE|POLICY]...")
@output_option
def simulate(
    traces: tuple[Path, ...],
    dags: tuple[tuple[Path, float], ...],
    policies: tuple[str, ...],
    nodes: Any,
    disciplines: tuple[str, ...],
    promises: str | None,
    no_promises: bool,
    timeout_factor: float,
    starts: Path | None,
    plots: Path | None,
    more: tuple[str, ...],
    form: str,
    skip_too_large: bool,
    as_live: bool,
    tune: bool,
    output: str,
) -> None:
    """Run a trace under one or several policies, with the code that serves the live queue, and compare them.

    Nothing is started and no server is asked. Seconds are those of the trace.

    \b
      headway usage --trace - | headway simulate --trace - --policy fifo aging_sjf --nodes 2x8
    """
    files = tuple(word for word in more if _is_file(word))
    traces = (*(Path(word) for word in files), *traces)
    more_policies = tuple(word for word in more if word not in files)
    if more_policies and not policies:
        raise click.UsageError(
            f"what is {more_policies[0]!r}? Policies are named with --policy, and no such file is here"
        )
    if tune and len(disciplines) > 1:
        raise click.UsageError("--tune compares policies under one --discipline")
    if promises == "late" and "conservative" not in disciplines:
        raise click.UsageError("--promises late is a rule of --discipline conservative, and of no other")
    if missing := next((word for word in more_policies if Path(word).suffix.lower() in _ENDINGS), ""):
        raise click.UsageError(f"there is no file {missing!r}")
    if not traces and not dags:
        raise click.UsageError("name what to run: --trace FILE.csv or --dag FILE.json")
    try:
        contestants = comparison.parse_contestants((*policies, *more_policies) or ("aging_sjf",), disciplines)
    except BadValue as error:
        raise click.BadParameter(str(error), param_hint="'--policy'") from error
    _check_files((*traces, *(path for path, _ in dags)), starts, plots, output)
    live_promises, *booked_s = _booked_live() if as_live else (_PROMISES[0], 0.0, 0.0)
    simulation = comparison.load(
        traces,
        dags,
        cluster=nodes,
        contestants=contestants,
        timeout_factor=timeout_factor,
        promises=None if no_promises else promises or live_promises,
        form="" if form == "auto" else form,
        skip_too_large=skip_too_large,
        booked_s=(booked_s[0], booked_s[1]),
    )
    for note in simulation.notes:
        click.echo(f"headway: {note}", err=True)
    if tune:
        simulation = tuning.to_tune(simulation)
    with _progress(simulation.total) as on_ended:
        results = simulation.run(on_ended)
    for result in results:
        if result.outcome.policy_failed:
            why = safe(result.outcome.policy_failed)
            click.secho(
                f"headway: {why}: aging_sjf stood in, so this is no result of {result.contestant.name}.",
                fg="red",
                err=True,
            )
    if starts is not None:
        with whole_file(starts) as file:
            file.write(simulation.starts_csv(results).encode())
    if plots is not None:
        plots.mkdir(exist_ok=True)
        for name, svg in simulation.plots(results).items():
            with whole_file(plots / name) as file:
                file.write(svg.encode())
    if tune:
        _print_tuned(tuning.tuned(results), tuning.mean_timeout_s(simulation), output, err=starts == _STDIO)
    elif output == "json":
        print_json([result.to_json() for result in results])
    else:
        _print_table(results, err=starts == _STDIO)


def _is_file(word: str) -> bool:
    """Whether a plain argument is a file, or a pipe, and no policy."""
    path = Path(word)
    return word == "-" or (path.exists() and not path.is_dir() and not comparison.is_policy(word))


def _booked_live() -> tuple[str, float, float]:
    """The live plan's rule of promises, and what it books for a start and a stop, in seconds.

    They are those of this machine's configuration, if it has one.

    Raises:
        ConfigInvalid: it can't be read.
    """
    from headway.config import default_path, load

    from ..app import settings_of
    from ..engine.pass_input import pass_settings

    path = default_path()
    # The services' secret is asked for by every configuration, and no business of a simulation.
    config = load(path if path.exists() else None, overrides={"cluster.token": "-" * 32}).config
    settings = pass_settings(settings_of(config))
    start_s, stop_s = settings.start_limit_s, settings.stop_limit_s
    booked = f"{start_s:g} s for its start and {stop_s:g} s for its stop"
    click.echo(f"headway: as live, each task books {booked}, on top of its timeout.", err=True)
    return settings.promises.value, start_s, stop_s


def _check_files(sources: Sequence[Path], starts: Path | None, plots: Path | None, output: str) -> None:
    """
    Raises:
        click.UsageError: one of them can't be read or written, or two would be the same.
    """
    if sources.count(_STDIO) > 1:
        raise click.UsageError("standard input can be read once: name one file - at most")
    if plots == _STDIO:
        raise click.BadParameter("plots are several files: name a folder.", param_hint="'--plots'")
    if starts == _STDIO:
        if output == "json":
            raise click.UsageError(
                "--starts - and -o json would both go to standard output: name a file for the starts"
            )
    elif starts is not None and any(_same(starts, source) for source in sources):
        what = f"{str(starts)!r} is what is to be run; name another file."
        raise click.BadParameter(what, param_hint="'--starts'")
    for option, path in (("--starts", starts), ("--plots", plots)):
        if path is not None and not path.absolute().parent.is_dir():
            what = f"there is no folder {str(path.absolute().parent)!r} for it."
            raise click.BadParameter(what, param_hint=f"'{option}'")


def _same(path: Path, source: Path) -> bool:
    return source != _STDIO and path.exists() and path.samefile(source)


def _print_table(results: Sequence[Any], *, err: bool) -> None:
    found = [result.to_json() for result in results]
    first = found[0]
    late = f", {first['timed_out']} of them end at their timeout" if first["timed_out"] else ""
    jobs = f" of {counted(first['jobs'], 'job')}" if first["jobs"] != first["tasks"] else ""
    click.echo(f"{counted(first['tasks'], 'task')}{jobs}{late}. Waits and all other times are in seconds.", err=err)
    rows = []
    for key, words, seconds in _ROWS:
        if key == "mean_job_finished_s" and not jobs:
            continue
        cells = [_cell(key, value[key], seconds) for value in found]
        rows.append([words, *cells])
    names = [safe(result.contestant.name) for result in results]
    widths = [max(len(name), *(len(row[i + 1]) for row in rows)) for i, name in enumerate(names)]
    table(
        ["", *(name.rjust(width) for name, width in zip(names, widths, strict=True))],
        [[row[0], *(cell.rjust(width) for cell, width in zip(row[1:], widths, strict=True))] for row in rows],
        as_typed=True,
        err=err,
    )


def _print_tuned(rows: Sequence[tuning.TunedRow], mean_timeout_s: float, output: str, *, err: bool) -> None:
    if output == "json":
        print_json([row.to_json() for row in rows])
        return
    tasks, first = rows[0].result.measures.tasks, safe(rows[0].result.contestant.name)
    mean = f"The mean timeout is {mean_timeout_s:,.1f} s, so `log_aging:means=12` is about c={12 * mean_timeout_s:.0f}"
    click.echo(f"{counted(tasks, 'task')}. {mean}. Waits are in seconds.", err=err)
    cells = []
    for row in rows:
        found = row.result.to_json()
        name = safe(row.result.contestant.name)
        mark = "present" if row.present else "no worse" if row.no_worse else ""
        numbers = [_cell(key, found[key], seconds) for key, _, seconds in _ROWS if key in _TUNED]
        share = f"{100 * row.promised_share:.1f} %"
        cells.append([name, *numbers, share, f"{row.result.outcome.missed}", mark])
    heads = ["", *(words for key, words, _ in _ROWS if key in _TUNED), "promised of those that wait", "missed", ""]
    widths = [max(len(line[i]) for line in (heads, *cells)) for i in range(len(heads))]
    aligned = [
        [line[0], *(cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:-1], strict=True)), line[-1]]
        for line in (heads, *cells)
    ]
    table(aligned[0], aligned[1:], as_typed=True, err=err)
    click.echo(safe(tuning.verdict(rows)), err=err)
    click.echo(f"Set one with `headway queue set --policy NAME`; {first} is what it was compared with.", err=err)


def _cell(key: str, value: float, seconds: bool) -> str:
    if key == "utilisation":
        return f"{100 * value:.1f} %"
    return f"{value:,.1f}" if seconds else f"{value:.2f}"


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal, else nothing. Yields a function that takes how many more tasks have ended."""
    if not sys.stderr.isatty():
        yield lambda _count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        bar = bars.add_task("simulated tasks", total=total)
        yield lambda count: bars.update(bar, advance=count)
