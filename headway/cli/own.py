"""passwd, tokens, sessions, whoami: one's own account."""

from __future__ import annotations

from typing import Any

import click

from ..client.own import OwnAccount
from ..client.profile import TOKEN_VARIABLE, from_environment
from ..errors import NotFound
from ..units import BadValue, counted, parse_duration
from .common import ago, client, grants, lines_of_input, moment, output_option, print_json, safe, size, table

_LONGEST_TOKEN_DAYS = 20 * 366


@click.command()
@click.option(
    "--password-stdin",
    is_flag=True,
    help="Read two lines from standard input, for scripts: the current password, then the new one.",
)
def passwd(password_stdin: bool) -> None:
    """Change your password. Your other sessions end (by a token: all); tokens stay."""
    if password_stdin:
        current, new = lines_of_input(2)
        if not new:
            raise click.UsageError("standard input has no second line: it takes the current password, then the new one")
    else:
        current = click.prompt("Current password", hide_input=True)
        new = click.prompt("New password", hide_input=True, confirmation_prompt=True)
    with client() as http:
        OwnAccount(http).change_password(current, new)
        # What asked stays: a session, or a token, and then no session does.
        ended = "All sessions have ended" if "hwt_" in http.profile.token else "Other sessions have ended"
    click.echo(f"The password is changed. {ended}, tokens stay (`headway tokens` lists them).")


@click.command()
@output_option
def whoami(output: str) -> None:
    """Say who is signed in, where, and what the account may do."""
    with client() as http:
        me = http.me()
        url = http.profile.url
    if output == "json":
        print_json(me | {"url": url})
        return
    by = "by the token in HEADWAY_TOKEN" if from_environment(TOKEN_VARIABLE) else "by `headway login`"
    click.echo(f"{me['name']} at {url}, {by}")
    may = ["admin"] * me["admin"] + grants(me)
    click.echo(f"uid {me.get('uid', '-')}, gid {me.get('gid', '-')}; {', '.join(may) or 'no admin, no grants'}")
    if me["quota_bytes"]:
        click.echo(f"the personal space may hold {size(me['quota_bytes'])}")


def _group(name: str, text: str) -> click.Group:
    """A group that lists when nothing else is said."""

    @click.group(name, invoke_without_command=True, help=text)
    @output_option
    @click.pass_context
    def group(ctx: click.Context, output: str) -> None:
        if ctx.invoked_subcommand is None:
            assert isinstance(ctx.command, click.Group)
            ctx.invoke(ctx.command.commands["ls"], output=output)
        elif output != "table":
            raise click.UsageError(f"write -o {output} behind {ctx.invoked_subcommand}")

    return group


tokens = _group("tokens", "Your tokens for programs: list, make, delete them.")
sessions = _group("sessions", "Your sessions: list and end them.")


def expiry(token: dict[str, Any]) -> str:
    """When it ends by itself."""
    return "never" if token.get("expires_at") is None else moment(token["expires_at"])


def came_from(session: dict[str, Any]) -> str:
    """Where a session was opened and by which way; a dash: an older server does not say."""
    known = [safe(session.get(name, "")) for name in ("address", "way")]
    return ", ".join(one for one in known if one) or "-"


@tokens.command("ls")
@output_option
def tokens_ls(output: str = "table") -> None:
    """List your tokens. Their values are shown nowhere again."""
    with client() as http:
        found = OwnAccount(http).tokens()
    if output == "json":
        print_json(found)
        return
    rows = [[t["id"], safe(t["name"]), ago(t["created_at"]), ago(t["used_at"]), expiry(t)] for t in found]
    table(["id", "name", "made", "used", "ends"], rows)


@tokens.command("add")
@click.argument("name")
@click.option("--expires", help="After which time it ends, for instance 90d. Otherwise it lives until it is deleted.")
@output_option
def tokens_add(name: str, expires: str | None, output: str) -> None:
    """Make a token; NAME says what it is for. Its value is printed once, alone on standard output."""
    expires_in_s = None if expires is None else _life(expires)
    with client() as http:
        made = OwnAccount(http).make_token(name, expires_in_s)
    if output == "json":
        print_json(made)
        return
    ends = "until it is deleted" if made["expires_at"] is None else f"until {moment(made['expires_at'])}"
    click.echo(f"This token works {ends}, as HEADWAY_TOKEN for instance. It is shown only now:", err=True)
    click.echo(made["token"])


def _life(text: str) -> float:
    try:
        return parse_duration(text, most_days=_LONGEST_TOKEN_DAYS)
    except BadValue as error:
        raise click.BadParameter(error.message, param_hint="--expires") from None


@tokens.command("rm")
@click.argument("id")
def tokens_rm(id: str) -> None:
    """Delete the token ID at once."""
    with client() as http:
        own = OwnAccount(http)
        token = _one(own.tokens(), id, "token")
        own.delete_token(token["id"])
    click.echo(f"{token['id']}: deleted ({safe(token['name'])})")


def _one(found: list[dict[str, Any]], id: str, what: str) -> dict[str, Any]:
    """Ending one that isn't there is harmless, but whoever mistyped it should not believe that it has ended."""
    for one in found:
        if one["id"] == id:
            return one
    raise NotFound(f"You have no {what} {id[:64]!r}: `headway {what}s` lists them.")


@sessions.command("ls")
@output_option
def sessions_ls(output: str = "table") -> None:
    """List your sessions: each sign-in by page or command line is one."""
    with client() as http:
        found = OwnAccount(http).sessions()
    if output == "json":
        print_json(found)
        return
    rows = [
        [
            s["id"], ago(s["created_at"]), ago(s["used_at"]), expiry(s), came_from(s),
            "this one" if s["current"] else "",
        ]
        for s in found
    ]  # fmt: skip
    table(["id", "signed in", "used", "ends", "from", ""], rows)


@sessions.command("end")
@click.argument("id", required=False)
@click.option("--others", is_flag=True, help="End all but the one of this command line.")
def sessions_end(id: str | None, others: bool) -> None:
    """End the session ID at once, or all --others."""
    if bool(id) == others:
        raise click.UsageError("name one session, or say --others")
    with client() as http:
        own = OwnAccount(http)
        if id is None:
            click.echo(f"{counted(own.end_other_sessions(), 'session')} ended")
            return
        session = _one(own.sessions(), id, "session")
        own.end_session(session["id"])
    click.echo(f"{session['id']}: ended" + ("; it was this one: sign in again" if session["current"] else ""))
