"""Has a node work of an account? What HttpServer asks before it tells a Worker what only such a node may know.

Only what TaskManager itself has placed there counts. For an attempt that it has lost and taken back it has a Worker's
word alone. A thief with a Worker's certificate could claim any waiting task so.
"""

from __future__ import annotations

from collections.abc import Callable

from headway.ids import AttemptId, NodeId

from ..engine.engine import Engine


class WorkOnNodes:
    """``prepares_for(node, account)``: the node was asked to have an image ready for the account."""

    def __init__(self, engine: Engine, prepares_for: Callable[[NodeId, str], bool]) -> None:
        self._engine = engine
        self._prepares_for = prepares_for

    async def of_attempt(self, node_id: NodeId, attempt_id: AttemptId) -> bool:
        """Whether this attempt is live, and there."""
        async with self._engine.consistent_state() as state:
            attempt = state.attempt(attempt_id)
            return attempt is not None and attempt.placed_here and attempt.node_id == node_id

    async def of_account(self, node_id: NodeId, account: str) -> bool:
        """Whether a live attempt of the account is there, or an image is being made ready there for the account."""
        async with self._engine.consistent_state() as state:
            if any(one.owner == account and one.placed_here for one in state.on_node(node_id)):
                return True
        return self._prepares_for(node_id, account)
