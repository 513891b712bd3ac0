"""YAML 1.2 without its traps."""

from __future__ import annotations

import subprocess
import sys

import pytest

from headway.jobfile import parse_job
from tests.support.steps import counted

from .build import a_job, problems_of, spec_of, task_yaml, the_problem, the_task

# What YAML 1.1 or 1.2 takes for something other than a text.
NOT_PLAIN_TEXTS = [
    *("yes", "no", "Yes", "NO", "on", "off", "Off", "true", "True", "FALSE"),
    *("null", "Null", "~", ""),
    *("0", "1", "-1", "+1", "0755", "0o17", "0x1F", "0b101", "1_000", "1e3", "1.10", "1.", ".5", "-.inf", ".NaN", "08"),
    *("2024-01-02", "2024-01-02T03:04:05Z", "2001-12-14 21:59:43.10 -5", "12:30", "12:30:45", "190:20:30.15"),
    *("=", "1" * 5_000),
]


@pytest.mark.parametrize("typed", NOT_PLAIN_TEXTS)
def test_an_env_value_that_yaml_would_change_is_refused_with_its_name(typed: str) -> None:
    problem = the_problem(task_yaml("env:", f"  A_KEY: {typed}"))
    assert problem.pointer == "/tasks/0/env/A_KEY"
    assert problem.line == 10
    assert "A_KEY" in problem.message
    assert problem.word == (typed if len(typed) < 200 else typed[:197] + "...")
    if typed in ("", "~", "null"):
        assert problem.suggestion == '""'
    else:
        assert "quote it" in problem.message


@pytest.mark.parametrize("typed", NOT_PLAIN_TEXTS)
@pytest.mark.parametrize("quotes", ["'{}'", '"{}"', "!!str {}", "|-\n        {}"])
def test_the_same_values_in_quotes_arrive_byte_for_byte(typed: str, quotes: str) -> None:
    if not typed and "'" not in quotes and '"' not in quotes:
        return
    assert the_task(task_yaml("env:", "  A: " + quotes.format(typed))).env == (("A", typed),)


@pytest.mark.parametrize(
    "typed",
    [
        *("y", "n", "yesterday", "v1.10", "1.10.0", "10.0.0.1", "a:b", "/bin:/usr/bin", "-x", "nullable", "0xZZ"),
        *("2024-1", "1e", "pa$word$$x", ".", "--", "1 2", "x=y"),
    ],
)
def test_other_plain_env_values_are_texts_as_typed(typed: str) -> None:
    assert the_task(task_yaml("env:", f"  A: {typed}")).env == (("A", typed),)


def test_all_offending_env_values_are_named_at_once() -> None:
    text = task_yaml("env: {A: yes, B: no, C: true, D: off, E: 0755, F: 'fine', G: null}")
    assert [problem.pointer[-1] for problem in problems_of(text)] == ["A", "B", "C", "D", "E", "G"]


@pytest.mark.parametrize("value", [True, 1, 1.5, None, ["x"], {"x": "y"}])
def test_json_env_values_that_are_no_texts_are_refused_too(value: object) -> None:
    problem = the_problem(a_job({"env": {"A": value}}))
    assert problem.pointer == "/tasks/0/env/A"


def test_env_names_may_look_like_anything() -> None:
    spec = parse_job(task_yaml("env:", "  yes: a", "  on: b", "  1: c", "  null: d", "  '<<': e").encode())
    assert dict(spec.tasks[0].env) == {"yes": "a", "on": "b", "1": "c", "null": "d", "<<": "e"}


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("", "empty name"),
        ("A=B", "not a name"),
        ("A B", "not a name"),
        ("HEADWAY_JOB_ID", "set by Headway"),
        ("HEADWAY_X", "set by Headway"),
    ],
)
def test_env_names_that_are_refused(name: str, want: str) -> None:
    problem = the_problem(a_job({"env": {name: "x"}}))
    assert want in problem.message
    assert problem.pointer == f"/tasks/0/env/{name}"


def test_the_scripted_runtime_is_steered_through_env() -> None:
    assert spec_of(a_job({"env": {"HEADWAY_SCRIPTED_RUN_S": "1"}})).tasks[0].env


def test_dates_and_old_booleans_are_plain_texts_elsewhere() -> None:
    job = parse_job(task_yaml().replace("name: job", "name: 2024-01-02").encode())
    assert job.name == "2024-01-02"
    assert type(job.name) is str
    assert parse_job(task_yaml().replace("name: job", "name: off").encode()).name == "off"


@pytest.mark.parametrize("typed", ["123", "1.5", "true", "1e3"])
def test_a_number_as_a_name_is_refused_with_advice_to_quote(typed: str) -> None:
    problem = the_problem(task_yaml().replace("name: job", f"name: {typed}"))
    assert "quotes" in problem.message
    assert (problem.line, problem.column) == (2, 7)
    assert problem.word == typed


@pytest.mark.parametrize("typed", ["010", "0o2", "1_0", "12:30"])
def test_gpus_are_never_read_in_another_base(typed: str) -> None:
    text = task_yaml(f"resources: {{gpus: {typed}}}")
    if typed == "0o2":  # YAML 1.2 has this form, and no one reads it differently
        assert the_task(text).resources.gpus == 2
    else:
        assert the_problem(text).pointer == "/tasks/0/resources/gpus"


# --- texts ---------------------------------------------------------------------------------------------


def test_a_command_in_several_lines_arrives_untouched() -> None:
    lines = [
        "echo one \\",
        "  two \\",
        "  three",
        "cat <<'EOF'",
        "  $HOME $$ `x` # not a comment",
        "EOF",
        "",
        "\techo tab",
        "printf %s 'pa$word$$x'",
    ]
    task = the_task(task_yaml("command: |", *("  " + line for line in lines)))
    # An empty line keeps the indentation of the file's writer to itself.
    assert task.command == "\n".join(lines) + "\n"


def test_windows_line_ends_and_a_byte_order_mark_change_nothing() -> None:
    text = task_yaml("command: |", "  echo a", "  echo b")
    other = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    assert parse_job(other) == parse_job(text.encode())


def test_letters_of_any_script_arrive_unchanged() -> None:
    text = task_yaml("env: {Ñ: 日本 ☃}", "command: echo 'ñ 日本 🎉'", "working_dir: /root/nfs/año")
    job = parse_job(text.replace("name: job", "name: 日本 ñ 👩‍🔬 مرحبا").encode())
    assert job.name == "日本 ñ 👩‍🔬 مرحبا"
    assert job.tasks[0].env == (("Ñ", "日本 ☃"),)
    assert job.tasks[0].command == "echo 'ñ 日本 🎉'"
    assert job.tasks[0].working_dir == "/root/nfs/año"


def test_dollar_signs_are_never_expanded() -> None:
    task = the_task(task_yaml("env: {P: 'pa$word$$x'}", 'command: printf %s "$P" ${HOME}'))
    assert task.env == (("P", "pa$word$$x"),)
    assert task.command == 'printf %s "$P" ${HOME}'


# --- places --------------------------------------------------------------------------------------------


def test_a_key_written_twice_is_refused_at_the_second() -> None:
    problem = the_problem(task_yaml("image: a", "image: b"))
    assert (problem.line, problem.column) == (10, 5)
    assert problem.pointer == "/tasks/0/image"
    assert problem.word == "image"


def test_a_json_key_written_twice_is_refused_at_the_second() -> None:
    lines = (
        '{"version": 1, "name": "x",',
        ' "tasks": [{"name": "a", "image": "b",',
        '  "command": "c", "image": "d", "timeout": "1m"}]}',
    )
    text = "\n".join(lines)
    for media in ("json", "yaml"):
        problem = the_problem(text, media=media)
        assert (problem.line, problem.column) == (3, 19)
        assert problem.pointer == "/tasks/0/image"


def test_columns_count_characters_not_bytes() -> None:
    problem = the_problem(task_yaml("env: {日本: ok, é: yes}"))
    assert (problem.line, problem.column) == (9, 22)


@pytest.mark.parametrize(
    ("text", "want_line", "want_column", "want_message"),
    [
        ("name: a\n\tb: c\n", 2, 1, "tab"),
        ("name: a: b\n", 1, 8, "':'"),
        ("name: [a, b\nx: y\n", 2, 2, "not closed"),
        ("name: 'a\n", 1, 7, "closing quote"),
        ("name: a\n b: c\n", 2, 3, "':'"),
        ("name: *nowhere\n", 1, 7, "anchor"),
        ("name: a\n---\nname: b\n", 2, 1, "more than one document"),
        ("name: @x\n", 1, 7, "quotes"),
        ('name: "\\q"\n', 1, 8, "escape"),
        ("a: &x [*x]\n", 1, 4, "inside the very thing"),
        ("<<: {a: b}\n", 1, 1, "merge keys"),
        ("? [a]\n: b\n", 1, 3, "key has to be a plain word"),
        ("name: !!python/object:os.system x\n", 1, 7, "tag"),
        ("name: !!timestamp 2024-01-01\n", 1, 7, "tag"),
        ("name: !!int x\n", 1, 7, "tag"),
        ("name: !mine x\n", 1, 7, "tag"),
        ("name: a\x00b\n", 1, 8, "U+0000"),
        ("name: a\n# \x1b\n", 2, 3, "U+001B"),
        ("name: a\u2028b\n", 1, 8, "U+2028"),
        ("name: a\u0085b\n", 1, 8, "U+0085"),
    ],
)
def test_what_is_not_readable_is_refused_at_its_place(
    text: str, want_line: int, want_column: int, want_message: str
) -> None:
    places = [(problem.line, problem.column) for problem in problems_of(text) if want_message in problem.message]
    assert (want_line, want_column) in places


@pytest.mark.parametrize(
    ("data", "want"),
    [
        (b"name: a\nb: \xff\n", (2, 4, "0xFF")),
        ("name: ñ\nb: ñ".encode() + b"\xc3\n", (2, 5, "0xC3")),
        ("name: a".encode("utf-16"), (None, None, "UTF-16")),
    ],
)
def test_bytes_that_are_not_utf8_are_refused_at_their_place(data: bytes, want: tuple[int, int, str]) -> None:
    for media in ("yaml", "json"):
        problem = the_problem(data, media=media)
        assert (problem.line, problem.column) == want[:2]
        assert want[2] in problem.message


@pytest.mark.parametrize(
    ("text", "want_line", "want_column", "want_message"),
    [
        ('{"name": "x",\n}', 2, 1, "double quotes"),
        ('{"name": }', 1, 10, "value is missing"),
        ('{"name": "x"} x', 1, 15, "more after the end"),
        ('{"name" "x"}', 1, 9, "':'"),
        ('{"name": "x\n"}', 1, 12, "\\n"),
        ('{"name": NaN}', 1, 10, "NaN"),
        ("name: x", 1, 1, "JSON"),
        ("", 1, 1, "JSON"),
    ],
)
def test_what_is_not_json_is_refused_at_its_place(
    text: str, want_line: int, want_column: int, want_message: str
) -> None:
    problems = problems_of(text, media="json")
    places = [(problem.line, problem.column) for problem in problems if want_message in problem.message]
    assert (want_line, want_column) in places


@pytest.mark.parametrize("text", ['{"name": "\\ud800"}', '{"name": "a\\u0000"}'])
def test_json_texts_that_no_program_could_be_given_are_refused(text: str) -> None:
    assert any("U+" in problem.message and problem.pointer == "/name" for problem in problems_of(text, media="json"))


# --- hostile -------------------------------------------------------------------------------------------


def test_anchors_and_aliases_are_fine_in_moderation() -> None:
    text = task_yaml("env: &e {A: x}") + "  - name: t2\n    env: *e\n"
    job = parse_job(text.encode())
    assert job.tasks[0].env == job.tasks[1].env == (("A", "x"),)


def _bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    return "\n".join(lines)


HOSTILE = {
    "billion laughs": _bomb(),
    "one long text many times": "a: &a ['" + "x" * 1_000_000 + "']\nb: [" + ", ".join(["*a"] * 100) + "]",
    "wide": "a: &a [" + "[]," * 100_000 + "]\nb: [" + "*a," * 100 + "]",
    "deep flow": "[" * 100_000,
    "deep flow closed": "# not JSON\n" + "[" * 900 + "]" * 900,
    "deep block": "- " * 100_000,
    "deep keys": "? " * 100_000,
    "deep mapping": "{a: " * 100_000,
    "deep json": '{"a":' * 100_000,
    "deep json closed": '{"a":' * 5_000 + "1" + "}" * 5_000,
    "circle": "a: &a\n  b: *a\n",
    "digits": "version: " + "9" * 1_000_000,
    "digits json": '{"version": ' + "9" * 1_000_000 + "}",
    "anchors": "\n".join(f"k{n}: &k{n} v" for n in range(50_000)),
    "long key": "? " + "k" * 1_000_000 + "\n: v\n",
    "timeouts": "timeout: " + "1" * 1_000_000,
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("media", ["yaml", "json"])
def test_hostile_files_are_refused_quickly(name: str, media: str) -> None:
    with counted() as steps:
        assert problems_of(HOSTILE[name], media=media)
    # Each has at most a million characters. The longest look takes about as many steps.
    assert steps.taken < 3_000_000


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("billion laughs", "aliases"),
        ("one long text many times", "aliases"),
        ("wide", "aliases"),
        ("deep flow closed", "nested more than 32 deep"),
        ("circle", "inside the very thing"),
    ],
)
def test_a_bomb_is_refused_as_what_it_is(name: str, want: str) -> None:
    assert want in the_problem(HOSTILE[name]).message


def test_a_file_over_the_limit_is_refused_unread() -> None:
    problem = the_problem(b"[" * (8 * 1024 * 1024 + 1))
    assert "8 MiB" in problem.message


def test_without_the_c_library_the_result_is_the_same() -> None:
    """PyYAML is built without libyaml on some systems; the pure Python composer has to serve there."""
    program = """
import yaml
yaml.__with_libyaml__ = False
from headway.jobfile import check_job
from headway.jobfile import source_yaml
assert source_yaml._Composer.__name__ == "_PyComposer"
from tests.unit.jobfile.build import task_yaml
text = task_yaml("env: {A: yes, B: 'no', C: x}", "image: a", "image: b", "command: |", "  a", "   b")
result = check_job(text.encode())
print([(p.pointer, p.line, p.column) for p in result.problems])
print([bool(check_job(t.encode()).problems) for t in ("[" * 5000, "a: &a [*a]", "a: 'x", "name: x\\n---\\na: b")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "[('/tasks/0/env/A', 9, 14), ('/tasks/0/image', 11, 5)]",
        "[True, True, True, True]",
    ]
