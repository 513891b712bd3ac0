"""``headway``: finds the command, loads its module, turns errors into one sentence and an exit status.

Exit status: 0 fine; 1 a task failed; 2 usage; 3 no service; 4 refused. ``run`` and ``submit --wait`` of one task end
with the task's own code.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from contextlib import nullcontext
from importlib.metadata import entry_points
from typing import Any

import click

from .. import errors
from . import server_part
from .topics import TOPICS

# Found by an entry point of this group: the kernel imports no service.
_OF_A_SERVICE = "headway.commands"
_TYPED = "headway.typed"  # the whole command line, for those who explain what is wrong with it
COMPLETE_VARIABLE = "_HEADWAY_COMPLETE"  # set by a shell that asks for completions
_COMMANDS = {
    # name: (module, attribute, one line of help); without a module, the command is one of a service
    "up": (".up", "up", "Start all of Headway on this machine."),
    "init": (".init", "init", "Set up a cluster of several machines, on its first one."),
    "join": (".join", "join", "Bring this machine into a cluster."),
    "doctor": (".doctor", "doctor", "Say what is wrong on this machine or in the cluster, with remedies."),
    "serve": (".serve", "serve", "Run one service."),
    "login": (".session", "login", "Sign in to a server and remember it."),
    "logout": (".session", "logout", "Forget the server's token."),
    "whoami": (".own", "whoami", "Say who is signed in, and where."),
    "passwd": (".own", "passwd", "Change your password."),
    "tokens": (".own", "tokens", "Your tokens for programs: list, make, delete."),
    "sessions": (".own", "sessions", "Your sessions: list and end them."),
    "submit": (".submit", "submit", "Submit a job file."),
    "run": (".submit", "run", "Run one command as a job and stream its log."),
    "ps": (".ps", "ps", "List jobs, or watch them."),
    "last": (".ps", "last", "Print the id of your latest job."),
    "show": (".jobs", "show", "Show one job with its tasks and attempts."),
    "explain": (".jobs", "explain", "Say why a task waits."),
    "logs": (".logs", "logs", "Print or follow logs."),
    "metrics": (".metrics", "metrics", "Show what a task uses: CPU, memory, GPUs."),
    "wait": (".jobs", "wait", "Wait until a job has ended."),
    "cancel": (".jobs", "cancel", "Cancel a job or a task."),
    "retry": (".jobs", "retry", "Run failed and skipped tasks again."),
    "clone": (".jobs", "clone", "Submit the same job once more."),
    "hold": (".jobs", "hold", "Keep waiting tasks from starting."),
    "release": (".jobs", "release", "Let held tasks wait for their turn again."),
    "pin": (".retention", "pin", "Keep jobs until they are unpinned."),
    "unpin": (".retention", "unpin", "Let the rules of retention count again."),
    "delete": (".retention", "delete", "Delete ended jobs with their logs."),
    "jobs": (".retention", "jobs", "Many jobs at once: prune old ones."),
    "events": (".events", "events", "Show or follow what happens to jobs."),
    "extend": (".jobs", "extend", "Give a running task more time."),
    "queue": (".cluster", "queue", "Show the waiting tasks, and why each one waits."),
    "gpu": (".gpu", "gpu", "Hold GPUs of this machine for a program that you start on it."),
    "gpus": (".gpus", "gpus", "Show who holds each GPU, and what is free."),
    "nodes": (".cluster", "nodes", "Show machines; close them for new work (admins)."),
    "certs": (".trust", "certs", "Certificates of the services: list and revoke them (admins)."),
    "usage": (".usage", "usage", "Show GPU hours by user, group, day, job or node; export past runs."),
    "accounts": (".accounts", "accounts", "Make, change, disable and remove accounts (admins)."),
    "audit": (".audit", "audit", "Show who changed what, and check the log (admins)."),
    "users": (".cluster", "users", "The former name of `accounts`."),
    "files": (".files", "files", "List, fetch, put and remove files of the personal space."),
    "images": (".market.images", "images", "The image market: list, push, pull, share, remove."),
    "datasets": (".market.datasets", "datasets", "The data market: list, publish, share, remove."),
    "groups": (".market.groups", "groups", "Groups of accounts, for sharing (admins)."),
    "registry": (".market.registry", "registry", "Credentials for image registries."),
    "secrets": (".secrets", "secrets", "Secrets for your tasks: set, list, remove."),
    "prepare-mount": (".mount", "prepare_mount", "Make a folder the shared mount of a cluster, once."),
    "backup": ("..backup.command", "backup", "Copy the managers' state into one archive."),
    "restore": ("..backup.command", "restore_command", "Bring the state in a backup back."),
    "completion": (".completion", "completion", "Print what a shell needs to complete commands and ids."),
    "help": (".completion", "help_", "Show the help of a command or a topic, such as `timeout`."),
    "simulate": ("", "simulate", "Run a trace under several policies of the queue, and compare."),
    "config": (".config_cmd", "config", "Show the configuration and where each value came from."),
}
# These run code of the server's part, which a laptop with the client alone lacks.
_OF_THE_SERVER = frozenset({"up", "init", "join", "serve", "prepare-mount", "simulate", "config", "backup", "restore"})


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        with server_part.door(cmd_name) if cmd_name in _OF_THE_SERVER else nullcontext():
            command = getattr(importlib.import_module(module, __package__), attribute) if module else _found(cmd_name)
        assert isinstance(command, click.Command)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_TYPED] = list(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            name = ctx.invoked_subcommand or ""
            sentence = server_part.explained(name, error) if name in _OF_THE_SERVER else None
            if sentence is None:
                raise
            raise sentence from error
        except click.UsageError as error:
            if better := _told_better(error):
                raise click.UsageError(better, ctx=error.ctx) from None
            raise
        except BrokenPipeError:
            # `headway logs … | head`: the reader has enough. Click would call that a failure.
            from .logs import nobody_reads

            nobody_reads()
            return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # Without importing a single command.
        elsewhere = frozenset[str]() if server_part.is_here() else _OF_THE_SERVER
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in _COMMANDS.items() if name not in elsewhere])
        if elsewhere:
            with formatter.section(f"Not installed here (pip install {server_part.SERVER})"):
                formatter.write_dl([(name, text) for name, (_, _, text) in _COMMANDS.items() if name in elsewhere])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            from .habits import advice

            if sentence := _of_another_tool(args):
                raise errors.JobFileInvalid(sentence)
            hint = advice(args[0], _COMMANDS)
            raise click.UsageError(f"There is no command {args[0]!r}.{' ' if hint else ''}{hint}", ctx=ctx)
        return super().resolve_command(ctx, args)


def _told_better(error: click.UsageError) -> str:
    """An unknown command of a group, or an unknown option, with what was meant; empty: click's words will do."""
    from . import habits

    context = error.ctx
    if context is None:
        return ""
    path = context.command_path.partition(" ")[2]
    if isinstance(error, click.NoSuchOption):
        typed: list[str] = context.meta.get(_TYPED, [])
        word = next((word for word in typed if word.partition("=")[0] == error.option_name), error.option_name)
        value = word.partition("=")[2] or next(iter(typed[typed.index(word) + 1 :]), "") if word in typed else ""
        hint = habits.option(path, error.option_name, value)
        return f"There is no option {error.option_name!r}. {hint}" if hint else ""
    unknown = re.match("No such command '(.*?)'", error.message)
    if not unknown or not isinstance(context.command, click.Group) or not path:
        return ""
    hint = habits.inside(
        path,
        unknown[1],
        context.command.list_commands(context),
        lists=context.command.invoke_without_command,
        outside=_COMMANDS,
    )
    return f"There is no command {unknown[1]!r} in `headway {path}`.{' ' if hint else ''}{hint}"


def _of_another_tool(args: list[str]) -> str:
    """What the file is that was given to a word such as `sbatch`; empty: no file, or nothing known."""
    from . import foreign
    from .habits import HABITS

    if not HABITS.get(args[0].lower(), "").startswith(("submit", "run")):
        return ""
    for word in args[1:]:
        if not word.startswith("-") and os.path.isfile(word):
            return foreign.at(word)
    return ""


def _found(name: str) -> object:
    """The command of a service, by its entry point."""
    for entry in entry_points(group=_OF_A_SERVICE, name=name):
        return entry.load()
    raise server_part.not_installed(name)


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=f"Topics, as in `headway help timeout`: {', '.join(TOPICS)}.",
)
@click.version_option(package_name="headway")
def cli() -> None:
    """Share a few GPUs: jobs in containers, short tasks first, nothing lost."""


def report(error: errors.HeadwayError) -> int:
    """Prints the sentence and all problems to standard error; returns the exit status."""
    sentence, problems = error.message, error.problems
    if len(problems) == 1 and _says(sentence, problems[0]):
        sentence, problems = sentence + _hint(sentence, problems[0]), ()
    click.echo(f"headway: {sentence}", err=True)
    for problem in problems:
        place = f"line {problem.line}, column {problem.column}: " if problem.line else ""
        pointer = f"{problem.pointer}: " if problem.pointer and not place else ""
        click.echo(f"  {place}{pointer}{problem.message}{_hint(problem.message, problem)}", err=True)
    if getattr(error, "status", 0) == 401:
        advice = "Here that is `headway login URL`, or a token in HEADWAY_TOKEN."
        if os.environ.get("HEADWAY_TOKEN", "").strip():
            advice = "HEADWAY_TOKEN is set and wins over `headway login`: unset it, or set a token that is valid here."
        click.echo(f"  {advice}", err=True)
    request_id = getattr(error, "request_id", "")
    if request_id and getattr(error, "status", 0) >= 500:
        click.echo(f"  (request {request_id})", err=True)
    return exit_status(error)


def _says(sentence: str, problem: errors.Problem) -> bool:
    return problem.message in sentence and (not problem.line or f"line {problem.line}," in sentence)


def _hint(sentence: str, problem: errors.Problem) -> str:
    # A sentence that already names the near name needs no second hint.
    if not problem.suggestion or problem.suggestion in sentence:
        return ""
    return f"{' Did' if sentence.endswith(('.', '?', '!')) else '; did'} you mean {problem.suggestion!r}?"


def exit_status(error: errors.HeadwayError) -> int:
    """3 when nobody answers or a part of Headway doesn't, 2 for wrong settings, else 4: refused."""
    status = getattr(error, "status", error.http_status)
    if isinstance(error, errors.ConfigInvalid):
        return 2
    return 3 if status in (502, 503, 504) else 4


def _open_outputs() -> None:
    """What a shell closed (``>&-``) leads nowhere, so that no command has to think of it."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, open(number, "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def main() -> None:
    """The console script."""
    _open_outputs()
    try:
        status = cli.main(standalone_mode=False, complete_var=COMPLETE_VARIABLE)
    except click.exceptions.Exit as stop:
        status = stop.exit_code
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("headway: interrupted", err=True)
        status = 130
    except errors.HeadwayError as error:
        status = report(error)
    except OSError as error:
        # A file of this machine: no such folder, no right, disk full.
        where = f"{error.filename2 or error.filename}: " if error.filename else ""
        click.echo(f"headway: {where}{error.strerror or error}", err=True)
        status = 2
    sys.exit(status if isinstance(status, int) else 0)
