"""What a Worker may be told: what belongs to the work on its own node, and nothing else.

A Worker's certificate names its node. So a stolen one opens what runs there, and not every account's secrets.
TaskManager owns the attempts, and is asked each time. Where services show each other a token, nobody is named and
nothing is asked.
"""

from __future__ import annotations

from headway.ids import AttemptId
from headway.rpc import convert
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.trust.caller import CallerRefused, calling_node

from .clients import ServiceClients


class NodeRights:
    """Asks TaskManager what a node has."""

    def __init__(self, services: ServiceClients) -> None:
        self._services = services

    async def attempt_runs_on(self, attempt: AttemptId, node_id: str) -> bool:
        """Whether this attempt is live on that node.

        Raises:
            Unavailable: TaskManager does not answer.
        """
        return await self._has(tm.HasWorkRequest(node_id=node_id, attempt=convert.attempt_to_pb(attempt)))

    async def require_attempt(self, attempt: AttemptId) -> None:
        """Passes unless a Worker calls on whose node this attempt is not live.

        Raises:
            CallerRefused: it is not.
            Unavailable: TaskManager does not answer.
        """
        node_id = calling_node()
        if node_id is not None and not await self.attempt_runs_on(attempt, node_id):
            raise CallerRefused(f"The attempt {attempt} does not run on {node_id}, so that Worker gets nothing of it.")

    async def require_account(self, account: str) -> None:
        """Passes unless a Worker calls whose node has no work of this account, and prepares no image for it.

        Raises:
            CallerRefused: it has none.
            Unavailable: TaskManager does not answer.
        """
        node_id = calling_node()
        if node_id is not None and not await self._has(tm.HasWorkRequest(node_id=node_id, account=account)):
            raise CallerRefused(
                f"{node_id} has no work of the account `{account}`, so that Worker gets none of its passwords."
            )

    async def _has(self, request: tm.HasWorkRequest) -> bool:
        reply = await self._services.tasks.call("HasWork", request)
        return bool(reply.has)
