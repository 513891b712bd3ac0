"""What the passes of the scheduler decided while a task waited, as TaskManager reports it."""

from __future__ import annotations

from pydantic import Field

from headway.logs import get_logger
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import task_manager_pb2 as tm

from .. import wire
from ..peers.clients import ServiceClients
from ..schemas import ApiResponse, Wait

log = get_logger(__name__)


class Start(ApiResponse):
    """A task that started in a pass."""

    job_id: str
    task: str
    node_id: str
    gpu_uuids: list[str]
    ahead: bool = Field(description="of the task that was asked about, in the order of that pass")
    sentence: str = Field(description="why it started while that one waited; empty for that one itself")


class Decision(ApiResponse):
    """A pass of the scheduler that started something."""

    id: int
    at: float
    policy: str
    discipline: str
    started: list[Start]
    started_in_all: int = Field(description="a long list of starts is cut")
    place: int = Field(description="of the task among those that the pass looked at, from 1; 0: it was not looked at")
    key: float | None = Field(description="its number under the policy; the smallest goes first")
    started_itself: bool
    waits: list[Wait] = Field(description="why it did not start")
    reserved_start_at: float | None = Field(description="when it was to start, as far as that pass could tell")


class DecisionList(ApiResponse):
    decisions: list[Decision] = Field(description="latest first")
    next_before: int | None = Field(description="for the older ones; null: there are none")
    kept_days: int = Field(description="older passes are forgotten; 0: none is kept")


async def of_task(services: ServiceClients, job_id: str, task: str, *, limit: int, before: int) -> DecisionList:
    """The passes that started something while the task waited.

    Raises:
        NotFound: the queue never had it.
    """
    request = tm.ListDecisionsRequest(task=common.Task(job_id=job_id, name=task), limit=limit, before=before)
    reply: tm.ListDecisionsReply = await services.tasks.call("ListDecisions", request)
    return DecisionList(
        decisions=[_decision(one) for one in reply.passes],
        next_before=reply.next_before or None,
        kept_days=reply.kept_days,
    )


def _decision(one: tm.ListDecisionsReply.Pass) -> Decision:
    return Decision(
        id=one.id,
        at=one.at,
        policy=one.policy,
        discipline=one.discipline,
        started=[
            Start(
                job_id=start.task.job_id,
                task=start.task.name,
                node_id=start.node_id,
                gpu_uuids=list(start.gpu_uuids),
                ahead=start.ahead,
                sentence=start.sentence,
            )
            for start in one.started
        ],
        started_in_all=one.started_in_all,
        place=one.place,
        key=one.key if one.HasField("key") else None,
        started_itself=one.started_itself,
        waits=wire.waits(one.reasons),
        reserved_start_at=one.reserved_start if one.HasField("reserved_start") else None,
    )
