"""Asks for more time and waits a moment for the launcher, so that the answer says whether it took effect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from headway.clock import Clock
from headway.errors import Conflict
from headway.units import round_duration

from ..engine.engine import Engine
from ..engine.events import ExtendTask
from ..hub import QueueEventHub
from ..model import Attempt

_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class ExtensionAnswer:
    """``delivered``: the launcher uses the new timeout."""

    attempt: Attempt
    delivered: bool
    sentence: str


class ExtensionRequests:
    """Gives running tasks more time."""

    def __init__(self, engine: Engine, hub: QueueEventHub, clock: Clock) -> None:
        self._engine = engine
        self._hub = hub
        self._clock = clock

    async def give(self, asked: ExtendTask) -> ExtensionAnswer:
        """Grants more time; it is stored when this returns.

        Raises:
            Conflict: refused, or the task ended before it could get it.
            HeadwayError: as ``extension.on_extend``.
        """
        async with aclosing(self._hub.watch()) as changes:
            await anext(changes)  # no change after this is missed
            attempt: Attempt = await self._engine.submit(asked)
            attempt = await self._followed(changes, attempt)
        more, total = round_duration(asked.seconds), round_duration(attempt.timeout_s)
        if not attempt.live:
            raise Conflict(f"The task {attempt.id.task} ended ({attempt.state.value}) before it could get more time.")
        if attempt.extension_pending:
            return ExtensionAnswer(
                attempt,
                False,
                f"{attempt.id.task} is granted {more} more, {total} in all, but {attempt.node_id} has not confirmed it "
                "yet. If it does not receive it in time, the task ends at its earlier limit.",
            )
        return ExtensionAnswer(attempt, True, f"{attempt.id.task} has {more} more; its timeout is {total} now.")

    async def _followed(self, changes: AsyncGenerator[tuple[list[Attempt], bool], None], attempt: Attempt) -> Attempt:
        """The attempt once its launcher uses the new timeout or it has ended; after some seconds, as it is."""
        late = asyncio.ensure_future(self._clock.sleep(_PATIENCE_S))
        try:
            while attempt.extension_pending:
                news = asyncio.ensure_future(anext(changes))
                await asyncio.wait((news, late), return_when=asyncio.FIRST_COMPLETED)
                if not news.done():
                    news.cancel()
                    await asyncio.wait((news,))
                    break
                for changed in news.result()[0]:
                    if changed.id == attempt.id:
                        attempt = changed
        finally:
            late.cancel()
        return attempt
