"""What is required, unknown or misplaced, and how all problems are told at once."""

from __future__ import annotations

from typing import Any

import pytest

from headway.errors import JobFileInvalid, Problem
from headway.jobfile import (
    check_job,
    parse_job,
)

from .build import a_job, problems_of, spec_of, task_yaml, the_problem


@pytest.mark.parametrize("key", ["image", "command", "timeout"])
def test_what_every_task_needs_is_asked_for_by_name(key: str) -> None:
    job = a_job({}, {})
    del job["tasks"][1][key]
    problem = the_problem(job)
    assert problem.pointer == "/tasks/1"
    assert f"task 't2' has no {key}" in problem.message
    assert "defaults" in problem.message
    job["defaults"] = {key: {"image": "a", "command": "b", "timeout": "1m"}[key]}
    assert spec_of(job)


def test_a_value_that_is_wrong_is_not_asked_for_again() -> None:
    job = a_job({}, {}, defaults={"timeout": "5"})
    for task in job["tasks"]:
        del task["timeout"]
    assert the_problem(job).pointer == "/defaults/timeout"


@pytest.mark.parametrize(
    ("where", "key", "want", "suggestion"),
    [
        ("task", "comand", "did you mean 'command'?", "command"),
        ("task", "Timeout", "did you mean 'timeout'?", "timeout"),
        ("task", "working-dir", "did you mean 'working_dir'?", "working_dir"),
        ("task", "depends_on", "did you mean 'needs'?", "needs"),
        ("task", "commands", "did you mean 'command'?", "command"),
        ("task", "time_limit", "did you mean 'timeout'?", "timeout"),
        ("task", "gpus", "goes under resources", ""),
        ("task", "mem", "goes under resources", ""),
        ("task", "priority", "at the top of the job file", ""),
        ("task", "zzz", "known are name, needs, image", ""),
        ("task", "a/b~c", "unknown key", ""),
        ("job", "task", "did you mean 'tasks'?", "tasks"),
        ("job", "image", "in a task or under defaults", ""),
        ("job", "memory", "under resources of a task", ""),
        ("defaults", "name", "in each task", ""),
        ("defaults", "needs", "in each task", ""),
        ("resources", "gpu", "did you mean 'gpus'?", "gpus"),
        ("resources", "timeout", "beside resources", ""),
        ("resources", "cpuss", "did you mean 'cpus'?", "cpus"),
    ],
)
def test_an_unknown_key_is_refused_with_where_it_belongs(where: str, key: str, want: str, suggestion: str) -> None:
    job = a_job({"resources": {}}, defaults={})
    target, pointer = {
        "task": (job["tasks"][0], "/tasks/0"),
        "job": (job, ""),
        "defaults": (job["defaults"], "/defaults"),
        "resources": (job["tasks"][0]["resources"], "/tasks/0/resources"),
    }[where]
    target[key] = "x"
    problem = the_problem(job)
    assert want in problem.message
    assert problem.word == key
    if suggestion:
        assert problem.suggestion == suggestion
    assert problem.pointer == f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"


@pytest.mark.parametrize(
    ("job", "want"),
    [
        ({}, "no name"),
        ({"name": "x"}, "no tasks"),
        ({"name": "x", "tasks": []}, "at least one"),
        ({"name": "x", "tasks": {}}, "a mapping"),
        ({"name": "x", "tasks": None}, "empty"),
        ({"name": "x", "tasks": ["a"]}, "a text"),
        ({"name": "x", "tasks": [{}]}, "task 1 has no name"),
        (a_job(defaults=[]), "a mapping of task fields"),
    ],
)
def test_a_document_of_another_shape_is_refused(job: dict[str, Any], want: str) -> None:
    assert any(want in problem.message for problem in problems_of(job))


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a\n", "just text", "5", "null"])
def test_a_file_that_is_no_mapping_is_refused(text: str) -> None:
    assert "the job file" in the_problem(text).message


def test_shell_goes_with_text_only() -> None:
    problem = the_problem(a_job({"command": ["a"], "shell": "bash"}))
    assert problem.pointer == "/tasks/0/shell"
    assert "list" in problem.message


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    text = task_yaml("timeout: 5", "env: {A: yes}", "needs: [nope]", "colour: red", "retries: '2'")
    problems = problems_of(text)
    assert [problem.line for problem in problems] == [9, 10, 11, 12, 13]
    with pytest.raises(JobFileInvalid) as caught:
        parse_job(text.encode())
    error = caught.value
    assert (error.http_status, error.code, error.slug) == (422, "INVALID_ARGUMENT", "job-file-invalid")
    assert error.problems == problems
    assert "line 9" in error.message
    assert "and 4 more" in error.message


def test_past_a_hundred_problems_the_rest_is_counted() -> None:
    problems = problems_of(a_job(*({"retries": -1} for _ in range(250))))
    assert len(problems) == 101
    assert "150 more" in problems[-1].message
    text = task_yaml(*(f"x{index}: 1" for index in range(250)))
    merged = check_job(text.encode()).merged([Problem("/tasks/0", "later")])
    assert len(merged) == 101
    assert "151 more" in merged[-1].message


def test_messages_are_fit_for_a_terminal() -> None:
    for problem in problems_of(a_job({"\x1b[31m": "x", "needs": ["\x1b]0;x\x07", "\u202e"], "image": "\x1bX"})):
        assert problem.message.isprintable()
        assert problem.pointer.isprintable()
        assert problem.word.isprintable()


def test_values_that_json_could_not_say_are_refused() -> None:
    circle: dict[str, Any] = a_job()
    circle["tasks"].append(circle)
    for job in (a_job({"env": {"A": b"x"}}), circle, a_job({"image": object()})):
        assert "not a job file" in the_problem(job).message


def test_tuples_and_later_changes_of_plain_values_do_no_harm() -> None:
    job = a_job({"command": ("a", "b"), "needs": ()})
    result = check_job(job)
    job["tasks"].clear()
    assert result.spec is not None
    assert result.spec.tasks[0].command == ("a", "b")
