"""Whether an attempt may be given its owner's secrets: TaskManager is asked, which knows where it lives."""

from __future__ import annotations

from dataclasses import dataclass

from headway.errors import Fenced
from headway.ids import AttemptId
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.states import AttemptState

from ..peers.clients import ServiceClients

# Past these its program has begun, or never will.
BEFORE_ITS_PROGRAM = frozenset({AttemptState.PLACED, AttemptState.PULLING, AttemptState.STARTING})


@dataclass(frozen=True, slots=True)
class StartingAttempt:
    """One whose program has not begun: whose it is, and the secrets that its task names."""

    owner: str
    secrets: tuple[str, ...]


class StartingAttempts:
    """Asks TaskManager."""

    def __init__(self, services: ServiceClients) -> None:
        self._services = services

    async def find(self, attempt: AttemptId, node_id: str) -> StartingAttempt:
        """The attempt, if it is about to start on this node.

        Raises:
            Fenced: it is not.
            NotFound: there is no such attempt.
            Unavailable: TaskManager is away.
        """
        task = attempt.task
        request = tm.LocateAttemptRequest(
            task=common.Task(job_id=task.job_id, name=task.name), number=attempt.number, with_secrets=True
        )
        reply: tm.LocateAttemptReply = await self._services.tasks.call("LocateAttempt", request)
        return judged(reply, attempt, node_id)


def judged(reply: tm.LocateAttemptReply, attempt: AttemptId, node_id: str) -> StartingAttempt:
    """What TaskManager's answer means for a node that asks.

    Raises:
        Fenced: the attempt is another node's, has begun, or has ended.
    """
    view = reply.attempt
    if not attempt.number or view.attempt.number != attempt.number or not view.owner:
        raise Fenced(f"The scheduler does not know the attempt {attempt} as one that starts.")
    if not node_id or view.node_id != node_id:
        raise Fenced(f"The attempt {attempt} does not run on {node_id[:64] or 'a node without a name'}.")
    if view.state not in BEFORE_ITS_PROGRAM:
        raise Fenced(f"The attempt {attempt} is not about to start: it is {view.state}.")
    return StartingAttempt(view.owner, tuple(dict.fromkeys(reply.secrets)))
