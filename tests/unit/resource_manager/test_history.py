"""Readings and fewer of them."""

from __future__ import annotations

import pytest

from headway.rpc.v1 import resource_manager_pb2
from resource_manager import history


def a_point(at: float, cpu: float | None = 1.0, gpu: float | None = 0.5, live: int = 1) -> history.Point:
    point = history.Point(at=at, cpu_used=cpu, memory_used_bytes=int(at), live_attempts=live)
    point.gpus.add(uuid="GPU-1", model="A", utilisation=gpu)
    return point


def test_a_reading_keeps_only_what_was_read() -> None:
    status = resource_manager_pb2.NodeStatus(cpu_used=1.5, live_attempts=2, images=["x"])
    status.capacity.gpus.add(uuid="GPU-1", model="A", memory_bytes=10, power_w=90.0)
    point = history.reading(status, at=5.0)
    assert (point.at, point.cpu_used, point.live_attempts) == (5.0, 1.5, 2)
    assert not point.HasField("memory_used_bytes")
    assert point.gpus[0].power_w == 90.0
    assert not point.gpus[0].HasField("utilisation")


def test_a_mean_leaves_out_what_was_not_read() -> None:
    mean = history.mean([a_point(0, cpu=1.0, live=4), a_point(10, cpu=None), a_point(20, cpu=3.0, gpu=None)])
    assert (mean.cpu_used, mean.memory_used_bytes, mean.live_attempts) == (2.0, 10, 4)
    assert mean.gpus[0].utilisation == pytest.approx(0.5)


@pytest.mark.parametrize(("count", "limit"), [(3, 10), (1_000, 7), (8_640, 500), (2, 1), (0, 5)])
def test_downsampling_keeps_the_limit_the_order_and_the_ends(count: int, limit: int) -> None:
    points = [a_point(10.0 * n) for n in range(count)]
    fewer = history.downsampled(points, limit)
    assert len(fewer) <= limit
    assert [p.at for p in fewer] == sorted(p.at for p in fewer)
    if count > limit:
        assert len(fewer) >= limit // 2
        assert fewer[-1].at >= points[-1].at - 2 * points[-1].at / limit - 10


def test_points_of_one_instant_are_bounded_too() -> None:
    assert len(history.downsampled([a_point(5.0) for _ in range(9)], 4)) == 4


def test_thinning_makes_one_point_of_five_minutes() -> None:
    thin = history.thinned([a_point(10.0 * n, cpu=float(n)) for n in range(60)])
    assert [p.cpu_used for p in thin] == [pytest.approx(14.5), pytest.approx(44.5)]
