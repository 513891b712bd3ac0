"""YAML 1.2 core without its traps, with lines and columns.

Only PyYAML's composer is used: it yields nodes with marks. What a plain scalar means is decided here, by the YAML 1.2
core schema alone. So there are no dates, no yes/no booleans, no base 60, and no octal by a leading zero.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from headway.errors import Problem
from headway.jobfile.source import (
    Ambiguous,
    DocumentUnreadable,
    Path,
    SourcePosition,
    pointer_of,
    printable,
    quoted,
)

MAX_DEPTH: Final = 32

_STR: Final = "tag:yaml.org,2002:str"
_SEQ: Final = "tag:yaml.org,2002:seq"
_MAP: Final = "tag:yaml.org,2002:map"
_PLAIN: Final = "?"
_SCALAR_TAGS: Final[dict[str, type | tuple[type, ...]]] = {
    "tag:yaml.org,2002:int": int,
    "tag:yaml.org,2002:float": (int, float),
    "tag:yaml.org,2002:bool": bool,
    "tag:yaml.org,2002:null": type(None),
}


class _Resolve:
    """Stands in for PyYAML's Resolver: says only whether a scalar was plain."""

    def resolve(self, kind: type, value: Any, implicit: Any) -> str:
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else _STR
        return _SEQ if kind is yaml.SequenceNode else _MAP

    def descend_resolver(self, parent: Any, index: Any) -> None:
        pass

    def ascend_resolver(self) -> None:
        pass

    def check_resolver_prefix(self, *_: Any) -> bool:
        return False


_Composer: Any
if yaml.__with_libyaml__:

    class _CComposer(yaml.cyaml.CParser, _Resolve):  # type: ignore[misc, name-defined]
        pass

    _Composer = _CComposer
else:

    class _PyComposer(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser, yaml.composer.Composer, _Resolve):
        def __init__(self, stream: str) -> None:
            yaml.reader.Reader.__init__(self, stream)
            yaml.scanner.Scanner.__init__(self)
            yaml.parser.Parser.__init__(self)
            yaml.composer.Composer.__init__(self)

    _Composer = _PyComposer


# --- what a plain scalar means -------------------------------------------------------------------------

_CORE: Final[dict[str, bool | float | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,40})")
_OTHER_BASE = re.compile(r"0o[0-7]{1,40}|0x[0-9a-fA-F]{1,40}")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# What YAML 1.1 takes for a boolean, number or date and 1.2 for text, and numbers that start with 0, which
# are octal to one and decimal to the other.
_OLD = re.compile(
    r"""(?ix: yes|no|on|off
    | [-+]?0[0-9_]+ | [-+]?0b[01_]+ | [-+]?0x[0-9a-f_]+ | [-+]?0o[0-7_]+ | [-+]?[0-9][0-9_]*
    | [-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?
    | [-+]?(?:[0-9][0-9_]*)?\.[0-9_]*(?:e[-+]?[0-9]+)? | [-+]?[0-9][0-9_]*e[-+]?[0-9]+
    | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:(?:t|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}.*)?
    | = | << )"""
)
_MAY_BE_SPECIAL: Final = frozenset("0123456789+-.~nNtTfFyYoO=<")


def resolve_plain(text: str) -> str | int | float | bool | None:
    """The YAML 1.2 core value of a plain scalar; a text with another meaning in YAML 1.1 comes as
    Ambiguous."""
    if text and text[0] not in _MAY_BE_SPECIAL:
        return text
    if text in _CORE:
        return _CORE[text]
    if _INT.fullmatch(text):
        return int(text)
    if _OTHER_BASE.fullmatch(text):
        return int(text, 0)
    if len(text) <= 400 and _FLOAT.fullmatch(text):
        return float(text)
    if _OLD.fullmatch(text) and any(char.isalnum() or char in "=<" for char in text):
        return Ambiguous(text)
    return text


# --- reading -------------------------------------------------------------------------------------------

# What may not stand in a YAML file as such (C0, DEL, C1, non-characters), and the three line breaks of
# YAML 1.1, which the parser would change or fold and which YAML 1.2 takes for ordinary text.
_UNWANTED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")


class YamlSource:
    """See :class:`headway.jobfile.source.Source`. ``problems`` has what is wrong with the shape alone."""

    def __init__(self, text: str, *, max_nodes: int, max_expanded_chars: int) -> None:
        """Raises DocumentUnreadable when there is no document to check."""
        if bad := _UNWANTED.search(text):
            before = text[: bad.start()]
            line = before.count("\n") + 1
            column = bad.start() - before.rfind("\n")
            name = f"U+{ord(bad[0]):04X}"
            raise DocumentUnreadable(
                Problem(
                    pointer="",
                    line=line,
                    column=column,
                    word=name,
                    message=f"line {line} has the character {name}, which can't stand in a YAML file; remove it, "
                    f'or write it as "{_yaml_escape(bad[0])}" between double quotes',
                )
            )
        self._text = text
        self._root: Any = _compose(text)
        self.problems: list[Problem] = []
        self._path: list[str | int] = []
        self._done: dict[int, tuple[Any, int, int]] = {}
        self._open: set[int] = set()
        self._nodes = 0
        self._chars = 0
        self._max_nodes = max_nodes
        self._max_chars = max_expanded_chars
        self.value = self._value(self._root) if self._root is not None else None
        self._done.clear()

    def _value(self, node: Any) -> Any:
        """Recursive, but no deeper than MAX_DEPTH."""
        if node.__class__ is yaml.ScalarNode:
            self._nodes += 1
            self._chars += len(node.value)
            tag = node.tag
            if tag == _PLAIN:
                return resolve_plain(node.value)
            return node.value if tag == _STR else self._tagged(node)
        key = id(node)
        if known := self._done.get(key):
            # An alias: the value is shared, but counts as often as it is used.
            value, nodes, chars = known
            self._nodes += nodes
            self._chars += chars
            self._check_size(node)
            return value
        if key in self._open:
            raise self._fatal(node, "an alias (*) stands inside the very thing that it points to")
        if len(self._path) >= MAX_DEPTH:
            raise self._fatal(node, f"nested more than {MAX_DEPTH} deep; a job file needs no more than 6")
        nodes, chars = self._nodes, self._chars
        self._open.add(key)
        self._nodes += 1
        value = self._list(node) if node.__class__ is yaml.SequenceNode else self._mapping(node)
        self._check_size(node)
        self._open.discard(key)
        self._done[key] = (value, self._nodes - nodes, self._chars - chars)
        return value

    def _list(self, node: Any) -> list[Any]:
        if node.tag != _SEQ:
            self._wrong_tag(node)
        out, path = [], self._path
        path.append(0)
        for index, item in enumerate(node.value):
            path[-1] = index
            out.append(self._value(item))
        path.pop()
        return out

    def _mapping(self, node: Any) -> dict[str, Any]:
        if node.tag != _MAP:
            self._wrong_tag(node)
        out: dict[str, Any] = {}
        path = self._path
        path.append("")
        for key_node, value_node in node.value:
            if key_node.__class__ is not yaml.ScalarNode:
                self._problem(key_node, "a key has to be a plain word, not a list or mapping", at=path[:-1])
                continue
            key = key_node.value
            path[-1] = key
            if key_node.tag not in (_PLAIN, _STR):
                self._wrong_tag(key_node)
            if key == "<<" and key_node.tag == _PLAIN:
                self._problem(
                    key_node,
                    "merge keys (<<) are not part of YAML 1.2; put what the tasks share under 'defaults'",
                )
                continue
            if key in out:
                self._problem(key_node, f"the key {quoted(key)} is written twice; keep one of the two")
                continue
            self._nodes += 1
            self._chars += len(key)
            out[key] = self._value(value_node)
        path.pop()
        return out

    def _tagged(self, node: Any) -> Any:
        kind = _SCALAR_TAGS.get(node.tag)
        value = resolve_plain(node.value)
        if kind is None or not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            self._wrong_tag(node)
            return node.value
        return value

    def _wrong_tag(self, node: Any) -> None:
        tag = str(node.tag).replace("tag:yaml.org,2002:", "!!")
        self._problem(node, f"the tag {quoted(tag)} is not allowed here; remove it (quotes make a text)", word=tag)

    def _check_size(self, node: Any) -> None:
        if self._nodes > self._max_nodes or self._chars > self._max_chars:
            raise self._fatal(node, "too large once its aliases (*) are written out; repeat less, or split the job")

    def _problem(self, node: Any, message: str, *, at: list[str | int] | None = None, word: str = "") -> None:
        mark = node.start_mark
        self.problems.append(
            Problem(
                pointer=printable(pointer_of(tuple(self._path if at is None else at)), 500),
                line=mark.line + 1,
                column=mark.column + 1,
                word=printable(word or (node.value if isinstance(node.value, str) else "")),
                message=f"line {mark.line + 1}: {message}",
            )
        )

    def _fatal(self, node: Any, message: str) -> DocumentUnreadable:
        self._problem(node, message)
        return DocumentUnreadable(self.problems[-1])

    def origin(self, path: Path) -> str:
        return ""

    def forget_places(self) -> None:
        """Gives the nodes back, which are most of the memory; when a place is asked for, they are read again."""
        self._root = None

    def place(self, path: Path, *, of_key: bool = False) -> SourcePosition:
        node, key_node = self._walk(path)
        if node is None:
            return SourcePosition(1, 1)  # an empty file
        mark = (key_node if of_key and key_node is not None else node).start_mark
        return SourcePosition(mark.line + 1, mark.column + 1)

    def written(self, path: Path) -> str | None:
        node, _ = self._walk(path, exact=True)
        return node.value if node is not None and isinstance(node.value, str) else None

    def _walk(self, path: Path, *, exact: bool = False) -> tuple[Any, Any]:
        """The node at the path and its key's node; without ``exact``, of the nearest ancestor that is
        there."""
        if self._root is None:
            self._root = _compose(self._text)
        node, key_node = self._root, None
        for step in path:
            found: tuple[Any, Any] | None = None
            if isinstance(node, yaml.MappingNode):
                found = next(
                    ((value, key) for key, value in node.value if isinstance(key.value, str) and key.value == step),
                    None,
                )
            elif isinstance(node, yaml.SequenceNode):
                index = int(step) if str(step).isdecimal() else -1
                found = (node.value[index], None) if 0 <= index < len(node.value) else None
            if found is None:
                return (None, None) if exact else (node, key_node)
            node, key_node = found
        return node, key_node


def _compose(text: str) -> Any:
    composer = None
    try:
        composer = _Composer(text)
        return composer.get_single_node()
    except yaml.MarkedYAMLError as error:
        raise DocumentUnreadable(_syntax_problem(error, text)) from None
    except yaml.YAMLError as error:
        raise DocumentUnreadable(Problem(pointer="", message=f"not a YAML document: {printable(str(error))}")) from None
    except RecursionError:
        raise DocumentUnreadable(
            Problem(pointer="", message=f"nested more than {MAX_DEPTH} deep; a job file needs no more than 6")
        ) from None
    finally:
        if composer is not None:
            composer.dispose()


_EXPLAINED: Final = (
    (r"single document", "there is more than one document; submit each as a job file of its own, without '---'"),
    (r"'\\t'|tab character", "a tab is used for indentation; YAML takes spaces only"),
    (
        r"mapping values are not allowed",
        "a ':' stands where none can; a text that has ': ' in it goes in quotes, and keys line up",
    ),
    (r"found undefined alias", "an alias (*) names no anchor (&); a text that starts with * goes in quotes"),
    (r"duplicate anchor", "an anchor (&) is defined twice"),
    (r"maximum nesting depth|maximum nesting level", "nested far too deep; a job file needs no more than 6 levels"),
    (r"did not find expected ',' or", "a list [ ] or mapping { } is not closed, or a ',' is missing in it"),
    (r"could not find expected ':'", "a key without ':' after it, or a text that goes on with wrong indentation"),
    (r"did not find expected key", "not lined up with the keys around it, or a quote that ends too early"),
    (r"did not find expected '-'", "not lined up with the '-' entries around it"),
    (r"unexpected end of stream", "this text has no closing quote"),
    (r"unknown escape character", "an unknown \\ escape in double quotes; use single quotes, or write \\\\"),
    (r"character that cannot start any token", "a character that can't start a text; put the text in quotes"),
    (r"undefined tag handle", "a tag (!) is not allowed here; a text that starts with ! goes in quotes"),
)


_INDENTED_BY_TAB = re.compile(r" *\t")


def _tab_problem(text: str, mark: Any) -> Problem | None:
    """The tab at the start of the line that can't be read, if there is one: whatever the parser says, that is why."""
    lines = text.split("\n", mark.line + 1)
    tab = _INDENTED_BY_TAB.match(lines[mark.line]) if mark.line < len(lines) else None
    if tab is None:
        return None
    line, column = mark.line + 1, tab.end()
    return Problem(
        pointer="",
        line=line,
        column=column,
        word="\\t",
        message=f"not readable as YAML at line {line}, column {column}: a tab is used for indentation; YAML takes "
        "spaces only",
    )


def _syntax_problem(error: yaml.MarkedYAMLError, text: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    if mark is not None and (tab := _tab_problem(text, mark)):
        return tab
    if error.problem == "found unexpected end of stream":
        # The end of the file is the place of nothing; where the open quote stands is worth knowing.
        mark = error.context_mark or mark
    raw = " ".join(str(part) for part in (error.context, error.problem) if part)
    said = next((ours for pattern, ours in _EXPLAINED if re.search(pattern, raw)), None)
    if mark is None:
        return Problem(pointer="", message=f"not a YAML document: {said or printable(raw)}")
    where = f"line {mark.line + 1}, column {mark.column + 1}"
    return Problem(
        pointer="",
        line=mark.line + 1,
        column=mark.column + 1,
        message=f"not readable as YAML at {where}: {said or printable(raw)}",
    )


def _yaml_escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
