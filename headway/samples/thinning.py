"""The points of a plot: means and maxima of the samples between two instants, at most so many.

A short part is read from the samples. A long one is read from the minutes where they are fine enough; only what no
minute speaks of is read from the samples. So a plot of a day reads about a thousand records.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ..model.gpu_readings import READINGS
from .layout import RecordColumns, decoded_all
from .model import MACHINE, Header, PlotColumn, columns_of
from .reading import Record, SampleFile

# So many samples are read for one plot at most, if there are minutes to be read instead.
_MOST_SAMPLES: Final = 15_000
_MINUTE_S: Final = 60.0

Values = list[float | None]


@dataclass(frozen=True, slots=True)
class Points:
    """Lines of a plot, by column. A row of nothing but None is a gap: nobody looked then."""

    header: Header
    columns: tuple[PlotColumn, ...]
    at: list[float]
    mean: list[Values]  # of each column
    most: list[Values]
    spans: list[float]  # the time that each point stands for
    samples: int  # that the points stand for
    step_s: float  # between two points
    lost: int  # records that could not be read


@dataclass(slots=True)
class _Rows:
    """Moments and the values of each column, as they stand in a file."""

    at: list[float] = field(default_factory=list)
    weight: list[int] = field(default_factory=list)  # samples that each stands for
    span: list[float] = field(default_factory=list)
    mean: list[Values] = field(default_factory=list)
    most: list[Values] = field(default_factory=list)

    def append(self, other: _Rows) -> None:
        self.at += other.at
        self.weight += other.weight
        self.span += other.span
        if not self.mean:
            self.mean, self.most = other.mean, other.most
            return
        for mine, theirs in ((self.mean, other.mean), (self.most, other.most)):
            for column, values in zip(mine, theirs, strict=True):
                column.extend(values)


def thin(
    samples: SampleFile,
    minutes: SampleFile | None,
    *,
    points: int,
    since: float | None = None,
    until: float | None = None,
) -> Points:
    """At most about ``points`` points (gaps come on top); both ends belong to the part."""
    header = samples.known()
    bounds = samples.bounds()
    first = since if since is not None else bounds[0] if bounds else header.began_at
    last = until if until is not None else bounds[1] if bounds else first
    step_s = max(header.every_s, (last - first) / points)
    count = samples.count(since, until)
    rows, finest = _Rows(), header.longest_gap_s
    rest = since
    if minutes is not None and minutes.gpus == samples.gpus and (step_s >= _MINUTE_S or count > _MOST_SAMPLES):
        found = list(minutes.records(None if since is None else since - _MINUTE_S, until))
        found = [one for one in found if since is None or one.at + one.values[5] > since]
        if found:
            for (begin, end), run in _minute_runs(found, since):
                # Nobody looked, or records of the minutes are broken: the samples tell.
                between = list(samples.records(begin, end))
                rows.append(_sample_rows(between, samples.columns, samples.gpus, header))
                rows.append(_minute_rows(run, minutes.columns, samples.gpus))
            rest = found[-1].at + float(found[-1].values[5]) - header.every_s / 2
            step_s, finest = max(step_s, _MINUTE_S), max(finest, 2.5 * _MINUTE_S)
    rows.append(_sample_rows(list(samples.records(rest, until)), samples.columns, samples.gpus, header))
    count = sum(rows.weight)
    if len(rows.at) > points:
        rows, finest = _bucketed(rows, first, step_s), max(finest, 2.5 * step_s)
    shown = _with_gaps(rows, finest, step_s)
    return Points(
        header, columns_of(samples.gpus), shown.at, shown.mean, shown.most, shown.span, count, step_s, samples.lost
    )


def _sample_rows(records: Sequence[Record], columns: RecordColumns, gpus: int, header: Header) -> _Rows:
    at = [record.at for record in records]
    spans = [header.every_s, *(b - a if b > a else header.every_s for a, b in itertools.pairwise(at))]
    table = list(zip(*(record.values[4:] for record in records), strict=True))
    values: list[Values] = []
    for column, place in enumerate(_places(columns, gpus)):
        read: Values = [None] * len(at)
        if place is not None and table:
            code = place.code
            read = decoded_all(table[place.number], code)
            if column < len(MACHINE) and MACHINE[column].counted:
                read = [None if one is None else one / span for one, span in zip(read, spans, strict=False)]
        values.append(read)
    # A gap is not a part of what the sample behind it stands for.
    kept = [span if span <= header.longest_gap_s else header.every_s for span in spans[: len(at)]]
    return _Rows(at, [1] * len(at), kept, values, [list(column) for column in values])


def _minute_runs(
    records: Sequence[Record], since: float | None
) -> Iterator[tuple[tuple[float | None, float], Sequence[Record]]]:
    """Minutes without a hole, each with the part before it that no minute speaks of."""
    minutes = [int(record.at // _MINUTE_S) for record in records]
    cuts = [n for n in range(1, len(minutes)) if minutes[n] > minutes[n - 1] + 1]
    for begin, end in itertools.pairwise([0, *cuts, len(records)]):
        first = since if begin == 0 else (minutes[begin - 1] + 1) * _MINUTE_S
        yield (first, math.nextafter(minutes[begin] * _MINUTE_S, 0.0)), records[begin:end]


def _minute_rows(records: Sequence[Record], columns: RecordColumns, gpus: int) -> _Rows:
    """A minute stands at its middle."""
    at = [record.at + float(record.values[5]) / 2 for record in records]
    weight = [int(record.values[4]) for record in records]
    table = list(zip(*(record.values[6:] for record in records), strict=True))
    half = len(table) // 2
    places = _places(columns, gpus)

    def read(begin: int) -> list[Values]:
        return [
            [None] * len(at) if place is None else decoded_all(table[begin + place.number], "f") for place in places
        ]

    return _Rows(at, weight, [float(record.values[5]) for record in records], read(0), read(half))


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a column stands among the values of a record, and how."""

    number: int
    code: str


def _places(columns: RecordColumns, gpus: int) -> list[_Place | None]:
    """For each of our columns its place in a file, found by name. None: the file's version doesn't know it."""
    machine = {name: _Place(number, code) for number, (name, code) in enumerate(columns.machine)}
    places = [machine.get(row.name) for row in MACHINE]
    for gpu in range(gpus):
        start = len(columns.machine) + gpu * len(columns.gpu)
        of_gpu = {name: _Place(number, code) for number, (name, code) in enumerate(columns.gpu, start)}
        places += [of_gpu.get(row.name) for row in READINGS]
    return places


def _bucketed(rows: _Rows, first: float, step_s: float) -> _Rows:
    order = range(len(rows.at))
    if any(b < a for a, b in itertools.pairwise(rows.at)):
        order = sorted(order, key=rows.at.__getitem__)  # type: ignore[assignment]
        rows = _Rows(
            [rows.at[n] for n in order],
            [rows.weight[n] for n in order],
            [rows.span[n] for n in order],
            [[column[n] for n in order] for column in rows.mean],
            [[column[n] for n in order] for column in rows.most],
        )
    buckets = list(_buckets(rows.at, first, step_s))
    # Most points stand for samples of one weight: only where minutes and samples meet do they differ.
    parts = [(begin, end, len(set(rows.weight[begin:end])) == 1) for begin, end in buckets]

    def mean(values: Values, begin: int, end: int) -> float | None:
        pairs = [(v, w) for v, w in zip(values[begin:end], rows.weight[begin:end], strict=True) if v is not None]
        return sum(v * w for v, w in pairs) / sum(w for _, w in pairs) if pairs else None

    def means(values: list[Any]) -> Values:
        whole = None not in values
        return [
            sum(values[begin:end]) / (end - begin) if even and whole else mean(values, begin, end)
            for begin, end, even in parts
        ]

    def maxima(values: list[Any]) -> Values:
        if None not in values:
            return [max(values[begin:end]) for begin, end in buckets]
        return [max((v for v in values[begin:end] if v is not None), default=None) for begin, end in buckets]

    return _Rows(
        [(rows.at[begin] + rows.at[end - 1]) / 2 for begin, end in buckets],
        [sum(rows.weight[begin:end]) for begin, end in buckets],
        [sum(rows.span[begin:end]) for begin, end in buckets],
        [means(values) for values in rows.mean],
        [maxima(values) for values in rows.most],
    )


def _buckets(at: Sequence[float], first: float, step_s: float) -> Iterator[tuple[int, int]]:
    begin = 0
    for _, group in itertools.groupby(at, key=lambda moment: int((moment - first) // step_s)):
        end = begin + sum(1 for _ in group)
        yield begin, end
        begin = end


def _with_gaps(rows: _Rows, gap_s: float, step_s: float) -> _Rows:
    """A row of None stands where nobody looked for longer than ``gap_s``."""
    cuts = [n for n in range(1, len(rows.at)) if rows.at[n] - rows.at[n - 1] > gap_s]
    if not cuts:
        return rows

    def cut(values: list[Any], fill: Callable[[int], Any]) -> list[Any]:
        out: list[Any] = []
        for begin, end in itertools.pairwise([0, *cuts, len(values)]):
            if begin:
                out.append(fill(begin))
            out += values[begin:end]
        return out

    return _Rows(
        cut(rows.at, lambda n: rows.at[n - 1] + step_s),
        cut(rows.weight, lambda n: 0),
        cut(rows.span, lambda n: 0.0),
        [cut(column, lambda n: None) for column in rows.mean],
        [cut(column, lambda n: None) for column in rows.most],
    )
