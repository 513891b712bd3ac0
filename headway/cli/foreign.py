"""Files of other tools that are given as job files: scripts with ``#SBATCH`` lines, Compose files and the like."""

from __future__ import annotations

import re
import shlex
from pathlib import PurePath
from typing import Final

from ..errors import JobFileInvalid
from .common import content_of
from .slurm import of_script

_MOST = 1 << 20  # what a file is shows at its beginning
_KEY = re.compile(r"^([A-Za-z_][\w-]*|\"on\"|'on')[ \t]*:(?:[ \t]+([^\s#]+)|[ \t]*$|[ \t])", re.MULTILINE)
_DSTACK: Final = ("task", "service", "dev-environment", "fleet", "gateway", "volume")
_RUN: Final = (
    "Run one command with `headway run --image IMAGE -- COMMAND`, or write a job file: `headway help job-file`."
)
_SHELLS: Final = ("sh", "bash", "dash", "zsh", "ksh", "ash")


def job_text(file: str) -> bytes:
    """The content of a job file, or of standard input for ``-``.

    Raises:
        OSError: it can't be read.
        JobFileInvalid: it is a file of another tool.
    """
    text = content_of(file)
    if sentence := named(text, file):
        raise JobFileInvalid(sentence)
    return text


def at(file: str) -> str:
    """As :func:`named`, of a file by its name; empty where it can't be read, too."""
    try:
        with open(file, "rb") as opened:
            return named(opened.read(_MOST), file)
    except OSError:
        return ""


def named(content: bytes, file: str) -> str:
    """What a file is that is no job file, and what to do with it; empty: nothing that is known here."""
    text = content[:_MOST].decode(errors="replace")
    keys = {name.strip("\"'"): value for name, value in _KEY.findall(text)}
    if "tasks" in keys or file.endswith(".json"):
        return ""  # which the server judges
    if text.startswith("#!") or re.search(r"^#SBATCH\s", text, re.MULTILINE) or file.endswith((".sh", ".py")):
        return _script(text, file)
    file = "standard input" if file == "-" else file
    if "services" in keys:
        return f"{file} is a Compose file, not a job file: a task has an image and a command as a service has. {_RUN}"
    if keys.get("type", "").strip("\"'") in _DSTACK:
        return f"{file} is a dstack file, not a job file: it asks for what a task says in other words. {_RUN}"
    if "jobs" in keys and "on" in keys:
        return f"{file} is a GitHub workflow, not a job file: its jobs with `needs` are tasks here. {_RUN}"
    if "apiVersion" in keys and "kind" in keys:
        return f"{file} is a Kubernetes manifest, not a job file. {_RUN}"
    if re.match(r"(?:\s*#[^\n]*\n|\s*\n)*(?:FROM|ARG)\s", text):
        return f"{file} is a Dockerfile, not a job file. Build it, and send it: `headway images push NAME:TAG`."
    return ""


def _script(text: str, file: str) -> str:
    file = "job.sh" if file == "-" else file  # the name that the advice gives it
    lines = text.splitlines()
    words = lines[0].removeprefix("#!").split() if text.startswith("#!") else []
    if words and PurePath(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    program = PurePath(words[0]).name if words else "python3" if file.endswith(".py") else "bash"
    kind = "a shell script" if program in _SHELLS else f"a script for {program}"
    options, unknown = of_script(lines)
    if any(line.startswith("#SBATCH") for line in lines):
        kind = f"{kind} for Slurm"
    path = PurePath(file)
    command = shlex.join([program, path.name])
    asked = "".join(f" {option}" for option in options)
    rest = f" Its {', '.join(unknown[:8])} {'have' if len(unknown) > 1 else 'has'} no option there." if unknown else ""
    run = f"headway run --code {shlex.quote(str(path.parent))}{asked} -- {command}"
    return f"{file} is {kind}, not a job file. Run it: `{run}`.{rest}"
