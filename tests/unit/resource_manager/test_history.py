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
    thin = history.thinned([a_point(10.0 * n, cpu=float(n)) for n in range(60)], 300)
    assert [p.cpu_used for p in thin] == [pytest.approx(14.5), pytest.approx(44.5)]


def test_a_roll_up_keeps_means_and_peaks_of_each_minute_of_the_clock() -> None:
    readings = [a_point(60.0 * 7 + 10 * n, cpu=float(n), gpu=n / 10) for n in range(9)]
    for n, point in enumerate(readings):
        point.disk_free_bytes = 100 - n
    minutes = history.rolled_up(readings, 60)
    assert [(p.at, p.span_s) for p in minutes] == [(450.0, 60.0), (510.0, 60.0)]
    first = minutes[0]
    assert (first.cpu_used, first.peak.cpu_used) == (2.5, 5.0)
    assert (first.disk_free_bytes, first.peak.disk_free_bytes) == (98, 95)
    assert (first.gpus[0].utilisation, first.peak.gpus[0].utilisation) == (pytest.approx(0.25), 0.5)
    (hour,) = history.rolled_up(minutes, 3600)
    assert (hour.at, hour.span_s, hour.peak.cpu_used, hour.peak.disk_free_bytes) == (1800.0, 3600.0, 8.0, 92)


def test_a_single_reading_is_its_own_peak_once_it_stands_for_a_span() -> None:
    (minute,) = history.rolled_up([a_point(65.0, cpu=3.0)], 60)
    assert (minute.at, minute.cpu_used, minute.peak.cpu_used, minute.peak.at) == (90.0, 3.0, 3.0, 0.0)


@pytest.mark.parametrize(
    ("back_s", "span_s"),
    [(0, 0), (3_600, 0), (3_700, 0), (3 * 3_600, 60), (86_400, 60), (2 * 86_400, 3_600), (900 * 86_400, 3_600)],
)
def test_the_finest_roll_up_that_reaches_back_is_read(back_s: float, span_s: float) -> None:
    assert history.level_for(1e9 - back_s, 1e9).span_s == span_s
