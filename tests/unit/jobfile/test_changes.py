"""Fields that are set from outside of a job file: ``--set timeout=1h``."""

from __future__ import annotations

from typing import Any

import pytest

from headway.jobfile import JobSpec, Priority, check_job

FILE = b"""\
version: 1
name: a job
defaults:
  image: base/python:1
  timeout: 5m
  env: {A: a, B: b}
tasks:
  - name: train
    command: echo $A
    timeout: 2h
    resources: {gpus: 1, gpu_model: A100}
    env: {B: mine}
  - name: train.v2
    command: [echo, one]
    resources: &few {cpus: 2}
  - name: report
    command: echo
    needs: [train]
    resources: *few
"""


def made(*changes: str, file: bytes = FILE) -> JobSpec:
    found = check_job(file, changes=changes)
    assert found.spec is not None, found.problems
    return found.spec


def refused(*changes: str, file: bytes = FILE) -> list[str]:
    found = check_job(file, changes=changes)
    assert found.spec is None
    return [problem.message for problem in found.problems]


def test_a_field_of_each_task() -> None:
    assert [task.timeout_s for task in made().tasks] == [7200.0, 300.0, 300.0]
    assert [task.timeout_s for task in made("timeout=1h").tasks] == [3600.0] * 3
    assert [task.image for task in made("image=other:3.10").tasks] == ["other:3.10"] * 3
    assert [task.command for task in made('command=["a", "b"]').tasks] == [("a", "b")] * 3
    assert [task.command for task in made("command=echo 5").tasks] == ["echo 5"] * 3
    assert [task.retries for task in made("retries=2").tasks] == [2] * 3
    assert made("timeout=1h", "timeout=2h").tasks[0].timeout_s == 7200.0, "the last one counts"


@pytest.mark.parametrize("key", ["gpus", "resources.gpus"])
def test_a_field_of_resources_stands_alone_or_below(key: str) -> None:
    tasks = made(f"{key}=2").tasks
    assert [task.resources.gpus for task in tasks] == [2, 2, 2]
    assert tasks[0].resources.gpu_models == ("A100",), "the rest stays"
    assert [task.resources.cpus_centi for task in tasks] == [100, 200, 200]
    assert [task.resources.cpus_centi for task in made("cpus=0.5").tasks] == [50] * 3
    assert made('gpus=1', 'gpu_model=["A100", "V100"]').tasks[1].resources.gpu_models == ("A100", "V100")  # fmt: skip


def test_a_field_of_one_task() -> None:
    assert [task.timeout_s for task in made("report.timeout=1m").tasks] == [7200.0, 300.0, 60.0]
    assert [task.resources.gpus for task in made("train.v2.gpus=3").tasks] == [1, 3, 0], "names have dots"
    tasks = made("report.cpus=4").tasks
    assert [task.resources.cpus_centi for task in tasks] == [100, 200, 400], "what an anchor shares is not touched"
    assert made('train.v2.needs=["report"]').tasks[1].needs[0].task == "report"


def test_one_variable_of_the_environment() -> None:
    envs = [dict(task.env) for task in made("env.B=new", "env.LR=0.10").tasks]
    assert envs == [{"A": "a", "B": "new", "LR": "0.10"}] * 3
    assert [dict(task.env)["B"] for task in made("train.env.B=x=y").tasks] == ["x=y", "b", "b"]
    assert [dict(task.env) for task in made('env={"C": "c"}').tasks] == [{"C": "c"}] * 3
    assert dict(made("env.A=").tasks[0].env)["A"] == ""


def test_the_jobs_own_fields() -> None:
    spec = made("name=3.10", "priority=low")
    assert (spec.name, spec.priority) == ("3.10", Priority.LOW)


def test_files_without_defaults_or_as_json() -> None:
    file = b'{"version": 1, "name": "a", "tasks": [{"name": "t", "image": "i:1", "command": "c"}]}'
    assert made("timeout=1h", file=file).tasks[0].timeout_s == 3600.0


def test_what_the_file_lacks_may_be_set() -> None:
    file = b"version: 1\ntasks:\n  - {name: t, command: c}\n"
    spec = made("name=a", "image=i:1", "timeout=1h", file=file)
    assert (spec.name, spec.tasks[0].image) == ("a", "i:1")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("timeout=1x", "--set 'timeout=1x': timeout '1x' is not a duration"),
        ("gpus=two", "--set 'gpus=two': gpus 'two' is not a number"),
        ("gpus=-1", "--set 'gpus=-1': gpus -1 is negative"),
        ("train.timeout=soon", "--set 'train.timeout=soon': task 'train': timeout 'soon' is not a duration"),
        ("env=x", "--set 'env=x': env is a text"),
        ("env.=x", "'env.' is no key of a task"),
        ("timeot=1h", "'timeot' is no key of a task; did you mean 'timeout'?"),
        ("trian.timeout=1h", "no task has the name 'trian'; did you mean 'train'?"),
        ("nobody.timeout=1h", "no task has the name 'nobody'"),
        ("train.timeot=1h", "'timeot' is no key of a task; did you mean 'timeout'?"),
        ("train.name=x", "task 'report' needs 'train', which does not exist"),
        ("needs=[]", "needs is each task's own: write TASK.needs=[]"),
        ("resources=4", "'resources' is no key of a task"),
        ("version=2", "'version' is no key of a task; known are name, priority, image, "),
        ("timeout", "write KEY=VALUE, such as timeout=1h"),
        ("=1h", "write KEY=VALUE"),
        ("", "write KEY=VALUE"),
        ("priority=urgent", "--set 'priority=urgent': priority 'urgent' is not known"),
        ("timeout=\x00", "--set 'timeout=\\u0000': timeout"),
    ],
)
def test_what_is_wrong_with_it_is_told_once_and_by_what_was_typed(change: str, told: str) -> None:
    messages = refused(change)
    assert len(messages) == 1
    assert told in messages[0]
    assert messages[0].isprintable()


def test_numbers_are_quoted_as_typed() -> None:
    (problem,) = check_job(FILE, changes=["gpus=0x1F"]).problems
    assert (problem.word, problem.line, problem.pointer) == ("0x1F", None, "")


def test_lists_and_mappings_are_written_as_in_yaml_with_their_texts_as_typed() -> None:
    assert made("datasets=[mnist@2, b]").tasks[0].datasets == ("mnist@2", "b")
    assert made("gpus=1", "gpu_model=[A100, H100]").tasks[1].resources.gpu_models == ("A100", "H100")
    assert (
        made("report.needs=[train, train.v2]").tasks[2].needs
        == made('report.needs=["train", "train.v2"]').tasks[2].needs
    )
    assert made("report.needs={train: any}").tasks[2].needs[0].on == "any"
    assert made("command=[echo, 1.10, 0755, no, ~]").tasks[1].command == ("echo", "1.10", "0755", "no", "~")
    assert dict(made("env={A: 1, B: 1.10, C: yes, D: }").tasks[1].env) == {"A": "1", "B": "1.10", "C": "yes", "D": ""}
    assert made("ulimits={nofile: 1024}").tasks[0].ulimits[0].hard == 1024
    assert made("ulimits.nofile={soft: 512, hard: 1024}").tasks[0].ulimits[0].soft == 512
    for script in ("[ -f data ] && echo yes", "{ echo a; }"):
        assert made(f"command={script}").tasks[1].command == script


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("datasets=x", "datasets is a text; write a list of names: --set 'datasets=[x]'"),
        ("report.needs=train", "needs is a text; write a list of task names: --set 'report.needs=[train]'"),
        ("train.env=x", "env is a text; write a mapping: --set 'train.env={LR: \"0.01\"}'"),
        ("ulimits=5", "write a mapping: --set 'ulimits={nofile: 65536, memlock: unlimited}'"),
        ("report.gpu_model=A100", "says nothing without GPUs; add --set 'report.gpus=1', or remove gpu_model"),
        ("gpu_model=A100, H100", "write several models as a list: --set 'gpu_model=[A100, H100]'"),
        ("gpu_model={A100: 1}", "gpu_model is a mapping"),
        ("datasets=[x", "a list [ ] or mapping { } is not closed"),
        ("env={A:1}", "write a blank behind the colon: A: 1"),
        ("env={A: 1, A: 2}", "the key 'A' is written twice"),
        ("resources={gpus: 1}", "set its keys one by one, such as gpus=1"),
    ],
)
def test_the_advice_is_for_the_command_line(change: str, told: str) -> None:
    (problem,) = check_job(FILE, changes=[change]).problems
    assert told in problem.message
    assert (problem.line, problem.pointer) == (None, "")


def test_what_is_wrong_together_with_the_file_names_what_was_set() -> None:
    file = FILE.replace(b"  timeout: 5m", b"  timeout: 5m\n  resources: {shm: 1GiB}")
    (problem,) = check_job(file, changes=["memory=512MiB"]).problems
    assert problem.message.startswith("--set 'memory=512MiB': shm is 1GiB, more than memory")


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("env", "env.LR=0.1", "'LR' is no key of a task; write env.env.LR=0.1 for that task, or env={LR: 0.1} for all"),
        ("ulimits", "ulimits.nofile=99", "or ulimits={nofile: 99} for all tasks"),
        (
            "train.env",
            "train.env.LR=1",
            "write train.env.env.LR=1 for that task, or train.env={LR: 1} for task 'train'",
        ),
        ("resources", "resources.gpus=2", "write gpus=2 for all tasks, or resources.resources.gpus=2"),
    ],
)
def test_a_task_whose_name_hides_a_key_is_told_with_the_ways_out(name: str, change: str, told: str) -> None:
    file = FILE.replace(b"name: train.v2", f"name: {name}".encode())
    (message,) = refused(change, file=file)
    assert f"a task has the name '{name}'" in message
    assert told in message
    for way in ("env.env.LR=0.1", "env={LR: 0.1}", "env.timeout=1m") if name == "env" else ():
        made(way, file=file)


@pytest.mark.parametrize("file", [b"", b"[]", b"tasks: 5", b"tasks: [5, {name: 1}]", b"defaults: 3\ntasks: []", b"{"])
def test_a_broken_file_is_told_as_one(file: bytes) -> None:
    assert check_job(file, changes=["timeout=1h", "train.gpus=2", "env.A=b"]).problems


def test_a_change_leaves_what_was_given_alone() -> None:
    given: dict[str, Any] = {"version": 1, "name": "a", "tasks": [{"name": "t", "image": "i:1", "timeout": "1m"}]}
    check_job(given, changes=["timeout=1h"])
    assert given["tasks"][0]["timeout"] == "1m"
