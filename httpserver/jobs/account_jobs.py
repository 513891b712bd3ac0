"""What becomes of the jobs of accounts that are disabled or removed.

JobManager is told all disabled accounts each time, so that a call that got lost is made good by the next one.
"""

from __future__ import annotations

import asyncio
import secrets

from headway.backoff import Backoff
from headway.clock import Clock
from headway.errors import HeadwayError
from headway.logs import get_logger
from headway.rpc.v1 import job_manager_pb2 as jm
from headway.states import JOB_ENDED, JobState

from ..auth.accounts import Accounts
from ..auth.model import Account
from ..peers.clients import ACT_S, ServiceClients

log = get_logger(__name__)

_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 30.0
_PAGE = 500
_LIVE = [state.value for state in JobState if state not in JOB_ENDED]


class AccountJobs:
    """See the module. ``run`` makes good what JobManager could not be told at once."""

    def __init__(self, services: ServiceClients, accounts: Accounts, clock: Clock) -> None:
        self._services = services
        self._accounts = accounts
        self._clock = clock
        self._due = asyncio.Event()
        self._telling = asyncio.Lock()

    def tell_again(self) -> None:
        """JobManager may not know: it was away, or has only just come."""
        self._due.set()

    async def run(self) -> None:
        """Until cancelled."""
        pauses = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            await self._due.wait()
            self._due.clear()
            try:
                await self._tell()
                pauses.reset()
            except HeadwayError as error:
                log.info("account.holds_untold", reason=error.message)
                self._due.set()
                await self._clock.sleep(pauses.next_s())

    async def hold_or_release(self) -> None:
        """An account was disabled or enabled. What JobManager can not be told now follows as soon as it can."""
        try:
            await self._tell()
        except HeadwayError as error:
            log.warning("account.holds_untold", reason=error.message)
            self._due.set()

    async def _tell(self) -> None:
        # One at a time, the set taken inside: of two calls the older set could arrive last, and would stay.
        async with self._telling:
            disabled = [account.name for account in await self._accounts.all_and_removed() if not account.enabled]
            await self._services.jobs.call("HoldAccounts", jm.HoldAccountsRequest(accounts=disabled), deadline_s=ACT_S)

    async def live(self, owner: str) -> list[str]:
        """The ids of the account's jobs that have not ended.

        Raises:
            Unavailable: JobManager is away.
        """
        found: list[str] = []
        cursor = ""
        while True:
            request = jm.ListJobsRequest(owner=owner, states=_LIVE, limit=_PAGE, cursor=cursor)
            reply = await self._services.jobs.call("ListJobs", request)
            found.extend(job.id for job in reply.jobs)
            cursor = reply.next_cursor
            if not cursor:
                return found

    async def cancel(self, owner: str, by: Account) -> int:
        """Cancels all jobs of the account that have not ended; how many.

        Raises:
            Unavailable: JobManager is away; what it had taken stays cancelled.
        """
        jobs = await self.live(owner)
        for job_id in jobs:
            request = jm.ActOnJobRequest(
                job_id=job_id,
                action=jm.ActOnJobRequest.ACTION_CANCEL,
                request_id=secrets.token_hex(16),
                by=by.name,
            )
            await self._services.jobs.call("ActOnJob", request, deadline_s=ACT_S, request_id=request.request_id)
        log.info("account.jobs_cancelled", owner=owner, jobs=len(jobs), by=by.name)
        return len(jobs)
