"""Values of single fields: what is taken, what is refused and what is said about it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway.jobfile import (
    Entrypoint,
    LogLimitAction,
    Network,
    Priority,
    RunAs,
)
from headway.units import MIB

from .build import a_job, spec_of, the_problem


@pytest.mark.parametrize(
    ("field", "value", "want_attribute", "want"),
    [
        ("image", "localhost:5000/a/b_c.d-e:T_1.0", "image", "localhost:5000/a/b_c.d-e:T_1.0"),
        ("image", "Registry.Example.org/a", "image", "Registry.Example.org/a"),
        ("image", "a@sha256:" + "0" * 64, "image", "a@sha256:" + "0" * 64),
        ("command", ["a", "", "  "], "command", ("a", "", "  ")),
        ("command", " x", "command", " x"),
        ("entrypoint", "image", "entrypoint", Entrypoint.IMAGE),
        ("user", "image", "user", RunAs.IMAGE),
        ("network", "none", "network", Network.NONE),
        ("network", "job", "network", Network.JOB),
        ("log_limit_action", "kill", "log_limit_action", LogLimitAction.KILL),
        ("log_limit", "10MiB", "log_limit_bytes", 10 * MIB),
        ("timeout", "90s", "timeout_s", 90),
        ("timeout", "1h30m", "timeout_s", 5_400),
        ("timeout", "01:30:00", "timeout_s", 5_400),
        ("retries", 20, "retries", 20),
        ("output_path", "./a//b/", "output_path", "a/b"),
        ("output_path", "a b/ñ", "output_path", "a b/ñ"),
        ("working_dir", "/", "working_dir", "/"),
    ],
)
def test_values_that_are_taken(field: str, value: Any, want_attribute: str, want: Any) -> None:
    assert getattr(spec_of(a_job({field: value})).tasks[0], want_attribute) == want


REFUSED = [
    # field, value, what the message has to say, the suggestion
    ("timeout", 0, "zero", ""),
    ("timeout", -1, "negative", ""),
    ("timeout", "", "empty", ""),
    ("timeout", "abc", "not a duration", ""),
    ("timeout", 1.5, "1.5s, 1.5m or 1.5h", "1.5m"),
    ("timeout", 5, "5s, 5m or 5h", "5m"),
    ("timeout", "5", "5s, 5m or 5h", "5m"),
    ("timeout", None, "empty", ""),
    ("timeout", True, "true/false", ""),
    ("timeout", ["1m"], "a list", ""),
    ("timeout", float("inf"), "not a duration", ""),
    ("timeout", float("nan"), "not a duration", ""),
    ("timeout", "366d", "365 days", "365d"),
    ("grace", "2h", "more than 1h", "1h"),
    ("grace", "0s", "zero", ""),
    ("retries", -1, "negative", ""),
    ("retries", "2", "without quotes", "2"),
    ("retries", 1.5, "whole number", ""),
    ("retries", 10**9, "from 0 to 20", ""),
    ("retries", True, "true/false", ""),
    ("retries", None, "empty", ""),
    ("image", "", "empty", ""),
    ("image", 3, "quotes", ""),
    ("image", None, "has to be a text", ""),
    ("image", "Team/Torch:2.4", "capital letters", "team/torch:2.4"),
    ("image", "a b", "space", "ab"),
    ("image", "docker://a/b", "URL", "a/b"),
    ("image", "a:", "tag", ""),
    ("image", "a@sha256:12", "digest", ""),
    ("image", "a//b", "not an image's name", ""),
    ("image", "-rm", "not an image's name", ""),
    ("image", "../a", "no valid host", ""),
    ("image", "bad_host.x:1/a", "host", ""),
    ("image", "a" * 501, "500", ""),
    ("command", "", "empty", ""),
    ("command", " \n", "empty", ""),
    ("command", [], "empty list", ""),
    ("command", [""], "empty list", ""),
    ("command", "a\0b", "U+0000", ""),
    ("command", "x" * (MIB + 1), "1MiB", ""),
    ("command", 5, "a number", ""),
    ("command", None, "empty", ""),
    ("command", {"a": "b"}, "a mapping", ""),
    ("shell", "zsh", "sh or bash", ""),
    ("shell", "Bash", "did you mean bash?", "bash"),
    ("user", "root", "account or image", ""),
    ("network", None, "outgoing or job or none", ""),
    ("entrypoint", ["/x"], "a list", ""),
    ("working_dir", "data", "not absolute", "/root/nfs/data"),
    ("working_dir", "~/x", "not absolute", "/root/nfs/x"),
    ("working_dir", "/a\0", "U+0000", ""),
    ("working_dir", "/a\nb", "U+000A", ""),
    ("working_dir", "/a\x85b", "U+0085", ""),
    ("working_dir", "/a\u2028b", "U+2028", ""),
    ("working_dir", "/a\u2029b", "U+2029", ""),
    ("working_dir", "", "empty", ""),
    ("output_path", "/root/nfs/results", "relative", "results"),
    ("output_path", "~/results", "relative", "results"),
    ("output_path", "../x", "'..'", ""),
    ("output_path", "a/../../x", "'..'", ""),
    ("output_path", ".", "names no folder", ""),
    ("output_path", "a\0", "U+0000", ""),
    ("output_path", "a\u2028b", "U+2028", ""),
    ("output_path", "a" * 256, "255 bytes", ""),
    ("log_limit", "1G", "1GiB", "1GiB"),
    ("log_limit", 100, "no unit", "100MiB"),
    ("log_limit_action", "stop", "drop or kill", ""),
    ("env", ["A=b"], "a mapping", ""),
    ("env", "A=b", "a mapping", ""),
    ("env", {"A": "x" * 140_000}, "128 KiB", ""),
    ("datasets", "mnist", "[mnist]", ""),
    ("datasets", [3], "quotes", ""),
    ("datasets", ["../x"], "not a dataset's name", ""),
    ("datasets", ["a", "a"], "twice", ""),
    ("datasets", ["a@1", "a@2"], "twice", ""),
    ("datasets", ["a@"], "no valid version", ""),
    ("datasets", ["a@../b"], "no valid version", ""),
    ("datasets", ["a@1@2"], "no valid version", ""),
    ("code", "sha256:00", "headway submit --code", ""),
    ("code", "../code", "headway submit --code", ""),
    ("code", "SHA256:" + "0" * 64, "headway submit --code", ""),
    ("resources", "2", "a mapping", ""),
    ("resources", {"cpus": 0}, "not above 0", ""),
    ("resources", {"cpus": "500m"}, "0.5", "0.5"),
    ("resources", {"cpus": True}, "true/false", ""),
    ("resources", {"cpus": 0.001}, "steps of 0.01", ""),
    ("resources", {"gpus": "2"}, "without quotes", "2"),
    ("resources", {"gpus": True}, "true/false", ""),
    ("resources", {"gpus": 65}, "from 0 to 64", ""),
    ("resources", {"gpus": 0.5}, "whole number", ""),
    ("resources", {"memory": 8192}, "8192MiB", "8192MiB"),
    ("resources", {"memory": "8G"}, "8GiB", "8GiB"),
    ("resources", {"memory": "500m"}, "500MiB", "500MiB"),
    ("resources", {"memory": "1MiB"}, "6MiB", "6MiB"),
    ("resources", {"shm": None}, "empty", ""),
    ("resources", {"gpu_model": "A100"}, "gpus: 1", ""),
    ("resources", {"gpus": 1, "gpu_model": []}, "empty list", ""),
    ("resources", {"gpus": 1, "gpu_model": [1]}, "quotes", ""),
    ("name", "étape 1", "for instance etape-1", "etape-1"),
    ("name", "..", "not allowed", ""),
    ("name", "a/b", "not allowed", "a-b"),
    ("name", "", "empty", ""),
    ("name", "-a", "not allowed", "a"),
    ("name", "a" * 64, "63", ""),
    ("name", "a\n", "not allowed", "a"),
    ("name", 7, "quotes", ""),
    ("name", None, "has to be a text", ""),
]


@pytest.mark.parametrize(("field", "value", "want", "suggestion"), REFUSED)
def test_values_that_are_refused(field: str, value: Any, want: str, suggestion: str) -> None:
    problem = the_problem(a_job({field: value}))
    assert want in problem.message
    assert problem.message.startswith("task ")
    assert problem.suggestion == suggestion
    assert problem.pointer.startswith(f"/tasks/0/{field}")


@pytest.mark.parametrize(("field", "value", "want", "suggestion"), [row for row in REFUSED if row[0] != "name"])
def test_the_same_values_are_refused_in_defaults_once(field: str, value: Any, want: str, suggestion: str) -> None:
    job = a_job({}, {}, defaults={field: value})
    for task in job["tasks"]:
        task.pop(field, None)
    if field == "resources" and value == {"gpu_model": "A100"}:
        return  # in defaults it may be meant for other tasks
    problem = the_problem(job)
    assert want in problem.message
    assert problem.message.startswith("defaults: ")
    assert problem.pointer.startswith(f"/defaults/{field}")


@pytest.mark.parametrize(("field", "value", "want", "suggestion"), REFUSED)
def test_bytes_and_plain_values_are_refused_alike(field: str, value: Any, want: str, suggestion: str) -> None:
    if (isinstance(value, float) and value != value) or value == float("inf"):
        return  # JSON has no such numbers
    job = a_job({field: value})
    from_object, from_bytes = the_problem(job), the_problem(json.dumps(job).encode(), media="json")
    assert from_bytes.message == from_object.message
    assert (from_object.line, from_object.column) == (None, None)
    assert from_bytes.line == 1
    assert from_bytes.column is not None


@pytest.mark.parametrize(
    "name", ["[x] y", "a/b", "..", ".hidden", "étape 1", "مرحبا بالعالم", "👩‍🔬", "x" * 100, "yes", "　日本", "#1"]
)
def test_job_names_that_are_taken_as_they_are(name: str) -> None:
    assert spec_of(a_job(name=name)).name == name


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("", "empty"),
        ("   ", "empty"),
        ("x" * 300, "300 characters; 100 are allowed"),
        ("a\0b", "U+0000"),
        ("a\nb", "U+000A"),
        ("a\x1b[31m", "U+001B"),
        ("abc\u202etxt", "U+202E"),
        ("a\u2066b", "U+2066"),
        ("\u200b\u200d", "nothing to see"),
        ("a\u2028b", "U+2028"),
        (5, "quotes"),
        (None, "empty"),
        (["x"], "a list"),
    ],
)
def test_job_names_that_are_refused(name: Any, want: str) -> None:
    problem = the_problem(a_job(name=name))
    assert problem.pointer == "/name"
    assert want in problem.message


@pytest.mark.parametrize("version", [0, 2, "1", 1.5, True, None])
def test_other_versions_are_refused(version: Any) -> None:
    problem = the_problem(a_job(version=version))
    assert "version: 1" in problem.message
    assert problem.allowed == ("1",)


def test_priority_is_one_of_three_words() -> None:
    assert spec_of(a_job(priority="high")).priority is Priority.HIGH
    problem = the_problem(a_job(priority="urgent"))
    assert problem.allowed == ("low", "normal", "high")


def test_a_share_of_a_gpu_goes_without_whole_gpus_and_with_retries() -> None:
    task = {"resources": {"gpu_share": "6GiB", "gpu_model": "A100"}, "retries": 1}
    (good,) = spec_of(a_job(task)).tasks
    assert (good.resources.gpu_share_bytes, good.resources.gpus, good.resources.gpu_models) == (
        6 * 1024 * MIB,
        0,
        ("A100",),
    )
    assert good.resources.to_json() == {"gpu_model": ["A100"], "gpu_share": "6GiB"}
    assert (
        good.resources.to_json()
        == spec_of(a_job({**task, "resources": good.resources.to_json()})).tasks[0].resources.to_json()
    )
    problem = the_problem(a_job({"resources": {"gpu_share": "6GiB"}}))
    assert (problem.pointer, "needs retries: 1 or more" in problem.message) == ("/tasks/0/resources/gpu_share", True)
    problem = the_problem(a_job({"resources": {"gpu_share": "6GiB", "gpus": 2}, "retries": 1}))
    assert "gpu_share and gpus: 2 are two ways to ask for GPUs" in problem.message
    problem = the_problem(a_job({"resources": {"gpu_share": "100MiB"}, "retries": 1}))
    assert "is less than 256MiB, the smallest share of a GPU" in problem.message
    # From the defaults, too: there the task itself is named.
    problem = the_problem(a_job({}, defaults={"resources": {"gpu_share": "6GiB"}}))
    assert problem.pointer == "/tasks/0"
