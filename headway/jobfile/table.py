"""The table of a task's fields: one row for each, from which all that handles a field follows.

A row is written where the field is declared (spec.py), as the metadata of the dataclass's field. Reading, writing,
hints, the messages between services, the HTTP schema, the form and the reference page go by these rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final

from ..model.rows import ROW

REQUIRED: Final = object()  # stands for a default where there is none

Reader = Callable[[Any], Any]
"""A raw value in, the checked one out; raises BadValue with a clause that reads on after the field's name."""


@dataclass(frozen=True, slots=True)
class Option:
    """The option of ``headway run`` for a field."""

    flag: str
    help: str | None = None
    default: str | int | None = None  # shown; None: what the job file's default is
    many: bool = False  # may be given several times
    metavar: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """The input of the page's form for a field."""

    label: str
    place: int = 100  # among the inputs; equal ones stand in the order of the table
    hint: str = ""
    placeholder: str = ""
    start: str = ""  # what a new task has in it, and its file says
    width: int | None = None  # in characters; None: as wide as there is room
    required: bool = False
    more: bool = False  # seldom used: in the part that is folded
    exact: bool = False  # spaces at both ends are the user's


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskField:
    """One row. ``attribute`` and ``default`` come from the dataclass's field, see ``table_of``."""

    key: str  # in a job file
    about: str  # for people; Markdown on one line
    value: Any  # the type of its JSON value; None: other code says it
    read: Reader | None = None  # None: task_fields.py or check.py has code of its own for it
    write: Callable[[Any], Any] | None = None  # the value as JSON; None: as it is
    default_of: Callable[[Any], Any] | None = None  # of the other fields; None: ``default``
    default_about: str | None = None  # for people; None: the default as a job file spells it
    example: str = ""  # of a required one
    examples: tuple[Any, ...] = ()  # for the HTTP schema
    foreign: tuple[str, ...] = ()  # what other systems call it
    shared: bool = True  # may stand in ``defaults``
    without: tuple[str, ...] = ()  # the keys without any of which it says nothing
    wire: str = ""  # in the protobuf message; empty: rpc/convert.py has code of its own for it
    wire_true: StrEnum | None = None  # the word that a bool of the message stands for
    option: Option | None = None
    form: Form | None = None
    attribute: str = ""  # of the dataclass
    default: Any = REQUIRED
    parts: type | None = None  # the dataclass of a field that is a mapping of fields

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def told_default(self) -> str:
        """The default for people, as Markdown."""
        if self.default_about is not None:
            return self.default_about
        if self.required:
            return "required"
        if self.default is None or self.default == ():
            return "none"
        written = self.write(self.default) if self.write else self.default
        return f"`{written}`" if isinstance(written, str) else str(written)


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a dataclass in the order of a job file, and what is looked up often."""

    kind: type
    rows: tuple[TaskField, ...]
    keys: tuple[str, ...]
    shared_keys: tuple[str, ...]  # of ``defaults``
    readers: dict[str, tuple[str, Reader]]  # key -> attribute and reader
    required: tuple[TaskField, ...]  # in the task or in ``defaults``
    parts: dict[str, Table]  # key -> the table of a field that is a mapping of fields
    _attributes: Callable[[Any], tuple[Any, ...]]
    _writers: tuple[tuple[str, Callable[[Any], Any] | None, Any, Callable[[Any], Any] | None], ...]

    def __getitem__(self, key: str) -> TaskField:
        return next(row for row in self.rows if row.key == key)

    def made(self, values: dict[str, Any]) -> Any:
        """A value of ``kind`` from some of its attributes; those that follow from others are filled in."""
        plain = self.kind(**values)
        given = {
            one.attribute: one.default_of(plain)
            for one in self.rows
            if one.default_of is not None and one.attribute not in values
        }
        return replace(plain, **given) if given else plain

    def written(self, value: Any) -> dict[str, Any]:
        """A value of ``kind`` as in a job file, without what equals a default."""
        out: dict[str, Any] = {}
        for own, (key, write, default, default_of) in zip(self._attributes(value), self._writers, strict=True):
            if own is None or own is default:
                continue
            if default_of is not None:
                default = default_of(value)
            if default is REQUIRED or own != default:
                out[key] = write(own) if write else own
        return out

    def whole(self, value: Any) -> dict[str, Any]:
        """A value of ``kind`` as in a job file, with every default spelled out; None: not set."""
        out: dict[str, Any] = {}
        for one, own in zip(self.rows, self._attributes(value), strict=True):
            if own is not None and one.key in self.parts:
                own = self.parts[one.key].whole(own)
            elif own is not None and one.write is not None:
                own = one.write(own)
            elif isinstance(own, tuple):
                own = list(own)
            out[one.key] = own
        return out


def row(key: str, about: str, value: Any, **rest: Any) -> dict[str, TaskField]:
    """The metadata of a dataclass's field: its row, see ``TaskField``."""
    return {ROW: TaskField(key=key, about=about, value=value, **rest)}


_tables: dict[type, Table] = {}


def table_of(kind: type) -> Table:
    """The table of a dataclass each of whose fields has a row.

    Raises:
        KeyError: one has none.
    """
    table = _tables.get(kind)
    if table is None:
        table = _tables[kind] = _made(kind)
    return table


def _made(kind: type) -> Table:
    rows = tuple(
        replace(
            field.metadata[ROW],
            attribute=field.name,
            default=REQUIRED if field.default is MISSING else field.default,
        )
        for field in fields(kind)
    )
    shared = tuple(one for one in rows if one.shared)
    return Table(
        kind=kind,
        rows=rows,
        keys=tuple(one.key for one in rows),
        shared_keys=tuple(one.key for one in shared),
        readers={one.key: (one.attribute, one.read) for one in rows if one.read is not None},
        required=tuple(one for one in shared if one.required),
        parts={one.key: table_of(one.parts) for one in rows if one.parts is not None},
        _attributes=attrgetter(*(one.attribute for one in rows)),
        _writers=tuple(
            (one.key, one.write, REQUIRED if one.default_of else one.default, one.default_of) for one in rows
        ),
    )
