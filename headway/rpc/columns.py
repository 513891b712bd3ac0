"""How the fields of a table (headway.jobfile.table) travel in a message: by the rows and the message's descriptor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.message import Message

from ..jobfile.table import Table, TaskField


@dataclass(frozen=True, slots=True)
class Columns:
    """Only the rows that name a field of the message; the others are the caller's."""

    _attributes: tuple[str, ...]
    _names: tuple[str, ...]  # in the message, in the same order
    _of_values: Callable[[Any], tuple[Any, ...]]
    _of_message: Callable[[Any], tuple[Any, ...]]
    _to_wire: tuple[tuple[str, Callable[[Any], Any]], ...]  # those that differ, by their names in the message
    _from_wire: tuple[tuple[str, Callable[[Any], Any]], ...]  # by their attributes

    def to_wire(self, value: Any) -> dict[str, Any]:
        """The message's fields; None: not set."""
        out = dict(zip(self._names, self._of_values(value), strict=True))
        for name, turned in self._to_wire:
            out[name] = turned(out[name])
        return out

    def from_wire(self, message: Message) -> dict[str, Any]:
        """The attributes."""
        out = dict(zip(self._attributes, self._of_message(message), strict=True))
        for attribute, turned in self._from_wire:
            out[attribute] = turned(out[attribute])
        return out


def columns(table: Table, message: type[Message]) -> Columns:
    """
    Raises:
        KeyError: the message has no such field, or an enum no number for a word.
    """
    rows = [row for row in table.rows if row.wire]
    to_wire, from_wire = [], []
    for row in rows:
        field = message.DESCRIPTOR.fields_by_name[row.wire]
        there, back = _turns(row, field)
        if there is not None:
            to_wire.append((row.wire, there))
        if back is not None:
            from_wire.append((row.attribute, back))
    return Columns(
        _attributes=tuple(row.attribute for row in rows),
        _names=tuple(row.wire for row in rows),
        _of_values=attrgetter(*(row.attribute for row in rows)),
        _of_message=attrgetter(*(row.wire for row in rows)),
        _to_wire=tuple(to_wire),
        _from_wire=tuple(from_wire),
    )


Turn = Callable[[Any], Any] | None  # None: the value as it is


def _turns(row: TaskField, field: Any) -> tuple[Turn, Turn]:
    """To the message and back."""
    if row.wire_true is not None:
        word = row.wire_true
        other = next(one for one in type(word) if one is not word)
        return {word: True, other: False}.__getitem__, {True: word, False: other}.__getitem__
    if field.enum_type is not None:
        words = type(row.default)
        numbers = {one: _number_of(one, field.enum_type) for one in words}
        names = {number: one for one, number in numbers.items()}
        # A number that this version does not know is as good as none.
        return numbers.get, lambda number: names.get(number, row.default)
    if isinstance(row.default, tuple):
        return None, tuple
    if row.default is None:
        return None, lambda value: value or None
    return None, None


def _number_of(word: StrEnum, enum: EnumDescriptor) -> int:
    """``image`` is RUN_AS_IMAGE where the enum's names begin with RUN_AS."""
    (number,) = (one.number for one in enum.values if one.name.endswith(f"_{word.name}"))
    return int(number)
