"""Secrets in a job file: names alone, each variable and file once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway.errors import JobFileInvalid
from headway.jobfile import parse_job, to_yaml
from headway.jobfile.spec import SecretUse
from headway.rpc import convert


def job(*secrets: Any, **task: Any) -> bytes:
    whole = {"name": "a", "image": "i", "command": "x", "timeout": "1m", "secrets": list(secrets), **task}
    return json.dumps({"version": 1, "name": "j", "tasks": [whole]}).encode()


ALL = ("HF_TOKEN", {"name": "W", "env": "WANDB_API_KEY"}, {"name": "K", "file": "id_rsa"}, {"name": "X"})
USES = (
    SecretUse("HF_TOKEN", env="HF_TOKEN"),
    SecretUse("W", env="WANDB_API_KEY"),
    SecretUse("K", file="id_rsa"),
    SecretUse("X", env="X"),
)


def test_each_notation_says_where_it_is() -> None:
    (task,) = parse_job(job(*ALL)).tasks
    assert task.secrets == USES
    assert [use.place for use in task.secrets] == ["HF_TOKEN", "WANDB_API_KEY", "/run/secrets/id_rsa", "X"]
    assert parse_job(to_yaml(parse_job(job(*ALL))).encode()) == parse_job(job(*ALL))
    assert convert.task_spec(convert.task_spec_to_pb(task)) == task


@pytest.mark.parametrize(
    ("secrets", "says"),
    [
        (["a-b"], "for instance a_b"),
        (["HEADWAY_X"], "set by Headway"),
        (["1"], "not a secret's name"),
        ([{"name": "A", "env": "B", "file": "c"}], "env and file are two places"),
        ([{"env": "B"}], "has no name"),
        ([{"name": "A", "file": "../x"}], "not the name of a file"),
        ([{"name": "A", "file": ".hidden"}], "not the name of a file"),
        ([{"name": "A", "path": "x"}], "path"),
        (["A", {"name": "B", "env": "A"}], "two secrets would be 'A'"),
        (["A", "A"], "two secrets would be 'A'"),
        ([f"S{n}" for n in range(101)], "101 entries"),
        ([7], "is a number"),
    ],
)
def test_what_is_wrong_is_said(secrets: list[Any], says: str) -> None:
    with pytest.raises(JobFileInvalid, match=says.replace("(", r"\(")):
        parse_job(job(*secrets))


def test_a_variable_is_a_secret_or_a_text() -> None:
    with pytest.raises(JobFileInvalid, match="env and secrets both give 'A'"):
        parse_job(job("A", env={"A": "x"}))
    assert parse_job(job({"name": "A", "file": "A"}, env={"A": "x"}))
