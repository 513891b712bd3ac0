"""Samples of an attempt and the table of their columns. A GPU's columns are those of ``model/gpu_readings.py``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..model.gpu_readings import READINGS, GpuReadings, Unit
from ..model.rows import Row, rows_of, with_row

FILE: Final = "metrics"  # in the attempt's folder: a header, then a record for each sample
MINUTES_FILE: Final = "metrics.minutes"  # beside it: the same header, then a record for each minute


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineColumn(Row):
    """A value of the attempt as a whole."""

    unit: str
    kind: type[int | float] = float
    counted: bool = False  # what came since the last sample; shown as a rate by the second

    @property
    def shown_name(self) -> str:
        return f"{self.name}_per_s" if self.counted else self.name

    @property
    def shown_unit(self) -> str:
        return f"{self.unit}/s" if self.counted else self.unit


def _bytes(*, counted: bool = False) -> MachineColumn:
    return MachineColumn(unit="bytes", kind=int, counted=counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineValues:
    """What is measured of the attempt as a whole. None: not measured."""

    cpu_used: float | None = with_row(MachineColumn(unit="cpus"))  # CPUs in use since the last sample
    memory_bytes: int | None = with_row(_bytes())
    disk_read_bytes: int | None = with_row(_bytes(counted=True))  # this and what follows: since the last sample
    disk_written_bytes: int | None = with_row(_bytes(counted=True))
    network_received_bytes: int | None = with_row(_bytes(counted=True))
    network_sent_bytes: int | None = with_row(_bytes(counted=True))


MACHINE: Final = rows_of(MachineValues, MachineColumn)


@dataclass(frozen=True, slots=True)
class Sample(MachineValues):
    """One look at an attempt."""

    at: float  # seconds since 1970
    gpus: tuple[GpuReadings, ...] = ()  # in the header's order


@dataclass(frozen=True, slots=True)
class GpuIdentity:
    """A GPU of the attempt."""

    uuid: str
    model: str
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Header:
    """What all samples of one attempt share."""

    gpus: tuple[GpuIdentity, ...]
    every_s: float
    began_at: float

    @property
    def longest_gap_s(self) -> float:
        """Two samples farther apart than that have a gap between them: nobody looked."""
        return max(3.0 * self.every_s, self.every_s + 2.0)


@dataclass(frozen=True, slots=True)
class PlotColumn:
    """A line of a plot. Counted values have become rates."""

    name: str
    unit: str
    gpu: int | None  # its place in the header; None: of the attempt as a whole


def columns_of(gpus: int) -> tuple[PlotColumn, ...]:
    """All columns of an attempt, the GPUs' last. ``shown`` gives values in this order."""
    machine = [PlotColumn(row.shown_name, row.shown_unit, None) for row in MACHINE]
    return (*machine, *(PlotColumn(row.name, unit_name(row.unit), gpu) for gpu in range(gpus) for row in READINGS))


def unit_name(unit: Unit) -> str:
    return unit.value


def shown(sample: Sample, span_s: float) -> list[float | None]:
    """The values of a sample by ``columns_of``, counted ones as rates over the time since the last sample."""
    values: list[float | None] = []
    for row in MACHINE:
        value = getattr(sample, row.name)
        if row.counted and value is not None:
            value = value / span_s if span_s > 0 else None
        values.append(value)
    for gpu in sample.gpus:
        values.extend([getattr(gpu, row.name) for row in READINGS])
    return values


def is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def mean_of(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
