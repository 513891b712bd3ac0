"""The bytes that are appended to ``metrics`` and ``metrics.minutes``.

Each file begins with ``encode_header``. Records follow, and each has one size. A writer that goes on after a break
appends records only; a record that was cut is skipped by the reader.
"""

from __future__ import annotations

from ..model.gpu_readings import READINGS
from .layout import MARK, MINUTE, OURS, SAMPLE, checked, coded, header_bytes, minute_struct, sample_struct
from .model import MACHINE, Header, Sample, columns_of, is_number, mean_of, shown

_MINUTE_S = 60.0


def encode_header(header: Header) -> bytes:
    """What each of the two files begins with."""
    return header_bytes(header)


def encode_sample(header: Header, sample: Sample) -> bytes:
    """A record of ``metrics``.

    Raises:
        ValueError: the sample has not the header's number of GPUs.
    """
    gpus = len(header.gpus)
    if len(sample.gpus) != gpus:
        raise ValueError(f"A sample of {len(sample.gpus)} GPUs in a file of {gpus}.")
    values = [coded(getattr(sample, row.name), code) for row, (_, code) in zip(MACHINE, OURS.machine, strict=True)]
    for gpu in sample.gpus:
        values += [coded(getattr(gpu, row.name), code) for row, (_, code) in zip(READINGS, OURS.gpu, strict=True)]
    return checked(sample_struct(gpus).pack(MARK, SAMPLE, gpus, sample.at, *values))


class RollUp:
    """Makes records of ``metrics.minutes``: the mean and the maximum of each column over a minute of the clock."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self._width = len(columns_of(len(header.gpus)))
        self._rows: list[list[float | None]] = []
        self._minute = 0
        self._first_at = self._last_at = 0.0
        self._span_s = 0.0
        self._before: float | None = None

    def add(self, sample: Sample) -> bytes | None:
        """The record of the minute before, once a sample of another minute comes."""
        minute = int(sample.at // _MINUTE_S)
        record = self.flush() if self._rows and minute != self._minute else None
        span_s = span(self._header, self._before, sample.at)
        if not self._rows:
            self._minute, self._first_at, self._span_s = minute, sample.at, 0.0
        self._span_s += min(span_s, self._header.longest_gap_s)
        self._before = sample.at
        self._rows.append(shown(sample, span_s))
        return record

    def flush(self) -> bytes | None:
        """The record of what came since the last one; None: nothing. Call it at the end."""
        if not self._rows:
            return None
        means: list[float] = []
        most: list[float] = []
        for column in range(self._width):
            values = [value for row in self._rows if is_number(value := row[column]) and value is not None]
            means.append(coded(mean_of(values) if values else None, "f"))
            most.append(coded(max(values) if values else None, "f"))
        gpus = len(self._header.gpus)
        body = minute_struct(gpus).pack(
            MARK, MINUTE, gpus, self._first_at, len(self._rows), coded(self._span_s, "f"), *means, *most
        )
        self._rows = []
        return checked(body)


def span(header: Header, before: float | None, at: float) -> float:
    """The time that a sample stands for. Of the first one, and where the clock went back: the usual time."""
    return at - before if before is not None and at > before else header.every_s
