"""JSON by the standard library's fast parser; places are found by a second reading, only when they are
asked for."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import Any, Final

from headway.errors import Problem
from headway.jobfile.source import DocumentUnreadable, Path, SourcePosition, pointer_of, printable, quoted

_TOKEN = re.compile(r'[ \t\r\n]*(?:([{}\[\]:,])|("(?:[^"\\]|\\.)*")|([^\s{}\[\]:,"]+))')
_COMMENT = re.compile(r"[ \t\r\n]*(?://|/\*|#)")
_NO_COMMENTS: Final = "a comment, which JSON has not; remove it, or write YAML, where # begins one"
_TOO_DEEP: Final = "nested far too deep; a job file needs no more than 6 levels"
_EXPLAINED: Final = {
    "Expecting value": "a value is missing here (a comma too many, or a word without quotes)",
    "Expecting property name enclosed in double quotes": "a key in double quotes is expected here "
    "(no comma after the last entry)",
    "Expecting ',' delimiter": "a comma or a closing bracket is missing here",
    "Expecting ':' delimiter": "a ':' is missing after the key",
    "Extra data": "there is more after the end of the document",
    "Unterminated string starting at": "this text has no closing quote",
    "Invalid control character at": "a line break or tab inside a text is written \\n or \\t",
}


class JsonHasComments(DocumentUnreadable):
    """It would be JSON but for a comment. ``of_yaml``: the comment is one of YAML."""

    of_yaml: bool = False


class JsonSource:
    """See :class:`headway.jobfile.source.Source`. ``problems`` has what is wrong with the shape alone."""

    def __init__(self, text: str) -> None:
        """Raises DocumentUnreadable when there is no document to check."""
        self._text = text
        self._index: _Index | None = None
        self._odd = False  # a repeated key or NaN was met: the second reading says where
        try:
            self.value = json.loads(
                text, object_pairs_hook=self._object, parse_constant=self._constant, parse_int=_whole_number
            )
        except json.JSONDecodeError as error:
            comment = _COMMENT.match(text, error.pos)
            commented = comment is not None
            said = _NO_COMMENTS if commented else _EXPLAINED.get(error.msg, error.msg)
            unreadable = (JsonHasComments if commented else DocumentUnreadable)(
                Problem(
                    pointer="",
                    line=error.lineno,
                    column=error.colno,
                    message=f"not readable as JSON at line {error.lineno}, column {error.colno}: {said}",
                )
            )
            if isinstance(unreadable, JsonHasComments):
                unreadable.of_yaml = comment is not None and comment[0].endswith("#")
            raise unreadable from None
        except RecursionError:
            raise DocumentUnreadable(Problem(pointer="", message=_TOO_DEEP)) from None
        self.problems: list[Problem] = self._places().problems if self._odd else []

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) != len(pairs):
            self._odd = True
        return out

    def _constant(self, word: str) -> float:
        self._odd = True
        return float(word.replace("Infinity", "inf"))

    def _places(self) -> _Index:
        if self._index is None:
            self._index = _Index(self._text)
        return self._index

    def origin(self, path: Path) -> str:
        return ""

    def forget_places(self) -> None:
        """Gives back what the places were read into; when one is asked for, it is read again."""
        self._index = None

    def place(self, path: Path, *, of_key: bool = False) -> SourcePosition:
        index = self._places()
        node = index.root
        for step in path:
            found = _child(node, step)
            if found is None:
                break
            node = found
        return index.place(node.key_at if of_key and node.key_at is not None else node.at)

    def written(self, path: Path) -> str | None:
        node: _Node | None = self._places().root
        for step in path:
            node = _child(node, step) if node is not None else None
        if node is None or node.children is not None:
            return None
        raw = self._text[node.at : node.end]
        return json.loads(raw) if raw.startswith('"') else raw


def _whole_number(text: str) -> int | float:
    # Python refuses to read thousands of digits, by raising; no field takes such a number anyway.
    return int(text) if len(text) <= 40 else float(text)


class _Node:
    __slots__ = ("at", "children", "end", "key_at")

    def __init__(self, at: int, key_at: int | None) -> None:
        self.at = at
        self.end = at
        self.key_at = key_at
        self.children: dict[str, _Node] | list[_Node] | None = None


def _child(node: _Node, step: str | int) -> _Node | None:
    if isinstance(node.children, dict):
        return node.children.get(str(step))
    if isinstance(node.children, list) and str(step).isdecimal() and int(step) < len(node.children):
        return node.children[int(step)]
    return None


class _Index:
    """The offsets of every value and key of a text that is known to be good JSON."""

    def __init__(self, text: str) -> None:
        self._line_starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.problems: list[Problem] = []
        self.root = _Node(0, None)
        stack: list[_Node] = []
        path: list[str | int] = []
        key: str | None = None
        key_at: int | None = None
        for match in _TOKEN.finditer(text):
            mark, string, word = match.groups()
            at = match.start(match.lastindex or 0)
            parent = stack[-1] if stack else None
            if mark in ("}", "]"):
                stack.pop().end = at + 1
                path.pop()
                continue
            if mark in (":", ","):
                continue
            if string is not None and parent is not None and isinstance(parent.children, dict) and key is None:
                key, key_at = json.loads(string) if "\\" in string else string[1:-1], at
                if key in parent.children:
                    self._problem(
                        [*path[:-1], key], at, f"the key {quoted(key)} is written twice; keep one of the two", key
                    )
                continue
            node = _Node(at, key_at)
            node.end = match.end()
            if parent is None:
                self.root = node
            elif isinstance(parent.children, dict):
                path[-1] = key or ""
                parent.children[key or ""] = node
            elif isinstance(parent.children, list):
                path[-1] = len(parent.children)
                parent.children.append(node)
            key = key_at = None
            if mark is not None:
                node.children = {} if mark == "{" else []
                stack.append(node)
                path.append("")
            elif word in ("NaN", "Infinity", "-Infinity"):
                self._problem(path, at, f"{word} is not JSON; write a number or a text in quotes", word)

    def _problem(self, path: list[str | int], at: int, message: str, word: str) -> None:
        place = self.place(at)
        self.problems.append(
            Problem(
                pointer=printable(pointer_of(tuple(path)), 500),
                line=place.line,
                column=place.column,
                word=printable(word),
                message=f"line {place.line}: {message}",
            )
        )

    def place(self, at: int) -> SourcePosition:
        line = bisect_right(self._line_starts, at)
        return SourcePosition(line, at - self._line_starts[line - 1] + 1)
