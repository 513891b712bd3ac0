"""A job file of which some fields were set from outside, as by ``headway submit --set timeout=1h``.

    KEY=VALUE        of each task: timeout=1h, gpus=2, env.LR=0.1
    TASK.KEY=VALUE   of one task: train.gpus=2
    name=VALUE, priority=VALUE   of the job

A key of ``resources`` may stand alone. A change replaces what the file says, in ``defaults`` and in tasks. Lists and
mappings are written as in one line of YAML, ``gpu_model=[A100, H100]``, with their texts as typed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, Final

from headway.errors import Problem
from headway.jobfile.hints import nearest
from headway.jobfile.source import NOWHERE, DocumentUnreadable, Path, Source, SourcePosition, quoted
from headway.jobfile.spec import RESOURCES, TASK
from headway.jobfile.table import TaskField

_OF_THE_JOB: Final = ("name", "priority")
_NUMBERS: Final = (int, float)
_MAPPINGS: Final = ("env", "ulimits")
_COLLECTIONS: Final = ("command", "datasets", "env", "gpu_model", "needs", "secrets", "ulimits")
# A list or mapping in a few dozen characters: an option of a command line is no place for more.
_MOST_VALUES, _MOST_CHARS = 10_000, 1_000_000
_ROWS: Final[dict[str, TaskField]] = {row.key: row for row in (*RESOURCES.rows, *TASK.rows)}
# What messages advise in the form of a file: "env: {LR: 1}".
_ADVICE: Final = re.compile(rf"\b({'|'.join(_ROWS)}): (\[[^\]]*\]|\{{[^}}]*\}}|1(?= ))(?: to resources)?")
_LINE: Final = re.compile(r"^(?:not readable as YAML at )?line \d+(?:, column \d+)?: ")


class ChangedSource:
    """The document with the changes. Of a field that was set there is no place, but the change itself as ``origin``.

    Raises:
        DocumentUnreadable: a change that is none.
    """

    def __init__(self, source: Source, changes: Iterable[str]) -> None:
        self._source = source
        # Path: the value as typed, the whole change, and what was typed of a list or mapping.
        self._set: dict[Path, tuple[str, str, Source | None]] = {}
        self.value = source.value
        self.problems = source.problems
        for change in changes:
            self._apply(change)

    def forget_places(self) -> None:
        self._source.forget_places()

    def place(self, path: Path, *, of_key: bool = False) -> SourcePosition:
        return NOWHERE if self._found(path) else self._source.place(path, of_key=of_key)

    def written(self, path: Path) -> str | None:
        depth = self._found(path)
        if not depth:
            return self._source.written(path)
        text, _, inner = self._set[path[:depth]]
        return inner.written(path[depth:]) if inner and depth < len(path) else text

    def origin(self, path: Path) -> str:
        depth = self._found(path)
        return self._set[path[:depth]][1] if depth else ""

    def _found(self, path: Path) -> int:
        """How many steps of the path lead to what was set; 0: it was not."""
        return next((depth for depth in range(len(path), 0, -1) if path[:depth] in self._set), 0)

    def _apply(self, change: str) -> None:
        target, equals, text = change.partition("=")
        target = target.strip()
        if not equals or not target:
            raise _refused(change, "write KEY=VALUE, such as timeout=1h, or TASK.KEY=VALUE")
        if not isinstance(self.value, dict):
            return  # which is told as it is
        if target in _OF_THE_JOB:
            self._put((target,), text, change)
            return
        name, key = self._split(target)
        path = _path_of(key)
        if path is None:
            raise _refused(change, self._hidden(name, key, target, text) or self._unknown(name, key))
        if name == "resources" and key in RESOURCES.keys:
            # Both are likely, and a wrong guess would change too few tasks, or too many.
            raise _refused(
                change, f"a task has the name 'resources'; write {key}={text} for all tasks, or {name}.{target}={text}"
            )
        if name is None and path[0] not in TASK.shared_keys:
            raise _refused(change, f"{path[0]} is each task's own: write TASK.{key}={text}")
        row = _ROWS[str(path[-1] if path[0] == "resources" else path[0])]
        whole = path[0] not in _MAPPINGS or len(path) == 1
        listed = _collection(text, row.key, change) if whole or row.key == "ulimits" else None
        value, inner = listed or (_value_of(text, row, whole), None)
        if name is None:
            self._set_everywhere(path, value, text, change, inner)
            return
        for index, task in enumerate(self.value["tasks"]):
            if isinstance(task, dict) and task.get("name") == name:
                self._put(("tasks", index, *path), text, change, value, inner)

    def _hidden(self, name: str | None, key: str, target: str, text: str) -> str:
        """The way out where a task's name stands before what would be a key; empty: it doesn't."""
        if name is None:
            return ""
        outer, _, first = name.rpartition(".")
        if first not in _MAPPINGS or (outer and outer not in self._names()):
            return ""
        own = f"{name}.{first}.{key}={text}"
        return (
            f"a task has the name {quoted(name)}, and {quoted(key)} is no key of a task; write {own} for that task, or "
            f"{name}={{{key}: {text}}} for {f'task {quoted(outer)}' if outer else 'all tasks'}"
        )

    def _unknown(self, name: str | None, key: str) -> str:
        if key == "resources":
            return "'resources' is no key of a task by itself; set its keys one by one, such as gpus=1"
        known = [*_OF_THE_JOB, *(one for one in TASK.shared_keys if one != "resources"), *RESOURCES.keys]
        if near := nearest(key.partition(".")[0], known):
            return f"{quoted(key)} is no key of a task; did you mean {quoted(near)}?"
        if name is None and "." in key:
            who = nearest(key.partition(".")[0], self._names())
            hint = f"; did you mean {quoted(who)}?" if who else ""
            return f"no task has the name {quoted(key.partition('.')[0])}{hint}"
        return f"{quoted(key)} is no key of a task; known are {', '.join(known)}, and TASK.KEY"

    def _names(self) -> set[str]:
        tasks = self.value.get("tasks")
        listed = tasks if isinstance(tasks, list | tuple) else ()
        return {str(task["name"]) for task in listed if isinstance(task, dict) and "name" in task}

    def _split(self, target: str) -> tuple[str | None, str]:
        """The task that is meant, None for all of them, and the rest. The longest name counts, as names have dots."""
        names = self._names()
        for at in range(len(target) - 1, 0, -1):
            if target[at] == "." and target[:at] in names:
                return target[:at], target[at + 1 :]
        return None, target

    def _set_everywhere(self, path: Path, value: Any, text: str, change: str, inner: Source | None) -> None:
        """In ``defaults``, and nowhere else, so that what is wrong with it is told once."""
        tasks = self.value.get("tasks")
        if isinstance(tasks, list | tuple):
            self.value = {**self.value, "tasks": [_without(task, path) for task in tasks]}
        self._put(("defaults", *path), text, change, value, inner)

    def _put(self, path: Path, text: str, change: str, value: Any = None, inner: Source | None = None) -> None:
        self.value = _with(self.value, path, text if value is None else value)
        self._set[path] = (text, change, inner)


def as_typed(message: str, change: str) -> str:
    """A problem of what was set, in the form in which it was: without ``defaults``, which nobody wrote."""
    target = change.partition("=")[0].strip()
    prefix = target.rpartition(".")[0]
    if prefix in (*_MAPPINGS, "resources"):
        prefix = ""

    def advised(found: re.Match[str]) -> str:
        return f"--set '{prefix and prefix + '.'}{found[1]}={found[2]}'"

    return _ADVICE.sub(advised, message.removeprefix("defaults: "))


def _path_of(key: str) -> Path | None:
    first, dot, rest = key.partition(".")
    if first in _MAPPINGS:
        return (first, rest) if rest else None if dot else (first,)
    if first == "resources" and dot:
        first, dot = rest, ""
    elif first == "resources" or dot:
        return None
    if first in RESOURCES.keys:
        return ("resources", first)
    return (first,) if first in TASK.keys and not dot else None


def _collection(text: str, key: str, change: str) -> tuple[Any, Source] | None:
    """A list or mapping, for a field that takes one; None: it is neither."""
    if key == "gpu_model" and "," in text and not text.startswith(("[", '"')):
        raise _refused(change, f"write several models as a list: --set {quoted(f'{key}=[{text}]')}")
    # A script may begin with a brace, and with a bracket: [ -f data ] || exit 1
    if key not in _COLLECTIONS or not text.startswith("[" if key == "command" else ("[", "{")):
        return None
    from headway.jobfile.source_yaml import YamlSource

    try:
        source = YamlSource(text, max_nodes=_MOST_VALUES, max_expanded_chars=_MOST_CHARS)
    except DocumentUnreadable as unreadable:
        if key == "command":
            return None
        raise _refused(change, _LINE.sub("", str(unreadable))) from None
    if source.problems:
        raise _refused(change, _LINE.sub("", source.problems[0].message))
    if isinstance(source.value, dict):
        for name, value in source.value.items():
            if value is None and ":" in name:
                raise _refused(change, f"write a blank behind the colon: {name.replace(':', ': ', 1)}")
    return (source.value if key == "ulimits" else _texts(source.value, (), source)), source


def _texts(value: Any, path: Path, source: Source) -> Any:
    """The same with texts as typed: 1.10 is no number where texts are wanted."""
    if isinstance(value, dict):
        return {key: _texts(one, (*path, key), source) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_texts(one, (*path, index), source) for index, one in enumerate(value)]
    return source.written(path)


def _value_of(text: str, row: TaskField, whole: bool) -> Any:
    """What a job file would have: numbers for fields of numbers; texts in quotes as JSON."""
    if row.value in _NUMBERS or row.key == "ulimits" or (whole and text[:1] == '"'):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def _with(value: Any, path: Path, new: Any) -> Any:
    """``value`` with something else at the path; what the file shares among tasks is not touched."""
    if not path:
        return new
    step, *rest = path
    if isinstance(value, list | tuple) and isinstance(step, int):
        return [_with(one, tuple(rest), new) if at == step else one for at, one in enumerate(value)]
    inner = value.get(step) if isinstance(value, dict) else None
    return {**(value if isinstance(value, dict) else {}), step: _with(inner, tuple(rest), new)}


def _without(value: Any, path: Path) -> Any:
    step, *rest = path
    if not isinstance(value, dict) or step not in value:
        return value
    if rest:
        return {**value, step: _without(value[step], tuple(rest))}
    return {key: one for key, one in value.items() if key != step}


def _refused(change: str, why: str) -> DocumentUnreadable:
    return DocumentUnreadable(Problem("", f"--set {quoted(change)}: {why}", word=change[:200]))
