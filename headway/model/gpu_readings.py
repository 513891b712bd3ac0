"""The table of a GPU's readings: what its driver reports anew each time, one row for each reading.

From a row follow the field in the messages, what the usage history and an attempt's samples keep, the HTTP schema and
the page's column. A reading has the same name everywhere. The Worker's ``machine/gpus`` asks the driver for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from .rows import Row, rows_of, with_row


class Unit(StrEnum):
    """What a value counts. Only bytes are whole numbers."""

    SHARE = "share"  # 0 to 1, shown as a percentage
    BYTES = "bytes"
    CELSIUS = "celsius"
    WATT = "watt"


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the page's table of GPUs."""

    head: str
    place: int = 100  # among the columns; equal ones stand in the order of the table
    of: str = ""  # the card's field that it is a part of, which is shown beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading(Row):
    """One row."""

    unit: Unit
    about: str = ""  # for the HTTP schema: what name and unit leave open
    stored: bool = True  # in the usage history
    thinned: Callable[[Sequence[float]], float] = mean  # what the history keeps of several values
    column: Column | None = None

    @property
    def kind(self) -> type[int | float]:
        return int if self.unit is Unit.BYTES else float


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReadings:
    """The readings of one GPU. None: the driver doesn't report it. The names are those of ``rpc.v1.Gpu``."""

    utilisation: float | None = with_row(Reading(unit=Unit.SHARE, about="0 to 1", column=Column(head="Use")))
    memory_utilisation: float | None = with_row(Reading(unit=Unit.SHARE, about="0 to 1, of memory copies"))
    memory_used_bytes: int | None = with_row(
        Reading(unit=Unit.BYTES, column=Column(head="Memory", place=50, of="memory_bytes"))
    )
    temperature_c: float | None = with_row(Reading(unit=Unit.CELSIUS))
    power_w: float | None = with_row(Reading(unit=Unit.WATT))


READINGS: Final = rows_of(GpuReadings, Reading)


def readings_of(gpu: GpuReadings, rows: Iterable[Reading] = READINGS) -> dict[str, Any]:
    """The readings by name."""
    return {row.name: getattr(gpu, row.name) for row in rows}


def reported(gpu: Any, rows: Iterable[Reading] = READINGS) -> dict[str, Any]:
    """The readings of a message by name; None: not set."""
    return {row.name: getattr(gpu, row.name) if gpu.HasField(row.name) else None for row in rows}
