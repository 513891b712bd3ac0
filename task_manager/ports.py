"""What TaskManager needs from outside."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from .engine.events import Accepted, ExtendOrder, NodesChanged, Refused, StopOrder
from .model import Attempt
from .planning.image_forecast import ForecastImage


@dataclass(frozen=True, slots=True)
class Launch:
    """One attempt to be started, with what JobManager sent of its task (a serialised EnqueueTask)."""

    attempt: Attempt
    spec: bytes
    lease_s: float
    lease_enforced: bool


class Workers(Protocol):
    """The Workers, by address. Any call may take up to its deadline and fail; all are safe to repeat."""

    async def launch(self, address: str, launches: Sequence[Launch]) -> list[Accepted | Refused]:
        """Asks a Worker to take these, in one call; one verdict each.

        Safe to repeat: a Worker that has an attempt already says accepted. After a failure it is open whether the
        Worker has them.

        Raises:
            Unavailable: no answer.
            HeadwayError: the call itself was refused.
        """
        ...

    async def stop(self, address: str, orders: Sequence[StopOrder]) -> None:
        """Orders attempts to stop; one that the Worker never saw will be refused if it comes.

        Raises:
            HeadwayError: not delivered, or perhaps not.
        """
        ...

    async def extend(self, address: str, orders: Sequence[ExtendOrder]) -> None:
        """Tells of more time for attempts; whether their launchers count by it is told by reports.

        Raises:
            HeadwayError: not delivered, or perhaps not.
        """
        ...

    async def suspend_leases(self, address: str) -> None:
        """Tells a Worker that TaskManager stops as planned: nothing is to be ended for want of heartbeats.

        Raises:
            HeadwayError: not delivered, or perhaps not.
        """
        ...

    async def prepare_images(self, address: str, images: Sequence[ForecastImage]) -> None:
        """Tells a Worker which images it will probably need, in place of the list before.

        Raises:
            HeadwayError: not delivered, or perhaps not.
        """
        ...

    async def close(self) -> None:
        """Ends all calls. Safe to call twice."""
        ...


class NodeWatch(Protocol):
    """ResourceManager's word on nodes."""

    def watch(self) -> AsyncGenerator[NodesChanged, None]:
        """All nodes first, then changes, until the stream breaks.

        Raises:
            HeadwayError: it broke.
        """
        ...
