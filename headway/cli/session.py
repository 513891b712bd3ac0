"""login and logout."""

from __future__ import annotations

import click

from ..client import Client, Profile, Refused
from ..client.connection import checked_url
from ..client.profile import DEFAULT_URL, profile_path
from ..errors import NotSignedIn
from .common import typed_line


@click.command()
@click.argument("url", required=False)
@click.option("-u", "--user", help="Account name; asked for when left out.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input, for scripts.")
def login(url: str | None, user: str | None, password_stdin: bool) -> None:
    """Sign in to the server at URL (default: the one remembered, else http://127.0.0.1:8080)."""
    known = Profile.load()
    address = checked_url(url or known.url or DEFAULT_URL)
    name = user or click.prompt("User", default=known.user or None)
    if password_stdin:
        password = typed_line()
    else:
        password = click.prompt("Password", hide_input=True)
    with Client(Profile(url=address)) as http:
        try:
            answer = http.login(name, password)
        except Refused as refused:
            if refused.status == 401:  # plain: who signs in needs no advice to sign in
                raise NotSignedIn(refused.message) from refused
            raise
    account = answer.part("user")["name"]
    path = Profile(url=address, token=answer["token"], user=account).save()
    instead = f", in place of {known.url}" if known.token and known.url != address else ""
    click.echo(f"Signed in as {account} at {address} (remembered in {path}{instead}).")


@click.command()
def logout() -> None:
    """End the session at the server and forget its token."""
    known = Profile.load()
    if not known.token:
        click.echo("Not signed in.")
        return
    with Client(known) as http:
        http.logout()
    Profile(url=known.url, user=known.user).save(profile_path())
    click.echo(f"Signed out of {known.url}.")
