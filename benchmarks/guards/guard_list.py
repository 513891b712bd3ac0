"""The lists of guards: where each stands, how it is taken away, and which tests must notice."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


class BadList(Exception):
    """A list of guards that makes no sense, or does not fit the code any more."""


class Change(StrEnum):
    """How a guard is taken away."""

    DELETE = "delete"  # the statement that begins with the quoted line does nothing
    NEVER = "never"  # the condition of the quoted `if` is false
    ALWAYS = "always"  # it is true
    BECOMES = "becomes"  # the quoted text is replaced by another one


@dataclass(frozen=True, slots=True)
class Guard:
    """One guard. ``quoted`` is text that stands once in ``file``. ``survives`` is the reason why no test fails."""

    name: str
    file: str
    quoted: str
    change: Change
    becomes: str
    tests: tuple[str, ...]
    promise: str
    survives: str = ""


def load(folder: Path = HERE) -> list[Guard]:
    """All guards of the lists in ``folder``, in the order of the files.

    Raises:
        BadList: an entry lacks something, or a name comes twice.
    """
    guards: list[Guard] = []
    for path in sorted(folder.glob("*.toml")):
        content = tomllib.loads(path.read_text("utf-8"))
        guards += [_guard(entry, path) for entry in content.get("guard", ())]
    names = [guard.name for guard in guards]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise BadList(f"These names come twice: {', '.join(twice)}.")
    return guards


def chosen(guards: Sequence[Guard], words: Sequence[str]) -> list[Guard]:
    """The guards whose name or file has one of the words; without words all."""
    return [guard for guard in guards if not words or any(word in guard.name or word in guard.file for word in words)]


def _guard(entry: dict[str, Any], path: Path) -> Guard:
    name = entry.get("name", "")
    changes = [change for change in Change if change.value in entry]
    lacking = [key for key in ("name", "file", "tests", "promise") if not entry.get(key)]
    if lacking or len(changes) != 1:
        what = f"lacks {', '.join(lacking)}" if lacking else "needs one of `delete`, `never`, `always` and `becomes`"
        raise BadList(f"{path.name}: the guard {name!r} {what}.")
    change = changes[0]
    quoted = entry.get("line", "") if change is Change.BECOMES else entry[change.value]
    if not quoted:
        raise BadList(f"{path.name}: the guard {name!r} needs `line`, the text that `becomes` replaces.")
    return Guard(
        name=name,
        file=entry["file"],
        quoted=quoted,
        change=change,
        becomes=entry.get("becomes", ""),
        tests=tuple(entry["tests"]),
        promise=entry["promise"],
        survives=entry.get("survives", ""),
    )
