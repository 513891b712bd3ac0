"""Calls to the engine about one attempt's container, repeated until the engine answers."""

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
from .context import ExecutorContext

log = get_logger(__name__)
T = TypeVar("T")


class StepTimedOut(Exception):
    """A step took longer than its limit."""


class AttemptContainer:
    """Waits for an engine that does not answer. An engine that answers "no" raises an error at once.

    ``changed`` is set when the runtime nudges. ``log_line`` writes a line of the platform log.
    """

    def __init__(
        self, context: ExecutorContext, attempt: AttemptId, changed: asyncio.Event, log_line: Callable[[str], None]
    ) -> None:
        self._context = context
        self._attempt = attempt
        self._changed = changed
        self._log_line = log_line
        self._reported = False

    async def exited(self) -> ContainerFacts | None:
        """Wait until launcher and container have ended, after the end record. None: they can't be killed."""
        context = self._context
        # The runtime nudges when the container is gone. Frequent questions would cost the engine more than a start.
        pauses = Backoff(0.2, 1.0)
        kill_at = context.clock.monotonic() + context.limits.exit_s
        while True:
            self._changed.clear()
            facts = await self.facts_now()
            lives = await context.runtime.launcher_lives(self._attempt)
            if not lives and facts is not None and facts.state is not ContainerState.RUNNING:
                return facts
            if context.clock.monotonic() >= kill_at:
                # The record proves the end. A silent engine delays only what comes after.
                return ContainerFacts(ContainerState.EXITED) if facts is None and not lives else await self.kill()
            await wait(self._changed, pauses.next_s(), context.clock)

    async def facts_now(self) -> ContainerFacts | None:
        """What the engine says at this moment. None: it does not answer."""
        try:
            return await self._context.runtime.inspect(self._attempt)
        except EngineUnavailable:
            self._context.on_engine_trouble()
            return None

    async def engine_is_away(self) -> bool:
        """Whether the engine answers nobody at this moment."""
        try:
            await self._context.runtime.check()
        except EngineUnavailable:
            self._context.on_engine_trouble()
            return True
        return False

    async def last_facts(self) -> ContainerFacts:
        """What the engine knows of a container that has ended. An engine that is silent for long knows nothing."""
        context = self._context
        try:
            facts = await self.until_answered(
                lambda: context.runtime.inspect(self._attempt), limit_s=context.limits.exit_s
            )
        except StepTimedOut:
            return ContainerFacts(ContainerState.EXITED)
        if facts.state is ContainerState.RUNNING:
            # It has not noticed yet, or it has lost sight of what it started.
            return await self.kill() or ContainerFacts(ContainerState.EXITED)
        return facts

    async def kill(self) -> ContainerFacts | None:
        """KILL launcher and container until both have ended. None: that did not work in time.

        The launcher is killed through its box, so a silent engine keeps nothing alive. Then the engine is asked.
        """
        context, attempt = self._context, self._attempt
        left_s, pauses = context.limits.kill_s, Backoff(0.05, 5.0)
        while left_s > 0:
            began_at = context.clock.monotonic()
            await context.runtime.kill_launcher(attempt)
            lives = await context.runtime.is_inhabited(attempt)
            try:
                await context.runtime.check()
            except EngineUnavailable:
                context.on_engine_trouble()
                if not lives:
                    return ContainerFacts(ContainerState.EXITED)
                await context.clock.sleep(2.0)
                continue  # time does not count while the engine is silent
            try:
                await context.runtime.kill(attempt)
                facts = await context.runtime.inspect(attempt)
                lives = lives and await context.runtime.is_inhabited(attempt)
                if facts.state is not ContainerState.RUNNING and not lives:
                    return facts
            except EngineUnavailable as error:
                log.warning("attempt.kill_failed", attempt=str(attempt), reason=str(error))
            await context.clock.sleep(pauses.next_s())
            left_s -= context.clock.monotonic() - began_at
        return None

    async def remove(self) -> bool:
        """Remove the container, if there is one, of an attempt that must not run. False: it did not work in time."""
        try:
            await self.until_answered(
                lambda: self._context.runtime.remove(self._attempt), limit_s=self._context.limits.kill_s
            )
        except StepTimedOut:
            return False
        return True

    async def until_answered(self, call: Callable[[], Awaitable[T]], *, limit_s: float | None = None) -> T:
        """Repeat a call until the engine answers. Raises StepTimedOut after ``limit_s``."""
        context = self._context
        pauses = Backoff(0.5, 15.0)
        give_up_at = None if limit_s is None else context.clock.monotonic() + limit_s
        while True:
            try:
                return await call()
            except EngineUnavailable as error:
                context.on_engine_trouble()
                if not self._reported:
                    self._reported = True
                    self._log_line(
                        f"The container engine of {context.node_id} does not answer. It is asked again. {error}"
                    )
                if give_up_at is not None and context.clock.monotonic() >= give_up_at:
                    limit = format_duration(limit_s or 0)
                    raise StepTimedOut(
                        f"The container engine of {context.node_id} did not answer for {limit}."
                    ) from error
            await context.clock.sleep(pauses.next_s())
