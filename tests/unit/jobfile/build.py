"""Job files in few words."""

from __future__ import annotations

import json
from typing import Any

from headway.errors import Problem
from headway.jobfile import JobSpec, TaskSpec, check_job, parse_job

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


def a_job(*tasks: dict[str, Any], **top: Any) -> dict[str, Any]:
    """A job file as plain values; each task needs to say only what matters."""
    listed = [
        {"name": f"t{index}", "image": "base/python:1", "command": "true", "timeout": "1m", **task}
        for index, task in enumerate(tasks or ({},), start=1)
    ]
    return {"version": 1, "name": "job", "tasks": listed, **top}


def task_yaml(*lines: str) -> str:
    """A job file of one task ``t1`` with these further lines (from line 9 on) inside it."""
    head = (
        "version: 1",
        "name: job",
        "defaults:",
        "  image: base/python:1",
        "  command: 'true'",
        "  timeout: 1m",
        "tasks:",
        "  - name: t1",
    )
    return "\n".join([*head, *("    " + line for line in lines)]) + "\n"


def the_task(text: str) -> TaskSpec:
    return parse_job(text.encode()).tasks[0]


def spec_of(value: dict[str, Any]) -> JobSpec:
    """The spec, and that bytes of JSON and plain values give the same."""
    spec = parse_job(value)
    assert parse_job(json.dumps(value).encode(), media="json") == spec
    return spec


def problems_of(data: dict[str, Any] | str | bytes, **kwargs: Any) -> tuple[Problem, ...]:
    if isinstance(data, str):
        data = data.encode()
    result = check_job(data, **kwargs)
    assert (result.spec is None) == bool(result.problems)
    return result.problems


def the_problem(data: dict[str, Any] | str | bytes, **kwargs: Any) -> Problem:
    problems = problems_of(data, **kwargs)
    assert len(problems) == 1, problems
    return problems[0]
