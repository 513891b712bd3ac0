"""Which format a file is in: as it was named, or by looking at its first lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .. import dag, trace
from ..trace_records import TraceRecords
from . import helios, pai, philly, sacct, swf
from .table import TableFormat, parse_table, text_of

WORKFLOW = "workflow"
# Of one name, the first whose required columns are there is taken.
_TABLES: tuple[TableFormat, ...] = (
    trace.FORMAT, sacct.FORMAT, helios.FORMAT, pai.TASK_TABLE, pai.JOB_LIST, pai.PODS,
)  # fmt: skip
NAMES = ("headway", "swf", "sacct", "philly", "helios", "pai", WORKFLOW)
_HEAD_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class Recognised:
    """What a file is: its reader, and a sentence for people where the format is not Headway's own."""

    name: str
    sentence: str
    parse: Callable[[bytes, str], TraceRecords]


def recognise(content: bytes, file: str, asked: str = "", *, job: int = 0) -> Recognised:
    """The format of ``content``. ``asked`` names one; empty: it is found by looking.

    ``job`` is the number of the job that a workflow becomes. What looks like nothing else is taken for a trace of
    Headway's own, whose reader says what is wrong.
    """
    head = content[:_HEAD_BYTES].decode("utf-8-sig", "replace")
    found, by = _named(asked, head) if asked else _looked_at(head, file)
    if found == WORKFLOW:
        return Recognised(WORKFLOW, "", lambda data, name: dag.parse_dag(data, name, job=job))
    if found == swf.NAME:
        return _told(file, swf.NAME, swf.KIND, by, swf.parse_swf)
    if found == philly.NAME:
        return _told(file, philly.NAME, philly.KIND, by, philly.parse_philly)
    assert isinstance(found, TableFormat)
    form = found
    if form is trace.FORMAT:
        return Recognised(form.name, "", trace.parse_trace)
    return _told(file, form.name, form.kind, by, lambda data, name: parse_table(text_of(data, name), name, form))


def _told(file: str, name: str, kind: str, by: str, parse: Callable[[bytes, str], TraceRecords]) -> Recognised:
    return Recognised(name, f"{file} is read as {kind}, by {by}." if by else "", parse)


def _named(asked: str, head: str) -> tuple[str | TableFormat, str]:
    if asked in (WORKFLOW, swf.NAME, philly.NAME):
        return asked, ""
    tables = [form for form in _TABLES if form.name == asked]
    fitting = next((form for form in tables if set(form.required) <= _header(head, form.sign)), None)
    return fitting or tables[0], ""


def _looked_at(head: str, file: str) -> tuple[str | TableFormat, str]:
    begin = head.lstrip()
    is_json = file.lower().endswith((".json", ".json.gz"))
    if begin.startswith("[") and (not is_json or '"attempts"' in head):
        return philly.NAME, "its list of jobs in JSON"
    if begin.startswith("{") or is_json:
        return WORKFLOW, ""
    for form in _TABLES:
        if set(form.required) <= _header(head, form.sign):
            return form, f"its columns {_and(form.required)}"
    if why := swf.why_swf(head):
        return swf.NAME, why
    if _is_task_table(head):
        return pai.TASK_TABLE, "its ten cells, with a status and two times"
    # Half of a known header is more helpful than Headway's own, which the file may never have been meant to be.
    near = max(_TABLES, key=lambda form: len(set(form.known) & _header(head, form.sign)))
    if near is not trace.FORMAT and len(set(near.known) & _header(head, near.sign)) > 1:
        return near, "some of its columns"
    if begin.startswith(";"):
        return swf.NAME, "its comments"
    return trace.FORMAT, ""


def _header(head: str, sign: str) -> set[str]:
    first = next((line for line in head.splitlines() if line.strip()), "")
    return {cell.strip().strip('"') for cell in first.split(sign)}


def _is_task_table(head: str) -> bool:
    """Whether it looks like PAI's task table, which has no header."""
    cells = [cell.strip() for cell in head.partition("\n")[0].split(",")]
    return len(cells) == len(pai.TASK_HEADER) and cells[pai.TASK_HEADER.index("status")] in pai.STATUS


def _and(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
