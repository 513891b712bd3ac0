"""Notices when the container engine stops answering, and when it is back."""

from __future__ import annotations

import asyncio

from headway.clock import Clock
from headway.waiting import wait

from ..ports import EngineFacts, EngineUnavailable, Runtime
from .conditions import Conditions

WORD = "engine_unavailable"
_TROUBLED_S = 2.0


class EngineWatch:
    """Asks the engine now and then, at once when a call failed, and every two seconds until it answers again."""

    def __init__(self, runtime: Runtime, conditions: Conditions, clock: Clock, *, every_s: float = 15.0) -> None:
        self._runtime = runtime
        self._conditions = conditions
        self._clock = clock
        self._every_s = every_s
        self._suspicion = asyncio.Event()
        self.facts = EngineFacts(version="")

    def suspect(self) -> None:
        """A call has just failed: look now."""
        self._suspicion.set()

    async def look(self) -> bool:
        """Whether it answers now."""
        try:
            self.facts = await self._runtime.check()
        except EngineUnavailable as error:
            self._conditions.set(WORD, error.message)
            return False
        self._conditions.set(WORD, "")
        return True

    async def run(self) -> None:
        while True:
            well = await self.look()
            self._suspicion.clear()
            if not well:
                await self._clock.sleep(_TROUBLED_S)
                continue
            await wait(self._suspicion, self._every_s, self._clock)
