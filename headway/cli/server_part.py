"""The door to the server's part: is the distribution headway-server here, whole, and of the client's own version?"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec

import click

CLIENT, SERVER = "headway", "headway-server"
# One module of the server's part that lies inside of this package, and one that lies beside it.
_SIGNS = ("headway.config", "task_manager")


class ServerPartMissing(click.ClickException):
    """A command needs the server's part, and that is not here, not whole, or of another version."""

    exit_code = 2


def is_here() -> bool:
    """Whether the modules of the server's part are found; its dependencies may lack. Reads no code of it."""
    return all(find_spec(name) is not None for name in _SIGNS)


def require(command: str) -> None:
    """Passes if `command`, which needs the server's part, can be loaded.

    A checkout that is on the path without being installed passes too: it has no versions that could differ.

    Raises:
        ServerPartMissing: it can't; the sentence says why, and what to install.
    """
    client, server = _installed(CLIENT), _installed(SERVER)
    if server is None:
        if not is_here():
            raise not_installed(command)
        return
    if client is not None and client.version != server.version:
        raise ServerPartMissing(
            f"{CLIENT} {client.version} and {SERVER} {server.version} are installed here, and only equal versions "
            f"work together: pip install {SERVER}=={client.version}"
        )
    if not is_here():
        raise ServerPartMissing(
            f"{SERVER} {server.version} is installed, but not beside {CLIENT}, or only in part. Install both into one "
            f"environment: pip install --force-reinstall {SERVER}=={server.version}"
        )
    missing = _missing(server)
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise ServerPartMissing(
            f"`headway {command}` can't run: {SERVER} needs {', '.join(missing)}, which {verb} not installed here: "
            f"pip install {SERVER}=={server.version}"
        )


@contextmanager
def door(command: str) -> Iterator[None]:
    """Stands around the loading of `command`.

    Raises:
        ServerPartMissing: for want of the server's part it can't be loaded.
    """
    require(command)
    try:
        yield
    except ModuleNotFoundError as error:
        sentence = explained(command, error)
        if sentence is None:
            raise
        raise sentence from error


def explained(command: str, error: ModuleNotFoundError) -> ServerPartMissing | None:
    """The sentence for a module that was missed behind the door; None if that is a bug of Headway.

    Behind the door of an installed server part nothing can be missing. A checkout may have been installed for its
    client alone: then its services are found, and what they import is not.
    """
    if _installed(SERVER) is not None or (error.name or "").partition(".")[0] == CLIENT:
        return None
    return not_installed(command, f" (Python finds no module {error.name})")


def not_installed(command: str, detail: str = "") -> ServerPartMissing:
    """The sentence for a machine that has the client alone."""
    client = _installed(CLIENT)
    exact = f"=={client.version}" if client is not None else ""
    return ServerPartMissing(
        f"`headway {command}` needs the server's part of Headway, which is not installed here{detail}: "
        f"pip install {SERVER}{exact}"
    )


def _installed(name: str) -> Distribution | None:
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def _missing(server: Distribution) -> list[str]:
    """Distributions that the server's part asks for without an extra, and that are not installed."""
    found = []
    for line in server.requires or ():
        requirement, _, marker = line.partition(";")
        name = re.match(r"\s*([\w.-]+)", requirement)
        if name is not None and not marker.strip() and _installed(name[1]) is None:
            found.append(name[1])
    return found
