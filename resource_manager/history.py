"""Readings over time: what is kept, and fewer points of them. Pure.

A node's readings are kept three times, each for longer and in coarser steps: see ``LEVELS``. A coarser point has the
means of the finer ones, and their peaks, so that a short spike is still seen after a year.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from headway.model import gpu_readings
from headway.model.gpu_readings import READINGS, reported
from headway.rpc.v1 import resource_manager_pb2

Point = resource_manager_pb2.UsagePoint

DAY_S = 86_400.0
SLACK_S = 900.0
"""Each level keeps so much more than it promises: what is being rolled up must still be there."""


@dataclass(frozen=True, slots=True)
class Level:
    """One roll-up. A row of the database holds the points of ``block_s`` seconds."""

    span_s: float  # of a point; 0: single readings
    keep_s: float  # of hours, if nothing else is configured
    block_s: float


SECONDS = Level(span_s=0.0, keep_s=3_600.0, block_s=60.0)
MINUTES = Level(span_s=60.0, keep_s=DAY_S, block_s=600.0)
HOURS = Level(span_s=3_600.0, keep_s=366 * DAY_S, block_s=DAY_S)
LEVELS = (SECONDS, MINUTES, HOURS)


def level_for(since: float, now: float) -> Level:
    """The finest roll-up that reaches back to an instant."""
    return next((level for level in LEVELS if since >= now - level.keep_s - SLACK_S / 2), HOURS)


def reading(status: resource_manager_pb2.NodeStatus, at: float) -> Point:
    """What is kept of a status."""
    point = Point(at=at, live_attempts=status.live_attempts)
    for name in _NODE_READINGS:
        if status.HasField(name):  # type: ignore[arg-type]
            setattr(point, name, getattr(status, name))
    for gpu in status.capacity.gpus:
        kept = point.gpus.add(uuid=gpu.uuid, model=gpu.model, index=gpu.index)
        for name, value in reported(gpu, STORED).items():
            if value is not None:
                setattr(kept, name, value)
    return point


# What is the peak of several values: of what is free it is the least.
_NODE_READINGS: dict[str, Callable[[Sequence[float]], float]] = {
    "cpu_used": max,
    "memory_used_bytes": max,
    "disk_free_bytes": min,
}
STORED = tuple(row for row in READINGS if row.stored)
"""The readings of a GPU that are kept."""


def mean(points: Sequence[Point]) -> Point:
    """One point for several: means of what was read, its peaks, the most attempts, at the middle of their time.

    A GPU's reading may have another way than the mean, see ``gpu_readings``.
    """
    if len(points) == 1:
        return points[0]
    first, last = points[0], points[-1]
    begin, end = first.at - first.span_s / 2, last.at + last.span_s / 2
    out = Point(at=(begin + end) / 2, span_s=end - begin, live_attempts=max(point.live_attempts for point in points))
    peaks = [point.peak if point.HasField("peak") else point for point in points]
    for name, peak in _NODE_READINGS.items():
        whole = name.endswith("_bytes")
        _thin_into(out, name, points, gpu_readings.mean, whole=whole)
        _thin_into(out.peak, name, peaks, peak, whole=whole)
    means_of, peaks_of = _by_uuid(points), _by_uuid(peaks)
    for uuid, gpus in means_of.items():
        card = {"uuid": uuid, "model": gpus[-1].model, "index": gpus[-1].index}
        kept, kept_peak = out.gpus.add(**card), out.peak.gpus.add(**card)
        for row in STORED:
            _thin_into(kept, row.name, gpus, row.thinned, whole=row.kind is int)
            _thin_into(kept_peak, row.name, peaks_of[uuid], max, whole=row.kind is int)
    return out


def _by_uuid(points: Sequence[Point]) -> dict[str, list[resource_manager_pb2.Gpu]]:
    found: dict[str, list[resource_manager_pb2.Gpu]] = {}
    for point in points:
        for gpu in point.gpus:
            found.setdefault(gpu.uuid, []).append(gpu)
    return found


def rolled_up(points: Iterable[Point], span_s: float) -> list[Point]:
    """One point for each span of the clock that has any, at its middle; points come in order.

    What a single reading stands for is a span too, with itself as its peak.
    """
    found: dict[float, list[Point]] = {}
    for point in points:
        found.setdefault(math.floor(point.at / span_s) * span_s, []).append(point)
    return [_of_span(bucket, begin, span_s) for begin, bucket in found.items()]


def _of_span(points: Sequence[Point], begin: float, span_s: float) -> Point:
    out = Point()
    out.CopyFrom(mean(points))
    if not out.HasField("peak"):
        out.peak.CopyFrom(points[0])
    out.peak.ClearField("at")
    out.peak.ClearField("live_attempts")
    out.at, out.span_s = begin + span_s / 2, span_s
    return out


def merged(old: Iterable[Point], new: Iterable[Point]) -> list[Point]:
    """Both, in order of time; of two at one instant the new one."""
    found = {point.at: point for point in (*old, *new)}
    return [found[at] for at in sorted(found)]


def blocks(points: Iterable[Point], block_s: float) -> dict[float, list[Point]]:
    """The points by the beginning of the row that holds them."""
    found: dict[float, list[Point]] = {}
    for point in points:
        found.setdefault(math.floor(point.at / block_s) * block_s, []).append(point)
    return found


def thinned(points: Iterable[Point], span_s: float) -> list[Point]:
    """One point for each span of time that has any; points come in order."""
    return [mean(bucket) for bucket in _buckets(points, span_s)]


def downsampled(points: Sequence[Point], max_points: int) -> list[Point]:
    """At most so many points, each the mean of an equal span of the time that they cover; points come in order."""
    if len(points) <= max_points:
        return list(points)
    span_s = (points[-1].at - points[0].at) / max_points
    # A hair wider, so that the last point falls into the last span and not into one more.
    return thinned(points, span_s * (1 + 1e-9) or 1.0)[:max_points] if span_s > 0 else list(points[:max_points])


def _buckets(points: Iterable[Point], span_s: float) -> Iterator[list[Point]]:
    bucket: list[Point] = []
    start = 0.0
    for point in points:
        if bucket and point.at - start >= span_s:
            yield bucket
            bucket = []
        if not bucket:
            start = point.at
        bucket.append(point)
    if bucket:
        yield bucket


def _thin_into(
    out: Point | resource_manager_pb2.Gpu,
    name: str,
    sources: Sequence[object],
    thin: Callable[[Sequence[float]], float],
    *,
    whole: bool,
) -> None:
    values = [getattr(source, name) for source in sources if source.HasField(name)]  # type: ignore[attr-defined]
    if values:
        value = thin(values)
        setattr(out, name, round(value) if whole else value)
