"""A GPU's reading has one row, and all that handles readings goes by the rows: seen on one that is made up."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pynvml
import pytest

from headway.model.gpu_readings import READINGS, Column, GpuReadings, Reading, Unit, readings_of, reported
from headway.model.rows import rows_of, with_row
from headway.rpc.v1 import resource_manager_pb2 as rm
from httpserver import schemas
from httpserver import wire as views
from httpserver.peers import hub
from httpserver.schemas.cluster import with_readings
from resource_manager import history, inventory
from tests.support.scripts import script
from tests.support.wider_messages import widened
from worker import wire
from worker.machine.gpus import cards
from worker.ports import GpuReading

ROOT = Path(__file__).parents[2]
ALL = {"utilisation": 0.5, "memory_utilisation": 0.25, "memory_used_bytes": 3, "temperature_c": 60.0, "power_w": 250.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class WiderReadings(GpuReadings):
    fan: float | None = with_row(
        Reading(unit=Unit.SHARE, about="0 to 1, of its fan", thinned=max, column=Column(head="Fan", place=10))
    )


WIDER = rows_of(WiderReadings, Reading)


def test_every_reading_has_a_row_and_every_consumer_knows_it() -> None:
    assert {row.name for row in READINGS} == {one.name for one in fields(GpuReadings)} == ALL.keys()
    kinds = {float: "TYPE_DOUBLE", int: "TYPE_UINT64"}
    for row in READINGS:
        there = rm.Gpu.DESCRIPTOR.fields_by_name[row.name]
        assert there.has_presence, "what the driver does not tell is not 0"
        assert there.type == getattr(there, kinds[row.kind])
        shown = schemas.Gpu.model_fields[row.name]
        assert (shown.description or "") == row.about
        assert shown.is_required()
        assert row.column is None or row.column.of in ("", *rm.Gpu.DESCRIPTOR.fields_by_name)


def test_a_reading_travels_from_the_driver_to_the_page() -> None:
    message = wire.gpu(GpuReading("GPU-1", "A100", 40, 0, **ALL))  # type: ignore[arg-type]
    assert reported(message) == ALL
    point = history.reading(rm.NodeStatus(capacity=rm.Capacity(gpus=[message])), 7.0)
    (kept,) = point.gpus
    assert reported(kept) == ALL
    assert {name: getattr(views.gpu(message), name) for name in ALL} == ALL
    assert set(reported(wire.gpu(GpuReading("GPU-1", "A100", 40, 0))).values()) == {None}


def test_the_worker_asks_the_driver_for_every_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    class Driver:
        """Answers whatever it is asked."""

        nvmlMemory_v2 = NVML_TEMPERATURE_GPU = NVML_DEVICE_MIG_ENABLE = 1
        NVMLError = pynvml.NVMLError
        total = used = gpu = memory = 1
        busId = "0"

        def __getattr__(self, name: str) -> Any:
            numbers = name in ("nvmlDeviceGetTemperature", "nvmlDeviceGetPowerUsage")
            return lambda *_, **__: 1 if numbers else (0, 0) if name.endswith("MigMode") else self

    monkeypatch.setattr(cards, "pynvml", Driver())
    assert None not in readings_of(cards.reading("a card", 0)).values()


def test_a_new_reading_alone_wakes_no_scheduler_but_the_page() -> None:
    assert not {row.name for row in READINGS} & set(inventory._WATCHED_OF_GPU)
    assert "capacity" in hub.STATUS_FIELDS_ON_PAGES


def test_a_new_reading_travels() -> None:
    (gpu_class,) = widened(rm.DESCRIPTOR, Gpu={"fan": "TYPE_DOUBLE"})
    sent = gpu_class(**readings_of(WiderReadings(fan=0.5, power_w=3.0), WIDER))
    got = reported(gpu_class.FromString(sent.SerializeToString()), WIDER)
    assert (got["fan"], got["power_w"], got["temperature_c"]) == (0.5, 3.0, None)


def test_the_history_keeps_and_thins_as_the_rows_say(monkeypatch: pytest.MonkeyPatch) -> None:
    hottest = Reading(name="temperature_c", unit=Unit.CELSIUS, thinned=max)
    monkeypatch.setattr(history, "STORED", (hottest,))
    warm, hot = (
        history.reading(rm.NodeStatus(capacity=rm.Capacity(gpus=[rm.Gpu(uuid="1", temperature_c=c, power_w=1)])), 0.0)
        for c in (60, 90)
    )
    (kept,) = history.mean([warm, hot]).gpus
    assert kept.temperature_c == 90
    assert not kept.HasField("power_w")


def test_a_new_reading_is_in_the_http_schema_and_in_the_table_of_gpus() -> None:
    schema = with_readings(WIDER).model_json_schema()
    assert schema["properties"]["fan"]["description"] == "0 to 1, of its fan"
    assert "fan" in schema["required"]
    columns = script("render_fields").render_columns(WIDER)
    assert '{"key": "fan", "head": "Fan", "unit": "share", "of": null},\n  {"key": "memory_used_bytes"' in columns


def test_what_is_told_of_readings_is_fresh() -> None:
    render = script("render_fields")
    assert render.render_columns() == render.COLUMNS.read_text(), "run scripts/render_fields"
    schemas = json.loads((ROOT / "httpserver" / "openapi.json").read_text())["components"]["schemas"]
    for described in (schemas["NodeGpu"], schemas["UsageGpu"]):
        assert ALL.keys() <= described["properties"].keys(), "run scripts/openapi"
