"""login and logout."""

from __future__ import annotations

import click

from ..client import Client, Profile, Refused
from ..client.connection import checked_url
from ..client.profile import DEFAULT_URL, TOKEN_VARIABLE, URL_VARIABLE, from_environment, profile_path
from ..errors import ConfigInvalid, NotSignedIn
from .common import lines_of_input


@click.command()
@click.argument("url", required=False)
@click.option("-u", "--user", help="Account name; asked for when left out.")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input, for scripts.")
def login(url: str | None, user: str | None, password_stdin: bool) -> None:
    """Sign in to the server at URL (default: the one remembered, else http://127.0.0.1:8080)."""
    try:
        known = Profile.stored()
    except ConfigInvalid:
        known = Profile()  # a file that can't be read is written anew
    address = checked_url((url or from_environment(URL_VARIABLE) or known.url or DEFAULT_URL).strip())
    name = user or click.prompt("User", default=known.user or None)
    password = lines_of_input(1)[0] if password_stdin else click.prompt("Password", hide_input=True)
    with Client(Profile(url=address)) as http:
        try:
            answer = http.login(name, password)
        except Refused as refused:
            if refused.status == 401:  # plain: who signs in needs no advice to sign in
                raise NotSignedIn(refused.message) from refused
            raise
    path = Profile(url=address, token=answer["token"], user=answer["user"]["name"]).save()
    instead = f", in place of {known.url}" if known.token and known.url != address else ""
    click.echo(f"Signed in as {answer['user']['name']} at {address} (remembered in {path}{instead}).")
    for variable in _winning(address):
        click.echo(f"{variable} is set and wins over this sign-in: unset it to use this one.", err=True)


@click.command()
def logout() -> None:
    """End the session at the server and forget its token."""
    known = Profile.stored()
    holds = from_environment(TOKEN_VARIABLE)
    if known.token:
        with Client(known) as http:
            http.logout()
        Profile(url=known.url, user=known.user).save(profile_path())
        click.echo(f"Signed out of {known.url}.")
    else:
        click.echo(f"Not signed in{' by `headway login`' if holds else ''}.")
    if holds:
        click.echo(f"{TOKEN_VARIABLE} is set and still holds: unset it. `headway tokens rm` ends a token.", err=True)


def _winning(address: str) -> list[str]:
    """The variables that say something else than the sign-in at ``address``."""
    elsewhere = from_environment(URL_VARIABLE).rstrip("/") not in ("", address)
    return [URL_VARIABLE] * elsewhere + [TOKEN_VARIABLE] * bool(from_environment(TOKEN_VARIABLE))
