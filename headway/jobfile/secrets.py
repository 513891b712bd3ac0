"""Which of its owner's secrets a task is given, and how: by their names only. Values are in no job file.

``HF_TOKEN`` is the environment variable of that name. ``{name: WANDB, env: WANDB_API_KEY}`` is a variable of another
name, and ``{name: key, file: id_rsa}`` the file ``/run/secrets/id_rsa``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from headway.jobfile import fields
from headway.jobfile.source import quoted
from headway.units import BadValue

FOLDER: Final = "/run/secrets"  # where a task has its files
MAX_SECRETS: Final = 100  # of one task
PARTS: Final = ("name", "env", "file")
NAME_RULE: Final = "letters (a-z, A-Z), digits and '_', not starting with a digit, up to 128"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_FILE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class SecretUse:
    """One secret as a task sees it. Either ``env`` or ``file`` says where, and the other is empty."""

    name: str
    env: str = ""  # the environment variable
    file: str = ""  # the file's name in FOLDER

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return f"{FOLDER}/{self.file}" if self.file else self.env


def secret_name(raw: Any) -> str:
    """The name of an account's secret."""
    name = fields.text(raw)
    if not _NAME.fullmatch(name):
        near = re.sub(r"[^A-Za-z0-9_]+", "_", name[:200]).strip("_")[:128]
        near = near if _NAME.fullmatch(near) else ""
        hint = f"; for instance {near}" if near else ""
        raise BadValue(f"{quoted(name)} is not a secret's name: {NAME_RULE}{hint}", suggestion=near or None)
    return name


def file_name(raw: Any) -> str:
    """The name of a file in FOLDER."""
    name = fields.text(raw)
    if not _FILE.fullmatch(name):
        rule = "letters, digits, '.', '_' and '-', starting with a letter, digit or '_', up to 128"
        raise BadValue(f"{quoted(name)} is not the name of a file in {FOLDER}: {rule}")
    return name


def variable_name(raw: Any) -> str:
    """The name of an environment variable that a secret may be."""
    return fields.env_name(fields.text(raw))


def as_json(uses: Iterable[SecretUse]) -> list[Any]:
    """As in a job file, in the short notation where it says the same."""
    return [
        use.name
        if use.env == use.name
        else {"name": use.name, "file": use.file}
        if use.file
        else {"name": use.name, "env": use.env}
        for use in uses
    ]
