"""What the operations of one transaction work on."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from . import removal_store, store
from .cache import JobCache
from .job import JobRecord, LiveJob
from .waiting_counter import WaitingCounter


class JobTransaction:
    """The connection, the time and the jobs of one transaction.

    ``now`` is by the wall clock, and ``steady`` by the one by which tasks age (``headway.steady``). Ended jobs age by
    ``aging``, the clock of timers. All are epoch seconds.
    ``touched`` are the jobs that may have changed, ``new`` those among them that this transaction makes.
    """

    def __init__(
        self,
        conn: Connection,
        cache: JobCache,
        waiting_counter: WaitingCounter,
        *,
        now: float,
        steady: float,
        aging: float,
    ) -> None:
        self.conn = conn
        self.now = now
        self.steady = steady
        self.aging = aging
        self._waiting_counter = waiting_counter
        self.touched: dict[str, LiveJob] = {}
        self.new: set[str] = set()
        self.removed: dict[str, str] = {}  # and by whom; empty: by a rule
        self._cache = cache

    def job(self, job_id: str) -> LiveJob | None:
        """The job; None if there is none, or none any more."""
        if job_id in self.removed:
            return None
        live = self._cache.get(job_id)
        if live is None:
            # Only an ended job can be one that is being removed, and those are not kept in memory.
            live = None if removal_store.is_marked(self.conn, job_id) else store.load_job(self.conn, job_id)
            if live is None:
                return None
            self._cache.put(live)
        if job_id not in self.touched:
            self._waiting_counter.touch(live)
        self.touched[job_id] = live
        return live

    def add(self, live: LiveJob) -> None:
        self._cache.put(live)
        self.touched[live.record.id] = live
        self._waiting_counter.add(live)
        self.new.add(live.record.id)

    def record(self, job_id: str) -> JobRecord | None:
        """The job as it is now, without its tasks; None as for ``job``."""
        if job_id in self.removed or removal_store.is_marked(self.conn, job_id):
            return None
        live = self.touched.get(job_id) or self._cache.get(job_id)
        return live.record if live is not None else store.load_record(self.conn, job_id)

    def remove(self, job_ids: Sequence[str], why: str, by: str = "") -> None:
        """These ended jobs are to be removed. From now on they do not show, and nothing else happens to them."""
        removal_store.mark(self.conn, job_ids, self.now, self.aging, why)
        for job_id in job_ids:
            if (live := self.touched.get(job_id)) is not None:
                live.record.request_id = None  # as in its row, which may be saved once more
        self.removed |= dict.fromkeys(job_ids, by)

    def admit(self, owner: str, more: int) -> None:
        """Checks that an account may have so many more waiting tasks.

        Raises:
            TooManyWaiting: it may not.
        """
        self._waiting_counter.admit(self.conn, owner, more)
