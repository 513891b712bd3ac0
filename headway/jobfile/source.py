"""A document as plain values, with a way back from each value to the place where it stands.

Values are found first and places only when there is something to complain about, so that a good file costs
little.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from headway.errors import Problem

# The way from the root to a value: keys and list indexes.
Path = tuple[str | int, ...]

MAX_PROBLEMS: Final = 100


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """Where something stands; both count from 1 and are None for a document without a text form."""

    line: int | None = None
    column: int | None = None


NOWHERE: Final = SourcePosition()


class Ambiguous(str):
    """An unquoted YAML text that is a string to YAML 1.2 and something else to 1.1: ``yes``, ``0755``,
    ``12:30``."""

    __slots__ = ()


class Source(Protocol):
    """One document. ``value`` is made of dict, list, str, int, float, bool and None."""

    value: Any
    problems: list[Problem]  # what is wrong with the shape alone: repeated keys and the like

    def forget_places(self) -> None:
        """Gives back memory that only serves places; they can still be asked for."""

    def place(self, path: Path, *, of_key: bool = False) -> SourcePosition:
        """Where the value at the path (or its key) starts; for a path that isn't there, its nearest
        ancestor."""

    def origin(self, path: Path) -> str:
        """What set the value from outside of the document; empty: nothing did."""

    def written(self, path: Path) -> str | None:
        """The scalar at the path as it was typed, without quotes; None if there is no scalar."""


class DocumentUnreadable(Exception):
    """There is no document to check: wrong syntax, too large, hostile. Carries the problems."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__(problems[0].message)
        self.problems = problems


class ObjectSource:
    """A document that came as Python values (from the SDK or a decoded body): no lines and columns."""

    def __init__(self, value: Any) -> None:
        """Raises DocumentUnreadable for what no JSON could say."""
        self.problems: list[Problem] = []
        try:
            # A copy with the kinds of JSON only: tuples become lists, keys become text, and a later change by
            # the caller changes nothing here.
            self.value = json.loads(json.dumps(value))
        except (TypeError, ValueError, RecursionError) as error:
            raise DocumentUnreadable(Problem(pointer="", message=f"not a job file: {printable(str(error))}")) from None

    def forget_places(self) -> None:
        pass

    def place(self, path: Path, *, of_key: bool = False) -> SourcePosition:
        return NOWHERE

    def origin(self, path: Path) -> str:
        return ""

    def written(self, path: Path) -> str | None:
        at = self.value
        for step in path:
            try:
                at = at[step]
            except (KeyError, IndexError, TypeError):
                return None
        if isinstance(at, bool):
            return str(at).lower()
        if at is None:
            return "null"
        return str(at) if isinstance(at, str | int | float) else None


def pointer_of(path: Path) -> str:
    """The JSON pointer (RFC 6901) of a path."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def path_of(pointer: str) -> tuple[str, ...]:
    """The steps of a JSON pointer; list indexes stay text. The inverse of :func:`pointer_of` but for that."""
    if not pointer:
        return ()
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in pointer.lstrip("/").split("/"))


def child(container: Any, step: str | int) -> Any:
    """The value at one step, where a list index may be text. Raises KeyError if there is none."""
    if isinstance(container, Mapping):
        return container[step]
    if isinstance(container, list | tuple):
        try:
            index = int(step)
        except ValueError:
            raise KeyError(step) from None
        if 0 <= index < len(container):
            return container[index]
    raise KeyError(step)


def printable(text: str, limit: int = 200) -> str:
    """Fit for a message, a terminal and UTF-8: cut short, control and lone surrogate characters spelled
    out."""
    if len(text) <= limit and text.isprintable():
        return text
    clipped = text if len(text) <= limit else text[: limit - 3] + "..."
    return "".join(char if char.isprintable() else _escape(char) for char in clipped)


def _escape(char: str) -> str:
    names = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    code = ord(char)
    return names.get(char) or (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def quoted(text: str) -> str:
    """A word in a message: ``'word'``, cut after 60 characters."""
    return f"'{printable(text, 60)}'"


class Problems:
    """Collects everything that is wrong, up to a limit; what is over it is counted."""

    def __init__(self) -> None:
        self.found: list[Problem] = []
        self.total = 0

    def room(self) -> bool:
        """Whether the next one will be kept; lets costly hints be left out when not."""
        return len(self.found) < MAX_PROBLEMS

    def add(self, problem: Problem) -> None:
        self.total += 1
        if self.room():
            self.found.append(problem)

    def copy(self) -> Problems:
        """Another collection that starts with these."""
        out = Problems()
        out.found, out.total = list(self.found), self.total
        return out

    def __bool__(self) -> bool:
        return self.total > 0

    def listed(self) -> tuple[Problem, ...]:
        """In the order of the document, with a last one that counts those left out."""
        found = sorted(self.found, key=lambda problem: (problem.line or 0, problem.column or 0))
        left_out = self.total - len(found)
        if left_out:
            found.append(
                Problem(pointer="", message=f"and {left_out} more problems, shown once the ones above are fixed")
            )
        return tuple(found)
