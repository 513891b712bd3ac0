"""The count of waiting tasks by account, exact within each transaction and kept from one to the next.

Counting anew for each submission would cost a look at all live jobs of its account. So an account is counted once; from
then on what each transaction changes is added.
"""

from __future__ import annotations

from collections import Counter

from sqlalchemy import Connection

from . import store, waiting_limit
from .job import LiveJob


class WaitingCounter:
    """Used by one transaction at a time, which ends with ``commit`` or ``rollback``. Only ``check`` may come any time.

    ``most``: how many tasks of one account may wait; 0: there is no limit, and nothing is counted.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._committed: dict[str, int] = {}  # by account, of those that were asked about
        self._touched: dict[str, tuple[LiveJob, int]] = {}  # with what waited of it before
        self._new: set[str] = set()
        self._added: Counter[str] = Counter()  # by account, of new jobs: these stay as they are until the commit

    def touch(self, live: LiveJob) -> None:
        """The job is as committed, and may be changed from now on."""
        if self.most:
            self._touched[live.record.id] = (live, live.waiting)

    def add(self, live: LiveJob) -> None:
        """The job is new."""
        if self.most:
            self._new.add(live.record.id)
            self._added[live.record.owner] += live.waiting

    def admit(self, conn: Connection, owner: str, more: int) -> None:
        """Inside the transaction.

        Raises:
            TooManyWaiting: with so many more there would be too many.
        """
        if not self.most:
            return
        if owner not in self._committed:
            before = sum(before for live, before in self._touched.values() if live.record.owner == owner)
            others = store.count_waiting(conn, owner, without=self._touched.keys() | self._new)
            self._committed[owner] = before + others
        self._refuse(owner, self._committed[owner] + self._change(owner), more)

    def check(self, conn: Connection, owner: str, more: int) -> None:
        """Checks against what was committed last, in a transaction that only reads.

        Raises:
            TooManyWaiting: with so many more there would be too many.
        """
        known = self._committed.get(owner)
        self._refuse(owner, store.count_waiting(conn, owner) if known is None else known, more)

    def commit(self) -> None:
        """The transaction is durable."""
        for owner in self._committed:
            self._committed[owner] += self._change(owner)
        self._start_anew()

    def rollback(self) -> None:
        """The transaction failed, or nobody knows."""
        self._committed.clear()
        self._start_anew()

    def _change(self, owner: str) -> int:
        touched = sum(live.waiting - before for live, before in self._touched.values() if live.record.owner == owner)
        return touched + self._added[owner]

    def _start_anew(self) -> None:
        self._touched.clear()
        self._new.clear()
        self._added.clear()

    def _refuse(self, owner: str, now: int, more: int) -> None:
        refusal = waiting_limit.refusal(owner, waiting=now, more=more, most=self.most)
        if refusal is not None:
            raise refusal
