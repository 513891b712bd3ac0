"""Which documents are variants to compare, and how bad ones are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway.errors import JobFileInvalid
from headway.rpc.v1 import task_manager_pb2 as tm
from httpserver.jobs.preview import checked, variants_of


def read(document: Any) -> list[tm.EnqueueTask] | None:
    """None: it is a job file."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    variants = variants_of(data)
    return None if variants is None else checked(variants, owner="ann", high_priority=False)


def refusal(document: Any) -> dict[str, str]:
    with pytest.raises(JobFileInvalid) as refused:
        read(document)
    pointers = [problem.pointer for problem in refused.value.problems]
    assert len(set(pointers)) == len(pointers)  # no place is named twice
    return {problem.pointer: problem.message for problem in refused.value.problems}


@pytest.mark.parametrize(
    "document",
    [
        {"timeout": "10m", "gpus": 1},
        [{"timeout": "10m", "gpus": 1}],
        {"variants": [{"timeout": "10m", "gpus": 1}]},
        {"timeout": "10m", "gpus": 1, "priority": None},
    ],
)
def test_one_variant_comes_alone_in_a_list_or_under_variants(document: Any):
    found = read(document)
    assert found is not None
    assert [(task.spec.timeout_s, task.spec.resources.gpus) for task in found] == [(600, 1)]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"priority": "low"},
        {"version": 1, "name": "a", "tasks": []},
        {"tasks": [], "variants": []},
        {"defaults": {}, "timeout": "10m"},
        {"task": []},
        "10m",
        b"name: a",
        b'[{"timeout": "10m",}]',
    ],
)
def test_anything_else_is_read_as_a_job_file(document: Any):
    assert read(document) is None


def test_what_stands_beside_variants_is_refused_at_its_place():
    # {"variants": […], "x": 1} was taken, and x not looked at.
    assert set(refusal({"variants": [{"timeout": "10m"}], "x": 1, "timeout": "1h"})) == {"/x", "/timeout"}
    assert "nothing goes beside variants" in refusal({"variants": [{"timeout": "10m"}], "name": "a"})["/name"]
    assert refusal({"variants": {"timeout": "10m"}, "x": 1}).keys() == {"/variants", "/x"}


def test_the_slips_of_one_alone_stand_where_they_were_sent():
    assert set(refusal({"timeout": 10, "gpu": 1, "priority": "urgent"})) == {"/timeout", "/gpu", "/priority"}
    assert refusal({"gpus": 1}).keys() == {"/timeout"}


def test_what_is_no_variant_is_named_once_and_moves_no_other_place():
    # [5] was also told that "tasks is empty", and what came behind it was named by the place before its own.
    assert refusal([5]).keys() == {"/variants/0"}
    assert refusal([None, {"timeout": "10x"}]).keys() == {"/variants/0", "/variants/1/timeout"}
    assert "not null" in refusal([None])["/variants/0"]


def test_what_is_no_json_and_what_is_written_twice_is_named_once():
    assert "NaN" in refusal(b'[{"timeout": "1m", "cpus": NaN}]')["/variants/0/cpus"]
    assert "twice" in refusal(b'{"timeout": "1m", "timeout": "2m"}')["/timeout"]
    assert "twice" in refusal(b'{"variants": [{"timeout": "1m", "gpus": 1, "gpus": 2}]}')["/variants/0/gpus"]


@pytest.mark.parametrize("priority", ["", 0, False, [], "high"])
def test_only_null_stands_for_the_usual_priority(priority: Any):
    assert refusal([{"timeout": "1m", "priority": priority}]).keys() == {"/variants/0/priority"}


def test_more_problems_than_are_told_are_counted():
    crowd = {"timeout": "1m"} | {f"key{number}": 1 for number in range(150)}
    with pytest.raises(JobFileInvalid) as refused:
        read([crowd])
    *_, last = refused.value.problems
    assert (last.pointer, len(refused.value.problems)) == ("", 101)
