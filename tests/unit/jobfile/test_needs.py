"""What a task needs of others, and what is salvaged of the graph of a file with problems."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headway.errors import Problem
from headway.jobfile import (
    Need,
    NeedOn,
    check_job,
    parse_job,
)

from .build import EXAMPLE, a_job, problems_of, spec_of, task_yaml, the_problem


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
