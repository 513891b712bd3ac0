"""What past runs say of a timeout: which of them count, and what is advised."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import event

from headway import fingerprint
from headway.ids import AttemptId
from headway.model.reasons import EndReason, EndWord
from headway.rpc import convert
from headway.rpc.v1 import common_pb2, task_manager_pb2
from task_manager import wire
from task_manager.answers.advice_queries import TimeoutAdvisor, seniority_per_s
from task_manager.answers.timeout_advice import (
    AdviceBasis,
    MostlyTimedOut,
    PastRun,
    RunTimeStatistics,
    learn,
    rounded_up,
    sentence,
    warning,
)
from task_manager.order.policy_registry import by_name
from tests.support.clock import FakeClock
from tests.support.postgres import Postgres
from tests.unit.task_manager.rig import TaskManagerRig, a_node, a_task, a_task_manager, exited, tid

M = 60.0


def runs(*seconds: float, timed_out: tuple[float, ...] = ()) -> list[PastRun]:
    return [*(PastRun(s) for s in seconds), *(PastRun(s, timed_out=True) for s in timed_out)]


@pytest.mark.parametrize(
    ("past", "want_s", "want_share"),
    [
        # Few runs: the longest, and a fifth more, as a person would write it.
        (runs(3 * M, 5 * M, 9 * M), 12 * M, 0.0),
        (runs(1, 1, 1), 10, 0.0),
        # Many: one in forty may be odd, and is said to be killed.
        (runs(*[5 * M] * 39, 7_200), 6 * M, 1 / 40),
        # Cut off near what others took: what it needed is not known, so the advice reaches further than its limit.
        (runs(4 * M, 4 * M, 4 * M, timed_out=(5 * M,)), 8 * M, 0.0),
        # Hung until a limit far off: no reason to wait that long, but it would be killed again.
        (runs(4 * M, 4 * M, 4 * M, timed_out=(86_400,)), 5 * M, 1 / 4),
        # One limit equal to the advice ran at least so long.
        (runs(50, 50, 50, timed_out=(120,)), 60, 1 / 4),
    ],
)
def test_advice(past: list[PastRun], want_s: float, want_share: float) -> None:
    found = learn(past)
    assert isinstance(found, RunTimeStatistics)
    assert found.suggested_s == want_s
    assert found.killed_share(found.suggested_s) == pytest.approx(want_share)


@pytest.mark.parametrize("past", [[], runs(5, 5), runs(5, timed_out=(9, 9))])
def test_too_few_that_succeeded_say_nothing(past: list[PastRun]) -> None:
    assert learn(past) is None


@pytest.mark.parametrize(
    ("past", "asked_s", "want"),
    [
        (
            runs(timed_out=(300, 600, 600)),
            600,
            "3 runs of this command by you were ended by a timeout of up to 10m before they were done and none "
            "succeeded, so how long it needs is not known. It asks for 10m now, which was too little then.",
        ),
        (
            runs(5, timed_out=(300,) * 4),
            900,
            "4 runs of this command by you were ended by a timeout of up to 5m before they were done and only 1 "
            "succeeded, so how long it needs is not known.",
        ),
        (
            runs(1, 2, 2, timed_out=(6,) * 12),
            60,
            "12 runs of this command by you were ended by a timeout of up to 6s before they were done and only 3 "
            "succeeded, so how long it needs is not known.",
        ),
    ],
)
def test_where_most_were_ended_by_timeouts_that_is_said_and_nothing_suggested(
    past: list[PastRun], asked_s: float, want: str
) -> None:
    found = learn(past)
    assert isinstance(found, MostlyTimedOut)
    assert warning(found, AdviceBasis.COMMAND, asked_s) == want


@pytest.mark.parametrize(
    ("seconds", "want"),
    [(0.1, 10), (61, 70), (121, 180), (601, 720), (1_900, 2_100), (3_601, 4_500), (90_000, 90_000), (172_801, 194_400)],
)
def test_timeouts_are_such_as_people_write(seconds: float, want: float) -> None:
    assert rounded_up(seconds) == want


def test_the_sentence_of_the_brief() -> None:
    found = learn(runs(*[3 * M] * 11, 9 * M))
    assert isinstance(found, RunTimeStatistics)
    assert sentence(found, AdviceBasis.COMMAND, 12 * M) == (
        "12 runs of this command by you took 3m to 9m; 12m would have killed none of them (0 %)."
    )


def test_the_sentence_says_what_is_not_known_and_what_a_shorter_one_gives() -> None:
    found = learn(runs(3 * M, 4 * M, 9 * M, timed_out=(10 * M, 5 * M)))
    assert isinstance(found, RunTimeStatistics)
    assert sentence(found, AdviceBasis.TASK, 86_400, seniority_per_s=2.0) == (
        "3 runs of tasks of this name by you took 3m to 9m, 2 more were ended by a timeout of up to 10m before they "
        "were done; 16m would have killed none of all 5 (0 %), and perhaps 2 of those that were cut short before that. "
        "This one asks for 1d; with 16m it would have its turn as if submitted 1d23h28m earlier."
    )
    assert "submitted" not in sentence(found, AdviceBasis.TASK, 86_400), "the queue's rule does not say so"


def test_a_timeout_that_is_too_short_is_said_to_be() -> None:
    found = learn(runs(3 * M, 4 * M, 9 * M))
    assert isinstance(found, RunTimeStatistics)
    assert sentence(found, AdviceBasis.COMMAND, 5 * M).endswith(
        " The 5m that it asks for would have killed 1 of them (33 %)."
    )


def test_odd_ones_are_told_apart_from_the_usual() -> None:
    found = learn(runs(*[5 * M] * 39, 7_200))
    assert isinstance(found, RunTimeStatistics)
    assert "took 5m to 2h, 95 % of them at most 5m; 6m would have killed 1 of them (2 %)." in sentence(
        found, AdviceBasis.COMMAND, 6 * M
    )


def test_what_seniority_costs_is_known_for_one_rule_only() -> None:
    assert seniority_per_s(by_name("aging_sjf", {"aging_sjf": {"beta": 3.0, "gamma": 2.0}})) == 1.5
    assert seniority_per_s(by_name("fifo", {})) is None


# -- finding them -------------------------------------------------------------------------------------


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
async def rig(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> AsyncIterator[TaskManagerRig]:
    url = ""
    if request.param == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.url(server.new_database())
    async with a_task_manager(tmp_path, clock, url=url) as made:
        await made.nodes(a_node(cpu=100_000, memory=1 << 50))
        yield made


async def ran(rig: TaskManagerRig, name: str, prints: tuple[int, int], *ends: tuple[EndReason, float]) -> None:
    for index, (reason, run_s) in enumerate(ends):
        task = f"{name}{index}"
        await rig.enqueue(a_task(task, prints=prints, timeout=300.0))
        attempt = AttemptId(tid(task), 1)
        await rig.report(attempt, "PROCESS_STARTED", process_started_at=rig.clock.now())
        rig.workers.has["n1:7004"].pop(attempt, None)
        await rig.report(attempt, reason.attempt_state.value, reason=reason, run_s=run_s)


def asked(*wanted: tuple[int, int, float]) -> task_manager_pb2.SuggestTimeoutsRequest:
    request = task_manager_pb2.SuggestTimeoutsRequest()
    for command_print, task_print, timeout_s in wanted:
        request.asked.add(command_print=command_print, task_print=task_print, timeout_s=timeout_s)
    return request


OK, OUT = exited(0), EndReason(EndWord.TIMED_OUT, None, 15, "It ran past its timeout of 5m and was ended.")
LARGE = 2**63 - 1


async def test_runs_of_the_command_come_first_then_those_of_the_name(rig: TaskManagerRig) -> None:
    await ran(rig, "a", (LARGE, 7), (OK, 100.0), (OK, 120.0), (OK, 200.0), (OUT, 300.0))
    # None of these says how long the work takes.
    await ran(rig, "b", (LARGE, 7), (exited(1), 2.0), (EndReason(EndWord.CANCELLED), 3.0))
    await ran(rig, "c", (LARGE, 7), (EndReason(EndWord.OUT_OF_MEMORY, None, 9), 4.0))
    await ran(rig, "d", (8, 9), (OK, 10.0), (OK, 10.0))
    await ran(rig, "e", (10, 9), (OK, 10.0))
    reply = await TimeoutAdvisor(rig.engine, rig.db).advise(
        asked((LARGE, 9, 600.0), (8, 9, 600.0), (8, 9, 60.0), (LARGE, 1, 600.0), (0, 0, 60.0), (99, 99, 60.0))
    )
    assert list(reply.index) == [1, 2, 3, 1, 0, 0]
    by_command, by_name_, _shorter = reply.advice
    assert (by_command.basis, by_command.succeeded, by_command.timed_out) == ("command", 3, 1)
    assert (by_command.shortest_s, by_command.median_s, by_command.longest_s) == (100.0, 120.0, 200.0)
    assert (by_command.suggested_timeout_s, by_command.killed_share) == (480.0, 0.0)
    assert (by_command.timeout_s, by_command.asked_killed_share) == (600.0, 0.0)
    assert (by_name_.basis, by_name_.succeeded) == ("task", 3)


async def test_a_command_that_only_ran_into_its_timeouts_has_a_warning_and_no_figure(rig: TaskManagerRig) -> None:
    await ran(rig, "a", (5, 7), (OUT, 300.0), (OUT, 300.0), (OUT, 300.0))
    await ran(rig, "b", (6, 7), (OK, 10.0), (OK, 10.0), (OK, 10.0))
    reply = await TimeoutAdvisor(rig.engine, rig.db).advise(asked((5, 7, 300.0), (9, 7, 300.0)))
    warned, suggested = reply.advice
    assert (warned.basis, warned.succeeded, warned.timed_out) == ("command", 0, 3)
    assert "too little then" in warned.sentence
    figures = ("suggested_timeout_s", "shortest_s", "median_s", "longest_s", "killed_share", "asked_killed_share")
    assert not any(warned.HasField(figure) for figure in figures)
    assert (suggested.basis, suggested.succeeded, suggested.timed_out) == ("task", 3, 3)
    assert suggested.suggested_timeout_s == 20.0


async def test_a_job_of_ten_thousand_commands_costs_a_few_queries(rig: TaskManagerRig) -> None:
    await ran(rig, "a", (5, 7), (OK, 100.0), (OK, 120.0), (OK, 200.0))
    queries: list[str] = []
    event.listen(rig.db._read_engine, "before_cursor_execute", lambda *args: queries.append(args[2]))
    reply = await TimeoutAdvisor(rig.engine, rig.db).advise(
        asked((5, 7, 60.0), *((1_000 + i, 20_000 + i, 60.0) for i in range(10_000)))
    )
    assert list(reply.index[:2]) == [1, 0]
    assert 0 < sum("attempts" in query for query in queries) <= 8


async def test_a_run_is_found_again_by_what_a_later_submit_computes(rig: TaskManagerRig) -> None:
    spec = common_pb2.TaskSpec(name="t", image="team/torch:2.4", script="python3 train.py", timeout_s=60)
    message = task_manager_pb2.EnqueueTask(owner=common_pb2.Account(name="ann"), spec=spec, generation=1)
    message.task.job_id, message.task.name = tid("t").job_id, "t"
    request = task_manager_pb2.ApplyTaskCommandsRequest(commands=[task_manager_pb2.TaskCommand(seq=1, enqueue=message)])
    await rig.engine.submit(wire.commands(request))
    await rig.settle()
    await rig.restart()
    attempt = rig.engine.state.attempts[tid("t")]
    later = common_pb2.TaskSpec()
    later.CopyFrom(spec)
    later.env.add(name="LR", value="0.1")
    assert attempt.prints == (
        fingerprint.command_print("ann", convert.kind_of(later)),
        fingerprint.task_print("ann", "t"),
    )


def test_prints_tell_apart_what_differs() -> None:
    kinds = [
        fingerprint.kind_of("a", "b c"),
        fingerprint.kind_of("a", ["b", "c"]),
        fingerprint.kind_of("a", ["b c"]),
        fingerprint.kind_of("ab", " c"),
        fingerprint.kind_of("a", "b c", entrypoint="1"),
    ]
    assert len(set(kinds)) == len(kinds)
    prints = [*(fingerprint.command_print(who, kinds[0]) for who in ("ann", "bob")), fingerprint.task_print("ann", "t")]
    assert len(set(prints)) == 3
    assert all(0 <= number < 2**63 for number in prints)
