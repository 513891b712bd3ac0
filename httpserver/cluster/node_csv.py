"""Readings of a machine over time as CSV, one line a point. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from headway.model.gpu_readings import READINGS

from .. import schemas as s

_NODE = ("cpus_used", "memory_used_bytes", "disk_free_bytes")
_STORED = tuple(row.name for row in READINGS if row.stored)


def text(points: Sequence[s.UsagePoint]) -> str:
    """The header and all points. A reading of a GPU has a column for each card, by its index.

    Behind each mean stands the greatest value of its time, of what is free the least. Cells of what is not known are
    empty.
    """
    cards = _cards(points)
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow(
        [
            *("time", "at", "span_s", "live_attempts"),
            *(column for name in _NODE for column in (name, _peak_name(name))),
            *(
                column
                for card in cards.values()
                for name in _STORED
                for column in (f"{card}_{name}", f"{card}_{name}_max")
            ),
        ]
    )
    lines.writerows(_cells(point, cards) for point in points)
    return out.getvalue()


def _peak_name(name: str) -> str:
    return f"{name}_min" if name == "disk_free_bytes" else f"{name}_max"


def _cards(points: Iterable[s.UsagePoint]) -> dict[str, str]:
    """The cards by uuid, and how each is called. One that took the place of another has its uuid in its name."""
    indices = {gpu.uuid: gpu.index for point in points for gpu in point.gpus}
    names: dict[str, str] = {}
    for uuid, index in sorted(indices.items(), key=lambda item: (item[1], item[0])):
        name = f"gpu{index}"
        names[uuid] = name if name not in names.values() else f"{name}-{uuid}"
    return names


def _cells(point: s.UsagePoint, cards: dict[str, str]) -> list[object]:
    peak = point.peak
    cells: list[object] = [
        datetime.fromtimestamp(point.at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        _cell(point.at),
        _cell(point.span_s),
        point.live_attempts,
    ]
    for name in _NODE:
        value = getattr(point, name)
        cells += [_cell(value), _cell(getattr(peak, name) if peak is not None else value)]
    gpus = {gpu.uuid: gpu for gpu in point.gpus}
    peaks = {gpu.uuid: gpu for gpu in peak.gpus} if peak is not None else gpus
    for uuid in cards:
        for name in _STORED:
            cells += [_cell(getattr(one.get(uuid), name, None)) for one in (gpus, peaks)]
    return cells


def _cell(value: float | None) -> object:
    return "" if value is None else value if isinstance(value, int) else f"{value:.6f}".rstrip("0").rstrip(".")
