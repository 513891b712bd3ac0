"""Which accounts are disabled, and what that means for their jobs. Inside a transaction of the caller."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, bindparam, delete, insert, select

from headway.model.job_events import JobEventWord

from .job import LiveJob
from .store import LIVE
from .tables import held_account, job
from .transaction import JobTransaction

_BY = "Headway, since the account was disabled or enabled"


def hold_accounts(tx: JobTransaction, accounts: Collection[str]) -> int:
    """From now on exactly these accounts are held; how many tasks changed by it."""
    wanted, known = set(accounts), set(tx.conn.execute(select(held_account.c.name)).scalars())
    changed = 0
    for name in sorted(wanted - known):
        tx.conn.execute(insert(held_account).values(name=name))
        for live in _jobs_of(tx, name):
            changed += _told(tx, live, live.hold_for_account(tx.steady), JobEventWord.HELD)
    for name in sorted(known - wanted):
        tx.conn.execute(delete(held_account).where(held_account.c.name == name))
        for live in _jobs_of(tx, name):
            changed += _told(tx, live, live.release_for_account(tx.steady), JobEventWord.RELEASED)
    return changed


def _told(tx: JobTransaction, live: LiveJob, tasks: int, word: JobEventWord) -> int:
    if tasks:
        live.tell(word, tx.now, by=_BY, tasks=tasks)
    return tasks


def is_held(conn: Connection, account: str) -> bool:
    """Whether the account is disabled."""
    return conn.execute(_HELD, {"account": account}).first() is not None


# Made once: each submission asks.
_HELD = select(held_account.c.name).where(held_account.c.name == bindparam("account"))


def _jobs_of(tx: JobTransaction, owner: str) -> list[LiveJob]:
    ids = tx.conn.execute(select(job.c.id).where(job.c.owner == owner, LIVE).order_by(job.c.id)).scalars().all()
    return [live for id in ids if (live := tx.job(id)) is not None]
