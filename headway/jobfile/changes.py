"""A job file of which some fields were set from outside, as by ``headway submit --set timeout=1h``.

    KEY=VALUE        of each task: timeout=1h, gpus=2, env.LR=0.1
    TASK.KEY=VALUE   of one task: train.gpus=2
    name=VALUE, priority=VALUE   of the job

A key of ``resources`` may stand alone. A change replaces what the file says, in ``defaults`` and in tasks.
"""

from __future__ import annotations

import json
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
_ROWS: Final[dict[str, TaskField]] = {row.key: row for row in (*RESOURCES.rows, *TASK.rows)}


class ChangedSource:
    """The document with the changes. Of a field that was set there is no place, but the change itself as ``origin``.

    Raises:
        DocumentUnreadable: a change that is none.
    """

    def __init__(self, source: Source, changes: Iterable[str]) -> None:
        self._source = source
        self._set: dict[Path, tuple[str, str]] = {}  # path: the value as typed, the whole change
        self.value = source.value
        self.problems = source.problems
        for change in changes:
            self._apply(change)

    def forget_places(self) -> None:
        self._source.forget_places()

    def place(self, path: Path, *, of_key: bool = False) -> SourcePosition:
        return NOWHERE if self._found(path) else self._source.place(path, of_key=of_key)

    def written(self, path: Path) -> str | None:
        found = self._found(path)
        return found[0] if found else self._source.written(path)

    def origin(self, path: Path) -> str:
        found = self._found(path)
        return found[1] if found else ""

    def _found(self, path: Path) -> tuple[str, str] | None:
        return next((self._set[path[:depth]] for depth in range(len(path), 0, -1) if path[:depth] in self._set), None)

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
            raise _refused(change, self._unknown(name, key))
        if name is None and path[0] not in TASK.shared_keys:
            raise _refused(change, f"{path[0]} is each task's own: write TASK.{key}={text}")
        row = _ROWS[str(path[-1] if path[0] == "resources" else path[0])]
        value = _value_of(text, row, whole=path[0] not in _MAPPINGS or len(path) == 1)
        if name is None:
            self._set_everywhere(path, value, text, change)
            return
        for index, task in enumerate(self.value["tasks"]):
            if isinstance(task, dict) and task.get("name") == name:
                self._put(("tasks", index, *path), text, change, value)

    def _unknown(self, name: str | None, key: str) -> str:
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

    def _set_everywhere(self, path: Path, value: Any, text: str, change: str) -> None:
        """In ``defaults``, and nowhere else, so that what is wrong with it is told once."""
        tasks = self.value.get("tasks")
        if isinstance(tasks, list | tuple):
            self.value = {**self.value, "tasks": [_without(task, path) for task in tasks]}
        self._put(("defaults", *path), text, change, value)

    def _put(self, path: Path, text: str, change: str, value: Any = None) -> None:
        self.value = _with(self.value, path, text if value is None else value)
        self._set[path] = (text, change)


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


def _value_of(text: str, row: TaskField, *, whole: bool) -> Any:
    """What a job file would have: numbers for fields of numbers; lists, mappings and texts in quotes as JSON."""
    if row.value in _NUMBERS or row.key == "ulimits" or (whole and text[:1] in ("[", "{", '"')):
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
