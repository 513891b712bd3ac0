"""Credentials in the database: passwords as the vault made them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, func, insert, select, update

from .tables import registry_logins as table


@dataclass(frozen=True, slots=True)
class StoredLogin:
    """One row."""

    account: str
    registry: str
    username: str
    password: str = field(repr=False)  # encrypted
    changed_at: float


def put(conn: Connection, row: StoredLogin, most: int) -> bool:
    """Stores or replaces; False: the account has ``most`` others already."""
    here = (table.c.account == row.account) & (table.c.registry == row.registry)
    values = {"username": row.username, "password": row.password, "changed_at": row.changed_at}
    if conn.execute(update(table).where(here).values(values)).rowcount:
        return True
    count = select(func.count()).select_from(table).where(table.c.account == row.account)
    if conn.execute(count).scalar_one() >= most:
        return False
    conn.execute(insert(table), {"account": row.account, "registry": row.registry, **values})
    return True


def remove(conn: Connection, account: str, registry: str) -> bool:
    """Whether there was one."""
    gone = delete(table).where(table.c.account == account, table.c.registry == registry)
    return conn.execute(gone).rowcount > 0


def drop_account(conn: Connection, account: str) -> None:
    """The account is removed, and its passwords with it."""
    conn.execute(delete(table).where(table.c.account == account))


def of(conn: Connection, account: str = "") -> Sequence[StoredLogin]:
    """An account's, by registry; empty: everybody's."""
    found = select(table).order_by(table.c.account, table.c.registry)
    if account:
        found = found.where(table.c.account == account)
    return [StoredLogin(**row._mapping) for row in conn.execute(found)]


def has_any(conn: Connection) -> bool:
    """Whether anybody has stored one."""
    return conn.execute(select(table.c.account).limit(1)).first() is not None


def rewrite(conn: Connection, old: StoredLogin, password: str) -> None:
    """The same password under another key, unless it was changed meanwhile."""
    same = (table.c.account == old.account) & (table.c.registry == old.registry) & (table.c.password == old.password)
    conn.execute(update(table).where(same).values(password=password))
