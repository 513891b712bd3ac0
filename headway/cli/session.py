"""login and logout."""

from __future__ import annotations

import sys
import time
from typing import Any

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
@click.option("--browser", is_flag=True, help="Sign in without a password: approve it on the page, on any machine.")
def login(url: str | None, user: str | None, password_stdin: bool, browser: bool) -> None:
    """Sign in to the server at URL (default: the one remembered, else http://127.0.0.1:8080)."""
    if browser and (user or password_stdin):
        raise click.UsageError(
            "--browser takes neither --user nor --password-stdin: who approves it on the page signs in"
        )
    try:
        known = Profile.stored()
    except ConfigInvalid:
        known = Profile()  # a file that can't be read is written anew
    address = checked_url((url or from_environment(URL_VARIABLE) or known.url or DEFAULT_URL).strip())
    answer = _by_page(address) if browser else _by_password(address, user, known.user, password_stdin)
    account = answer.part("user")["name"]
    path = Profile(url=address, token=answer["token"], user=account).save()
    instead = f", in place of {known.url}" if known.token and known.url != address else ""
    click.echo(f"Signed in as {account} at {address} (remembered in {path}{instead}).")
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


def _by_password(address: str, user: str | None, known: str, password_stdin: bool) -> Any:
    name = user or click.prompt("User", default=known or None)
    password = lines_of_input(1)[0] if password_stdin else click.prompt("Password", hide_input=True)
    with Client(Profile(url=address)) as http:
        try:
            return http.login(name, password)
        except Refused as refused:
            if refused.status == 401:  # plain: who signs in needs no advice to sign in
                raise NotSignedIn(f"{refused.message} `headway login --browser` needs no password.") from refused
            raise


def _by_page(address: str) -> Any:
    """Shows a code, and waits until somebody who is signed in on the page approves it."""
    with Client(Profile(url=address)) as http:
        asked = http.ask("POST", "/session/requests", repeat=False)
        place = f"{address}{asked['path']}"
        click.echo(f"Open {place}", err=True)
        click.echo(f"and approve the code {asked['code']} there. It may be on another machine.", err=True)
        if _has_browser():
            click.launch(place)
        while True:
            time.sleep(asked["every_s"])
            try:
                polled = http.ask("POST", "/session/requests/poll", json={"secret": asked["secret"]}, repeat=False)
            except Refused as refused:
                raise NotSignedIn(refused.message) from refused
            if polled["state"] == "approved":
                return polled["session"]
            if polled["state"] != "waiting":
                raise NotSignedIn("The sign-in was turned away on the page.")


def _has_browser() -> bool:
    """Whether somebody sits here: over SSH, and in scripts, the address is for another machine."""
    remote = any(from_environment(name) for name in ("SSH_CONNECTION", "SSH_TTY"))
    shown = sys.platform == "darwin" or any(from_environment(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    return shown and not remote and sys.stderr is not None and sys.stderr.isatty()


def _winning(address: str) -> list[str]:
    """The variables that say something else than the sign-in at ``address``."""
    elsewhere = from_environment(URL_VARIABLE).rstrip("/") not in ("", address)
    return [URL_VARIABLE] * elsewhere + [TOKEN_VARIABLE] * bool(from_environment(TOKEN_VARIABLE))
