"""Looks up past runs for a whole job at once: a few queries for thousands of tasks, each of a bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from sqlalchemy import Connection, select, union_all

from headway.rpc.v1 import task_manager_pb2 as pb
from headway.states import AttemptState
from headway.store import Database

from ..engine.engine import Engine
from ..order.policy import AgingSjf, Policy
from ..store import usage_days_store
from ..store.tables import attempts
from . import timeout_advice
from .timeout_advice import AdviceBasis, MostlyTimedOut, PastRun, RunTimeStatistics

_MOST_LOOKED_UP = 200  # different commands of one job, and as many names
_IN_ONE_QUERY = 50
_END_OF_PRINTS = 1 << 63  # no database holds a larger number, and no run has one

Column = Literal["command_print", "task_print"]


class TimeoutAdvisor:
    """Suggests timeouts from past runs."""

    def __init__(self, engine: Engine, db: Database) -> None:
        self._engine = engine
        self._db = db

    async def advise(self, request: pb.SuggestTimeoutsRequest) -> pb.SuggestTimeoutsReply:
        """Suggests by the command; if too few of its runs are known, by the task's name."""
        by_command = await self._learn("command_print", (asked.command_print for asked in request.asked))
        unknown = (asked.task_print for asked in request.asked if asked.command_print not in by_command)
        by_task = await self._learn("task_print", unknown)
        per_s = seniority_per_s(self._engine.state.policy)
        some_gone = await self._db.read(usage_days_store.any_gone)
        reply = pb.SuggestTimeoutsReply()
        known: dict[tuple[AdviceBasis, int, float], int] = {}
        for asked in request.asked:
            basis, number = AdviceBasis.COMMAND, asked.command_print
            experience = by_command.get(number)
            if experience is None:
                basis, number = AdviceBasis.TASK, asked.task_print
                experience = by_task.get(number)
            if experience is None:
                reply.index.append(0)
                continue
            key = (basis, number, asked.timeout_s)
            if key not in known:
                reply.advice.append(_advice(experience, basis, asked.timeout_s, per_s, some_gone))
                known[key] = len(reply.advice)
            reply.index.append(known[key])
        return reply

    async def _learn(self, column: Column, prints: Iterable[int]) -> dict[int, RunTimeStatistics | MostlyTimedOut]:
        wanted = list(dict.fromkeys(number for number in prints if 0 < number < _END_OF_PRINTS))[:_MOST_LOOKED_UP]
        found: dict[int, RunTimeStatistics | MostlyTimedOut] = {}
        for start in range(0, len(wanted), _IN_ONE_QUERY):
            part = wanted[start : start + _IN_ONE_QUERY]
            runs = await self._db.read(lambda conn, part=part: load_runs(conn, column, part))  # type: ignore[misc]
            for number, of_one in runs.items():
                experience = timeout_advice.learn(of_one)
                if experience is not None:
                    found[number] = experience
        return found


def load_runs(conn: Connection, column: Column, prints: Sequence[int]) -> dict[int, list[PastRun]]:
    """The latest runs of each fingerprint, by one query; see ``timeout_advice`` for which of them count."""
    by = attempts.c[column]
    latest = (
        select(by.label("print"), attempts.c.state, attempts.c.run_s, attempts.c.timeout_s)
        .where(by == number)
        .order_by(attempts.c.placed_at.desc())
        .limit(timeout_advice.LATEST)
        .subquery()
        for number in prints
    )
    found: dict[int, list[PastRun]] = {}
    for row in conn.execute(union_all(*(select(one) for one in latest))):
        if row.state == AttemptState.SUCCEEDED.value and row.run_s is not None:
            found.setdefault(row.print, []).append(PastRun(row.run_s))
        elif row.state == AttemptState.TIMED_OUT.value:
            found.setdefault(row.print, []).append(PastRun(row.timeout_s, timed_out=True))
    return found


def seniority_per_s(policy: Policy) -> float | None:
    """How many seconds of waiting one second of timeout costs; None: the policy does not work like that."""
    return policy.beta / policy.gamma if isinstance(policy, AgingSjf) and policy.gamma else None


def _advice(
    experience: RunTimeStatistics | MostlyTimedOut,
    basis: AdviceBasis,
    asked_s: float,
    per_s: float | None,
    some_gone: bool,
) -> pb.SuggestTimeoutsReply.Advice:
    known = experience.succeeded + experience.timed_out
    gone = timeout_advice.GONE if some_gone and known < timeout_advice.LATEST else ""
    if isinstance(experience, MostlyTimedOut):
        return pb.SuggestTimeoutsReply.Advice(
            basis=basis.value,
            timeout_s=asked_s,
            succeeded=experience.succeeded,
            timed_out=experience.timed_out,
            sentence=timeout_advice.warning(experience, basis, asked_s) + gone,
        )
    return pb.SuggestTimeoutsReply.Advice(
        basis=basis.value,
        suggested_timeout_s=experience.suggested_s,
        timeout_s=asked_s,
        succeeded=experience.succeeded,
        timed_out=experience.timed_out,
        shortest_s=experience.shortest_s,
        median_s=experience.median_s,
        longest_s=experience.longest_s,
        killed_share=experience.killed_share(experience.suggested_s),
        asked_killed_share=experience.killed_share(asked_s),
        sentence=timeout_advice.sentence(experience, basis, asked_s, seniority_per_s=per_s) + gone,
    )
