"""Limits of processes in a job file: Docker's two notations, and what is wrong with others."""

from __future__ import annotations

from typing import Any

import pytest

from headway.jobfile import Ulimit, parse_job, to_yaml
from headway.rpc import convert
from headway.units import MIB

from .build import a_job, problems_of, spec_of, task_yaml, the_problem, the_task


def ulimits(value: Any) -> tuple[Ulimit, ...]:
    spec = spec_of(a_job({"ulimits": value}))
    assert parse_job(spec.to_json()) == spec
    assert parse_job(to_yaml(spec).encode()) == spec
    assert convert.task_spec(convert.task_spec_to_pb(spec.tasks[0])) == spec.tasks[0]
    return spec.tasks[0].ulimits


@pytest.mark.parametrize(
    ("value", "want"),
    [
        ({"nofile": 65536}, [("nofile", 65536, 65536)]),
        ({"nofile": {"soft": 1024, "hard": 65536}}, [("nofile", 1024, 65536)]),
        ({"nofile": {"soft": 64, "hard": 64}}, [("nofile", 64, 64)]),
        ({"memlock": "unlimited"}, [("memlock", -1, -1)]),
        ({"memlock": -1}, [("memlock", -1, -1)]),
        ({"memlock": {"soft": -1, "hard": -1}}, [("memlock", -1, -1)]),
        ({"memlock": {"soft": "8MiB", "hard": "unlimited"}}, [("memlock", 8 * MIB, -1)]),
        ({"nofile": 1024, "memlock": "64MiB"}, [("memlock", 64 * MIB, 64 * MIB), ("nofile", 1024, 1024)]),
        ({}, []),
        (None, []),
    ],
)
def test_both_notations_and_every_route_mean_the_same(value: Any, want: list[tuple[str, int, int]]) -> None:
    assert ulimits(value) == tuple(Ulimit(*one) for one in want)


def test_yaml_that_is_written_has_the_short_notation_where_it_says_the_same() -> None:
    value = {"nofile": {"soft": 1024, "hard": 65536}, "memlock": {"soft": -1, "hard": -1}}
    text = to_yaml(spec_of(a_job({"ulimits": value})))
    assert "    ulimits: {memlock: unlimited, nofile: {soft: 1024, hard: 65536}}\n" in text


def test_a_task_has_the_limits_of_the_defaults_that_it_does_not_name() -> None:
    job = a_job({"ulimits": {"nofile": 100}}, {}, defaults={"ulimits": {"nofile": 1024, "memlock": "unlimited"}})
    own, plain = spec_of(job).tasks
    memlock = Ulimit("memlock", -1, -1)
    assert own.ulimits == (memlock, Ulimit("nofile", 100, 100))
    assert plain.ulimits == (memlock, Ulimit("nofile", 1024, 1024))


def test_a_number_has_every_spelling_that_yaml_has() -> None:
    for typed in ("4096", "4096.0", "0x1000", "4.096e3"):
        assert the_task(task_yaml(f"ulimits: {{nofile: {typed}}}")).ulimits == (Ulimit("nofile", 4096, 4096),)


@pytest.mark.parametrize(
    ("value", "pointer", "want", "suggestion"),
    [
        ({"nofile": "65536"}, "/nofile", "'65536' is a text; write the number 65536 without quotes", "65536"),
        ({"nofile": "unlimited"}, "/nofile", "can't be unlimited on Linux", "1048576"),
        ({"nofile": -1}, "/nofile", "can't be unlimited on Linux", "1048576"),
        ({"nofile": 1}, "/nofile", "1 is too few; write a whole number from 64", ""),
        ({"nofile": 2**31}, "/nofile", "2147483648 is too many", ""),
        ({"nofile": 1.5}, "/nofile", "'1.5' is not a whole number", ""),
        ({"nofile": True}, "/nofile", "true/false", ""),
        ({"memlock": 67108864}, "/memlock", "write 64MiB if it is in bytes, as for Docker, or 64GiB if", ""),
        ({"memlock": "64M"}, "/memlock", "write 64MiB", "64MiB"),
        ({"memlock": 0}, "/memlock", "zero", ""),
        ({"memlock": -2}, "/memlock", "negative", ""),
        ({"memlock": True}, "/memlock", "true/false", ""),
        ({"nproc": 5}, "/nproc", "known are memlock, nofile", ""),
        ({"nofiles": 1024}, "/nofiles", "did you mean 'nofile'?", "nofile"),
        (["nofile=5"], "", "a mapping: ulimits: {nofile: 65536, memlock: unlimited}", ""),
        ({"nofile": {"soft": 5000, "hard": 500}}, "/nofile/soft", "5,000 is above the hard limit, 500", ""),
        ({"memlock": {"soft": -1, "hard": "1GiB"}}, "/memlock/soft", "unlimited is above the hard limit, 1GiB", ""),
        ({"nofile": {"soft": 5000}}, "/nofile", "no hard limit", ""),
        ({"nofile": {"hard": 5000}}, "/nofile", "no soft limit", ""),
        ({"nofile": {"soft": 1, "hard": 5000}}, "/nofile/soft", "1 is too few", ""),
        ({"nofile": {"soft": 99, "hard": 5000, "most": 1}}, "/nofile/most", "known are soft, hard", ""),
    ],
)
def test_what_is_wrong_is_told_at_its_place(value: Any, pointer: str, want: str, suggestion: str) -> None:
    problem = the_problem(a_job({"ulimits": value}))
    assert problem.pointer == f"/tasks/0/ulimits{pointer}"
    assert want in problem.message
    assert problem.suggestion == suggestion


@pytest.mark.parametrize("key", ["ulimit", "rlimits", "nofile", "memlock"])
def test_other_names_lead_to_the_field(key: str) -> None:
    assert the_problem(a_job({key: 5})).suggestion == "ulimits"
    assert "ulimits goes beside resources" in the_problem(a_job({"resources": {key: 5}})).message


def test_a_bad_one_of_the_defaults_is_told_once() -> None:
    assert len(problems_of(a_job({}, {}, {}, defaults={"ulimits": {"nofile": "x"}}))) == 1
