"""Reads a job file: bytes in, a JobSpec or all of its problems out."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from headway.errors import JobFileInvalid, Problem
from headway.jobfile.changes import ChangedSource
from headway.jobfile.check import Checker, JobFileLimits
from headway.jobfile.source import (
    DocumentUnreadable,
    ObjectSource,
    Path,
    Problems,
    Source,
    SourcePosition,
    child,
    path_of,
    pointer_of,
    printable,
)
from headway.jobfile.source_json import JsonHasComments, JsonSource
from headway.jobfile.spec import JobSpec, Need, NeedOn
from headway.units import MIB

Media = Literal["yaml", "json"]
DEFAULT_LIMITS = JobFileLimits()


@dataclass(frozen=True, slots=True)
class GraphTask:
    """What a file says about one task's place in the DAG, whatever else may be wrong with it."""

    name: str
    needs: tuple[Need, ...]  # known tasks only, each once, never itself
    pointer: str
    need_pointers: tuple[str, ...]  # one for each of ``needs``


@dataclass(frozen=True)
class ParseResult:
    """Either a spec or problems. ``graph`` and the places are there in both cases, so that whoever finds more
    problems (a cycle) can add them to the same list."""

    spec: JobSpec | None
    collected: Problems
    source: Source | None = field(repr=False, compare=False)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """In the order of the document; after the hundredth one that counts the rest."""
        return self.collected.listed()

    def spec_or_raise(self) -> JobSpec:
        """The spec. Raises JobFileInvalid with all problems if there are any."""
        if self.spec is None:
            raise invalid(self.problems)
        return self.spec

    def locate(self, pointer: str) -> tuple[int | None, int | None]:
        """Line and column (from 1) of a JSON pointer, or of its nearest ancestor if it isn't there.

        Both are None for a document that was no text or couldn't be read.
        """
        place = self.source.place(path_of(pointer)) if self.source is not None else SourcePosition()
        return place.line, place.column

    def merged(self, more: Iterable[Problem]) -> tuple[Problem, ...]:
        """All problems in the order of the document, those of ``more`` with their lines and columns.

        Pointers in ``more`` count tasks as ``graph`` does. They may name a need by its task, as JobManager does
        (``/tasks/3/needs/prepare``). They come out as pointers into the document.
        """
        together = self.collected.copy()
        for problem in more:
            pointer = self._in_document(problem.pointer)
            line, column = self.locate(pointer) if pointer else (None, None)
            together.add(replace(problem, pointer=pointer, line=line, column=column))
        return together.listed()

    def _in_document(self, pointer: str) -> str:
        match path_of(pointer):
            case ("tasks", index, *rest) if index.isdecimal() and int(index) < len(self.graph):
                task = self.graph[int(index)]
                for need, need_pointer in zip(task.needs, task.need_pointers, strict=True):
                    if rest == ["needs", need.task]:
                        return need_pointer
                return task.pointer + pointer_of(tuple(rest))
        return pointer

    @cached_property
    def graph(self) -> tuple[GraphTask, ...]:
        """Names and needs as far as they make sense, the first task of a repeated name only; empty if
        there is no document. With a spec: exactly its tasks and needs, in the order of the file."""
        return _graph(self.source.value) if self.source is not None else ()


def check_job(
    data: bytes | str | dict[str, Any],
    *,
    media: Media = "yaml",
    limits: JobFileLimits = DEFAULT_LIMITS,
    changes: Sequence[str] = (),
) -> ParseResult:
    """Reads a job file, or checks plain values (``media`` then says nothing). Never raises for what is in
    it. ``changes`` are fields that were set from outside, see changes.py."""
    problems = Problems()
    with _gc_paused():
        try:
            source = ObjectSource(data) if isinstance(data, dict) else _source(data, media, limits)
            if changes:
                source = ChangedSource(source, changes)
        except DocumentUnreadable as unreadable:
            for problem in unreadable.problems:
                problems.add(problem)
            return ParseResult(None, problems, None)
        for problem in source.problems:
            problems.add(problem)
        spec = Checker(source, limits, problems).job()
        source.forget_places()
    return ParseResult(spec if not problems else None, problems, source)


def parse_job(
    data: bytes | str | dict[str, Any], *, media: Media = "yaml", limits: JobFileLimits = DEFAULT_LIMITS
) -> JobSpec:
    """Like :func:`check_job`. Raises JobFileInvalid with all problems."""
    return check_job(data, media=media, limits=limits).spec_or_raise()


def invalid(problems: tuple[Problem, ...]) -> JobFileInvalid:
    """The error that refuses a job file; its message names the first problem and counts the others."""
    first = problems[0]
    where = f" (line {first.line}, column {first.column})" if first.line is not None else ""
    rest = f" and {len(problems) - 1} more" if len(problems) > 1 else ""
    return JobFileInvalid(f"The job file has problems: {first.message}{where}{rest}", problems=problems)


def _source(data: bytes | str, media: Media, limits: JobFileLimits) -> Source:
    if len(data) > limits.bytes:
        raise DocumentUnreadable(
            Problem(
                pointer="",
                message=f"the job file has {len(data) / MIB:.1f} MiB; {limits.bytes / MIB:g} MiB are allowed",
            )
        )
    text = _decode(data) if isinstance(data, bytes) else data.removeprefix("\ufeff")
    if media == "json":
        return JsonSource(text)
    commented: JsonHasComments | None = None
    if text.lstrip()[:1] in ("{", "[", "/"):
        # JSON is YAML 1.2, and far quicker to read as what it is.
        try:
            return JsonSource(text)
        except JsonHasComments as unreadable:
            if not unreadable.of_yaml:
                raise  # YAML would take it for a part of the next word
            commented = unreadable
        except DocumentUnreadable:
            pass
    # Imported late: a laptop that only talks to a server does without PyYAML.
    from headway.jobfile.source_yaml import YamlSource

    try:
        return YamlSource(text, max_nodes=limits.nodes, max_expanded_chars=limits.text_bytes)
    except DocumentUnreadable:
        if commented is not None:
            raise commented from None
        raise


def _decode(data: bytes) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or data[:4] == b"\x00\x00\xfe\xff":
        raise DocumentUnreadable(Problem(pointer="", message="the job file is UTF-16 or UTF-32; save it as UTF-8"))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        start = before.rfind(b"\n") + 1
        column = len(before[start:].decode(errors="replace").removeprefix("\ufeff")) + 1
        byte = f"0x{data[error.start]:02X}"
        raise DocumentUnreadable(
            Problem(
                pointer="",
                line=line,
                column=column,
                word=byte,
                message=f"line {line}, column {column}: the byte {byte} is not UTF-8; save the file as UTF-8",
            )
        ) from None


def _graph(raw: Any) -> tuple[GraphTask, ...]:
    try:
        listed = child(raw, "tasks")
    except KeyError:
        return ()
    if not isinstance(listed, list | tuple):
        return ()
    index_of: dict[str, int] = {}
    for index, task in enumerate(listed):
        if isinstance(task, dict) and isinstance(task.get("name"), str):
            index_of.setdefault(str(task["name"]), index)
    out = []
    for name, index in index_of.items():
        needs = list(_needs_of(listed[index].get("needs"), name, index_of))
        at: Path = ("tasks", index)
        out.append(
            GraphTask(
                name=name,
                needs=tuple(need for need, _ in needs),
                pointer=printable(pointer_of(at), 500),
                need_pointers=tuple(printable(pointer_of((*at, "needs", step)), 500) for _, step in needs),
            )
        )
    return tuple(out)


def _needs_of(raw: Any, name: str, known: dict[str, int]) -> Iterator[tuple[Need, str | int]]:
    seen = {name}
    pairs: Iterable[tuple[str | int, Any, Any]] = ()
    if isinstance(raw, dict):
        pairs = ((key, key, on) for key, on in raw.items())
    elif isinstance(raw, list | tuple):
        pairs = ((index, task, NeedOn.SUCCESS) for index, task in enumerate(raw))
    for step, task, on in pairs:
        if isinstance(task, str) and task in known and task not in seen:
            seen.add(task)
            good = isinstance(on, str) and on in tuple(NeedOn)
            yield Need(str(task), NeedOn(on) if good else NeedOn.SUCCESS), step


_gc_lock = threading.Lock()
_gc_users = 0
_gc_was_on = False


@contextmanager
def _gc_paused() -> Iterator[None]:
    """A large document is a million new objects of which none is garbage; looking for some makes it five
    times slower. Counted, because several threads may read job files at once."""
    global _gc_users, _gc_was_on
    with _gc_lock:
        if _gc_users == 0:
            _gc_was_on = gc.isenabled()
            gc.disable()
        _gc_users += 1
    try:
        yield
    finally:
        with _gc_lock:
            _gc_users -= 1
            if _gc_users == 0 and _gc_was_on:
                gc.enable()
