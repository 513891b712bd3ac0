"""What may stand where, the defaults, and what is said about the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway.errors import JobFileInvalid, Problem
from headway.jobfile import (
    Entrypoint,
    LogLimitAction,
    Need,
    NeedOn,
    Network,
    Priority,
    ResourceSpec,
    RunAs,
    Shell,
    TaskSpec,
    check_job,
    parse_job,
)
from headway.units import GIB, MIB

from .build import a_job, problems_of, spec_of, task_yaml, the_problem, the_task

EXAMPLE = """\
version: 1
name: digits
priority: normal
defaults:
  image: base/python:1
  timeout: 10m
tasks:
  - name: prepare
    command: |
      python3 /root/nfs/prepare.py
    resources: {cpus: 2, memory: 4GiB}
  - name: train
    needs: [prepare]
    image: team/torch:2.4
    command: |
      python3 train.py
    shell: bash
    entrypoint: replace
    env: {LR: "0.01"}
    working_dir: /root/nfs
    datasets: [mnist]
    resources: {cpus: 4, memory: 16GiB, shm: 8GiB, gpus: 1, gpu_model: [A100, H100], gpu_memory: 24GiB}
    timeout: 30m
    grace: 30s
    retries: 2
    user: account
    output_path: results/digits
"""


def test_the_example_of_the_contract() -> None:
    job = parse_job(EXAMPLE.encode())
    assert (job.version, job.name, job.priority) == (1, "digits", Priority.NORMAL)
    assert job.tasks == (
        TaskSpec(
            name="prepare",
            image="base/python:1",
            command="python3 /root/nfs/prepare.py\n",
            timeout_s=600,
            resources=ResourceSpec(cpus_centi=200, memory_bytes=4 * GIB, shm_bytes=2 * GIB),
        ),
        TaskSpec(
            name="train",
            needs=(Need("prepare"),),
            image="team/torch:2.4",
            command="python3 train.py\n",
            shell=Shell.BASH,
            env=(("LR", "0.01"),),
            working_dir="/root/nfs",
            datasets=("mnist",),
            resources=ResourceSpec(400, 16 * GIB, 8 * GIB, 1, ("A100", "H100"), 24 * GIB),
            timeout_s=1_800,
            grace_s=30,
            retries=2,
            output_path="results/digits",
        ),
    )


def test_the_defaults_of_the_schema() -> None:
    task = spec_of(a_job()).tasks[0]
    assert task.resources == ResourceSpec(
        cpus_centi=100, memory_bytes=2 * GIB, shm_bytes=GIB, gpus=0, gpu_models=(), gpu_memory_bytes=None
    )
    assert (task.grace_s, task.retries, task.network) == (10, 0, Network.OUTGOING)
    assert (task.shell, task.entrypoint, task.user) == (Shell.SH, Entrypoint.REPLACE, RunAs.ACCOUNT)
    assert (task.log_limit_bytes, task.log_limit_action) == (GIB, LogLimitAction.DROP)
    assert (task.env, task.needs, task.datasets, task.working_dir, task.output_path) == ((), (), (), None, None)


def test_a_job_without_version_or_priority_is_version_1_and_normal() -> None:
    job = a_job()
    del job["version"]
    assert spec_of(job) == spec_of(a_job(priority="normal"))


def test_a_tasks_own_fields_win_and_env_and_resources_merge_by_key() -> None:
    defaults = {
        "env": {"A": "1", "B": "2"},
        "resources": {"cpus": 2, "memory": "8GiB"},
        "datasets": ["mnist"],
        "retries": 3,
        "grace": "1m",
    }
    job = spec_of(
        a_job(
            {"env": {"B": "3"}, "resources": {"memory": "4GiB"}, "datasets": ["cifar"], "retries": 0},
            {},
            defaults=defaults,
        )
    )
    own, plain = job.tasks
    assert own.env == (("A", "1"), ("B", "3"))
    assert own.resources == ResourceSpec(cpus_centi=200, memory_bytes=4 * GIB, shm_bytes=2 * GIB)
    assert (own.datasets, own.retries, own.grace_s) == (("cifar",), 0, 60)
    assert plain.env == (("A", "1"), ("B", "2"))
    assert plain.resources.shm_bytes == 4 * GIB
    assert (plain.datasets, plain.retries) == (("mnist",), 3)


def test_the_order_of_names_makes_no_difference() -> None:
    one = a_job({}, {}, {"env": {"B": "1", "A": "2"}, "needs": {"t2": "any", "t1": "any"}})
    other = a_job({}, {}, {"env": {"A": "2", "B": "1"}, "needs": {"t1": "any", "t2": "any"}})
    assert spec_of(one) == spec_of(other)


def test_what_a_default_says_about_shell_or_gpus_only_counts_where_it_means_something() -> None:
    defaults = {"shell": "bash", "resources": {"gpu_model": "A100", "gpu_memory": "24GiB"}}
    text, words, gpu = spec_of(a_job({}, {"command": ["true"]}, {"resources": {"gpus": 1}}, defaults=defaults)).tasks
    assert (text.shell, words.shell) == (Shell.BASH, None)
    assert (text.resources.gpu_models, text.resources.gpu_memory_bytes) == ((), None)
    assert (gpu.resources.gpu_models, gpu.resources.gpu_memory_bytes) == (("A100",), 24 * GIB)


def test_empty_sections_are_as_good_as_none() -> None:
    text = task_yaml("needs:", "env:", "datasets:", "resources:").replace("version: 1\n", "")
    assert the_task(text) == the_task(task_yaml("needs: []", "env: {}", "datasets: []", "resources: {}"))


# --- values of single fields ---------------------------------------------------------------------------


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
    ("network", None, "outgoing or none", ""),
    ("entrypoint", ["/x"], "a list", ""),
    ("working_dir", "data", "not absolute", "/root/nfs/data"),
    ("working_dir", "~/x", "not absolute", "/root/nfs/x"),
    ("working_dir", "/a\0", "U+0000", ""),
    ("working_dir", "/a\nb", "U+000A", ""),
    ("working_dir", "", "empty", ""),
    ("output_path", "/root/nfs/results", "relative", "results"),
    ("output_path", "~/results", "relative", "results"),
    ("output_path", "../x", "'..'", ""),
    ("output_path", "a/../../x", "'..'", ""),
    ("output_path", ".", "names no folder", ""),
    ("output_path", "a\0", "U+0000", ""),
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


# --- required, unknown and misplaced -------------------------------------------------------------------


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


# --- needs ---------------------------------------------------------------------------------------------


def test_needs_as_a_list_or_a_mapping() -> None:
    tasks = spec_of(
        a_job({}, {}, {"needs": ["t2", "t1"]}, {"needs": {"t3": "any", "t1": "failure", "t2": "success"}})
    ).tasks
    assert tasks[2].needs == (Need("t1"), Need("t2"))
    assert tasks[3].needs == (Need("t1", NeedOn.FAILURE), Need("t2"), Need("t3", NeedOn.ANY))


@pytest.mark.parametrize(
    ("needs", "want", "pointer"),
    [
        (["t1"], "task 't1' needs itself", "/tasks/0/needs/0"),
        ({"t1": "any"}, "task 't1' needs itself", "/tasks/0/needs/t1"),
        (["t2", "t2"], "twice", "/tasks/0/needs/1"),
        (["T2"], "which does not exist; did you mean 't2'?", "/tasks/0/needs/0"),
        (["zebra"], "which does not exist; known are 't2'", "/tasks/0/needs/0"),
        ({"zebra": "any"}, "which does not exist", "/tasks/0/needs/zebra"),
        ({"t2": "sucess"}, "success or failure or any", "/tasks/0/needs/t2"),
        ({"t2": True}, "true/false", "/tasks/0/needs/t2"),
        ("t2", "[t2]", "/tasks/0/needs"),
        ([5], "a number", "/tasks/0/needs/0"),
        ([{"t2": "any"}], "as a mapping", "/tasks/0/needs/0"),
        (5, "a number", "/tasks/0/needs"),
    ],
)
def test_needs_that_are_refused(needs: Any, want: str, pointer: str) -> None:
    problem = the_problem(a_job({"needs": needs}, {}))
    assert want in problem.message
    assert problem.pointer == pointer


def test_an_unknown_need_names_the_task_and_the_nearest_name() -> None:
    problem = the_problem(a_job({"name": "prepare"}, {"name": "train", "needs": ["prepar"]}))
    assert problem.message == "task 'train' needs 'prepar', which does not exist; did you mean 'prepare'?"
    assert (problem.word, problem.suggestion) == ("prepar", "prepare")
    assert "prepare" in problem.allowed


def test_a_name_taken_twice_is_refused_even_where_it_would_hide_a_loop() -> None:
    """The later of two tasks of one name used to replace the earlier, and with it the edge of the loop."""
    problems = problems_of(a_job({"name": "A", "needs": ["A"]}, {"name": "A"}))
    assert any(problem.pointer == "/tasks/1/name" and "taken by task 1" in problem.message for problem in problems)
    assert any(problem.pointer == "/tasks/0/needs/0" and "needs itself" in problem.message for problem in problems)


def test_what_is_salvaged_of_the_graph() -> None:
    """The rest of a broken file can still be looked at for cycles, with places."""
    text = (
        task_yaml("needs: [t2, t1, nowhere, t2]", "comand: x")
        + "  - name: t2\n    timeout: 5\n    needs: {t1: any}\n  - name: t2\n    needs: [t1]\n  - 5\n"
    )
    result = check_job(text.encode())
    assert result.spec is None
    first, second = result.graph
    assert (first.name, first.needs, first.pointer, first.need_pointers) == (
        "t1",
        (Need("t2"),),
        "/tasks/0",
        ("/tasks/0/needs/0",),
    )
    assert (second.name, second.needs, second.need_pointers) == (
        "t2",
        (Need("t1", NeedOn.ANY),),
        ("/tasks/1/needs/t1",),
    )
    assert result.locate(second.need_pointers[0]) == (13, 17)
    merged = result.merged([Problem(pointer=first.need_pointers[0], message="a cycle: t1, t2, t1")])
    assert len(merged) == len(result.problems) + 1
    cycle = next(problem for problem in merged if "cycle" in problem.message)
    assert (cycle.line, cycle.column) == (9, 13)
    assert list(merged) == sorted(merged, key=lambda problem: (problem.line or 0, problem.column or 0))


def test_problems_found_later_come_out_at_their_place_in_the_file() -> None:
    """JobManager counts the tasks that it was sent and names a need by its task, whatever the file looks like."""
    text = (
        task_yaml("needs: [t3]")
        + "  - 5\n  - name: t1\n  - name: '0'\n    needs: [t1]\n  - name: t3\n    needs: {'0': any}\n"
    )
    result = check_job(text.encode())
    assert [task.pointer for task in result.graph] == ["/tasks/0", "/tasks/3", "/tasks/4"]
    pointers = ["/tasks/0/needs/t3", "/tasks/1/needs/t1", "/tasks/2/needs/0", "/tasks/1/timeout", ""]
    merged = result.merged([Problem(pointer, f"later {number}") for number, pointer in enumerate(pointers)])
    later = sorted((p.message, p.pointer, p.line, p.column) for p in merged if p.message.startswith("later"))
    assert later == [
        ("later 0", "/tasks/0/needs/0", 9, 13),
        ("later 1", "/tasks/3/needs/0", 13, 13),
        ("later 2", "/tasks/4/needs/0", 15, 18),
        ("later 3", "/tasks/3/timeout", 12, 5),
        ("later 4", "", None, None),
    ]


def test_places_can_be_asked_for_when_nothing_was_wrong() -> None:
    as_json = json.dumps(parse_job(EXAMPLE.encode()).to_json(), indent=1)
    for text, mark in ((EXAMPLE, "prepare]"), (as_json, '"prepare"\n')):
        result = check_job(text.encode())
        assert result.problems == ()
        before = text[: text.index(mark)]
        want = before.count("\n") + 1, len(before) - before.rfind("\n")
        assert result.locate("/tasks/1/needs/0") == want
        assert result.locate("") == (1, 1)
        assert result.locate("/tasks/1/nowhere/0") == result.locate("/tasks/1")
        assert [task.name for task in result.graph] == ["prepare", "train"]


# --- all at once ---------------------------------------------------------------------------------------


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
