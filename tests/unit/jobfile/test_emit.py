"""The YAML that is shown to people."""

from __future__ import annotations

from typing import Any

import pytest

from headway.jobfile import parse_job, to_yaml

from .build import a_job, spec_of


@pytest.mark.parametrize(
    "command",
    [
        "a\nb",
        "a\nb\n",
        "a\nb\n\n\n",
        "\n\na\n",
        "  a\nb\n",
        "\ta\nb",
        "a\n\n  b\n",
        "a \nb",
        "a\r\nb",
        "a\x85\nb",
        "x: y # z",
    ],
)
def test_scripts_come_back_to_the_last_character(command: str) -> None:
    spec = spec_of(a_job({"command": command}))
    assert parse_job(to_yaml(spec).encode()).tasks[0].command == command


@pytest.mark.parametrize(
    "word", ["yes", "null", "123", "1e3", "0x1F", "2024-01-02", "12:30", "~", "a: b", "#a", "-", "*a", "=", "<<"]
)
def test_words_that_mean_something_else_are_quoted(word: str) -> None:
    task: dict[str, Any] = {"command": ["x", word], "env": {"A": word}, "working_dir": "/" + word}
    if "=" not in word and " " not in word:
        task["env"][word] = word
    spec = spec_of(a_job(task, name=word))
    assert parse_job(to_yaml(spec).encode()) == spec


@pytest.mark.parametrize(
    "resources",
    [{"memory": "8GiB"}, {"shm": "2GiB"}, {"memory": "8GiB", "shm": "1GiB"}, {"memory": "8GiB", "shm": "4GiB"}],
)
def test_shared_memory_is_kept_also_where_it_equals_the_default_of_another_size(resources: dict[str, str]) -> None:
    spec = spec_of(a_job({"resources": resources}))
    assert parse_job(spec.to_json()) == spec


def test_what_all_tasks_share_stands_once() -> None:
    spec = spec_of(a_job({"command": "echo a\necho b\n"}, {"needs": ["t1"], "env": {"LR": "0.01"}}))
    assert to_yaml(spec) == (
        "version: 1\n"
        "name: job\n"
        "priority: normal\n"
        "defaults:\n"
        "  image: base/python:1\n"
        "  timeout: 1m\n"
        "tasks:\n"
        "  - name: t1\n"
        "    command: |\n"
        "      echo a\n"
        "      echo b\n"
        "  - name: t2\n"
        "    needs: [t1]\n"
        '    command: "true"\n'
        "    env:\n"
        '      LR: "0.01"\n'
    )
