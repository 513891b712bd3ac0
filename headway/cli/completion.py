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


def _commands_and_topics(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from .topics import TOPICS

    typed = ctx.params.get("command") or ()
    found: click.Command | None = ctx.find_root().command
    for word in typed:
        found = found.get_command(ctx, word) if isinstance(found, click.Group) else None
    names = found.list_commands(ctx) if isinstance(found, click.Group) else []
    names = names if typed else [*names, *TOPICS, "topics"]
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command("help")
@click.argument("command", nargs=-1, shell_complete=_commands_and_topics)
@click.pass_context
def help_(ctx: click.Context, command: tuple[str, ...]) -> None:
    """Show the help of COMMAND, such as `headway help files put`, or of a topic, such as `headway help timeout`.

    `headway help topics` lists the topics.
    """
    from . import topics

    assert ctx.parent is not None
    here, found = ctx.parent, ctx.parent.command
    assert isinstance(found, click.Group)
    known = found.list_commands(here)
    if command and command[0] not in known:
        if command[0].lower() in known:
            command = (command[0].lower(), *command[1:])
        else:
            _topic(ctx, " ".join(command), known)
            return
    for word in command:
        if not isinstance(found, click.Group):
            raise click.UsageError(f"`headway {' '.join(command)}` is no command: it ends before {word!r}")
        _, inner, _ = found.resolve_command(here, [word])
        assert inner is not None
        here, found = click.Context(inner, info_name=word, parent=here), inner
    click.echo(found.get_help(here))
    if len(command) == 1 and (topic := topics.found(command[0])):
        click.echo(f"\nThe topic of this name: `headway help {topic}`.")


def _topic(ctx: click.Context, word: str, commands: list[str]) -> None:
    from . import topics
    from .habits import HABITS

    listed = ", ".join(topics.TOPICS)
    if word.strip().lower() in ("topics", "topic"):
        width = max(map(len, topics.TOPICS)) + 2
        click.echo("\n".join(f"{one:{width}}{topics.NAMES[one]}" for one in topics.TOPICS))
    elif topic := topics.found(word):
        for line in topics.lines(topic):
            click.echo(line)
    else:
        meant = HABITS.get(word.lower(), "").partition(" ")[0] or topics.near(word, commands)
        hint = f" Did you mean `headway help {meant}`?" if meant and not meant.startswith("-") else ""
        raise click.UsageError(f"There is no command or topic {word!r}.{hint}\nTopics: {listed}.", ctx=ctx)


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
