"""accounts: what admins do with them; ``users`` is the former name of a part of it."""

from __future__ import annotations

import sys
from typing import Any

import click

from ..client import Client
from ..client.names import path_part
from ..errors import NotFound
from ..states import JOB_ENDED, JobState
from ..units import counted
from .cluster import users_add, users_ls, users_set
from .common import ago, client, lines_of_input, output_option, print_json, safe, table
from .own import came_from, expiry

_LIVE = [state.value for state in JobState if state not in JOB_ENDED]


@click.group(invoke_without_command=True)
@output_option
@click.pass_context
def accounts(ctx: click.Context, output: str) -> None:
    """Accounts: make, change, disable, remove them; see and end their sessions and tokens (admins)."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(users_ls, output=output)
    elif output != "table":
        raise click.UsageError(f"write -o {output} behind {ctx.invoked_subcommand}")


accounts.add_command(users_ls, "ls")
accounts.add_command(users_add, "add")
accounts.add_command(users_set, "set")


@accounts.command("disable")
@click.argument("name")
@click.option(
    "--cancel-jobs/--keep-jobs", default=None, help="Whether its live jobs are cancelled. Asked for if left out."
)
@click.option("--keep-tokens", is_flag=True, help="Its tokens work again once it is enabled. Otherwise they end.")
@output_option
def disable(name: str, cancel_jobs: bool | None, keep_tokens: bool, output: str) -> None:
    """Shut the account NAME out at once: its sessions and streams end, and its waiting work is held.

    What runs goes on with --keep-jobs. No further task of these jobs starts.
    """
    with client() as http:
        if cancel_jobs is None:
            cancel_jobs = _asked(http, name)
        wanted = {"enabled": False, "cancel_jobs": cancel_jobs, "keep_tokens": keep_tokens}
        user = http.change_user(name, wanted)
    if output == "json":
        print_json(user)
        return
    work = "its jobs are cancelled" if cancel_jobs else "its waiting work is held until it is enabled again"
    tokens = "its tokens are kept" if keep_tokens else "its tokens have ended"
    click.echo(f"{name}: disabled; {work}, {tokens}")


def _asked(http: Client, name: str) -> bool:
    live = list(http.jobs(owner=name, state=_LIVE))
    if not live:
        return False
    what = f"{safe(name)} has {counted(len(live), 'job')} that have not ended"
    if sys.stdin is None or not sys.stdin.isatty():
        raise click.UsageError(f"{what}: say --cancel-jobs or --keep-jobs")
    return click.confirm(f"{what}. Cancel them? (No: what runs goes on, what waits is held.)")


@accounts.command("enable")
@click.argument("name")
@output_option
def enable(name: str, output: str) -> None:
    """Let the account NAME in again, and release what its disabling held."""
    with client() as http:
        user = http.change_user(name, {"enabled": True})
    if output == "json":
        print_json(user)
        return
    click.echo(f"{name}: enabled")


@accounts.command("reset-password")
@click.argument("name")
@click.option("--keep-tokens", is_flag=True, help="Its tokens stay. Otherwise they end.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input, for scripts.")
@click.option("--generate", is_flag=True, help="Headway makes the password, and prints it once.")
def reset_password(name: str, keep_tokens: bool, password_stdin: bool, generate: bool) -> None:
    """Give the account NAME another password. Its sessions end."""
    if password_stdin and generate:
        raise click.UsageError("--password-stdin and --generate exclude each other")
    if generate:
        with client() as http:
            made = http.reset_password(name, keep_tokens=keep_tokens)
        click.echo(f"{name}: has another password\npassword: {made}")
        return
    if password_stdin:
        password = lines_of_input(1)[0]
    else:
        password = click.prompt("New password", hide_input=True, confirmation_prompt=True)
    with client() as http:
        http.change_user(name, {"password": password, "keep_tokens": keep_tokens})
    click.echo(f"{name}: has another password")


@accounts.command("remove")
@click.argument("name")
@click.option("--give-home-to", metavar="OTHER", help="The files go to the account OTHER, into from-NAME.")
@click.option("--delete-home", is_flag=True, help="The files are deleted for good.")
@output_option
def remove(name: str, give_home_to: str | None, delete_home: bool, output: str) -> None:
    """Remove the disabled account NAME for good. Its files stay where they are unless an option says otherwise."""
    if give_home_to and delete_home:
        raise click.UsageError("--give-home-to and --delete-home exclude each other")
    home = "hand_over" if give_home_to else "delete" if delete_home else "keep"
    with client() as http:
        answer = http.remove_user(name, home=home, to=give_home_to or "")
    if output == "json":
        print_json(answer)
        return
    told = {"keep": "its files stay", "delete": "its files are deleted"}.get(home)
    if told is None:
        told = f"its files are in {answer['home']} of {give_home_to}" if answer["home"] else "it had no files"
    click.echo(f"{name}: removed; {told}")


def _of_kind(kind: str, one: str) -> None:
    @accounts.command(kind, help=f"List the {kind} of the account NAME, or end one (--end ID) or all (--end-all).")
    @click.argument("name")
    @click.option("--end", "id", metavar="ID", help=f"End this {one}.")
    @click.option("--end-all", is_flag=True, help=f"End all {kind}.")
    @output_option
    def command(name: str, id: str | None, end_all: bool, output: str) -> None:
        if id is not None and end_all:
            raise click.UsageError("--end and --end-all exclude each other")
        with client() as http:
            if id is not None or end_all:
                ended = http.end_user_tokens(name, kind, id)
                if id is not None and not ended:
                    # Harmless for the server; whoever mistyped it should not believe that it has ended.
                    raise NotFound(f"{name} has no {one} {id[:64]!r}: `headway accounts {kind} {name}` lists them.")
                click.echo(f"{name}: {counted(ended, one)} ended")
                return
            found = http.user_tokens(name, kind)
        if output == "json":
            print_json(found)
            return
        rows: list[list[Any]] = [
            [
                t["id"],
                safe(t["name"]) if "name" in t else came_from(t),
                ago(t["created_at"]),
                ago(t["used_at"]),
                expiry(t),
            ]
            for t in found
        ]
        table(["id", "from" if kind == "sessions" else "name", "made", "used", "ends"], rows)


_of_kind("sessions", "session")
_of_kind("tokens", "token")


@accounts.command("links")
@click.argument("name")
@output_option
def links(name: str, output: str) -> None:
    """List who at the sign-in provider signs in as the account NAME."""
    with client() as http:
        found = http.ask("GET", f"/users/{path_part(name, 'account')}/links")["links"]
    if output == "json":
        print_json(found)
        return
    rows = [[safe(one["subject"]), safe(one["issuer"]), ago(one["linked_at"]), safe(one["linked_by"])] for one in found]
    table(["subject", "provider", "linked", "by"], rows)


@accounts.command("link")
@click.argument("name")
@click.argument("subject")
def link(name: str, subject: str) -> None:
    """Let SUBJECT of the sign-in provider sign in as the account NAME.

    SUBJECT is what the provider calls the person. A refused sign-in shows it: headway audit --what session.sign_in
    --outcome refused -o json has it as provider_subject.
    """
    with client() as http:
        made = http.ask("POST", f"/users/{path_part(name, 'account')}/links", json={"subject": subject})
    click.echo(f"{name}: {safe(made['subject'])} of {safe(made['issuer'])} signs in as this account from now on")


@accounts.command("unlink")
@click.argument("name")
def unlink(name: str) -> None:
    """Let nobody of the sign-in provider sign in as the account NAME any more. Open sessions stay."""
    with client() as http:
        ended = http.ask("DELETE", f"/users/{path_part(name, 'account')}/links")["unlinked"]
    click.echo(
        f"{name}: {counted(ended, 'link')} ended; `headway accounts sessions {name} --end-all` ends its sessions"
    )
