"""Tells TaskManager that this Worker lives and which attempts it has. The answers bring leases and orders.

Orders are stops, discards and extensions. It uses neither the engine nor the mount, so it goes on while those hang.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from headway.clock import Clock
from headway.errors import Fenced, HeadwayError
from headway.ids import AttemptId
from headway.logs import get_logger
from headway.waiting import wait

from ..attempt.leases import Lease, later_lease, lease_after_answer
from ..box import StopWord
from ..model import ExtendAttempt

log = get_logger(__name__)

_RETRY_S = 2.0
_JITTER = 0.2


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """TaskManager's answer to a heartbeat."""

    lease_s: float
    lease_enforced: bool
    discard: tuple[AttemptId, ...] = ()
    stop: tuple[tuple[AttemptId, StopWord], ...] = ()
    extend: tuple[ExtendAttempt, ...] = ()


class Heartbeat:
    """``send(sent_s, suspended)`` sends a heartbeat: when by the boot clock, and whether the lease files say `none`.

    A HeadwayError means that TaskManager does not answer. The leases in the boxes run on.
    """

    def __init__(
        self,
        send: Callable[[float, bool], Awaitable[HeartbeatAnswer]],
        clock: Clock,
        *,
        every_s: float,
        lease_stop_s: float,
        set_lease: Callable[[Lease], None],
        renew: Callable[[Lease, Collection[AttemptId]], Awaitable[None]],
        stop: Callable[[Sequence[tuple[AttemptId, StopWord]]], Awaitable[None]],
        discard: Callable[[Sequence[AttemptId]], Awaitable[None]],
        extend: Callable[[Sequence[ExtendAttempt]], Awaitable[None]],
        on_answered_again: Callable[[], None] = lambda: None,
        chance: random.Random | None = None,
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
        self.on_sent: Callable[[bool], None] = lambda answered: None  # told whether a heartbeat was answered
        self._chance = chance or random.Random()
        self._now = asyncio.Event()
        self.lease = Lease()
        self._silent = False
        self._why_silent = ""
        self._written = False  # whether this life has written the files: an earlier one may have left deadlines there

    def beat_now(self) -> None:
        """Send the next heartbeat now."""
        self._now.set()

    async def suspend_leases(self) -> None:
        """TaskManager stops as planned, so leases have no limit until it is back. The files say so afterwards."""
        self.lease = Lease()
        self._set_lease(self.lease)
        await self._renew(self.lease, ())

    async def send_once(self) -> bool:
        """Send one heartbeat and do what the answer says. False: TaskManager did not answer.

        Raises:
            Fenced: a Worker of this name was started later. What runs here is being ended.
        """
        sent_s = self._clock.monotonic()
        try:
            answer = await self._send(sent_s, not self.lease.enforced)
        except Fenced:
            # A Worker of this name was started later on another machine, since this folder is locked. TaskManager will
            # place these attempts again, and none may run twice at once.
            log.error("heartbeat.fenced", advice="give each machine a `worker.node_id` of its own")
            self.lease = Lease(round(sent_s * 1e9))
            self._set_lease(self.lease)
            await self._renew(self.lease, ())
            raise
        except HeadwayError as error:
            # Told again when it is for another reason: TaskManager may come back and refuse.
            if not self._silent or error.slug != self._why_silent:
                log.warning("heartbeat.unanswered", reason=str(error))
            self._silent, self._why_silent = True, error.slug
            self.on_sent(False)
            return False
        self.on_sent(True)
        if self._silent:
            log.info("heartbeat.answered_again")
            self._on_answered_again()
        self._silent = False
        lease = lease_after_answer(
            sent_s=sent_s, lease_s=answer.lease_s, enforced=answer.lease_enforced, stop_s=self._lease_stop_s
        )
        if lease.enforced != self.lease.enforced:
            log.info("lease.mode", enforced=lease.enforced)
        changed_mode = lease.enforced != self.lease.enforced
        # What was given to others comes first: with a fresh lease it might begin, or go on, beside them.
        if answer.discard:
            await self._discard(answer.discard)
        if answer.stop:
            try:
                await self._stop(answer.stop)
            except HeadwayError as error:
                log.warning("stop.not_stored", reason=str(error))
        self.lease = later_lease(self.lease, lease)
        self._set_lease(self.lease)
        if lease.enforced or changed_mode or not self._written:
            await self._renew(self.lease, answer.discard)
            self._written = True
        if answer.extend:
            try:
                await self._extend(answer.extend)
            except HeadwayError as error:
                log.warning("extend.not_stored", reason=str(error))
        if changed_mode:
            self.beat_now()  # TaskManager waits until the new mode is acknowledged
        return True

    async def run(self) -> None:
        while True:
            self._now.clear()
            answered = await self.send_once()
            pause_s = self._every_s if answered else min(self._every_s, _RETRY_S)
            # Never longer: leases are counted by it. Shorter by chance, so that Workers that lost TaskManager at once
            # don't call it at once for ever.
            await wait(self._now, pause_s * self._chance.uniform(1 - _JITTER, 1.0), self._clock)
