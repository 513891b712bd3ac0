"""Previews over HTTP: of variants, of job files, and as part of a dry run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from headway.rpc.v1 import common_pb2 as common
from tests.integration.http_rig import Rig, a_job_file, a_rig

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    folder: Path = tmp_path_factory.mktemp("rig")
    async with a_rig(folder) as rig:
        yield rig


async def test_variants_are_asked_for_each_alone_in_their_order(rig: Rig):
    ann = await rig.client("ann")
    variants = [
        {"timeout": "10m", "gpus": 1, "gpu_model": "A100"},
        {"timeout": "1d", "cpus": 2, "memory": "8GiB", "priority": "low"},
    ]
    for body in (variants, {"variants": variants}):
        answer = await ann.post("/queue/preview", json=body)
        assert answer.status_code == 200, answer.text
        first, second = answer.json()["starts"]
        assert (first["timeout_s"], first["resources"]["gpus"], first["priority"]) == (600, 1, "normal")
        assert (second["timeout_s"], second["resources"]["cpus"], second["priority"]) == (86_400, 2, "low")
        assert (first["task"], first["at_once"], first["position"], first["refused"]) == (None, True, None, None)
        one, two = rig.tasks.previewed.sets
        assert [len(one.tasks), len(two.tasks)] == [1, 1]
        assert one.tasks[0].owner.name == "ann"
        assert list(one.tasks[0].spec.resources.gpu_models) == ["A100"]
        assert two.tasks[0].spec.resources.memory_bytes == 8 << 30
        assert two.tasks[0].priority == common.PRIORITY_LOW


async def test_one_variant_comes_alone_too_and_nothing_goes_beside_variants(rig: Rig):
    ann = await rig.client("ann")
    alone = await ann.post("/queue/preview", json={"timeout": "10m", "gpus": 1})
    assert alone.status_code == 200, alone.text
    (start,) = alone.json()["starts"]
    assert (start["task"], start["timeout_s"], start["resources"]["gpus"]) == (None, 600, 1)
    refused = await ann.post("/queue/preview", json={"variants": [{"timeout": "10m"}], "x": 1})
    assert refused.status_code == 422
    assert [error["pointer"] for error in refused.json()["errors"]] == ["/x"]


async def test_bad_variants_are_refused_with_all_that_is_wrong_at_its_place(rig: Rig):
    ann = await rig.client("ann")
    bad = [
        {"timeout": 10},
        {"gpus": 1},
        {"timeout": "10m", "gpu": 1},
        {"timeout": "10m", "priority": "high"},
        "1h",
    ]
    answer = await ann.post("/queue/preview", json=bad)
    assert answer.status_code == 422
    errors = {error["pointer"]: error for error in answer.json()["errors"]}
    assert set(errors) == {
        "/variants/0/timeout", "/variants/1/timeout", "/variants/2/gpu", "/variants/3/priority", "/variants/4"
    }  # fmt: skip
    assert errors["/variants/2/gpu"]["suggestion"] == "gpus"
    keys = {"timeout", "priority", "gpus", "gpu_model", "gpu_memory", "gpu_share", "cpus", "memory", "shm"}
    for key, suggestion, message in (
        ("gpu", "gpus", "unknown key 'gpu'; did you mean 'gpus'?"),
        ("walltime", "timeout", "unknown key 'walltime'; did you mean 'timeout'?"),
        ("retries", "", "unknown key 'retries'; known are timeout, priority, "),
    ):
        refused = await ann.post("/queue/preview", json=[{"timeout": "1m", key: 1}])
        (error,) = refused.json()["errors"]
        assert (error["pointer"], error["word"], error["suggestion"]) == (f"/variants/0/{key}", key, suggestion)
        assert error["message"].startswith(message)
        assert set(error["allowed"]) == keys
    assert "grant by an admin" in errors["/variants/3/priority"]["message"]
    assert "missing" in errors["/variants/1/timeout"]["message"]
    chief = await rig.client("chief", may_use_high_priority=True)
    assert (await chief.post("/queue/preview", json=bad[3:4])).status_code == 200
    for many in ([], [{"timeout": "1m"}] * 21):
        refused = await ann.post("/queue/preview", json=many)
        assert refused.status_code == 422
        assert f"not {len(many)}" in refused.json()["errors"][0]["message"]


async def test_a_job_file_tells_what_would_be_queued_at_once_and_what_comes_after_its_needs(rig: Rig):
    ann = await rig.client("ann")
    document = a_job_file("a", "b", "c", "d", priority="low")
    document["tasks"][1] |= {"timeout": "3m", "grace": "5m"}
    document["tasks"][2] |= {"needs": ["a"], "timeout": "7m"}
    document["tasks"][3] |= {"needs": {"c": "any"}, "timeout": "2m"}
    text = json.dumps(document).encode()  # which is YAML as well
    for media in ("application/json", "application/yaml"):
        answer = await ann.post("/queue/preview", content=text, headers={"Content-Type": media})
        assert answer.status_code == 200, answer.text
        shown = answer.json()
        assert [start["task"] for start in shown["starts"]] == ["a", "b"]
        assert (shown["queued_count"], shown["after_needs"], shown["after_needs_count"]) == (2, ["c", "d"], 2)
        late = shown["starts"][1]
        assert (late["position"], late["estimated_start_at"], late["estimate_rough"]) == (1, 1.8e9 + 60, True)
        assert (late["promised_start_at"], late["promise_from_at"]) == (None, 1.8e9 + 30)
        assert [wait["word"] for wait in late["waits"]] == ["waiting_for_gpu"]
        (asked,) = rig.tasks.previewed.sets
        assert [(task.task.name, task.tail_timeout_s) for task in asked.tasks] == [("a", 540), ("b", 0)]
        assert [(task.spec.timeout_s, task.spec.grace_s) for task in asked.tasks] == [(60, 10), (180, 300)]
        assert {task.priority for task in asked.tasks} == {common.PRIORITY_LOW}
    assert (await ann.get("/jobs")).json()["jobs"] == []


async def test_a_job_file_with_problems_is_refused_as_at_submit(rig: Rig):
    ann = await rig.client("ann")
    document = a_job_file("a", "a")
    previewed = await ann.post("/queue/preview", json=document)
    submitted = await ann.post("/jobs", json=document)
    assert (previewed.status_code, previewed.json()["errors"]) == (422, submitted.json()["errors"])


async def test_a_dry_run_has_the_preview_and_does_without_where_the_queue_is_away(rig: Rig):
    ann = await rig.client("ann")
    dry = {"dry_run": "true", "allow_unsatisfiable": "true"}
    told = (await ann.post("/jobs", json=a_job_file("a", "b"), params=dry)).json()["preview"]
    assert [start["sentence"] for start in told["starts"]] == ["At once.", "Later."]
    assert (told["total_waiting"], told["discipline"]) == (4, "conservative")
    rig.tasks.away = True
    try:
        alone = await ann.post("/jobs", json=a_job_file("a"), params=dry)
        assert (alone.status_code, alone.json()["preview"]) == (200, None)
        assert (await ann.post("/queue/preview", json=[{"timeout": "1m"}])).status_code == 503
        assert (await ann.post("/queue/preview", json=a_job_file("a"))).status_code == 503
    finally:
        rig.tasks.away = False
    stored = await ann.post("/jobs", json=a_job_file("a"))
    assert (stored.status_code, stored.json()["preview"]) == (201, None)


async def test_nobody_previews_without_signing_in(rig: Rig):
    stranger = await rig.client()
    assert (await stranger.post("/queue/preview", json=[{"timeout": "1m"}])).status_code == 401
