"""What `headway show JOB/TASK` tells of a task."""

from __future__ import annotations

from dataclasses import replace

from headway.cli.spec import end_fact, spec_lines
from headway.jobfile.spec import TASK, Need, NeedOn, ResourceSpec, TaskSpec, Ulimit

PLAIN = TaskSpec(name="t", image="base/python:1", command="python3 train.py\n", timeout_s=600.0)


def told(spec: TaskSpec) -> list[str]:
    return list(spec_lines(TASK.whole(spec)))


def test_a_plain_task_tells_its_defaults():
    assert told(PLAIN) == [
        "",
        "command, a script for sh:",
        "  python3 train.py",
        "image: base/python:1",
        "resources: 1 CPU, 2GiB memory, 1GiB shm",
        "limits: timeout 10m, grace 10s, log 1GiB (drop)",
        "retries: 0",
        "working_dir: the image's",
        "network: outgoing",
        "user: account",
    ]


def test_everything_that_was_written_is_told():
    spec = replace(
        PLAIN,
        command=("python3", "a b.py"),
        shell=None,
        needs=(Need("a"), Need("b", NeedOn.ANY)),
        env=(("A", "1"),),
        resources=ResourceSpec(gpus=2, gpu_models=("A100",), gpu_memory_bytes=40 << 30),
        ulimits=(Ulimit("nofile", 1024, 4096),),
        code="sha256:" + "0" * 64,
        datasets=("mnist@2",),
        output_path="out",
    )
    lines = told(spec)
    for line in (
        "command: python3 'a b.py'",
        "env:",
        "  A=1",
        "needs: a (success), b (any)",
        "ulimits: nofile=1024:4096",
        "working_dir: /root/code",
        "dataset: mnist@2 at /root/datasets/mnist",
        "output_path: out",
    ):
        assert line in lines, line
    assert any(line.endswith("2 A100 GPUs of 40GiB") for line in lines)


def test_what_a_task_says_paints_over_no_terminal():
    assert "\x1b" not in "".join(told(replace(PLAIN, command="echo \x1b[2J", env=(("A", "\x1b]0;x\x07"),))))


def test_exit_code_and_signal_are_facts():
    assert end_fact({"exit_code": 1, "signal": None}) == "exit code 1"
    assert end_fact({"exit_code": None, "signal": 9}) == "signal 9 (SIGKILL)"
    assert end_fact({"exit_code": None, "signal": 99}) == "signal 99"
    assert end_fact({"exit_code": None, "signal": None}) == ""
