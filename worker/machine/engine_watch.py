"""Notices when the container engine stops answering, and when it is back."""

from __future__ import annotations

import asyncio

from headway.clock import Clock
from headway.waiting import wait

from ..ports import EngineFacts, EngineUnavailable, Runtime
from .conditions import Conditions

WORD = "engine_unavailable"
LIVE_RESTORE = "live_restore_off"
HOMES = "homes_partly_open"
_TROUBLED_S = 2.0
_HOMES_ARE_CLOSED = "Tasks can't read or run all that an image has below /root."
_ENDS_CONTAINERS = (
    "The container engine ends all tasks when it stops or is upgraded, because live-restore is off. An admin can put "
    '{"live-restore": true} into /etc/docker/daemon.json and reload the engine.'
)


class EngineWatch:
    """Asks the engine regularly, and at once after a failed call. A silent engine is asked every two seconds.

    What counts: an answer to ``check`` ends the condition, and EngineUnavailable sets it.
    """

    def __init__(self, runtime: Runtime, conditions: Conditions, clock: Clock, *, every_s: float = 15.0) -> None:
        self._runtime = runtime
        self._conditions = conditions
        self._clock = clock
        self._every_s = every_s
        self._suspicion = asyncio.Event()
        self.facts = EngineFacts(version="")

    def suspect(self) -> None:
        """A call has just failed, so ask now."""
        self._suspicion.set()

    async def look(self) -> bool:
        """Whether it answers now."""
        try:
            self.facts = await self._runtime.check()
        except EngineUnavailable as error:
            self._conditions.set(WORD, error.message)
            return False
        self._conditions.set(WORD, "")
        problem = self.facts.home_problem
        self._conditions.set(HOMES, f"{_HOMES_ARE_CLOSED} {problem}" if problem else "", blocks_work=False)
        self._conditions.set(LIVE_RESTORE, "" if self.facts.keeps_containers else _ENDS_CONTAINERS, blocks_work=False)
        return True

    async def run(self) -> None:
        while True:
            well = await self.look()
            self._suspicion.clear()
            if not well:
                await self._clock.sleep(_TROUBLED_S)
                continue
            await wait(self._suspicion, self._every_s, self._clock)
