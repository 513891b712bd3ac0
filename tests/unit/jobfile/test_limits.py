"""Large jobs work, larger ones are refused, and neither takes long."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway.jobfile import JobFileLimits, check_job, parse_job, to_yaml
from tests.support.steps import counted

from .build import a_job, problems_of, the_problem


def _large_job(count: int) -> dict[str, Any]:
    """A chain with a second need here and there, as a generator of jobs would write it."""
    tasks = []
    for index in range(count):
        needs = sorted({f"task-{other:05d}" for other in (index - 1, index // 2) if 0 <= other < index})
        tasks.append(
            {
                "name": f"task-{index:05d}",
                "needs": needs,
                "command": f"python3 /root/nfs/step.py --index {index}",
                "resources": {"cpus": 0.5, "memory": "256MiB"},
                "env": {"SEED": str(index)},
            }
        )
    return {"version": 1, "name": "large", "defaults": {"image": "base/python:1", "timeout": "10m"}, "tasks": tasks}


@pytest.mark.slow
def test_the_work_of_reading_grows_with_the_number_of_tasks() -> None:
    job = _large_job(10_000)
    as_json = json.dumps(job).encode()
    as_yaml = to_yaml(parse_job(job)).encode()
    assert 1_300_000 < len(as_yaml) < 3_000_000
    with counted() as json_steps:
        from_json = parse_job(as_json, media="json")
    with counted() as yaml_steps:
        from_yaml = parse_job(as_yaml, media="yaml")
    assert from_json == from_yaml
    assert len(from_json.tasks) == 10_000
    assert json_steps.taken < 300 * 10_000
    assert yaml_steps.taken < 400 * 10_000


@pytest.mark.slow
@pytest.mark.parametrize("media", ["json", "yaml"])
def test_the_work_of_telling_grows_with_the_number_of_mistakes(media: str) -> None:
    job = _large_job(10_000)
    for task in job["tasks"]:
        task["needs"] = ["nowhere"]
        task["colour"] = "red"
    text = json.dumps(job) if media == "json" else "# a comment\n" + json.dumps(job)
    with counted() as steps:
        problems = problems_of(text, media=media)
    assert steps.taken < 600 * 10_000
    assert len(problems) == 101
    assert problems[0].line is not None
    assert "19900 more" in problems[-1].message


def test_a_chain_of_three_thousand() -> None:
    job = a_job(*({"needs": [f"t{index}"]} if index else {} for index in range(3_000)))
    assert len(parse_job(job).tasks) == 3_000
    assert len(check_job(job).graph) == 3_000


def test_one_task_too_many() -> None:
    assert "10,000 are allowed" in the_problem(_large_job(10_001)).message


def test_too_many_needs() -> None:
    job = a_job({}, {}, {}, {"needs": ["t1", "t2", "t3"]})
    assert "needs in all" in the_problem(job, limits=JobFileLimits(edges=2)).message
    assert problems_of(job, limits=JobFileLimits(edges=3)) == ()


def test_a_default_that_makes_the_job_huge_is_refused() -> None:
    """A script of 100 kB costs nothing in the file, and a gigabyte once each of 10,000 tasks has it."""
    job = a_job(*({} for _ in range(10_000)), defaults={"command": "x" * 100_000})
    for task in job["tasks"]:
        del task["command"]
    with counted() as steps:
        assert "953 MiB" in the_problem(job).message
    assert steps.taken < 100 * 10_000


def test_an_environment_that_no_program_could_get_is_refused() -> None:
    job = a_job({"env": {f"A{index}": "x" * 100_000 for index in range(11)}})
    assert "1 MiB" in the_problem(job).message
    words = a_job({"command": ["echo", *["x" * 100_000] * 11]})
    assert "1 MiB" in the_problem(words).message


def test_the_size_of_the_file_is_limited() -> None:
    assert "MiB are allowed" in the_problem(json.dumps(a_job()), limits=JobFileLimits(bytes=20)).message
