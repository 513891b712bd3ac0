"""Readings of a machine over time: JSON, CSV, and what can't be asked."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headway.rpc.v1 import resource_manager_pb2 as rm
from tests.integration.http_rig import Rig, a_rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path) as made:
        await made.account("ann")
        made.nodes.put()
        yield made


def a_point(at: float, *, gpus: tuple[tuple[str, int, float], ...] = (), **more: Any) -> rm.UsagePoint:
    point = rm.UsagePoint(at=at, cpu_used=1.5, disk_free_bytes=100, live_attempts=2, **more)
    for uuid, index, utilisation in gpus:
        point.gpus.add(uuid=uuid, index=index, model="A100", utilisation=utilisation)
    return point


async def test_points_come_with_their_time_and_peak(rig: Rig) -> None:
    peak = rm.UsagePoint(cpu_used=8.0, disk_free_bytes=50, gpus=[rm.Gpu(uuid="GPU-a", utilisation=1.0)])
    means = a_point(1_800.0, gpus=(("GPU-a", 0, 0.25),), span_s=3_600.0, peak=peak)
    rig.nodes.usage = rm.GetNodeUsageReply(points=[means, a_point(3_700.0)], span_s=3_600.0)
    ann = await rig.client("ann")
    found = (await ann.get("/nodes/node-1/usage", params={"since": 5, "until": 9_000, "points": 7})).json()
    asked = rig.nodes.asked[-1]
    assert (asked.since, asked.until, asked.max_points) == (5, 9_000, 7)
    assert (found["span_s"], len(found["points"])) == (3_600.0, 2)
    first, second = found["points"]
    assert (first["span_s"], first["cpus_used"], first["peak"]["cpus_used"]) == (3_600.0, 1.5, 8.0)
    assert (first["disk_free_bytes"], first["peak"]["disk_free_bytes"]) == (100, 50)
    assert first["peak"]["gpus"][0]["utilisation"] == 1.0
    assert second["peak"] is None


async def test_of_a_card_nothing_is_said_that_the_history_does_not_keep(rig: Rig) -> None:
    rig.nodes.usage = rm.GetNodeUsageReply(points=[a_point(1_800.0, gpus=(("GPU-a", 0, 0.25),))])
    ann = await rig.client("ann")
    (point,) = (await ann.get("/nodes/node-1/usage")).json()["points"]
    (card,) = point["gpus"]
    assert (card["uuid"], card["model"], card["index"], card["utilisation"]) == ("GPU-a", "A100", 0, 0.25)
    assert card.keys().isdisjoint({"sick", "simulated", "busy_outside", "fault", "memory_bytes", "processes"})


async def test_csv_has_a_column_for_each_card_and_cells_of_what_is_unknown_are_empty(rig: Rig) -> None:
    peak = rm.UsagePoint(cpu_used=8.0, disk_free_bytes=50, gpus=[rm.Gpu(uuid="GPU-a", utilisation=1.0)])
    points = [
        a_point(1_800.0, gpus=(("GPU-a", 0, 0.25), ("GPU-b", 1, 0.5)), span_s=60.0, peak=peak),
        a_point(1_860.0, gpus=(("GPU-c", 0, 0.75),)),
    ]
    rig.nodes.usage = rm.GetNodeUsageReply(points=points, span_s=60.0)
    ann = await rig.client("ann")
    answer = await ann.get("/nodes/node-1/usage", params={"format": "csv"})
    assert answer.headers["content-type"].startswith("text/csv")
    first, second = csv.DictReader(io.StringIO(answer.text))
    assert (first["time"], first["at"], first["span_s"]) == ("1970-01-01T00:30:00Z", "1800", "60")
    assert (first["cpus_used"], first["cpus_used_max"], first["disk_free_bytes_min"]) == ("1.5", "8", "50")
    assert (first["gpu0_utilisation"], first["gpu0_utilisation_max"], first["gpu1_utilisation"]) == ("0.25", "1", "0.5")
    assert (second["gpu0_utilisation"], second["gpu0-GPU-c_utilisation_max"]) == ("", "0.75")
    assert second["memory_used_bytes"] == ""


@pytest.mark.parametrize(
    ("params", "want"),
    [
        ({"since": 20, "until": 10}, "`since` lies after `until`"),
        ({"points": 0}, "`points`"),
        ({"points": 5_001}, "`points`"),
        ({"since": "yesterday"}, "`since`"),
        ({"since": "nan"}, "`since`"),
        ({"format": "xml"}, "`format`"),
    ],
)
async def test_what_can_not_be_asked(rig: Rig, params: dict[str, Any], want: str) -> None:
    ann = await rig.client("ann")
    answer = await ann.get("/nodes/node-1/usage", params=params)
    assert answer.status_code == 400
    assert want in answer.text
    assert rig.nodes.asked == []
