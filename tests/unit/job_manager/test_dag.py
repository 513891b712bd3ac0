"""Graphs as people and generators write them."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.jobfile.spec import NeedOn
from job_manager.graph.dag import MAX_PROBLEMS, DagTask, check
from tests.support.steps import counted

SUCCESS, FAILURE, ANY = NeedOn


def a_graph(**needs: str) -> list[DagTask]:
    """`a_graph(a="", b="a")`: b needs a. Each task has a timeout of 10 s."""
    return [DagTask(name, tuple((need, SUCCESS) for need in of_task.split()), 10.0) for name, of_task in needs.items()]


def test_a_diamond_has_an_order_and_tails() -> None:
    dag, problems = check(a_graph(compare="left right", left="prepare", right="prepare", prepare=""))
    assert problems == []
    assert dag is not None
    assert [dag.names[n] for n in dag.order] == ["prepare", "left", "right", "compare"]
    assert dict(zip(dag.names, dag.tail_timeout_s, strict=True)) == {
        "compare": 0.0, "left": 10.0, "right": 10.0, "prepare": 20.0,
    }  # fmt: skip


def test_tasks_free_of_each_other_stand_as_submitted() -> None:
    dag, _ = check(a_graph(z="", a="", m="z", b=""))
    assert dag is not None
    assert dag.order == (0, 1, 2, 3)


def test_a_task_that_needs_itself_is_refused_by_name() -> None:
    # It once passed, and the job sat idle for ever.
    dag, problems = check(a_graph(a="a"))
    assert dag is None
    assert [(p.pointer, p.word) for p in problems] == [("/tasks/0/needs/a", "a")]
    assert "'a' needs itself" in problems[0].message


def test_two_tasks_of_one_name_are_refused_before_the_graph_is_built() -> None:
    # The later one once replaced the earlier and took the edge along that would have shown the loop.
    dag, problems = check([DagTask("A", (("A", SUCCESS),), 1.0), DagTask("A", (), 1.0)])
    assert dag is None
    assert [p.pointer for p in problems] == ["/tasks/1/name"]


def test_a_need_named_twice_counts_once() -> None:
    dag, problems = check([DagTask("a", (), 1.0), DagTask("b", (("a", SUCCESS), ("a", SUCCESS)), 1.0)])
    assert problems == []
    assert dag is not None
    assert dag.needs[1] == ((0, SUCCESS),)
    _, problems = check([DagTask("a", (), 1.0), DagTask("b", (("a", SUCCESS), ("a", FAILURE)), 1.0)])
    assert [p.pointer for p in problems] == ["/tasks/1/needs/a"]


def test_an_unknown_need_is_named_with_its_task_and_the_nearest_name() -> None:
    _, problems = check(a_graph(prepare="", train="prepar"))
    assert [p.pointer for p in problems] == ["/tasks/1/needs/prepar"]
    assert problems[0].suggestion == "prepare"
    assert problems[0].allowed == ("prepare",)
    assert "'train'" in problems[0].message
    assert "Did you mean 'prepare'?" in problems[0].message


def test_every_cycle_is_shown_as_its_path_and_other_faults_too() -> None:
    _, problems = check(a_graph(a="b", b="c", c="a", x="y", y="x", free="nobody", s="s"))
    messages = " ".join(p.message for p in problems)
    assert "a → c → b → a" in messages
    assert "x → y → x" in messages
    assert "s → s" in messages
    assert "'nobody'" in messages
    assert len(problems) == 4


def test_two_cycles_through_one_task_are_both_shown() -> None:
    _, problems = check(a_graph(hub="a b", a="hub", b="hub"))
    assert sorted(p.message.split(": ")[1] for p in problems) == ["hub → a → hub.", "hub → b → hub."]


def test_a_large_knot_shows_one_shortest_cycle() -> None:
    size = 500
    tasks = [
        DagTask(f"t{n}", ((f"t{(n - 1) % size}", SUCCESS), (f"t{(n - 7) % size}", SUCCESS)), 1.0) for n in range(size)
    ]
    tasks[3] = DagTask("t3", (("t2", SUCCESS), ("t4", SUCCESS)), 1.0)
    _, problems = check(tasks)
    assert [p.message.split(": ")[1] for p in problems] == ["t3 → t4 → t3."]


def test_a_very_long_cycle_is_shortened_for_people() -> None:
    _, problems = check([DagTask(f"t{n}", ((f"t{(n - 1) % 3_000}", SUCCESS),), 1.0) for n in range(3_000)])
    assert "t0 → t1 → " in problems[0].message
    assert "more) → " in problems[0].message
    assert len(problems[0].message) < 500


def test_problems_beyond_reading_are_counted() -> None:
    _, problems = check([DagTask(f"t{n}", (("gone", SUCCESS),), 1.0) for n in range(1_000)])
    assert len(problems) == MAX_PROBLEMS
    assert "801 more" in problems[-1].message


def test_names_with_odd_characters_stay_valid_pointers() -> None:
    _, problems = check([DagTask("a", (("b/c~d", SUCCESS),), 1.0)])
    assert problems[0].pointer == "/tasks/0/needs/b~1c~0d"


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["chain", "fan", "dense"])
def test_large_graphs_are_quick_and_never_recurse(shape: str) -> None:
    chance = random.Random(1)
    needs: dict[str, list[list[int]]] = {
        "chain": [[n - 1] if n else [] for n in range(10_000)],
        "fan": [[0] if n else [] for n in range(10_000)],
        "dense": [sorted({chance.randrange(max(0, n - 99), n) for _ in range(21)}) if n else [] for n in range(10_000)],
    }
    tasks = [DagTask(f"t{n}", tuple((f"t{m}", SUCCESS) for m in of), 1.0) for n, of in enumerate(needs[shape])]
    edges = sum(len(of) for of in needs[shape])
    with counted() as steps:
        dag, problems = check(tasks)
    assert problems == []
    assert dag is not None
    # A quadratic walk would take a hundred million.
    assert steps.taken < 36 * (len(tasks) + edges)
    if shape == "chain":
        assert dag.tail_timeout_s[0] == 9_999.0


@given(st.data())
def test_the_order_respects_every_edge_or_there_is_a_cycle(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 12))
    edges = [
        data.draw(st.lists(st.integers(0, size - 1), max_size=3, unique=True), label=f"needs of {n}")
        for n in range(size)
    ]
    tasks = [DagTask(f"t{n}", tuple((f"t{m}", ANY) for m in of), float(n + 1)) for n, of in enumerate(edges)]
    dag, problems = check(tasks)
    if dag is None:
        assert problems
        for problem in problems:
            path = [int(word[1:]) for word in problem.message.rstrip(".").split(": ")[1].split(" → ")]
            assert path[0] == path[-1]
            assert all(needed in edges[task] for needed, task in itertools.pairwise(path))
        return
    place = {task: at for at, task in enumerate(dag.order)}
    assert sorted(place) == list(range(size))
    below = [0.0] * size
    for task in reversed(dag.order):
        for need in edges[task]:
            assert place[need] < place[task]
            below[need] = max(below[need], below[task] + task + 1)
    assert list(dag.tail_timeout_s) == below
