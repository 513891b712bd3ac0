"""Readings over time: what is kept, and fewer points of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from headway.model import gpu_readings
from headway.model.gpu_readings import READINGS, reported
from headway.rpc.v1 import resource_manager_pb2

Point = resource_manager_pb2.UsagePoint

RAW_S = 24 * 3600.0
"""Every reading is kept so long; older ones become means over THIN_S."""
THIN_S = 300.0


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


_NODE_READINGS = ("cpu_used", "memory_used_bytes", "disk_free_bytes")
STORED = tuple(row for row in READINGS if row.stored)
"""The readings of a GPU that are kept."""


def mean(points: Sequence[Point]) -> Point:
    """One point for several: means of what was read, the most attempts, at the middle of their time.

    A GPU's reading may have another way than the mean, see ``gpu_readings``.
    """
    if len(points) == 1:
        return points[0]
    out = Point(at=(points[0].at + points[-1].at) / 2, live_attempts=max(point.live_attempts for point in points))
    for name in _NODE_READINGS:
        _thin_into(out, name, points, gpu_readings.mean, whole=name.endswith("_bytes"))
    by_uuid: dict[str, list[resource_manager_pb2.Gpu]] = {}
    for point in points:
        for gpu in point.gpus:
            by_uuid.setdefault(gpu.uuid, []).append(gpu)
    for uuid, gpus in by_uuid.items():
        kept = out.gpus.add(uuid=uuid, model=gpus[-1].model, index=gpus[-1].index)
        for row in STORED:
            _thin_into(kept, row.name, gpus, row.thinned, whole=row.kind is int)
    return out


def thinned(points: Iterable[Point], span_s: float = THIN_S) -> list[Point]:
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
