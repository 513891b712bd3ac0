"""Which accounts are disabled, and what that means for their jobs. Inside a transaction of the caller."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, bindparam, delete, insert, select

from .job import LiveJob
from .store import LIVE
from .tables import held_account, job
from .transaction import JobTransaction


def hold_accounts(tx: JobTransaction, accounts: Collection[str]) -> int:
    """From now on exactly these accounts are held; how many tasks changed by it."""
    wanted, known = set(accounts), set(tx.conn.execute(select(held_account.c.name)).scalars())
    changed = 0
    for name in sorted(wanted - known):
        tx.conn.execute(insert(held_account).values(name=name))
        changed += sum(live.hold_for_account(tx.steady) for live in _jobs_of(tx, name))
    for name in sorted(known - wanted):
        tx.conn.execute(delete(held_account).where(held_account.c.name == name))
        changed += sum(live.release_for_account(tx.steady) for live in _jobs_of(tx, name))
    return changed


def is_held(conn: Connection, account: str) -> bool:
    """Whether the account is disabled."""
    return conn.execute(_HELD, {"account": account}).first() is not None


# Made once: each submission asks.
_HELD = select(held_account.c.name).where(held_account.c.name == bindparam("account"))


def _jobs_of(tx: JobTransaction, owner: str) -> list[LiveJob]:
    ids = tx.conn.execute(select(job.c.id).where(job.c.owner == owner, LIVE).order_by(job.c.id)).scalars().all()
    return [live for id in ids if (live := tx.job(id)) is not None]
