"""Advice on a job's timeouts from past runs. It is for people to read and never applied by itself."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from headway import fingerprint
from headway.errors import HeadwayError
from headway.logs import get_logger
from headway.rpc import convert
from headway.rpc.v1 import job_manager_pb2 as jm
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.units import format_duration

from .. import schemas as s
from ..peers.clients import ServiceClients
from ..wire import if_set

log = get_logger(__name__)

_NAMED = 20  # tasks of one piece of advice
_MOST = 200  # pieces


class _Wish(NamedTuple):
    """What tasks ask advice for; thousands of a job may share one."""

    command_print: int
    task_print: int
    timeout_s: float


async def advise(services: ServiceClients, owner: str, parts: Sequence[bytes]) -> list[s.TimeoutAdvice]:
    """For the tasks of a job, serialised SubmitJobParts; those for most tasks first. Nothing where TaskManager can't be
    asked: a check must not fail for want of advice."""
    # In a thread: thousands of tasks would hold the others up for a moment.
    wishes, request = await asyncio.to_thread(_asked, owner, parts)
    try:
        reply: tm.SuggestTimeoutsReply = await services.tasks.call("SuggestTimeouts", request)
    except HeadwayError as error:
        log.warning("submit.no_advice", reason=error.message)
        return []
    return _answer(wishes, reply)


def _asked(owner: str, parts: Sequence[bytes]) -> tuple[dict[_Wish, list[str]], tm.SuggestTimeoutsRequest]:
    """The tasks of each wish, and the wishes in the same order as a request."""
    names: defaultdict[_Wish, list[str]] = defaultdict(list)
    for part in parts:
        for task in jm.SubmitJobPart.FromString(part).tasks:
            command = fingerprint.command_print(owner, convert.kind_of(task))
            names[_Wish(command, fingerprint.task_print(owner, task.name), task.timeout_s)].append(task.name)
    request = tm.SuggestTimeoutsRequest()
    for wish in names:
        request.asked.add(**wish._asdict())
    return names, request


def _answer(wishes: dict[_Wish, list[str]], reply: tm.SuggestTimeoutsReply) -> list[s.TimeoutAdvice]:
    tasks: defaultdict[int, list[str]] = defaultdict(list)
    for names, index in zip(wishes.values(), reply.index, strict=False):
        if 0 < index <= len(reply.advice):
            tasks[index].extend(names)
    found = [_shown(reply.advice[index - 1], names) for index, names in tasks.items()]
    return sorted(found, key=lambda advice: -advice.task_count)[:_MOST]


def _shown(advice: tm.SuggestTimeoutsReply.Advice, names: list[str]) -> s.TimeoutAdvice:
    suggested_s = if_set(advice, "suggested_timeout_s")
    return s.TimeoutAdvice(
        tasks=names[:_NAMED],
        task_count=len(names),
        timeout_s=advice.timeout_s,
        suggested_timeout_s=suggested_s,
        suggested_timeout=None if suggested_s is None else format_duration(suggested_s),
        basis=advice.basis,
        succeeded=advice.succeeded,
        timed_out=advice.timed_out,
        shortest_s=if_set(advice, "shortest_s"),
        median_s=if_set(advice, "median_s"),
        longest_s=if_set(advice, "longest_s"),
        killed_share=if_set(advice, "killed_share"),
        asked_killed_share=if_set(advice, "asked_killed_share"),
        sentence=advice.sentence,
    )
