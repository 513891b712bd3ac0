"""pin, unpin, delete, jobs prune: how long ended jobs are kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from ..client import Client, NoService
from ..client.http import perhaps_sent
from ..client.names import path_part
from ..errors import HeadwayError
from ..model.retention import parse_age
from ..units import BadValue, counted
from .common import Reference, ReferenceType, client, moment, output_option, print_json, size

_WHOLE_ID = 17  # characters


class _Age(click.ParamType):  # type: ignore[type-arg]
    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            parse_age(str(value))
        except BadValue as error:
            self.fail(str(error) if error.message.endswith("?") else f"{error}.", param, ctx)
        return str(value)


def _pinning(name: str, text: str, done: str) -> click.Command:
    @click.command(name, help=text)
    @click.argument("references", nargs=-1, required=True, type=ReferenceType(1), metavar="ID…")
    @output_option
    def command(references: tuple[Reference, ...], output: str) -> None:
        answers = []
        with client() as http:
            for reference in references:
                answer = http.act(name, reference.job)
                answers.append(answer)
                if output != "json":
                    kept = kept_line(answer["job"])
                    click.echo(f"{answer['job']['id']} {done}" + (f"; {kept}" if kept and name == "unpin" else ""))
        if output == "json":
            print_json(answers)

    return command


pin = _pinning("pin", "Keep jobs until they are unpinned: no rule removes them, and nobody deletes them.", "is pinned")
unpin = _pinning("unpin", "Let the rules of retention count for pinned jobs again.", "is not pinned")


@click.command()
@click.argument("references", nargs=-1, required=True, type=ReferenceType(1), metavar="ID…")
def delete(references: tuple[Reference, ...]) -> None:
    """Delete ended jobs for good, with their logs. What they used stays in the usage by day."""
    with client() as http:
        for reference in references:
            job = http.meant(reference.job)
            http.ask("DELETE", f"/jobs/{path_part(_whole_id(http, job), 'job')}")
            click.echo(f"{job} deleted")


def _whole_id(http: Client, job: str) -> str:
    """Where an answer gets lost, the call is repeated: a part of an id might name another job by then."""
    if len(job) == _WHOLE_ID:
        return job.lower()
    return str(http.ask("GET", f"/jobs/{path_part(job, 'job')}", params={"tasks_limit": 0})["id"])


@click.group()
def jobs() -> None:
    """Do something with many jobs at once; `headway ps` lists them."""


@jobs.command()
@click.option("--older", required=True, type=_Age(), metavar="AGE", help="Jobs that ended so long ago, such as 90d.")
@click.option("--dry-run", is_flag=True, help="Tell what would be deleted, and delete nothing.")
@click.option("--user", metavar="NAME", default="", help="Jobs of this account (admins).")
@click.option("--all", "everybody", is_flag=True, help="Everybody's jobs (admins).")
@output_option
def prune(older: str, dry_run: bool, user: str, everybody: bool, output: str) -> None:
    """Delete all ended jobs that are older than AGE, with their logs. Pinned ones stay.

    They are your own unless you say --user or --all.
    """
    if user and everybody:
        raise click.UsageError("--user NAME and --all exclude each other")
    wish = {"older": older, "dry_run": dry_run, "owner": user or ("" if everybody else "me")}
    found = dict.fromkeys(("jobs", "tasks", "log_bytes", "unmeasured", "pinned"), 0)
    before = 0.0
    with client() as http:
        try:
            for part in _parts(http, wish):
                before = part["ended_before"]
                for key in found:
                    found[key] += part[key]
        except NoService as error:
            if not dry_run and (found["jobs"] or perhaps_sent(error.__cause__)):
                done = f"{counted(found['jobs'], 'job')} deleted, and perhaps some more, since an answer got lost"
                click.echo(f"{done}; ask again to delete the rest:", err=True)
            raise
        except HeadwayError:
            if found["jobs"] and not dry_run:
                click.echo(f"{counted(found['jobs'], 'job')} deleted; the rest is still there:", err=True)
            raise
    if output == "json":
        print_json({**found, "ended_before": before, "dry_run": dry_run})
        return
    what = "would be deleted" if dry_run else "deleted"
    unknown = f", without those of {counted(found['unmeasured'], 'job')}" if found["unmeasured"] else ""
    click.echo(
        f"{counted(found['jobs'], 'job')} with {counted(found['tasks'], 'task')} {what} that ended before "
        f"{moment(before)}; logs of {size(found['log_bytes'])}{unknown}"
    )
    if found["pinned"]:
        click.echo(f"{counted(found['pinned'], 'pinned job')} as old {'stays' if found['pinned'] == 1 else 'stay'}")


def _parts(http: Client, wish: dict[str, Any]) -> Iterator[dict[str, Any]]:
    cursor = ""
    while True:
        # What a call deleted whose answer got lost, no other one would count.
        part = http.ask("POST", "/jobs/prune", json={**wish, "cursor": cursor}, repeat=bool(wish["dry_run"]))
        yield part
        cursor = part["next_cursor"]
        if not cursor:
            return


def kept_line(job: dict[str, Any]) -> str:
    """Until when a job is kept; empty where nobody has set an end."""
    if job.get("pinned"):
        return "pinned: kept until it is unpinned"
    until = job.get("kept_until")
    return f"kept until {moment(until)}" if until is not None else ""
