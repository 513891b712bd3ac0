from __future__ import annotations

from typing import Any

import pytest

from headway.client import cluster_look
from headway.model.findings import Check

NOW = 1_800_000_000.0
DAY = 86_400.0


def node(**changes: Any) -> dict[str, Any]:
    return {
        "id": "n1",
        "health": "READY",
        "health_sentence": "",
        "admission": "OPEN",
        "note": "",
        "version": "0.3.0",
        "conditions": [],
        "gpus": [],
        "disk_free_bytes": 50 << 30,
        "disk_total_bytes": 100 << 30,
        **changes,
    }


def gpu(**changes: Any) -> dict[str, Any]:
    return {"uuid": "GPU-1", "index": 0, "sick": False, "busy_outside": False, "note": "", "fault": "", **changes}


def condition(word: str, *, blocks_work: bool) -> dict[str, Any]:
    return {"word": word, "sentence": "It is so.", "since_at": 1.0, "blocks_work": blocks_work}


def told(checks: list[Check]) -> list[str]:
    assert all(bool(one.remedy) is (one.level != "ok") for one in checks)
    return [str(one.level) for one in checks]


@pytest.mark.parametrize(
    ("changes", "levels"),
    [
        ({}, ["ok"]),
        ({"health": "DOWN", "health_sentence": "Silent."}, ["problem"]),
        ({"health": "SUSPECT", "health_sentence": "Silent."}, ["warning"]),
        ({"admission": "CORDONED"}, ["warning"]),
        ({"conditions": [condition("engine_unavailable", blocks_work=True)]}, ["problem"]),
        ({"conditions": [condition("of_a_later_version", blocks_work=False)]}, ["warning"]),
        ({"conditions": [condition("gpus_simulated", blocks_work=False)]}, ["ok"]),
        ({"gpus": [gpu(sick=True)]}, ["problem"]),
        ({"gpus": [gpu(busy_outside=True)]}, ["warning"]),
        ({"gpus": [gpu()]}, ["ok"]),
        ({"version": "0.2.9"}, ["warning"]),
        ({"version": "0.1.0"}, ["problem"]),
        ({"version": ""}, ["ok"]),
        ({"disk_free_bytes": 1 << 30}, ["warning"]),
        ({"disk_free_bytes": None, "disk_total_bytes": None}, ["ok"]),
        ({"health": "DOWN", "admission": "DRAINED", "version": "1.0"}, ["problem", "warning", "problem"]),
    ],
)
def test_machines(changes: dict[str, Any], levels: list[str]):
    assert told(cluster_look.nodes([node(**changes)], "0.3.0")) == levels


def test_a_cluster_without_machines():
    (found,) = cluster_look.nodes([], "0.3.0")
    assert "headway nodes invite" in found.remedy


def test_services_and_what_the_page_misses():
    ready = {"services": {"JobManager": "ok", "TaskManager": "It is away."}, "conditions": {"mount": "It is gone."}}
    assert told(cluster_look.services(ready)) == ["ok", "problem", "problem"]


def test_certificates_count_by_the_newest_that_was_not_revoked():
    def one(days: float, revoked_at: float | None = None, **changes: str) -> dict[str, Any]:
        return {"role": "worker", "name": "n1", "expires_at": NOW + days * DAY, "revoked_at": revoked_at, **changes}

    assert told(cluster_look.certificates([one(-3), one(20), one(2)], NOW)) == ["ok"]
    assert told(cluster_look.certificates([one(-3), one(20, revoked_at=NOW)], NOW)) == ["problem"]
    assert told(cluster_look.certificates([one(4), one(29, name="n2")], NOW)) == ["warning", "ok"]
    assert cluster_look.certificates([one(4, revoked_at=NOW)], NOW) == []


def test_the_queue():
    def answer(**scheduling: Any) -> dict[str, Any]:
        return {"total_waiting": 1, "scheduling": {"failure": "", "contradictions": [], **scheduling}}

    assert told(cluster_look.queue(answer())) == ["ok"]
    assert told(cluster_look.queue(answer(failure="It fails.", contradictions=["a", "b"]))) == [
        "problem",
        "warning",
        "warning",
    ]
