"""nodes invite, nodes invitations, nodes uninvite; certs."""

from __future__ import annotations

import time
from typing import Any

import click

from ..client.trust import TrustApi
from ..units import BadValue, parse_duration
from .common import ago, client, moment, output_option, print_json, safe, table

_ROLES = ("worker", "job_manager", "task_manager")


class _Life(click.ParamType):  # type: ignore[type-arg]
    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        try:
            life_s = parse_duration(value)
        except BadValue as error:
            self.fail(error.message, param, ctx)
        if not 60 <= life_s <= 7 * 86_400:
            self.fail("it must be at least 1m and at most 7d", param, ctx)
        return float(life_s)


@click.command("invite")
@click.option(
    "--role", type=click.Choice(_ROLES), default="worker", show_default=True, help="What the machine will run."
)
@click.option("--name", default="", help="The node's name, for a worker; the machine says it if left out.")
@click.option("--for", "for_s", type=_Life(), default="1h", show_default=True, help="How long the token may be used.")
@output_option
def nodes_invite(role: str, name: str, for_s: float, output: str) -> None:
    """Make a token by which one machine joins, once (admins).

    The command for that machine is printed, alone on standard output. Who has it can add a machine: pass it on as you
    would a password.
    """
    with client() as http:
        made = TrustApi(http).invite(role, name, for_s)
        url = http.profile.url
    if output == "json":
        print_json(made)
        return
    what = f"the node {name}" if name else "a worker" if role == "worker" else role
    click.echo(
        f"Good for one machine, as {what}, until {moment(made['expires_at'])}. Shown only now. Run there, as root:",
        err=True,
    )
    click.echo(f"headway join {url} --token {made['token']}")


@click.command("invitations")
@output_option
def nodes_invitations(output: str) -> None:
    """List tokens by which machines join or joined (admins)."""
    with client() as http:
        found = TrustApi(http).invitations()
    if output == "json":
        print_json(found)
        return
    now = time.time()
    rows = [
        [
            one["id"],
            one["role"],
            safe(one["name"]) or "any",
            safe(one["by"]),
            ago(one["made_at"], now),
            _fate(one, now),
        ]
        for one in found
    ]
    table(["token", "role", "name", "made by", "made", ""], rows)


def _fate(one: dict[str, Any], now: float) -> str:
    if one["used_at"] is not None:
        return f"used {ago(one['used_at'], now)}" + (f" by {safe(one['used_as'])}" if one["used_as"] else "")
    return f"until {moment(one['expires_at'])}" if one["expires_at"] > now else "expired"


@click.command("uninvite")
@click.argument("token_id")
def nodes_uninvite(token_id: str) -> None:
    """Delete the token TOKEN_ID, so that nobody joins by it (admins). A machine that joined stays."""
    with client() as http:
        TrustApi(http).delete_invitation(token_id)
    click.echo(f"{token_id}: deleted")


@click.group(invoke_without_command=True)
@output_option
@click.pass_context
def certs(ctx: click.Context, output: str) -> None:
    """Certificates of the services: list and revoke them (admins)."""
    if ctx.invoked_subcommand is None:
        ctx.invoke(certs_list, output=output)
    elif output != "table":
        raise click.UsageError(f"write -o {output} behind {ctx.invoked_subcommand}")


@certs.command("list")
@output_option
def certs_list(output: str = "table") -> None:
    """List certificates, with their serials."""
    with client() as http:
        found = TrustApi(http).certificates()
    if output == "json":
        print_json(found)
        return
    now = time.time()
    rows = [
        [
            one["role"],
            safe(one["name"]),
            moment(one["expires_at"]),
            one["origin"],
            _standing(one, now),
            one["serial"],
        ]
        for one in found
    ]
    table(["role", "name", "good until", "came by", "", "serial"], rows)


def _standing(one: dict[str, Any], now: float) -> str:
    if one["revoked_at"] is not None:
        return f"revoked by {safe(one['revoked_by'])} {ago(one['revoked_at'], now)}"
    return "" if one["expires_at"] > now else "expired"


@certs.command("revoke")
@click.argument("which", metavar="SERIAL|NODE")
@output_option
def certs_revoke(which: str, output: str) -> None:
    """Let a certificate count no more, for good: of a stolen machine, or of one that left.

    NODE is a node's name: all of its certificates go, and it gets no new work. A manager's role works too. A machine
    comes back by a new token and `headway join --renew`.
    """
    with client() as http:
        done = TrustApi(http).revoke(which)
    if output == "json":
        print_json(done)
        return
    for one in done["certificates"]:
        click.echo(f"{one['role']} {safe(one['name'])} {one['serial']}: revoked")
    for node in done["cordoned"]:
        click.echo(f"{safe(node)}: gets no new work now; `headway nodes uncordon {safe(node)}` opens it again.")
