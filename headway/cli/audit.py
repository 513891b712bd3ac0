"""audit: who changed what, for admins."""

from __future__ import annotations

import sys
from typing import Any

import click

from ..units import counted
from .common import client, moment, output_option, print_json, safe, table

_AT_ONCE = 500


@click.group(invoke_without_command=True)
@click.option("--who", default="", help="Only what this account did.")
@click.option("--what", default="", help="Only this word, such as job.cancel, or its family: job.")
@click.option("--on", "subject", default="", help="Only what was done on something with this in its name.")
@click.option("--outcome", default="", help="Only what ended so: done, refused, failed, unknown.")
@click.option("--since", default="", help="From then on: 7d, 2026-11-01, 2026-11-01T14:30Z.")
@click.option("--until", default="", help="Before then.")
@click.option("-n", "--limit", type=click.IntRange(1, 100_000), default=50, show_default=True, help="So many lines.")
@output_option
@click.pass_context
def audit(
    ctx: click.Context,
    who: str,
    what: str,
    subject: str,
    outcome: str,
    since: str,
    until: str,
    limit: int,
    output: str,
) -> None:
    """Show who changed what, when, from where, and how it ended; newest first (admins)."""
    if ctx.invoked_subcommand is not None:
        return
    wanted = {"who": who, "what": what, "subject": subject, "outcome": outcome, "since": since, "until": until}
    found: list[dict[str, Any]] = []
    cursor = ""
    with client() as http:
        while len(found) < limit:
            params = {name: value for name, value in {**wanted, "before": cursor}.items() if value}
            params["limit"] = str(min(_AT_ONCE, limit - len(found)))
            answer = http.ask("GET", "/audit", params=params)
            found += answer["entries"]
            cursor = answer["cursor"]
            if not cursor:
                break
    if output == "json":
        print_json(found)
        return
    table(["when", "who", "from", "what", "on", "outcome"], [_row(one) for one in found])
    if cursor:
        click.echo(f"There are older lines: -n {2 * limit} shows more, or narrow it.", err=True)


def _row(one: dict[str, Any]) -> list[str]:
    outcome = one["outcome"].replace("_", " ")
    problem = f" ({one['problem']})" if one["problem"] else ""
    who = safe(one["who"]) or ("-" if one["address"] else safe(one["way"]))
    return [moment(one["at"]), who, safe(one["address"]) or "-", one["word"], safe(one["subject"]), outcome + problem]


@audit.command("verify")
@output_option
def verify(output: str) -> None:
    """Go along the whole log: a line that was changed or removed in the database shows. Ends with 1 if one does."""
    with client() as http:
        found = http.ask("GET", "/audit/verify", timeout=600.0)
    if output == "json":
        print_json(found)
    elif found["whole"]:
        lines = counted(found["rows_held"], "row")
        click.echo(
            f"{lines} from {found['first']} to {found['last']}: all hold. The newest has the hash {found['head']}"
        )
    else:
        click.echo(f"The audit log is broken at row {found['broken_row']}. {found['sentence']}", err=True)
    if not found["whole"]:
        sys.exit(1)
