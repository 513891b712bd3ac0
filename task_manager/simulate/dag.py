"""Reads workflows: JSON of the form ``{name, tasks: [{name, runtime_s, depends_on[], cpus, mem_mib}]}``."""

from __future__ import annotations

import json
import math
from collections import deque
from pathlib import Path
from typing import Any

from .errors import TraceInvalid
from .trace_records import (
    MAX_CPUS,
    MAX_GPUS,
    MAX_MEM_MIB,
    MAX_SPAN_S,
    MIB,
    MIN_TIMEOUT_S,
    TraceRecord,
    TraceRecords,
    content_of,
    quoted,
    rounded_up,
)

_MOST_BYTES = 256 << 20


def read_dag(path: Path, *, submit_s: float = 0.0, job: int = 0) -> TraceRecords:
    """The tasks of a workflow that is submitted as one job at ``submit_s``. ``-`` is standard input.

    Raises:
        TraceInvalid: the first thing that is wrong, with the task and the field.
        OSError: the file can't be read.
    """
    content, name = content_of(path, "workflow", _MOST_BYTES)
    return parse_dag(content, name, submit_s=submit_s, job=job)


def parse_dag(content: bytes, name: str, *, submit_s: float = 0.0, job: int = 0) -> TraceRecords:
    """As :func:`read_dag`, from memory; ``name`` is for the messages."""
    try:
        document = json.loads(content.decode("utf-8-sig"), parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise TraceInvalid(
            f"{name}, line {error.lineno}, column {error.colno}: this is not JSON: {error.msg}."
        ) from None
    except RecursionError:
        raise TraceInvalid(f"{name} is no workflow: it is nested too deeply.") from None
    except (UnicodeDecodeError, ValueError) as error:
        raise TraceInvalid(f"{name} is not JSON: {error}.") from None
    tasks = document.get("tasks") if isinstance(document, dict) else None
    if not isinstance(tasks, list) or not tasks:
        raise TraceInvalid(f"{name} is no workflow: it needs a list of tasks under the key tasks.")
    numbers: dict[str, int] = {}
    fields = [_Fields(name, i, task) for i, task in enumerate(tasks)]
    for i, task in enumerate(fields):
        if task.name in numbers:
            raise task.bad("name", f"task {numbers[task.name] + 1} has this name already")
        numbers[task.name] = i
    records = [_record(task, numbers, submit_s, job) for task in fields]
    _refuse_cycle(records, name)
    return TraceRecords(tuple(records))


def _no_constant(word: str) -> float:
    raise ValueError(f"{word} is not a finite number")


class _Fields:
    """One task of the list, with typed fields and with errors that say where they are."""

    def __init__(self, file: str, number: int, value: Any) -> None:
        self._place = f"{file}, task {number + 1}"
        if not isinstance(value, dict):
            raise TraceInvalid(f"{self._place} is not an object.")
        self._value: dict[str, Any] = value
        name = value.get("name")
        if not isinstance(name, str) or not name:
            raise self.bad("name", "each task needs a name")
        if any("\ud800" <= sign <= "\udfff" for sign in name):
            raise self.bad("name", f"{quoted(name)} contains half of a surrogate pair, which is no character")
        self.name = name
        self._place += f" ({quoted(name)})"

    @property
    def where(self) -> str:
        return self._place

    def bad(self, field: str, what: str) -> TraceInvalid:
        return TraceInvalid(f"{self._place}, field {field}: {what}.")

    def number(self, field: str, most: float) -> float | None:
        value = self._value.get(field)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.bad(field, f"{quoted(value if isinstance(value, str) else json.dumps(value))} is not a number")
        # A whole number may have more digits than a float can hold.
        if isinstance(value, float) and not math.isfinite(value):
            raise self.bad(field, f"{value} is not a finite number")
        text = str(value) if len(str(value)) <= 40 else str(value)[:37] + "..."
        if value < 0:
            raise self.bad(field, f"{text} is negative")
        if value > most:
            raise self.bad(field, f"{text} is more than {most:g}")
        return float(value)

    def needs(self, numbers: dict[str, int]) -> tuple[int, ...]:
        names = self._value.get("depends_on") or []
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise self.bad("depends_on", "this is not a list of names of tasks")
        for name in names:
            if name not in numbers:
                raise self.bad("depends_on", f"there is no task {quoted(name)}")
        return tuple(dict.fromkeys(numbers[name] for name in names))


def _record(task: _Fields, numbers: dict[str, int], submit_s: float, job: int) -> TraceRecord:
    runtime_s = task.number("runtime_s", MAX_SPAN_S)
    if runtime_s is None:
        raise task.bad("runtime_s", "it is missing")
    gpus = task.number("gpus", MAX_GPUS)
    if gpus is not None and gpus != math.floor(gpus):
        raise task.bad("gpus", f"{gpus} is not a whole number")
    timeout_s = task.number("timeout_s", MAX_SPAN_S)
    if timeout_s is not None and timeout_s < MIN_TIMEOUT_S:
        raise task.bad("timeout_s", f"{timeout_s:g} is no limit that a task could keep")
    return TraceRecord(
        label=task.name,
        where=task.where,
        row=numbers[task.name],
        submit_s=submit_s,
        runtime_s=runtime_s,
        timeout_s=timeout_s,
        gpus=None if gpus is None else int(gpus),
        cpu_centi=rounded_up(100 * (task.number("cpus", MAX_CPUS) or 0.0)),
        memory_bytes=rounded_up(MIB * (task.number("mem_mib", MAX_MEM_MIB) or 0.0)),
        needs=task.needs(numbers),
        job=job,
    )


def _refuse_cycle(records: list[TraceRecord], name: str) -> None:
    """Raises TraceInvalid if tasks need each other in a circle.

    Kahn's algorithm (1962): tasks that it can't reach are on a cycle or behind one.
    """
    children: list[list[int]] = [[] for _ in records]
    open_needs = [len(record.needs) for record in records]
    for i, record in enumerate(records):
        for need in record.needs:
            children[need].append(i)
    ready = deque(i for i, count in enumerate(open_needs) if count == 0)
    reached = 0
    while ready:
        reached += 1
        for child in children[ready.popleft()]:
            open_needs[child] -= 1
            if open_needs[child] == 0:
                ready.append(child)
    if reached == len(records):
        return
    at = next(i for i, count in enumerate(open_needs) if count)
    seen: dict[int, int] = {}
    path: list[int] = []
    while at not in seen:
        seen[at] = len(path)
        path.append(at)
        at = next(need for need in records[at].needs if open_needs[need])
    circle = [*path[seen[at] :], at]
    quoted = " needs ".join(records[i].label for i in circle[:8])
    raise TraceInvalid(f"{name}: tasks need each other in a circle: {quoted}.")
