"""completion and help: what a shell completes, and the help of a command."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import click
from click.shell_completion import CompletionItem, get_completion_class

from ..client import Client, Profile
from ..errors import HeadwayError
from .common import safe

_PROGRAM = "headway"
_WHERE = {
    "bash": 'eval "$(headway completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(headway completion zsh)" in ~/.zshrc',
    "fish": "headway completion fish | source in ~/.config/fish/config.fish",
}
# A key press doesn't wait for longer.
_PATIENCE_S = 2.0
_MOST = 50


@click.command(epilog="\b\nPut " + ",\nor ".join(_WHERE.values()) + ".")
@click.argument("shell", type=click.Choice(list(_WHERE)))
def completion(shell: str) -> None:
    """Print the script with which SHELL completes commands, options, files, job ids, task names and images."""
    from .main import COMPLETE_VARIABLE, cli

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(cli, {}, _PROGRAM, COMPLETE_VARIABLE).source())


@click.command("help")
@click.argument("command", nargs=-1)
@click.pass_context
def help_(ctx: click.Context, command: tuple[str, ...]) -> None:
    """Show the help of COMMAND, such as `headway help files put`, or of a topic, such as `headway help timeout`."""
    from . import topics

    assert ctx.parent is not None
    if len(command) == 1 and command[0] in topics.TOPICS:
        for line in topics.lines(command[0]):
            click.echo(line)
        return
    here, found = ctx.parent, ctx.parent.command
    for word in command:
        if not isinstance(found, click.Group):
            raise click.UsageError(f"`headway {' '.join(command)}` is no command: it ends before {word!r}")
        _, inner, _ = found.resolve_command(here, [word])
        assert inner is not None
        here, found = click.Context(inner, info_name=word, parent=here), inner
    click.echo(found.get_help(here))


def references(incomplete: str, most: int) -> list[CompletionItem]:
    """Ids of the latest jobs, or names of tasks behind an id and a slash."""
    job, slash, task = incomplete.partition("/")

    def tasks(http: Client) -> list[CompletionItem]:
        names = [one["name"] for one in http.job(job, attempts=False)["tasks"]]
        return [CompletionItem(f"{job}/{name}") for name in names if name.startswith(task)][:_MOST]

    def jobs(http: Client) -> list[CompletionItem]:
        found = [
            CompletionItem(job["id"], help=f"{job['state']} {safe(job['name'])}"[:60])
            for job in http.jobs(owner="me", limit=_MOST)
            if job["id"].startswith(incomplete)
        ]
        return [*found, CompletionItem("last", help="your latest job")] if "last".startswith(incomplete) else found

    return _answered(tasks if slash and most > 1 else jobs)


def images(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Images of the market that begin so."""

    def named(http: Client) -> list[CompletionItem]:
        found = http.ask("GET", "/images", params={"q": incomplete.partition(":")[0], "limit": _MOST})["images"]
        names = [f"{image['full_name']}:{tag['tag']}" for image in found for tag in image["tags"] if tag["tag"]]
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]

    return _answered(named)


def remote_files(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What lies in a folder of the personal space and begins so."""
    folder, slash, start = incomplete.rpartition("/")

    def entries(http: Client) -> list[CompletionItem]:
        listed = itertools.islice(http.files(folder), 10 * _MOST)
        names = [f"{entry['name']}{'/' if entry['kind'] == 'folder' else ''}" for entry in listed]
        return [CompletionItem(f"{folder}{slash}{name}") for name in names if name.startswith(start)][:_MOST]

    return _answered(entries)


def _answered(ask: Callable[[Client], list[CompletionItem]]) -> list[CompletionItem]:
    """A key press asks once and waits shortly. What goes wrong completes nothing."""
    try:
        with Client(Profile.load(), timeout_s=_PATIENCE_S, tries=1) as http:
            return ask(http)
    except (HeadwayError, OSError):
        return []
