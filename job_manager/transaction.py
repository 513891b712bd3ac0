"""What the operations of one transaction work on."""

from __future__ import annotations

from sqlalchemy import Connection

from . import store
from .cache import JobCache
from .job import LiveJob
from .waiting_counter import WaitingCounter


class JobTransaction:
    """The connection, the time and the jobs of one transaction.

    ``now`` is by the wall clock, ``steady`` by the one by which tasks age (``headway.steady``); both are epoch seconds.
    ``touched`` are the jobs that may have changed, ``new`` those among them that this transaction makes.
    """

    def __init__(
        self, conn: Connection, cache: JobCache, waiting_counter: WaitingCounter, *, now: float, steady: float
    ) -> None:
        self.conn = conn
        self.now = now
        self.steady = steady
        self._waiting_counter = waiting_counter
        self.touched: dict[str, LiveJob] = {}
        self.new: set[str] = set()
        self._cache = cache

    def job(self, job_id: str) -> LiveJob | None:
        live = self._cache.get(job_id)
        if live is None:
            live = store.load_job(self.conn, job_id)
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

    def admit(self, owner: str, more: int) -> None:
        """Checks that an account may have so many more waiting tasks.

        Raises:
            TooManyWaiting: it may not.
        """
        self._waiting_counter.admit(self.conn, owner, more)
