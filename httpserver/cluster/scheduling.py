"""Which policy and which discipline order the queue: shown to all, set by admins."""

from __future__ import annotations

from pydantic import Field

from headway.errors import InvalidInput, Problem
from headway.logs import get_logger
from headway.rpc.v1 import task_manager_pb2 as tm

from .. import wire
from ..peers.clients import ACT_S, ServiceClients
from ..schemas import ApiRequest, Scheduling
from ..text import near_names

log = get_logger(__name__)

DISCIPLINES = ("conservative", "easy", "greedy", "strict", "default")  # those of TaskManager


class SchedulingPatch(ApiRequest):
    policy: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="a name, with parameters if any: log_aging:c=600; default: as configured; null: unchanged",
    )
    discipline: str | None = Field(
        None,
        min_length=1,
        max_length=40,
        description="conservative, easy, greedy or strict; default: as configured; null: unchanged",
    )


async def set_scheduling(services: ServiceClients, wanted: SchedulingPatch, *, by: str) -> Scheduling:
    """Another policy or discipline from now on.

    Raises:
        InvalidInput: nothing is asked for, or there is no such policy or discipline.
    """
    if wanted.policy is None and wanted.discipline is None:
        raise InvalidInput("Say what to set: `policy`, `discipline`, or both.")
    if wanted.discipline is not None and wanted.discipline not in DISCIPLINES:
        sentence = f"There is no overtaking rule {wanted.discipline!r}; there are {', '.join(DISCIPLINES)}."
        near = near_names.word(wanted.discipline, DISCIPLINES)
        problem = Problem("/discipline", sentence, word=wanted.discipline, allowed=DISCIPLINES, suggestion=near)
        raise InvalidInput(sentence, problems=[problem])
    request = tm.SetSchedulingRequest(by=by)
    if wanted.policy is not None:
        request.policy = wanted.policy
    if wanted.discipline is not None:
        request.discipline = wanted.discipline
    try:
        reply: tm.Scheduling = await services.tasks.call("SetScheduling", request, deadline_s=ACT_S)
    except InvalidInput as error:
        if wanted.policy is not None and not error.problems:
            # Only TaskManager knows all policies, third parties' among them.
            error.problems = (Problem("/policy", error.message, word=wanted.policy),)
        raise
    log.info("scheduling.set", policy=wanted.policy, discipline=wanted.discipline, by=by)
    return wire.scheduling(reply)
