"""What one task's end means for the others, by hand and by chance."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.jobfile.spec import NeedOn
from headway.states import TASK_ENDED, TASK_FAILURES, TaskEventKind, TaskState
from job_manager.graph.dag_progress import RETRYABLE, DagProgress, TaskStateChange
from tests.support.steps import counted

SUCCESS, FAILURE, ANY = NeedOn
S, E = TaskState, TaskEventKind
MEETS = {SUCCESS: {S.SUCCEEDED}, FAILURE: set(TASK_FAILURES), ANY: set(TASK_ENDED)}
ENDS = [E.SUCCEEDED, E.FAILED, E.TIMED_OUT, E.OUT_OF_MEMORY, E.CANCELLED]


def a_progress(*needs: list[tuple[int, NeedOn]]) -> DagProgress:
    progress = DagProgress(needs)
    progress.decide_waiting()
    return progress


@pytest.mark.parametrize(
    ("on", "end", "want"),
    [
        (SUCCESS, E.SUCCEEDED, S.QUEUED),
        (SUCCESS, E.FAILED, S.SKIPPED),
        (SUCCESS, E.CANCELLED, S.SKIPPED),
        (FAILURE, E.SUCCEEDED, S.SKIPPED),
        (FAILURE, E.FAILED, S.QUEUED),
        (FAILURE, E.TIMED_OUT, S.QUEUED),
        (FAILURE, E.OUT_OF_MEMORY, S.QUEUED),
        (FAILURE, E.CANCELLED, S.SKIPPED),
        (ANY, E.SUCCEEDED, S.QUEUED),
        (ANY, E.FAILED, S.QUEUED),
        (ANY, E.CANCELLED, S.QUEUED),
    ],
)
def test_which_end_meets_which_need(on: NeedOn, end: E, want: S) -> None:
    progress = a_progress([], [(0, on)])
    progress.react(0, end)
    assert progress.states[1] is want


def test_skipping_goes_all_the_way_down_and_names_its_root() -> None:
    progress = a_progress([], [(0, SUCCESS)], [(1, SUCCESS)], [(2, FAILURE)], [(3, ANY)])
    moved = progress.react(0, E.FAILED)
    assert [(m.task, m.state, m.cause) for m in moved] == [
        (0, S.FAILED, None),
        (1, S.SKIPPED, (0, 0)),
        (2, S.SKIPPED, (1, 0)),
        (3, S.SKIPPED, (2, 0)),
        (4, S.QUEUED, None),
    ]


def test_the_root_is_found_again_after_a_restart() -> None:
    states = [S.FAILED, S.SKIPPED, S.BLOCKED, S.RUNNING]
    progress = DagProgress([[], [(0, SUCCESS)], [(1, SUCCESS), (3, SUCCESS)], []], states)
    assert [(m.task, m.cause) for m in progress.decide_waiting()] == [(2, (1, 0))]


def test_a_task_waits_for_all_its_needs_but_is_skipped_at_the_first_that_rules_it_out() -> None:
    progress = a_progress([], [], [(0, SUCCESS), (1, SUCCESS)])
    assert [m.task for m in progress.react(0, E.SUCCEEDED)] == [0]
    assert progress.waits_for(2) == [1]
    assert progress.states[2] is S.BLOCKED
    progress = a_progress([], [], [(0, SUCCESS), (1, SUCCESS)])
    progress.react(0, E.FAILED)
    assert progress.states[2] is S.SKIPPED
    assert [m.task for m in progress.react(1, E.SUCCEEDED)] == [1]


def test_cancelling_the_job_releases_nobody_who_needs_any_end() -> None:
    progress = a_progress([], [(0, ANY)], [(1, ANY)])
    moved = progress.cancel_all()
    assert [(m.task, m.state) for m in moved] == [(0, S.STOPPING), (1, S.CANCELLED), (2, S.CANCELLED)]
    assert [m.task for m in progress.react(0, E.CANCELLED)] == [0]
    assert progress.live == 0
    assert progress.cancel_all() == []


def test_a_retry_takes_along_what_was_skipped_for_it() -> None:
    progress = a_progress([], [(0, SUCCESS)], [(1, SUCCESS)], [(0, FAILURE)])
    progress.react(0, E.FAILED)
    progress.react(3, E.SUCCEEDED)
    moved = progress.retry(0)
    assert [(m.task, m.event) for m in moved] == [(0, E.RETRIED), (1, E.RETRIED), (2, E.RETRIED), (0, E.RELEASED)]
    assert progress.states == [S.QUEUED, S.BLOCKED, S.BLOCKED, S.SUCCEEDED]
    progress.react(0, E.SUCCEEDED)
    progress.react(1, E.SUCCEEDED)
    assert progress.states[2] is S.QUEUED


def test_what_another_task_still_rules_out_stays_skipped() -> None:
    progress = a_progress([], [], [(0, SUCCESS), (1, SUCCESS)], [(2, SUCCESS)])
    progress.react(0, E.FAILED)
    progress.react(1, E.TIMED_OUT)
    assert [m.task for m in progress.retry(0)] == [0, 0]
    assert progress.states == [S.QUEUED, S.TIMED_OUT, S.SKIPPED, S.SKIPPED]
    progress.react(0, E.SUCCEEDED)
    # Only now is nothing in the way.
    assert {m.task for m in progress.retry(1)} == {1, 2, 3}


def test_a_branch_for_failures_stays_skipped_in_a_retry() -> None:
    progress = a_progress([], [(0, FAILURE)])
    progress.react(0, E.SUCCEEDED)
    assert progress.states[1] is S.SKIPPED
    assert progress.retry() == []
    assert progress.retry(1) == []
    assert progress.retry(0) == []


@pytest.mark.parametrize("shape", ["chain", "fan out", "fan in"])
def test_a_large_job_costs_a_look_at_each_edge(shape: str) -> None:
    size = 10_000
    needs: dict[str, list[list[tuple[int, NeedOn]]]] = {
        "chain": [[(n - 1, SUCCESS)] if n else [] for n in range(size)],
        "fan out": [[(0, SUCCESS)] if n else [] for n in range(size)],
        "fan in": [*([] for _ in range(size - 1)), [(n, SUCCESS) for n in range(size - 1)]],
    }
    with counted() as steps:
        progress = a_progress(*needs[shape])
        for task in range(size):
            progress.react(task, E.SUCCEEDED)
        assert progress.counts[S.SUCCEEDED] == size
        progress = a_progress(*needs[shape])
        progress.react(0, E.FAILED)
        progress.retry()
    # With a look at every task for every event it would be a hundred million.
    assert steps.taken < 80 * size


@st.composite
def jobs(draw: st.DrawFn) -> list[list[tuple[int, NeedOn]]]:
    size = draw(st.integers(1, 10))
    return [
        [
            (need, draw(st.sampled_from(NeedOn)))
            for need in draw(st.lists(st.integers(0, n - 1), max_size=3, unique=True))
        ]
        if n
        else []
        for n in range(size)
    ]


def check_states(progress: DagProgress, needs: list[list[tuple[int, NeedOn]]], history: list[TaskStateChange]) -> None:
    """What holds at every moment, said without the progress's counters."""
    states = progress.states
    for task, of_task in enumerate(needs):
        ended_badly = any(states[n] in TASK_ENDED and states[n] not in MEETS[on] for n, on in of_task)
        all_met = all(states[n] in MEETS[on] for n, on in of_task)
        if states[task] is S.BLOCKED:
            assert not ended_badly, "a task that can't run any more still waits"
            assert not all_met, "a task whose needs are met still waits"
    fresh = DagProgress(needs, states)
    assert fresh._open == progress._open
    assert fresh._broken == progress._broken
    assert +fresh.counts == +progress.counts
    assert fresh.decide_waiting() == []


@given(jobs(), st.integers(0, 2**32))
def test_every_job_ends_and_nothing_runs_before_its_needs_are_met(
    needs: list[list[tuple[int, NeedOn]]], seed: int
) -> None:
    chance = random.Random(seed)
    progress = DagProgress(needs)
    history = progress.decide_waiting()
    steps = 0
    retries = 3
    while progress.live or retries:
        check_states(progress, needs, history)
        steps += 1
        assert steps < 2_000
        if not progress.live:
            retries -= 1
            before = list(progress.states)
            moved = progress.retry(chance.choice([None, *range(len(needs))]))
            for one in moved:
                if one.event is E.RETRIED:
                    assert before[one.task] in RETRYABLE
            assert all(one.state is not S.SKIPPED for one in moved)
            history += moved
            continue
        task = chance.randrange(len(needs))
        state = progress.states[task]
        if state is S.BLOCKED:
            event = E.CANCEL_REQUESTED if chance.random() < 0.1 else None
        elif state in TASK_ENDED:
            # Repeated and late reports of every kind.
            event = chance.choice([*ENDS, E.ATTEMPT_STARTED, E.REQUEUED, E.RELEASED, E.CANCEL_REQUESTED])
            assert progress.react(task, event) == []
            event = None
        else:
            event = chance.choice([*ENDS, E.ATTEMPT_STARTED, E.REQUEUED, E.RELEASED, E.CANCEL_REQUESTED])
        if event is not None:
            moved = progress.react(task, event)
            for one in moved:
                if one.event is E.RELEASED:
                    assert all(progress.states[n] in MEETS[on] for n, on in needs[one.task])
                if one.event is E.NEEDS_FAILED:
                    assert one.cause is not None
                    assert progress.states[one.cause[1]] is not S.SKIPPED
            history += moved
    check_states(progress, needs, history)


@given(jobs(), st.integers(0, 2**32))
def test_a_cancelled_job_ends_once_its_running_tasks_have(needs: list[list[tuple[int, NeedOn]]], seed: int) -> None:
    chance = random.Random(seed)
    progress = DagProgress(needs)
    progress.decide_waiting()
    for task in range(len(needs)):
        if progress.states[task] is S.QUEUED and chance.random() < 0.5:
            progress.react(task, chance.choice([*ENDS, E.ATTEMPT_STARTED]))
    progress.cancel_all()
    assert not {S.BLOCKED, S.QUEUED, S.RUNNING} & set(progress.states)
    for task, state in enumerate(list(progress.states)):
        if state is S.STOPPING:
            assert all(m.task == task for m in progress.react(task, chance.choice(ENDS)))
    assert progress.live == 0
