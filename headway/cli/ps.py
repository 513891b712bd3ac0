"""ps and last: jobs in a list."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import click

from . import watching
from .common import ago, client, output_option, print_json, safe, span, table, tone

_SORT: Mapping[str, Callable[[dict[str, Any]], Any]] = {
    "submitted": lambda job: job["submitted_at"],
    "ran": lambda job: ran(job) or 0.0,
    "ended": lambda job: job["ended_at"] or float("inf"),
    "tasks": lambda job: job["task_count"],
    "gpus": lambda job: job.get("gpus_booked") or 0,
    "state": lambda job: job["state"],
    "owner": lambda job: job["owner"],
    "name": lambda job: job["name"].casefold(),
}
_BEGIN = """
You have no jobs yet. To begin:
  headway run --image base/python:1 --timeout 5m -- python3 -c "print('hello')"
  headway images ls              # the images that there are
  headway files put -r FOLDER    # tasks find your files in /root/nfs
`headway help start` says more."""


@click.command()
@click.option("-a", "--all", "everybody", is_flag=True, help="Everybody's jobs, not only your own.")
@click.option("-s", "--state", help="Only jobs in this state, for instance RUNNING.")
@click.option("-q", "--query", help="Part of the name, or the start of the id.")
@click.option("-n", "--limit", default=25, show_default=True, type=click.IntRange(1), help="Show at most this many.")
@click.option(
    "--sort",
    type=click.Choice(list(_SORT)),
    help="Sort the jobs that are shown, the least first; without it the newest stand first.",
)
@click.option("-r", "--reverse", is_flag=True, help="The other way round.")
@click.option("-w", "--watch", is_flag=True, help="Show them anew every 2 seconds, until Ctrl-C.")
@output_option
def ps(
    everybody: bool, state: str | None, query: str | None, limit: int, sort: str | None, reverse: bool, watch: bool,
    output: str,
) -> None:  # fmt: skip
    """List jobs, newest first.

    GPUS are those that a job's running tasks hold now.

    A job is named by its id, or by the start of the id. For a week its last five characters do, too. `last` is your
    latest job.
    """
    if watch and output == "json":
        raise click.UsageError("--watch shows a table; `headway events --follow -o json` tells changes as JSON")
    with client() as http:
        owner = None if everybody else http.me()["name"]

        def listed() -> list[dict[str, Any]]:
            jobs = list(http.jobs(owner=owner, state=state.upper() if state else None, q=query, limit=limit))
            if sort is not None:
                jobs.sort(key=_SORT[sort])
            return jobs[::-1] if reverse else jobs

        if watch:
            watching.watch(listed, _print)
        elif output == "json":
            print_json(listed())
        else:
            jobs = listed()
            _print(jobs)
            if not jobs and not (everybody or state or query):
                click.echo(_BEGIN, err=True)


def _print(jobs: list[dict[str, Any]]) -> None:
    rows = [
        [
            job["id"],
            tone(job["state"]) + (" held" if job["held"] else ""),
            f"{job['tasks_by_state'].get('SUCCEEDED', 0)}/{job['task_count']}",
            job.get("gpus_booked") or "-",
            job["owner"],
            ago(job["submitted_at"]),
            span(ran(job)),
            safe(job["name"]),
        ]
        for job in jobs
    ]
    table(["id", "state", "tasks", "gpus", "owner", "submitted", "ran", "name"], rows)


def ran(job: dict[str, Any]) -> float | None:
    """For how many seconds a job or a task has run; None: it has not started."""
    if job["started_at"] is None:
        return None
    return float((job["ended_at"] or time.time()) - job["started_at"])


@click.command()
@output_option
def last(output: str) -> None:
    """Print the id of your latest job. Wherever an id is wanted, the word `last` does, too."""
    with client() as http:
        job = http.last()
    if output == "json":
        print_json(job)
    else:
        click.echo(job["id"])
