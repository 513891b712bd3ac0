"""events: what happened to jobs and their tasks, and what happens."""

from __future__ import annotations

import json
from typing import Any

import click

from ..client import Client, Refused
from ..client.events import EventClient
from ..client.names import path_part
from ..model.job_events import JobEventWord
from ..units import counted
from .common import client, moment, output_option, safe, tone


@click.command()
@click.option("--follow", "-f", is_flag=True, help="Go on with what happens from now on, or from --after on.")
@click.option("--after", metavar="CURSOR", default="", help="Only events behind this one; each event names its cursor.")
@click.option(
    "--kind", "kinds", multiple=True, type=click.Choice([word.value for word in JobEventWord]),
    help="Only such events; may be given several times. Gaps come always.",
)  # fmt: skip
@click.option("--job", metavar="ID", default="", help="Only events of this job.")
@click.option("--user", metavar="NAME", default="", help="Only events of this account's jobs; `me` for your own.")
@click.option("--limit", "-n", type=click.IntRange(1), help="No more events than that.")
@output_option
def events(
    follow: bool, after: str, kinds: tuple[str, ...], job: str, user: str, limit: int | None, output: str
) -> None:
    """Show what happened to your jobs, oldest first; admins see everybody's.

    With --follow it goes on until it is interrupted, and misses nothing while the server is started anew. To go on
    later, give the cursor of the last event to --after. With -o json each line is one event.
    """
    with client() as http:
        reading = EventClient(http, owner=user, job=_whole_id(http, job), kinds=kinds)
        found = reading.follow(after) if follow else reading.past(after, most=limit or 0)
        place = after
        try:
            for count, event in enumerate(found, 1):
                click.echo(json.dumps(event, ensure_ascii=False) if output == "json" else _line(event))
                place = event["cursor"]
                if count == limit:
                    break
            else:
                place = reading.cursor
        finally:
            if place != after and output != "json":
                click.echo(f"(go on with --after {place})", err=True)


def _whole_id(http: Client, job: str) -> str:
    """The job's id for its start; one that is not there any more stays as it was typed."""
    if not job:
        return ""
    try:
        return str(http.ask("GET", f"/jobs/{path_part(http.meant(job), 'job')}", params={"tasks_limit": 0})["id"])
    except Refused as refused:
        if refused.status != 404:
            raise
        return job.lower()


def _line(event: dict[str, Any]) -> str:
    where = event["job_id"] + (f"/{event['task']}" if event["task"] else "")
    kind = event["kind"].replace("_", " ")
    return "  ".join(part for part in (moment(event["at"]), where, kind, _what(event)) if part)


def _what(event: dict[str, Any]) -> str:
    if event["kind"] == JobEventWord.GAP:
        return f"{counted(event['tasks'], 'event')} missing" if event["tasks"] else "some events are missing here"
    parts = []
    if event["kind"] in (JobEventWord.TASK_ENDED, JobEventWord.ENDED):
        parts.append(tone(event["state"]))
    if event["kind"] == JobEventWord.SUBMITTED:
        parts.append(f"{safe(event['job_name'])} with {counted(event['tasks'], 'task')}")
    elif event["by"]:
        parts.append(f"by {safe(event['by'])}")
    if event.get("sentence"):  # an older server tells none
        parts.append(safe(event["sentence"]))
    if event["reason"] and event["state"] != "SUCCEEDED":
        parts.append(safe(event["reason"]["sentence"]))
    return "  ".join(parts)
