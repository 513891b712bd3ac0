"""Numbers are read alike in every field, and advice quotes what was typed."""

from __future__ import annotations

import pytest

from headway.units import GIB, BadValue, parse_cpus, parse_duration, parse_size

from .build import a_job, problems_of, spec_of, task_yaml, the_problem, the_task

TYPED = ["1.10", "3.10", "1e3", "0x1F", "1.50", "+1", "0o17", "TRUE", ".5", "2."]
# Every place of a text, as a line of a task and as the pointer to it.
PLACES = [
    ("command: [echo, {}]", "command/1"),
    ("image: {}", "image"),
    ("working_dir: {}", "working_dir"),
    ("output_path: {}", "output_path"),
    ("needs: [{}]", "needs/0"),
    ("datasets: [{}]", "datasets/0"),
    ("resources: {{gpus: 1, gpu_model: {}}}", "resources/gpu_model"),
    ("code: {}", "code"),
]


@pytest.mark.parametrize("typed", TYPED)
@pytest.mark.parametrize(("line", "pointer"), PLACES)
def test_advice_to_quote_has_the_word_that_was_typed(typed: str, line: str, pointer: str) -> None:
    problem = the_problem(task_yaml(line.format(typed)))
    assert problem.pointer == f"/tasks/0/{pointer}"
    assert problem.message.endswith(f'put it in quotes: "{typed}"')


def test_every_word_of_a_command_is_named_as_it_was_typed() -> None:
    said = [problem.message for problem in problems_of(task_yaml("command: [echo, 1.10, 1e3, 0x1F]"))]
    assert [message.rsplit(" ", 1)[1] for message in said] == ['"1.10"', '"1e3"', '"0x1F"']


@pytest.mark.parametrize("typed", TYPED)
def test_names_are_quoted_as_typed(typed: str) -> None:
    for text in (task_yaml().replace("name: job", f"name: {typed}"), task_yaml().replace("name: t1", f"name: {typed}")):
        assert f'"{typed}"' in the_problem(text).message


def test_json_numbers_are_quoted_as_typed() -> None:
    text = '{"name": "x", "tasks": [{"name": "a", "image": 3.10, "command": "b", "timeout": "1m"}]}'
    assert the_problem(text, media="json").message.endswith('put it in quotes: "3.10"')


@pytest.mark.parametrize("key", ["timeout", "grace", "log_limit"])
def test_a_number_without_unit_is_told_as_typed(key: str) -> None:
    bare, quoted = the_problem(task_yaml(f"{key}: 1.10")), the_problem(task_yaml(f"{key}: '1.10'"))
    assert "'1.10' has no unit; write 1.10" in bare.message
    assert (bare.message, bare.suggestion) == (quoted.message, quoted.suggestion)


@pytest.mark.parametrize(
    ("typed", "number"), [("1", "1"), ("2.", "2"), (".5", "0.5"), ("1e1", "10"), ("02", "2"), ("1.50", "1.5")]
)
@pytest.mark.parametrize("key", ["resources: {{cpus: {}}}", "resources: {{gpus: {}}}", "retries: {}"])
def test_a_number_in_quotes_is_a_text_in_every_field(key: str, typed: str, number: str) -> None:
    problem = the_problem(task_yaml(key.format(f"'{typed}'")))
    assert f"'{typed}' is a text; write the number {number} without quotes" in problem.message
    assert problem.suggestion == number


@pytest.mark.parametrize("typed", ["2", "2.", "2.0", "2e0", "0x2"])
def test_one_number_in_many_spellings(typed: str) -> None:
    task = the_task(task_yaml(f"resources: {{cpus: {typed}, gpus: {typed}}}", f"retries: {typed}"))
    assert (task.resources.cpus_centi, task.resources.gpus, task.retries) == (200, 2, 2)
    assert type(task.retries) is int


@pytest.mark.parametrize("typed", ["010", "1_0", "0b11"])
@pytest.mark.parametrize("key", ["resources: {{cpus: {}}}", "resources: {{gpus: {}}}", "retries: {}"])
def test_a_number_that_yaml_readers_take_for_different_ones_is_no_number_anywhere(key: str, typed: str) -> None:
    assert f"'{typed}' is not the same number to all YAML readers" in the_problem(task_yaml(key.format(typed))).message


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("retries: 0x100", "0x100 is too many"),
        ("retries: 1.50", "'1.50' is not a whole number"),
        ("resources: {cpus: 0x00}", "'0x00' is not above 0"),
        ("resources: {cpus: 1e9}", "'1e9' is more than 4096"),
        ("resources: {cpus: .inf}", "'.inf' is not a number of CPUs"),
        ("resources: {gpus: .inf}", "'.inf' is not a whole number"),
    ],
)
def test_a_number_out_of_bounds_is_told_as_typed(line: str, want: str) -> None:
    assert want in the_problem(task_yaml(line)).message


@pytest.mark.parametrize(("number", "want"), [("2.", 2.0), (".5", 0.5), ("1.50", 1.5), ("02", 2.0)])
def test_a_number_before_a_unit_is_read_as_one_without(number: str, want: float) -> None:
    assert parse_cpus(number) == want * 100
    assert parse_size(f"{number}GiB") == want * GIB
    assert parse_duration(f"{number}h") == want * 3_600


@pytest.mark.parametrize("number", ["1e1", "+1", "-1", ".", "1_0", "0x1", ""])
def test_what_is_no_number_without_unit_is_none_before_one(number: str) -> None:
    for read in (lambda: parse_cpus(number), lambda: parse_size(f"{number}GiB"), lambda: parse_duration(f"{number}h")):
        with pytest.raises(BadValue):
            read()


# --- shared memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resources", "pointer", "suggestion"),
    [
        ({"memory": "4GiB", "shm": "5GiB"}, "shm", "4GiB"),
        ({"shm": "2TiB"}, "shm", "2GiB"),
        ({"memory": "4GiB", "shm": "4097MiB"}, "shm", "4GiB"),
    ],
)
def test_shared_memory_above_memory_is_refused_at_the_field(
    resources: dict[str, str], pointer: str, suggestion: str
) -> None:
    problem = the_problem(a_job({"resources": resources}))
    assert problem.pointer == f"/tasks/0/resources/{pointer}"
    assert f"shm is {resources['shm']}, more than memory, which is {suggestion}." in problem.message
    assert problem.suggestion == suggestion


def test_shared_memory_may_be_all_of_memory() -> None:
    resources = spec_of(a_job({"resources": {"memory": "4GiB", "shm": "4GiB"}})).tasks[0].resources
    assert resources.shm_bytes == resources.memory_bytes


def test_shared_memory_of_the_defaults_is_told_where_it_does_not_fit() -> None:
    small, large = {"memory": "64MiB"}, {"memory": "8GiB"}
    problem = the_problem(a_job({"resources": large}, {"resources": small}, defaults={"resources": {"shm": "4GiB"}}))
    assert problem.pointer == "/tasks/1/resources/memory"
    assert problem.suggestion == "4GiB"
    problem = the_problem(a_job({}, {}, {"resources": large}, defaults={"resources": {"shm": "4GiB"}}))
    assert problem.pointer == "/defaults/resources/shm"
    assert spec_of(a_job({"resources": large}, defaults={"resources": {"shm": "4GiB"}})).tasks[0].resources.shm_bytes


# --- what is no job file at all ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["tasks:\n\t- name: a\n", "defaults:\n\timage: b\n", "tasks:\n  - name: x\n\timage: b\n", "\tname: a\n"]
)
def test_a_tab_as_indentation_is_named_as_the_cause(text: str) -> None:
    problem = the_problem(text)
    assert "a tab is used for indentation" in problem.message
    assert problem.line == text[: text.index("\t")].count("\n") + 1
    assert problem.column == 1


@pytest.mark.parametrize(
    "text",
    [
        '{ // who\n "name": "x"}',
        '// who\n{"name": "x"}',
        '/* who */ {"name": "x"}',
        '{"name": "x" /* who */}',
        '{"name": "x", // who\n "tasks": []}',
        '{"name": "x"} // who',
        '{"version": 1, /* who */ "name": "x"}',
        '{"tasks": [1, /* who */ 2]}',
    ],
)
@pytest.mark.parametrize("media", ["json", "yaml"])
def test_a_comment_in_json_is_named_as_the_cause(text: str, media: str) -> None:
    problem = the_problem(text, media=media)
    assert "a comment, which JSON has not" in problem.message
    at = min(text.index(mark) for mark in ("//", "/*") if mark in text)
    assert (problem.line, problem.column) == (1, at + 1)


def test_a_comment_with_a_hash_is_yaml_and_no_json() -> None:
    text = '{"name": "x", # who\n "tasks": []}'
    assert "a comment" in the_problem(text, media="json").message
    assert the_problem(text).message == "tasks is empty; write at least one task"
