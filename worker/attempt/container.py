"""Patient calls to the engine about one attempt's container."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from headway.backoff import Backoff
from headway.ids import AttemptId
from headway.logs import get_logger
from headway.units import format_duration
from headway.waiting import wait

from ..ports import ContainerFacts, ContainerState, EngineUnavailable
from .context import House

log = get_logger(__name__)
T = TypeVar("T")


class TookTooLong(Exception):
    """A step went past its limit."""


class Container:
    """An engine that is away is waited for; what it says, and what it can't do, is told apart from its silence.

    ``changed`` is set when the runtime nudges; ``note`` writes a line of the platform log.
    """

    def __init__(self, house: House, attempt: AttemptId, changed: asyncio.Event, note: Callable[[str], None]) -> None:
        self._house = house
        self._attempt = attempt
        self._changed = changed
        self._note = note
        self._noted = False

    async def exited(self) -> ContainerFacts | None:
        """Wait until the container is gone after its end record; None if it can't be made to go."""
        house = self._house
        # The runtime nudges when the container is gone; asking again and again would cost the engine more than a start.
        pauses = Backoff(0.2, 1.0)
        kill_at = house.clock.monotonic() + house.limits.exit_s
        while True:
            self._changed.clear()
            try:
                facts = await house.runtime.inspect(self._attempt)
            except EngineUnavailable:
                house.on_engine_trouble()
                # The record is the proof of the end; an engine that is away holds up only what comes after.
                if house.clock.monotonic() >= kill_at:
                    return ContainerFacts(ContainerState.EXITED)
            else:
                if facts.state is not ContainerState.RUNNING:
                    return facts
                if house.clock.monotonic() >= kill_at:
                    return await self.kill()
            await wait(self._changed, pauses.next_s(), house.clock)

    async def kill(self) -> ContainerFacts | None:
        """KILL through the engine until the container is gone; None if that does not work in time."""
        house, attempt = self._house, self._attempt
        left_s, pauses = house.limits.kill_s, Backoff(0.05, 5.0)
        while left_s > 0:
            try:
                await house.runtime.check()
            except EngineUnavailable:
                house.on_engine_trouble()
                await house.clock.sleep(2.0)
                continue  # an engine that is away says nothing about this container
            began_at = house.clock.monotonic()
            try:
                await house.runtime.kill(attempt)
                facts = await house.runtime.inspect(attempt)
                if facts.state is not ContainerState.RUNNING:
                    return facts
            except EngineUnavailable as error:
                log.warning("attempt.kill_failed", attempt=str(attempt), reason=str(error))
            await house.clock.sleep(pauses.next_s())
            left_s -= house.clock.monotonic() - began_at
        return None

    async def get_rid(self) -> bool:
        """Remove whatever there may be, for an attempt that is not to run; False if that did not work in time."""
        try:
            await self.ask(lambda: self._house.runtime.remove(self._attempt), limit_s=self._house.limits.kill_s)
        except TookTooLong:
            return False
        return True

    async def ask(self, call: Callable[[], Awaitable[T]], *, limit_s: float | None = None) -> T:
        """Ask the engine until it answers. Raises TookTooLong after ``limit_s`` of trying."""
        house = self._house
        pauses = Backoff(0.5, 15.0)
        give_up_at = None if limit_s is None else house.clock.monotonic() + limit_s
        while True:
            try:
                return await call()
            except EngineUnavailable as error:
                house.on_engine_trouble()
                if not self._noted:
                    self._noted = True
                    self._note(f"The container engine of {house.node_id} does not answer; trying on. {error}")
                if give_up_at is not None and house.clock.monotonic() >= give_up_at:
                    limit = format_duration(limit_s or 0)
                    raise TookTooLong(f"The container engine of {house.node_id} did not answer for {limit}.") from error
            await house.clock.sleep(pauses.next_s())
