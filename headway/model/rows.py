"""A table of an entity: each field of a dataclass has a row in its metadata, from which all that handles it follows."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, TypeVar

ROW: Final = "row"  # of a dataclass field's metadata


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What every row has; ``rows_of`` takes it from the dataclass's field."""

    name: str = ""
    default: Any = None


R = TypeVar("R", bound=Row)


def with_row(row: Row, default: Any = None) -> Any:
    """A field of a dataclass."""
    return field(default=default, metadata={ROW: row})


def rows_of(kind: type, row: type[R]) -> tuple[R, ...]:
    """The rows of a dataclass each of whose fields has one.

    Raises:
        KeyError: one has none.
    """
    rows = []
    for one in fields(kind):
        found: R = one.metadata[ROW]
        assert isinstance(found, row)
        rows.append(replace(found, name=one.name, default=one.default))
    return tuple(rows)
