"""Tells TaskManager that this Worker lives and what it has; brings back leases, stops, discards and more time.

It touches neither the engine nor the mount, so it goes on while those hang.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from headway.clock import Clock
from headway.errors import Fenced, HeadwayError
from headway.ids import AttemptId
from headway.logs import get_logger
from headway.waiting import wait

from ..attempt.leases import Lease, after_answer, later
from ..box import StopWord
from ..model import Extend

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """What TaskManager said to a heartbeat."""

    lease_s: float
    lease_enforced: bool
    discard: tuple[AttemptId, ...] = ()
    stop: tuple[tuple[AttemptId, StopWord], ...] = ()
    extend: tuple[Extend, ...] = ()


class Heartbeat:
    """``send(sent_s, suspended)`` delivers one beat (boot clock; whether the lease files say `none`); HeadwayErrors
    mean that TaskManager is away: the leases in the boxes run on."""

    def __init__(
        self,
        send: Callable[[float, bool], Awaitable[Answer]],
        clock: Clock,
        *,
        every_s: float,
        lease_stop_s: float,
        set_lease: Callable[[Lease], None],
        renew: Callable[[Lease], Awaitable[None]],
        stop: Callable[[Sequence[tuple[AttemptId, StopWord]]], Awaitable[None]],
        discard: Callable[[Sequence[AttemptId]], Awaitable[None]],
        extend: Callable[[Sequence[Extend]], Awaitable[None]],
        on_answered_again: Callable[[], None] = lambda: None,
    ) -> None:
        self._send = send
        self._clock = clock
        self._every_s = every_s
        self._lease_stop_s = lease_stop_s
        self._set_lease = set_lease
        self._renew = renew
        self._stop = stop
        self._discard = discard
        self._extend = extend
        self._on_answered_again = on_answered_again
        self._now = asyncio.Event()
        self.lease = Lease()
        self._silent = False

    def hurry(self) -> None:
        """Beat now rather than at the next turn."""
        self._now.set()

    async def suspend_leases(self) -> None:
        """TaskManager stops as planned: no limit until it says otherwise. The lease files say so when this returns."""
        self.lease = Lease()
        self._set_lease(self.lease)
        await self._renew(self.lease)

    async def beat(self) -> bool:
        """One heartbeat and what follows from its answer; False if TaskManager did not answer.

        Raises:
            Fenced: a later start of this node was heard; what ran here is being ended.
        """
        sent_s = self._clock.monotonic()
        try:
            answer = await self._send(sent_s, not self.lease.enforced)
        except Fenced:
            # A Worker of this name was started later, somewhere else (not in this folder, which is locked): TaskManager
            # gives what runs here to others soon, and it must not run twice at once.
            log.error("heartbeat.fenced", advice="give each machine a `worker.node_id` of its own")
            self.lease = Lease(round(sent_s * 1e9))
            self._set_lease(self.lease)
            await self._renew(self.lease)
            raise
        except HeadwayError as error:
            if not self._silent:
                log.warning("heartbeat.unanswered", reason=str(error))
            self._silent = True
            return False
        if self._silent:
            log.info("heartbeat.answered_again")
            self._on_answered_again()
        self._silent = False
        lease = after_answer(
            sent_s=sent_s, lease_s=answer.lease_s, enforced=answer.lease_enforced, stop_s=self._lease_stop_s
        )
        if lease.enforced != self.lease.enforced:
            log.info("lease.mode", enforced=lease.enforced)
        changed_mode = lease.enforced != self.lease.enforced
        self.lease = later(self.lease, lease)
        self._set_lease(self.lease)
        if lease.enforced or changed_mode:
            await self._renew(self.lease)
        if answer.discard:
            await self._discard(answer.discard)
        if answer.stop:
            try:
                await self._stop(answer.stop)
            except HeadwayError as error:
                log.warning("stop.not_stored", reason=str(error))
        if answer.extend:
            try:
                await self._extend(answer.extend)
            except HeadwayError as error:
                log.warning("extend.not_stored", reason=str(error))
        if changed_mode:
            self.hurry()  # TaskManager waits for the mode to be acknowledged
        return True

    async def run(self) -> None:
        while True:
            self._now.clear()
            answered = await self.beat()
            pause_s = self._every_s if answered else min(self._every_s, 2.0)
            await wait(self._now, pause_s, self._clock)
