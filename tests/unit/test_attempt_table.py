"""A fact of an attempt has one row, and all that handles facts goes by the rows: seen on one that is made up."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import pytest
from sqlalchemy import BigInteger, Float, Text

from headway.ids import AttemptId, JobId, NodeId, TaskId
from headway.model import attempt_facts
from headway.model.attempt_facts import FACTS, SHOWN, AttemptFacts, Fact
from headway.model.reasons import EndReason, EndWord
from headway.model.rows import rows_of, with_row
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.states import AttemptState
from httpserver import schemas
from httpserver import wire as views
from httpserver.schemas.base import ApiResponse
from httpserver.schemas.jobs import with_facts
from task_manager import wire
from task_manager.engine.events import AttemptReport
from task_manager.model import Attempt, Shape
from task_manager.store import queue_store, rows, tables
from tests.support.wider_messages import widened
from worker import wire as worker_wire
from worker.model import AttemptRecord, AttemptStage, AttemptTimes, EndDecision

ID = AttemptId(TaskId(JobId("j1"), "t"), 1)
TIMES = AttemptTimes(1.0, 2.0, 3.0, 9.5, 6.5)
MEASURED: dict[str, Any] = {"peak_memory_bytes": 7, "stdout_bytes": 8, "stderr_bytes": 9, "dropped_bytes": 10}
KNOWN = AttemptFacts(
    accepted_at=1.0,
    container_started_at=2.0,
    started_at=3.0,
    ended_at=9.5,
    run_s=6.5,
    image_id="sha256:1",
    warnings=("odd",),
    counted_s=60.0,
    **MEASURED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WiderFacts(AttemptFacts):
    written_bytes: int | None = with_row(Fact(kind=int, about="to its disk"))
    swaps: int = with_row(Fact(kind=int, report="swap_count", grows=True, shown=False), default=0)


WIDER = rows_of(WiderFacts, Fact)


def an_attempt(**facts: Any) -> Attempt:
    return Attempt(ID, 1, AttemptState.RUNNING, NodeId("n1"), 1, Shape(1, 1), (), 60.0, 1, 0.0, 0.5, **facts)


def values(facts: AttemptFacts) -> dict[str, Any]:
    return {row.name: getattr(facts, row.name) for row in FACTS}


def test_every_fact_has_a_row_and_every_consumer_knows_it() -> None:
    assert [row.name for row in FACTS] == [one.name for one in fields(AttemptFacts)]
    types = {float: Float, int: BigInteger, str: Text, tuple: Text}
    for row in FACTS:
        sent = tm.AttemptReport.DESCRIPTOR.fields_by_name[row.reported]
        assert sent.has_presence == (row.default is None)
        column = tables.attempts.c[row.name]
        assert isinstance(column.type, types[row.kind])
        assert column.nullable == (row.default is None)
        shown = tm.AttemptView.DESCRIPTOR.fields_by_name.get(row.name)
        assert (shown is not None) == row.shown
        assert (row.name in schemas.Attempt.model_fields) == row.shown
        if row.shown:
            assert shown.has_presence == sent.has_presence
            assert (schemas.Attempt.model_fields[row.name].description or "") == row.about


def test_a_fact_travels_from_the_worker_to_the_page() -> None:
    record = AttemptRecord(ID, AttemptStage.ENDED, None, TIMES, image_id="sha256:1", counted_s=60.0)
    decision = EndDecision(EndReason(EndWord.EXITED, 0), ("odd",))
    told = {"node_id": "n1", "incarnation": 1, "at": 10.0}
    sent = worker_wire.report(record, "SUCCEEDED", **told, decision=decision, **MEASURED)  # type: ignore[arg-type]
    (report,) = wire.reports(tm.ReportAttemptsRequest(reports=[sent])).reports
    assert report.facts == KNOWN
    attempt = an_attempt(**attempt_facts.merged(an_attempt(), report.facts))
    assert values(attempt) == values(KNOWN)
    shown = views.attempt(wire.attempt_view(attempt))
    for row in SHOWN:
        want = getattr(KNOWN, row.name)
        assert getattr(shown, row.name) == (list(want) if row.kind is tuple else want)


def test_what_the_worker_does_not_know_yet_stays_unknown_everywhere() -> None:
    early = worker_wire.report(
        AttemptRecord(ID, AttemptStage.LIVE, None, AttemptTimes(1.0)),
        "PULL_STARTED",
        node_id="n1",
        incarnation=1,
        at=1.0,
    )
    (report,) = wire.reports(tm.ReportAttemptsRequest(reports=[early])).reports
    assert report == AttemptReport(ID, NodeId("n1"), "PULL_STARTED", 1.0, facts=AttemptFacts(accepted_at=1.0))
    shown = views.attempt(wire.attempt_view(an_attempt()))
    for row in SHOWN:
        assert getattr(shown, row.name) == ([] if row.kind is tuple else row.default)


def test_every_fact_is_stored_and_read_again() -> None:
    attempt = an_attempt(**values(KNOWN))
    moving = rows.attempt_moving(attempt)
    assert len(moving) == len(queue_store._ATTEMPT_MOVING)
    stored = dict(zip(queue_store._ATTEMPT_MOVING, moving, strict=True))
    assert {row.name for row in FACTS} <= stored.keys() <= set(tables.attempts.c.keys())
    assert stored["warnings"] == '["odd"]'
    read = rows.facts_of(type("Stored", (), stored)())  # type: ignore[arg-type]
    assert read == values(KNOWN)


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ({}, {"run_s": 0.0, "image_id": "a"}, {"run_s": 0.0, "image_id": "a"}),
        ({"run_s": 5.0, "warnings": ("odd",)}, {}, {"run_s": 5.0, "warnings": ("odd",)}),
        ({"run_s": 5.0, "image_id": "a"}, {"run_s": 6.0, "image_id": "b"}, {"run_s": 6.0, "image_id": "b"}),
        ({"stdout_bytes": 5}, {"stdout_bytes": 3}, {"stdout_bytes": 5}),
        ({"stdout_bytes": 5}, {"stdout_bytes": 8}, {"stdout_bytes": 8}),
    ],
)
def test_a_later_report_takes_back_nothing(old: dict[str, Any], new: dict[str, Any], want: dict[str, Any]) -> None:
    merged = attempt_facts.merged(AttemptFacts(**old), AttemptFacts(**new))
    assert AttemptFacts(**merged) == AttemptFacts(**want)


def test_a_new_fact_travels() -> None:
    report_class, view_class = widened(
        tm.DESCRIPTOR,
        AttemptReport={"written_bytes": "TYPE_UINT64", "swap_count": "TYPE_UINT64"},
        AttemptView={"written_bytes": "TYPE_UINT64"},
    )
    facts = WiderFacts(**attempt_facts.from_report(report_class(written_bytes=5, swap_count=2, run_s=3.0), WIDER))
    assert facts == WiderFacts(written_bytes=5, swaps=2, run_s=3.0)
    later = attempt_facts.merged(facts, WiderFacts(swaps=1), WIDER)
    assert WiderFacts(**later) == facts
    shown = [row for row in WIDER if row.shown]
    view = view_class.FromString(view_class(**attempt_facts.to_view(facts, shown)).SerializeToString())
    assert attempt_facts.from_view(view, shown)["written_bytes"] == 5


def test_a_new_fact_is_stored_and_in_the_http_schema() -> None:
    columns = {column.name: column for column in tables.fact_columns(WIDER)}
    assert (columns["written_bytes"].nullable, columns["swaps"].nullable) == (True, False)
    stored = dict(zip(columns, rows.stored_facts(WiderFacts(written_bytes=5, swaps=2), WIDER), strict=True))
    assert WiderFacts(**rows.facts_of(type("Stored", (), stored)(), WIDER)) == WiderFacts(written_bytes=5, swaps=2)
    model = with_facts(ApiResponse, [row for row in WIDER if row.shown]).model_json_schema()
    assert model["properties"]["written_bytes"]["description"] == "to its disk"
    assert "swaps" not in model["properties"]
