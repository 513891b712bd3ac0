"""submit and run."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ..client import Client, Refused
from ..errors import JobFileInvalid
from ..jobfile.spec import TASK
from ..jobfile.table import Option, Table, TaskField
from ..units import counted
from . import completion
from .common import client, job_exit_status, output_option, print_json, task_exit_status
from .foreign import job_text
from .jobs import come_back, wait_for
from .logs import follow_while_read
from .run_line import RunCommand
from .start_times import print_preview
from .transfer import progress

_CODE = (
    "Send a copy of the folder DIR with the job, without the files that .gitignore names. Tasks find it at /root/code, "
    "read-only, and start there."
)


_ADVICE = 5


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option("--wait", is_flag=True, help="Wait until the job ends; the exit status says how it ended.")
@click.option("--follow", is_flag=True, help="Stream all logs until the job ends; the exit status says how it ended.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Check the job and store nothing. Prints the order of its tasks, their estimated starts, and timeout advice.",
)
@click.option("--allow-unsatisfiable", is_flag=True, help="Queue the job even if no machine can run it yet.")
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a field of each task in place of what FILE says, as in timeout=1h, gpus=2, env.LR=0.1, "
    "'gpu_model=[A100, H100]'; of one task as in train.gpus=2; name or priority of the job. May be given several "
    "times.",
)
@click.option("--request-id", help="An id of your choice: a second submit with the same id makes no second job.")
@click.option("--code", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path), help=_CODE)
@output_option
def submit(
    file: str,
    wait: bool,
    follow: bool,
    dry_run: bool,
    allow_unsatisfiable: bool,
    changes: tuple[str, ...],
    request_id: str | None,
    code: Path | None,
    output: str,
) -> None:
    """Submit a job FILE (YAML or JSON; - for standard input) and print the job's id."""
    text = job_text(file)
    media = "application/json" if file.endswith(".json") else "application/yaml"
    with client() as http:
        answer = http.submit(
            text,
            media=media,
            dry_run=dry_run,
            allow_unsatisfiable=allow_unsatisfiable,
            request_id=request_id,
            code=_snapshot(http, code),
            changes=changes,
        )
        if dry_run:
            _print_warnings(answer)
            _print_dry_run(answer, output)
            return
        # The id first: without it, who sees another fault submits again.
        quiet_json = output == "json" and (wait or follow)
        if output == "json" and not quiet_json:
            print_json(answer)
        else:
            click.echo(f"headway: job {answer['id']}" if quiet_json else answer["id"], err=quiet_json)
        _print_warnings(answer)
        if follow:
            sys.exit(_follow(http, answer["id"], output))
    if wait:
        sys.exit(wait_for(answer["id"], output=output))


def _print_warnings(answer: dict[str, Any]) -> None:
    for warning in answer["warnings"]:
        click.echo(f"headway: warning: {warning}", err=True)


def _snapshot(http: Client, folder: Path | None) -> str:
    if folder is None:
        return ""
    from ..client.code import upload_code

    told = 0
    with progress(f"code {folder.resolve().name}", None) as step:

        def sent(done: int, _total: int) -> None:
            nonlocal told
            step(done - told)
            told = done

        digest = upload_code(http, folder, on_progress=sent).digest
    click.echo(f"headway: code {digest}", err=True)
    return digest


def _print_dry_run(answer: dict[str, Any], output: str) -> None:
    if output == "json":
        print_json(answer)
        return
    shown = answer["order"][:20]
    more = len(answer["order"]) - len(shown)
    names = ", ".join(shown) + (f" … {more} more" if more else "")
    click.echo(f"{answer['name']}: fine, {counted(answer['task_count'], 'task')}: {names}")
    print_preview(answer["preview"])
    advice = answer.get("timeouts", [])
    for one in advice[:_ADVICE]:
        click.echo(f"timeout of {_of_tasks(one)}: {one['sentence']}")
    if len(advice) > _ADVICE:
        click.echo(f"(and {len(advice) - _ADVICE} more about timeouts: -o json)")


def _of_tasks(advice: dict[str, Any]) -> str:
    names = advice["tasks"][:3]
    rest = advice["task_count"] - len(names)
    return ", ".join(names) + (f" and {rest} more" if rest else "")


def _follow(http: Client, job_id: str, output: str) -> int:
    try:
        names = [t["name"] for t in http.job(job_id, attempts=False)["tasks"]]
        follow_while_read(http, job_id, names)
        job = http.wait(job_id)
    except KeyboardInterrupt:
        come_back(job_id)
        return 130
    if output == "json":
        print_json(job)
    else:
        for task in job["tasks"]:
            if task["state"] != "SUCCEEDED" and task["reason"]:
                click.echo(f"headway: {task['name']}: {task['state']}: {task['reason']['sentence']}", err=True)
        click.echo(f"headway: job {job_id} {job['state']}", err=True)
    return job_exit_status(job)


def _optional(table: Table) -> Iterator[tuple[TaskField, Option, str]]:
    """The rows that have an option, and the key of the mapping that each is in; empty: none."""
    for row in table.rows:
        if row.option:
            yield row, row.option, ""
        if row.key in table.parts:
            yield from ((part, option, row.key) for part, option, _ in _optional(table.parts[row.key]))


def _parameter(option: Option) -> str:
    return option.flag.removeprefix("--").replace("-", "_")


_Command = Callable[..., Any]
# The help begins with these; what the table has more comes after them.
_FIRST = ("image", "gpus", "gpu_model", "cpus", "memory", "timeout", "grace", "retries", "env", "working_dir")


def options_of(table: Table, *, first: bool) -> Callable[[_Command], _Command]:
    """The options of a table's fields: those of ``_FIRST``, or the others."""
    options = {row.key: option for row, option, _ in _optional(table)}
    keys = _FIRST if first else [key for key in options if key not in _FIRST]

    def decorated(command: _Command) -> _Command:
        # The decorator that stands last is the first to be applied.
        for option in (options[key] for key in reversed(keys)):
            command = click.option(
                option.flag,
                type=click.IntRange(0) if isinstance(option.default, int) else None,
                default=option.default,
                show_default=option.default is not None,
                multiple=option.many,
                metavar=option.metavar,
                help=option.help,
                shell_complete=completion.images if option.flag == "--image" else None,
            )(command)
        return command

    return decorated


# The first word ends the options, so that the program gets its own.
@click.command(cls=RunCommand, context_settings={"allow_interspersed_args": False})
@options_of(TASK, first=True)
@click.option("--name", help="Name of the job; the command unless given.")
@click.option("--priority", type=click.Choice(["low", "normal", "high"]), default="normal", show_default=True)
@options_of(TASK, first=False)
@click.option("--code", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path), help=_CODE)
@click.option("-d", "--detach", is_flag=True, help="Print the job's id and return.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND [ARG]...")
def run(command: tuple[str, ...], detach: bool, code: Path | None, **options: Any) -> None:
    """Run COMMAND in a container as a job of one task, stream its log, end with its exit code.

    Options stand before COMMAND. Everything from its first word on goes to the program.

    \b
      headway run --image base/python:1 --timeout 5m -- python3 -c 'print(6 * 7)'
    """
    job = _one_task_job(command, options)
    with client() as http:
        answer = _submit_without_a_file(http, job, _snapshot(http, code))
        job_id = answer["id"]
        click.echo(job_id if detach else f"headway: job {job_id}", err=not detach)
        _print_warnings(answer)
        if detach:
            return
        try:
            follow_while_read(http, job_id, ["main"])
            task = http.wait(job_id)["tasks"][0]
        except KeyboardInterrupt:
            come_back(job_id)
            sys.exit(130)
    if task["state"] != "SUCCEEDED" and task["reason"]:
        click.echo(f"headway: {task['state']}: {task['reason']['sentence']}", err=True)
    sys.exit(task_exit_status(task))


def _submit_without_a_file(http: Client, job: dict[str, Any], code: str) -> dict[str, Any]:
    """
    Raises:
        Refused: without lines and columns, as nobody has written any.
    """
    try:
        return http.submit(json.dumps(job).encode(), media="application/json", code=code)
    except Refused as refused:
        if not refused.problems:
            raise
        problems = [replace(one, pointer="", line=None, column=None) for one in refused.problems]
        sentence = refused.message
        if issubclass(refused.kind, JobFileInvalid):  # its sentence is about a file, too
            sentence = problems[0].message if len(problems) == 1 else f"{len(problems)} things are wrong:"
        raise Refused(
            sentence,
            kind=refused.kind,
            status=refused.status,
            request_id=refused.request_id,
            problems=problems,
        ) from None


def _one_task_job(command: tuple[str, ...], options: dict[str, Any], table: Table = TASK) -> dict[str, Any]:
    task: dict[str, Any] = {"name": "main", "command": list(command)}
    for row, option, under in _optional(table):
        value = options.get(_parameter(option))
        if value or option.default is not None:
            place = task.setdefault(under, {}) if under else task
            place[row.key] = _as_json(row, option, value)
    printable = "".join(c if c.isprintable() else " " for c in " ".join(command)).strip()
    name = options["name"] or printable[:60] or "run"
    return {"version": 1, "name": name, "priority": options["priority"], "tasks": [task]}


def _as_json(row: TaskField, option: Option, value: Any) -> Any:
    """What is given for an option, as a job file has it."""
    if row.key == "env":
        return dict(_pair(option, pair) for pair in value)
    if row.key == "ulimits":
        return {name: _ulimit(limit) for name, limit in (_pair(option, pair) for pair in value)}
    if row.key == "secrets":
        return [_secret(text) for text in value]
    if option.many:
        return list(value)
    if row.value in (int, float):
        try:
            return row.value(value)
        except ValueError:
            example = "2" if row.value is int else "2 or 0.5"
            raise click.BadParameter(f"{option.flag} is a number such as {example}, not {value!r}") from None
    return value


def _secret(text: str) -> Any:
    """``HF_TOKEN``, ``WANDB=WANDB_API_KEY``, or ``KEY=/run/secrets/id_rsa``."""
    name, equals, place = text.partition("=")
    if not equals:
        return name
    folder, _, file = place.rpartition("/")
    return {"name": name, "file": file} if folder == "/run/secrets" else {"name": name, "env": place}


def _ulimit(text: str) -> Any:
    """``65536``, or ``1024:65536``, as Docker's option has them."""
    if ":" in text:
        return dict(zip(("soft", "hard"), map(_ulimit, text.split(":", 1)), strict=True))
    return int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else text


def _pair(option: Option, pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals:
        raise click.BadParameter(f"{option.flag} wants {option.metavar}, not {pair!r}")
    return name, value
