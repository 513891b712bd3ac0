"""What the facts of a chaos run prove: all is well, or one sentence for each broken promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.chaos.checks import findings
from tests.chaos.evidence import tracebacks
from tests.chaos.facts import Attempt, Facts, Job, Line, Log, Submit, Task
from tests.chaos.workload import JobPlan, TaskPlan

SCRIPTED = frozenset({"n3"})
WELL = TaskPlan("a", "well", 1000, 300, out_lines=2, err_lines=0, gpus=1, mark="00000a", flags="m")
FAILS = TaskPlan("b", "fails", 1000, 300, exit_code=3, retries=1, mark="00000b")
LATE = TaskPlan("c", "late", 600_000, 2, mark="00000c", needs={"a": "success"})
AFTER = TaskPlan("d", "well", 1000, 300, mark="00000d", needs={"b": "success"})
PLAN = JobPlan("chaos-0", 1.0, True, (WELL, FAILS, LATE, AFTER))

GOOD = Attempt(1, "n1", "SUCCEEDED", "exited", "none", 0)
LOST = Attempt(1, "n2", "LOST", "node_lost", "platform")


def lines(*texts: str) -> list[Line]:
    """Each "WHAT ATTEMPT SECOND MORE"."""
    found = []
    for text in texts:
        what, attempt, second, *more = text.split(" ", 3)
        found.append(Line(what, int(attempt), round(float(second) * 1e9), more[0] if more else ""))
    return found


def some_facts(**changes: Any) -> Facts:
    """Of a run in which all is well."""
    tasks = (
        Task("a", "SUCCEEDED", (GOOD,)),
        Task(
            "b",
            "FAILED",
            (Attempt(1, "n1", "FAILED", "exited", "user", 3), Attempt(2, "n2", "FAILED", "exited", "user", 3)),
        ),
        Task("c", "TIMED_OUT", (Attempt(1, "n2", "TIMED_OUT", "timeout", "user"),)),
        Task("d", "SKIPPED"),
    )
    empty = {("b", 1), ("b", 2), ("c", 1)}
    logs = {(name, number, stream): Log(0, good=True) for name, number in empty for stream in ("stdout", "stderr")}
    facts = Facts(
        jobs=[Job("j1", "chaos-0", "FAILED", tasks)],
        submits=[Submit("chaos-0", "j1")],
        witness={
            "a": lines("begin 1 10 GPU-1", "tick 1 10.1", "end 1 11 0"),
            "b": lines("begin 1 10 ", "end 1 11 3", "begin 2 12 ", "end 2 13 3"),
            "c": lines("begin 1 20 ", "tick 1 21.9"),
        },
        home={"a": ["begin 1", "end 1"]},
        logs={**logs, ("a", 1, "stdout"): Log(32, good=True), ("a", 1, "stderr"): Log(0, good=True)},
        booked=[{"n1": 2, "n2": 0}],
        gpus={"n1": 2, "n2": 2, "n3": 2},
        left=[],
        differences=[],
    )
    return replace(facts, **changes)


def with_task(facts: Facts, task: Task, state: str = "") -> Facts:
    """One task otherwise, and its job in another state if one is named."""
    (job,) = facts.jobs
    tasks = tuple(task if one.name == task.name else one for one in job.tasks)
    return replace(facts, jobs=[replace(job, tasks=tasks, state=state or job.state)])


def with_witness(facts: Facts, name: str, *texts: str) -> Facts:
    return replace(facts, witness={**facts.witness, name: lines(*texts)})


def found(facts: Facts, plans: Sequence[JobPlan] = (PLAN,)) -> list[str]:
    return findings(plans, facts, SCRIPTED)


def the_one(facts: Facts) -> str:
    (sentence,) = found(facts)
    return sentence


def test_nothing_is_found_where_all_is_well() -> None:
    assert found(some_facts()) == []


class TestSubmits:
    def test_a_job_with_an_answer_is_there_once(self) -> None:
        facts = some_facts()
        assert "and there are []" in the_one(replace(facts, jobs=[], witness={}, home={}, logs={}))
        twice = replace(facts.jobs[0], id="j2", tasks=())
        assert any("j2" in one for one in found(replace(facts, jobs=[*facts.jobs, twice])))

    def test_one_without_an_answer_is_there_once_or_not_at_all(self) -> None:
        facts = some_facts(submits=[Submit("chaos-0", sure=False)])
        assert found(facts) == []
        assert found(replace(facts, jobs=[], witness={}, home={}, logs={})) == []
        twice = replace(facts.jobs[0], id="j2")
        assert any("made the jobs ['j1', 'j2']" in one for one in found(replace(facts, jobs=[*facts.jobs, twice])))

    def test_a_refusal_that_nobody_expected_and_a_job_of_nobody_are_told(self) -> None:
        facts = some_facts(submits=[Submit("chaos-0", "", refused="500 Something went wrong.")])
        assert "refused: 500" in the_one(facts)
        stranger = Job("j9", "chaos-9", "SUCCEEDED")
        assert "nobody submitted it" in the_one(replace(some_facts(), jobs=[*some_facts().jobs, stranger]))


class TestStates:
    @pytest.mark.parametrize(
        ("task", "state"),
        [
            (Task("a", "FAILED", (replace(GOOD, state="FAILED", word="disk_full", fault="platform"),)), "FAILED"),
            (Task("d", "SUCCEEDED"), "FAILED"),
            (Task("c", "SKIPPED"), "FAILED"),
            (Task("c", "CANCELLED"), "FAILED"),
        ],
    )
    def test_a_task_that_ends_otherwise_than_its_program_and_its_needs_say_is_told(
        self, task: Task, state: str
    ) -> None:
        assert any(f"/{task.name}: it is {task.state}" in one for one in found(with_task(some_facts(), task, state)))

    def test_the_job_is_as_its_tasks_say(self) -> None:
        facts = some_facts()
        assert "it is SUCCEEDED, and has to be FAILED" in the_one(
            replace(facts, jobs=[replace(facts.jobs[0], state="SUCCEEDED")])
        )

    def test_a_cancel_that_came_through_is_no_fault(self) -> None:
        facts = with_task(some_facts(), Task("c", "CANCELLED"), "CANCELLED")
        facts = replace(facts, witness={name: of for name, of in facts.witness.items() if name != "c"})
        for cancel in ("asked", "answered"):
            assert found(replace(facts, submits=[Submit("chaos-0", "j1", cancel=cancel)])) == []
        assert len(found(facts)) == 2, "nobody has cancelled it"


class TestAttempts:
    def test_a_retry_too_many_or_too_few_is_told(self) -> None:
        (job,) = some_facts().jobs
        task = job.tasks[1]
        facts = with_task(some_facts(), replace(task, attempts=task.attempts[:1]))
        assert any("it failed 1 times with 1 retries" in one for one in found(facts))
        facts = with_task(some_facts(), replace(task, attempts=(*task.attempts, replace(task.attempts[1], number=3))))
        assert any("it ran 3 times with 1 retries" in one for one in found(facts))

    def test_a_program_that_does_not_fail_has_no_attempt_that_failed_by_itself(self) -> None:
        killed = Attempt(1, "n1", "FAILED", "killed_outside", "operator")
        facts = with_task(some_facts(), Task("a", "SUCCEEDED", (killed, replace(GOOD, number=2))))
        facts = with_witness(facts, "a", "begin 1 5 GPU-1", "begin 2 10 GPU-1", "end 2 11 0")
        facts = replace(facts, home={"a": ["begin 2", "end 2"]}, logs={**facts.logs, **_logs_of_a(2)})
        assert "its program does not fail" in the_one(facts)

    def test_nothing_runs_on_after_a_success(self) -> None:
        facts = with_task(some_facts(), Task("a", "SUCCEEDED", (GOOD, replace(LOST, number=2))))
        assert "it went on after it had succeeded" in the_one(facts)


class TestWitness:
    def rerun(self, *texts: str) -> Facts:
        """Attempt 1 of a is lost, attempt 2 succeeds."""
        facts = with_task(some_facts(), Task("a", "SUCCEEDED", (LOST, replace(GOOD, number=2))))
        facts = with_witness(facts, "a", *texts)
        return replace(facts, home={"a": ["begin 2", "end 2"]}, logs={**facts.logs, **_logs_of_a(2)})

    def test_a_lost_attempt_that_was_gone_before_the_next_one_began_is_well(self) -> None:
        assert found(self.rerun("begin 1 5 GPU-1", "tick 1 9.9", "begin 2 10 GPU-1", "end 2 11 0")) == []
        assert found(self.rerun("begin 2 10 GPU-1", "end 2 11 0")) == []

    def test_a_lost_attempt_may_have_ended_well_unheard(self) -> None:
        assert found(self.rerun("begin 1 5 GPU-1", "end 1 9 0", "begin 2 10 GPU-1", "end 2 11 0")) == []

    def test_two_at_once_are_told_with_how_long(self) -> None:
        one = the_one(self.rerun("begin 1 5 GPU-1", "begin 2 10 GPU-2", "tick 1 10.25", "end 2 11 0"))
        assert "attempt 1 lived 0.250 s beside attempt 2" in one

    def test_a_lock_of_another_attempt_is_told(self) -> None:
        one = the_one(self.rerun("begin 1 5 GPU-1", "twice 2 9.9", "begin 2 10 GPU-1", "end 2 11 0"))
        assert "one found the other's lock" in one

    def test_an_attempt_that_nobody_knows_is_told(self) -> None:
        facts = with_witness(some_facts(), "a", "begin 1 10 GPU-1", "end 1 11 0", "begin 2 12 GPU-1")
        assert any("attempt 2 ran, and nobody knows of it" in one for one in found(facts))
        assert any("attempt 2 began after attempt 1 had succeeded" in one for one in found(facts))

    def test_a_task_of_no_job_is_told(self) -> None:
        assert "it ran, and is in no job" in the_one(with_witness(some_facts(), "z", "begin 1 5 "))

    def test_an_attempt_that_begins_twice_or_ends_otherwise_is_told(self) -> None:
        twice = with_witness(some_facts(), "a", "begin 1 10 GPU-1", "begin 1 10.5 GPU-1", "end 1 11 0")
        assert any("began 2 times" in one for one in found(twice))
        other = with_witness(some_facts(), "a", "begin 1 10 GPU-1", "end 1 11 7")
        assert "told to have ended with 0, and its program says ['7']" in the_one(other)
        timed_out = with_witness(some_facts(), "c")
        assert "began 0 times" in the_one(timed_out)

    def test_a_scripted_machine_runs_no_program(self) -> None:
        facts = with_task(some_facts(), Task("a", "SUCCEEDED", (replace(GOOD, node="n3"),)))
        assert "on a machine without an engine" in the_one(facts)
        assert found(replace(facts, witness={name: of for name, of in facts.witness.items() if name != "a"})) == []


class TestGpus:
    def test_a_gpu_with_two_programs_at_once_is_told(self) -> None:
        plan = replace(PLAN, tasks=(WELL, replace(FAILS, gpus=1), LATE, AFTER))
        facts = with_witness(some_facts(), "b", "begin 1 10.5 GPU-1", "end 1 10.75 3", "begin 2 12 GPU-1", "end 2 13 3")
        (one,) = found(facts, [plan])
        assert "GPU-1: a.1 and b.1 had it at once, for 0.500 s" in one

    def test_a_program_gets_as_many_as_it_asked_for(self) -> None:
        assert "asked for 1 GPUs and had []" in the_one(with_witness(some_facts(), "a", "begin 1 10 ", "end 1 11 0"))

    def test_more_booked_than_there_are_is_told(self) -> None:
        assert the_one(some_facts(booked=[{"n1": 3}, {"n1": 2}])) == "n1: more GPUs were booked than there are, 1 times"


class TestLogsAndHomes:
    @pytest.mark.parametrize(
        ("log", "told"),
        [
            (Log(16, good=True), "holds 16 of 32 bytes"),
            (Log(32, good=False), "not those that were printed"),
            (Log(0, good=False, missing="It is gone."), "can't be read: It is gone."),
        ],
    )
    def test_a_log_that_is_not_whole_is_told(self, log: Log, told: str) -> None:
        facts = some_facts()
        assert told in the_one(replace(facts, logs={**facts.logs, ("a", 1, "stdout"): log}))

    def test_the_log_of_a_lost_attempt_may_lack_or_be_a_part(self) -> None:
        facts = TestWitness().rerun("begin 2 10 GPU-1", "end 2 11 0")
        for log in (Log(16, good=True), Log(0, good=False, missing="It is gone.")):
            assert found(replace(facts, logs={**facts.logs, ("a", 1, "stdout"): log})) == []

    def test_what_was_synced_into_the_home_is_there_once(self) -> None:
        assert "holds 0 times that attempt 1 did end" in the_one(some_facts(home={"a": ["begin 1"]}))
        assert "holds 2 times" in the_one(some_facts(home={"a": ["begin 1", "begin 1", "end 1"]}))
        facts = with_witness(some_facts(home={}), "a", "begin 1 10 GPU-1", "mount 1 10 107", "end 1 11 0")
        assert found(facts) == [], "the program was told that it was not"


def test_what_is_left_and_what_differs_is_told() -> None:
    facts = some_facts(left=["a container"], differences=["a state"], tracebacks=["a KeyError"])
    assert found(facts) == ["a container", "a state", "a KeyError"]


def test_tracebacks_of_a_log_are_told_each_with_what_was_logged_before() -> None:
    log = """2026-11-30 01:00:00.000 info    service.ready
2026-11-30 01:00:01.000 error   rpc.failed method=X
Traceback (most recent call last):
  File "a.py", line 1, in f
    g()
psycopg.errors.ConnectionTimeout: connection timeout expired

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "b.py", line 2, in g
KeyError: 'a'
2026-11-30 01:00:02.000 info    goes.on
2026-11-30 01:00:03.000 error   service.crashed
Traceback (most recent call last):
  File "c.py", line 3, in h
ValueError: b
"""
    assert tracebacks(log) == [
        "2026-11-30 01:00:01.000 error   rpc.failed method=X | KeyError: 'a'",
        "2026-11-30 01:00:03.000 error   service.crashed | ValueError: b",
    ]
    assert tracebacks("2026-11-30 01:00:00.000 info    service.ready\n") == []


def _logs_of_a(number: int) -> Mapping[tuple[str, int, str], Log]:
    return {("a", number, "stdout"): Log(32, good=True), ("a", number, "stderr"): Log(0, good=True)}
