"""registry: the account's credentials for image registries; the server keeps them encrypted."""

from __future__ import annotations

import click

from ...client.market import MarketClient
from ..common import ago, client, lines_of_input, output_option, print_json, safe, table


@click.group()
def registry() -> None:
    """Credentials for registries that your jobs' images come from."""


@registry.command("ls")
@output_option
def ls(output: str) -> None:
    """List registries for which you have stored credentials."""
    with client() as http:
        found = MarketClient(http).registries()
    if output == "json":
        print_json(found)
    elif found:
        rows = [[safe(r["registry"]), safe(r["username"]), ago(r["changed_at"])] for r in found]
        table(["registry", "user", "changed"], rows)


@registry.command("login")
@click.argument("host")
@click.option("-u", "--username", help="Asked for unless given.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input.")
@output_option
def login(host: str, username: str | None, password_stdin: bool, output: str) -> None:
    """Store a user name and password for the registry HOST, for instance registry.example.org or docker.io."""
    if username is None:
        if password_stdin:
            raise click.UsageError("--password-stdin needs --username too")
        username = click.prompt("User name", err=True)
    if password_stdin:
        password = lines_of_input(1)[0]
    else:
        password = click.prompt("Password or token", hide_input=True, err=True)
    with client() as http:
        stored = MarketClient(http).registry_login(host, str(username), password)
    if output == "json":
        print_json(stored)
        return
    asked = "" if stored["checked"] else " (the registry could not be asked now whether it takes them)"
    click.echo(f"{safe(stored['registry'])}: your jobs pull as {safe(stored['username'])}{asked}", err=True)


@registry.command("logout")
@click.argument("host")
def logout(host: str) -> None:
    """Forget the credentials for the registry HOST."""
    with client() as http:
        MarketClient(http).registry_logout(host)
