"""What is written is read back the same, in every format; and no input makes anything but a list of problems."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headway.errors import JobFileInvalid
from headway.jobfile import (
    Entrypoint,
    JobSpec,
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
    to_yaml,
)
from headway.jobfile.check import JOB_KEYS
from headway.jobfile.task_fields import RESOURCE_KEYS, TASK_KEYS
from headway.units import GIB, MIB

from .build import a_job

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
TEXTS = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
        st.sampled_from(" \n\t\r:#'\"|>-{}[]!&*%@`\\\u0085\u2028\ufeff$"),
    ),
    max_size=60,
)
SCRIPTS = TEXTS.filter(lambda text: bool(text.strip()))
DURATIONS = st.integers(min_value=100, max_value=3_600_000).map(lambda millis: millis / 1000)
RESOURCES = st.builds(
    lambda cpus, memory, shm, gpus, models, gpu_memory: ResourceSpec(
        cpus, memory, min(shm, memory), gpus, models if gpus else (), gpu_memory if gpus else None
    ),
    st.integers(1, 10_000),
    st.integers(6 * MIB, 900 * GIB),
    st.integers(1, 900 * GIB),
    st.integers(0, 64),
    st.lists(st.sampled_from(["A100", "H100", "NVIDIA RTX A6000", "1080", "true"]), unique=True).map(tuple),
    st.none() | st.integers(1, 900 * GIB),
)


@st.composite
def task_specs(draw: st.DrawFn, name: str, others: list[str]) -> TaskSpec:
    command = draw(SCRIPTS | st.lists(TEXTS, min_size=1, max_size=4).filter(lambda words: words[0] != "").map(tuple))
    env_names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]{0,12}", fullmatch=True) | st.sampled_from(
        ["yes", "<<", "1", "null", "ñ", "a:b", "{x}", '"q"', "-", "*a"]
    )
    env = draw(
        st.dictionaries(env_names.filter(lambda env_name: not env_name.startswith("HEADWAY_")), TEXTS, max_size=4)
    )
    needs = draw(st.dictionaries(st.sampled_from(others), st.sampled_from(NeedOn), max_size=3)) if others else {}
    paths = st.from_regex(r"[\w:-][\w .:-]{0,8}[\w-](/[\w -]{0,8}[\w])?", fullmatch=True)
    return TaskSpec(
        name=name,
        needs=tuple(Need(task, needs[task]) for task in sorted(needs)),
        image=draw(st.sampled_from(["base/python:1", "a", "h.example:5000/x/y", "x@sha256:" + "0" * 64])),
        command=command,
        shell=draw(st.sampled_from(Shell)) if isinstance(command, str) else None,
        entrypoint=draw(st.sampled_from(Entrypoint)),
        env=tuple(sorted(env.items())),
        working_dir=draw(st.none() | paths.map(lambda path: "/" + path)),
        code=draw(st.none() | st.sampled_from(["sha256:" + "0" * 64, "sha256:" + "9f" * 32])),
        datasets=tuple(
            f"{name}@{version}" if version else name
            for name, version in draw(
                st.dictionaries(NAMES, st.sampled_from(["", "1", "2024-01-02"]), max_size=3)
            ).items()
        ),
        resources=draw(RESOURCES),
        timeout_s=draw(DURATIONS),
        grace_s=draw(DURATIONS),
        retries=draw(st.integers(0, 20)),
        user=draw(st.sampled_from(RunAs)),
        network=draw(st.sampled_from(Network)),
        output_path=draw(st.none() | paths),
        log_limit_bytes=draw(st.integers(1, 2**45)),
        log_limit_action=draw(st.sampled_from(LogLimitAction)),
    )


@st.composite
def job_specs(draw: st.DrawFn) -> JobSpec:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    tasks = tuple(draw(task_specs(name, [other for other in names if other != name])) for name in names)
    label = draw(st.sampled_from(["digits", "étape 1", "[x] y", "a/b", "..", "yes", "12:30", " # x", "مرحبا", "👩‍🔬"]))
    return JobSpec(label, tasks, draw(st.sampled_from(Priority)))


@pytest.mark.slow
@given(job_specs())
@settings(max_examples=100, deadline=None)
def test_a_spec_survives_json_yaml_and_plain_values(spec: JobSpec) -> None:
    as_json = json.dumps(spec.to_json()).encode()
    assert parse_job(spec.to_json()) == spec
    assert parse_job(as_json, media="json") == spec
    # JSON is YAML: whoever sends it with the other media type gets the same.
    assert parse_job(as_json, media="yaml") == spec
    assert parse_job(to_yaml(spec).encode()) == spec


@given(job_specs())
@settings(max_examples=25, deadline=None)
def test_the_hash_does_not_depend_on_the_format_or_the_order_of_keys(spec: JobSpec) -> None:
    def turned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: turned(value[key]) for key in reversed(value)}
        return value

    assert parse_job(to_yaml(spec).encode()).spec_hash == spec.spec_hash
    assert parse_job(turned(spec.to_json())).spec_hash == spec.spec_hash


def test_the_hash_tells_jobs_apart() -> None:
    assert parse_job(a_job({"command": "a"})).spec_hash != parse_job(a_job({"command": "b"})).spec_hash


def _never_raises_but_problems(data: Any, **kwargs: Any) -> None:
    result = check_job(data, **kwargs)
    for problem in result.problems:
        assert problem.message
        assert problem.message.isprintable()
        json.dumps(problem.to_json(), ensure_ascii=False).encode()
        result.locate(problem.pointer)
    result.graph  # noqa: B018
    if result.problems:
        with pytest.raises(JobFileInvalid) as caught:
            parse_job(data, **kwargs)
        assert caught.value.problems == result.problems
    else:
        assert parse_job(data, **kwargs) == result.spec


GOOD_TASK = '{"name":"a","image":"b","command":"c","timeout":"1m"}'
PIECES = st.sampled_from(
    [
        *("version: 1\n", "name: x\n", "tasks:\n", "  - name: a\n", "    image: b\n", "    command: c\n"),
        *("    timeout: 1m\n", "    needs: [a]\n", "    env: {A: yes}\n", "&a ", "*a", "<<: ", "!!str ", "!x "),
        *("? ", "- ", "{", "}", "[", "]", '"', "'", ": ", "\n", "\t", "|", ">", "---\n", "...\n", "%YAML 1.2\n"),
        *("\x00", "\ufeff", "#", "\\", '{"version":1,"name":"x","tasks":[', GOOD_TASK, ",", "]}", "NaN", "1e999"),
        *('"\\ud800"', "null", "true", "9" * 50, "\r"),
    ]
)


@given(st.lists(PIECES, max_size=40).map("".join), st.sampled_from(["yaml", "json"]))
@settings(max_examples=250, deadline=None)
@example('{"name": "\\ud800", "tasks": [{"\\ud800": 1, "name": "\\udfff", "env": {"\\ud800": 1}}]}', "json")
@example('{"a":1,"a":2}', "json")
@example('{"name":NaN}', "json")
@example("9" * 5_000, "json")
@example("a: " + "9" * 5_000, "yaml")
def test_no_text_raises_anything_but_problems(text: str, media: str) -> None:
    _never_raises_but_problems(text.encode(errors="surrogatepass"), media=media)


@given(st.binary(max_size=60), st.sampled_from(["yaml", "json"]))
def test_no_bytes_raise_anything_but_problems(data: bytes, media: str) -> None:
    _never_raises_but_problems(data, media=media)


WORDS = st.text(max_size=8) | st.sampled_from(["a", "t1", "1m", "8G"])
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from([*JOB_KEYS, *TASK_KEYS, *RESOURCE_KEYS, "x"])


@pytest.mark.slow
@given(st.dictionaries(KEYS, JUNK, max_size=4), st.dictionaries(KEYS, JUNK, max_size=6), st.dictionaries(KEYS, JUNK))
@settings(max_examples=250, deadline=None)
@example({}, {"working_dir": "\u202e"}, {"gpu_model": "\x80"})
def test_no_value_in_any_field_raises_anything_but_problems(
    top: dict[str, Any], task: dict[str, Any], resources: dict[str, Any]
) -> None:
    job = a_job(task, {"resources": resources})
    job.update(top)
    _never_raises_but_problems(job)
    _never_raises_but_problems(a_job({}, defaults=task))
    _never_raises_but_problems(json.dumps(job).encode(), media="json")
