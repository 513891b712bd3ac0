"""What TaskManager needs from outside."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from headway.ids import NodeId

from .engine.events import AcceptedLaunch, ExtendOrder, NodesChanged, RefusedLaunch, StopOrder
from .model import Attempt
from .planning.image_forecast import ForecastImage


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """One attempt to be started. ``spec``: the task as JobManager sent it (a serialised EnqueueTask)."""

    attempt: Attempt
    spec: bytes
    lease_s: float
    lease_enforced: bool


class Workers(Protocol):
    """The Workers, by node and address. Any call may take up to its deadline and fail; all are safe to repeat."""

    async def launch(
        self, node_id: NodeId, address: str, launches: Sequence[LaunchOrder]
    ) -> list[AcceptedLaunch | RefusedLaunch]:
        """Asks a Worker to take these, in one call; one verdict each.

        Safe to repeat: a Worker that already has an attempt accepts it again. After a failure the Worker may or may
        not have them.

        Raises:
            Unavailable: no answer.
            HeadwayError: the call itself was refused.
        """
        ...

    async def stop(self, node_id: NodeId, address: str, orders: Sequence[StopOrder]) -> None:
        """Orders attempts to stop. The Worker refuses the launch of such an attempt if it arrives later.

        Raises:
            HeadwayError: not delivered, or perhaps not.
        """
        ...

    async def extend(self, node_id: NodeId, address: str, orders: Sequence[ExtendOrder]) -> None:
        """Sends longer timeouts of attempts. Reports say later whether the launchers use them.

        Raises:
            HeadwayError: not delivered, or perhaps not.
        """
        ...

    async def suspend_leases(self, node_id: NodeId, address: str) -> None:
        """Tells a Worker that TaskManager stops as planned: no attempt may end because heartbeats are missing.

        Raises:
            HeadwayError: not delivered, or perhaps not.
        """
        ...

    async def prepare_images(self, node_id: NodeId, address: str, images: Sequence[ForecastImage]) -> None:
        """Tells a Worker which images it will probably need; the list replaces the one before.

        Raises:
            HeadwayError: not delivered, or perhaps not.
        """
        ...

    async def close(self) -> None:
        """Ends all calls. Safe to call twice."""
        ...


class NodeSource(Protocol):
    """Where nodes come from: ResourceManager."""

    def watch(self) -> AsyncGenerator[NodesChanged, None]:
        """All nodes first, then changes, until the stream breaks.

        Raises:
            HeadwayError: it broke.
        """
        ...
