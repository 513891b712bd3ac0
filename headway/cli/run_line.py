"""The command line of ``headway run``: options first, then the command, as ``docker run`` and ``srun`` have it."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import click

from ..units import BadValue, parse_duration, parse_size
from . import slurm

_NO_TERMINAL: Final = "a job has no terminal; give image and command, as in `headway run --image IMAGE -- COMMAND`"
_ONE_CONTAINER: Final = "a job of `headway run` is one container on one machine; a job file has many tasks"
_LOGS: Final = "what the command prints is streamed here, and `headway logs ID` prints it again"
_FILES: Final = "a task sees no folder of yours: send code by `--code DIR`, name data by `--dataset NAME`"
_PLACE: Final = "the queue chooses the machine; `--gpu-model MODEL` asks for a model"
# Options of srun, sbatch and docker run: what to write, or why there is none.
_WORDS: Final = {
    **dict.fromkeys(("--gres", "-G", "--gpus-per-node", "--gpus-per-task"), "--gpus N"),
    **dict.fromkeys(("--gpu-type", "--gpu_type", "--constraint", "-C"), "--gpu-model MODEL"),
    **dict.fromkeys(("--time", "-t", "--time-limit", "--walltime", "--max-duration"), "--timeout 1h"),
    **dict.fromkeys(("--mem", "-m", "--mem-per-cpu", "--mem-per-gpu", "--ram"), "--memory 4GiB"),
    **dict.fromkeys(("--cpus-per-task", "-c", "--cpu", "--ncpus", "--cores"), "--cpus N"),
    **dict.fromkeys(("-e", "--env-var", "--export"), "--env NAME=VALUE"),
    **dict.fromkeys(("-J", "--job-name"), "--name NAME"),
    **dict.fromkeys(("-w", "-D", "--chdir", "--working-dir", "--cwd"), "--workdir DIR"),
    **dict.fromkeys(("--container-image", "-I", "--container"), "--image IMAGE"),
    **dict.fromkeys(("--restart", "--requeue", "--max-restarts"), "--retries N"),
    **dict.fromkeys(("-q", "--qos", "--nice"), "--priority high"),
    **dict.fromkeys(("--stop-timeout", "--kill-after"), "--grace 10s"),
    **dict.fromkeys(("--background", "--no-wait"), "--detach"),
}
_REASONS: Final = {
    **dict.fromkeys(("-i", "-it", "-ti", "-dit", "-itd", "--interactive", "--tty", "--pty"), _NO_TERMINAL),
    **dict.fromkeys(("-n", "--ntasks", "-N", "--nodes", "--ntasks-per-node", "-a", "--array"), _ONE_CONTAINER),
    **dict.fromkeys(("-o", "--output", "--error", "-f", "--follow", "--wait"), _LOGS),
    **dict.fromkeys(("-v", "--volume", "--mount", "--bind"), _FILES),
    **dict.fromkeys(("-p", "--partition", "-A", "--account", "--nodelist", "--exclusive"), _PLACE),
    **dict.fromkeys(("--shm-size", "--shm", "--gpu-memory", "--network", "--net", "-u", "--user", "--entrypoint"),
                    "a job file has it: `headway help job-file`"),
    **dict.fromkeys(("--set", "--dry-run", "--dependency", "--needs"), "it is for a job file: `headway submit FILE`"),
    "--rm": "leave it out: containers are always removed",
    "--publish": "a task has no open ports: `headway help network`",
}  # fmt: skip


class RunCommand(click.Command):
    """Refuses options that there aren't before the command, and says which of its own stand behind it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        typed = list(args)
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise click.UsageError(unknown_option(error.option_name, typed, self._flags()), ctx=ctx) from None
        command = ctx.params.get("command") or ()
        # Whoever wrote `--` has said what belongs to the program.
        explicit = typed[: len(typed) - len(command)][-1:] == ["--"]
        if not (ctx.resilient_parsing or explicit) and (note := passed_on(command, self._flags())):
            click.echo(f"headway: note: {note}", err=True)
        return rest

    def _flags(self) -> dict[str, click.Option]:
        options = [param for param in self.params if isinstance(param, click.Option)]
        return {name: option for option in options for name in option.opts}


def unknown_option(name: str, typed: Sequence[str], known: dict[str, Any]) -> str:
    """Why an option is refused, and what was meant. ``name`` is what the parser found: of ``-it`` it names ``-i``."""
    word = _word_of(name, typed)
    option, equals, value = word.partition("=")
    if not equals:
        at = typed.index(word) + 1 if word in typed else len(typed)
        value = typed[at] if at < len(typed) and not typed[at].startswith("-") else ""
    start = f"There is no option `{option}` of `headway run`"
    if option == "-t" and "-i" in typed:
        return f"{start}: {_NO_TERMINAL}."
    short = option if option.startswith("--") else option[:2]
    glued = option[2:] if short != option else value
    for flag, its in ((option, value), (short, glued)):
        if meant := slurm.meaning(flag, its) or _filled(flag, its):
            return f"{start}; write `{meant}`."
        if reason := _REASONS.get(flag):
            return f"{start}: {reason}."
    bare = option.strip("-").replace("_", "-").lower()
    near = difflib.get_close_matches(bare[:100], [one.strip("-") for one in known if one.startswith("--")], n=1)
    if near:
        return f"{start}; did you mean `--{near[0]}`?"
    return f"{start}. Options of your program stand behind its first word."


def _filled(flag: str, value: str) -> str:
    """What to write for an option of another tool, with the value as it was typed where it fits."""
    option, _, example = _WORDS.get(flag, "").partition(" ")
    fits = {
        "NAME=VALUE": "=" in value, "N": value.isdecimal(), "1h": _is(parse_duration, value),
        "4GiB": _is(parse_size, value), "10s": _is(parse_duration, value), "high": False,
    }  # fmt: skip
    if value and fits.get(example, bool(example)):
        example = shlex.quote(value)
    return f"{option} {example}".rstrip()


def _is(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except BadValue:
        return False
    return True


def _word_of(name: str, typed: Sequence[str]) -> str:
    """The word that holds the option, as it was typed."""
    for word in typed:
        if word == name or word.startswith(f"{name}="):
            return word
    if not name.startswith("--"):
        for word in typed:
            if word.startswith("-") and not word.startswith("--") and name[1:2] in word[1:]:
                return word
    return name


def passed_on(command: Sequence[str], known: dict[str, click.Option]) -> str:
    """Which options of ``headway run`` stand behind the first word, and so went to the program; empty: none."""
    found = list(_of_ours(command, known))
    if not found:
        return ""
    shown = [f"`{shlex.join(words)}`" for words, _ in found]
    went = " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
    if len(found) > 1:
        return f"{went} went to your program; write options of `headway run` before the command."
    return f"{went} went to your program; write it before the command to {_purpose(found[0][1])}."


def _of_ours(command: Sequence[str], known: dict[str, click.Option]) -> Iterator[tuple[list[str], str]]:
    for at, word in enumerate(command[1:], 1):
        if word == "--":
            return
        name, equals, _ = word.partition("=")
        option = known.get(name)
        if option is None or "help" in option.opts[0]:
            continue
        takes = not (equals or option.is_flag) and at + 1 < len(command)
        yield ([word, command[at + 1]] if takes else [word]), option.opts[-1]


def _purpose(flag: str) -> str:
    purposes = {
        "--gpus": "ask for GPUs",
        "--timeout": "set the timeout",
        "--memory": "ask for memory",
        "--cpus": "ask for CPUs",
        "--name": "name the job",
        "--image": "choose the image",
        "--detach": "return at once",
    }
    return purposes.get(flag, f"give `{flag}` to Headway")
