"""Secrets in the database: values as the vault made them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, insert, select, update

from .tables import secrets as table


@dataclass(frozen=True, slots=True)
class SecretFacts:
    """What may be shown of a secret."""

    name: str
    size_bytes: int
    has_nul: bool
    changed_at: float


def put(conn: Connection, account: str, facts: SecretFacts, sealed: str, most: int) -> bool:
    """Stores or replaces; False: the account has ``most`` others already."""
    here = (table.c.account == account) & (table.c.name == facts.name)
    values = {
        "sealed": sealed,
        "size_bytes": facts.size_bytes,
        "has_nul": facts.has_nul,
        "changed_at": facts.changed_at,
    }
    if conn.execute(update(table).where(here).values(values)).rowcount:
        return True
    count = select(func.count()).select_from(table).where(table.c.account == account)
    if conn.execute(count).scalar_one() >= most:
        return False
    conn.execute(insert(table), {"account": account, "name": facts.name, **values})
    return True


def remove(conn: Connection, account: str, name: str) -> bool:
    """Whether there was one."""
    gone = delete(table).where(table.c.account == account, table.c.name == name)
    return conn.execute(gone).rowcount > 0


def drop_account(conn: Connection, account: str) -> None:
    """The account is removed, and its secrets with it."""
    conn.execute(delete(table).where(table.c.account == account))


def of(conn: Connection, account: str) -> Sequence[SecretFacts]:
    """An account's, by name."""
    columns = (table.c.name, table.c.size_bytes, table.c.has_nul, table.c.changed_at)
    found = conn.execute(select(*columns).where(table.c.account == account).order_by(table.c.name))
    return [SecretFacts(**row._mapping) for row in found]


def sealed(conn: Connection, account: str, names: Collection[str]) -> dict[str, str]:
    """The encrypted values of those of these names that the account has."""
    wanted = (table.c.account == account) & table.c.name.in_(list(names))
    return {row.name: row.sealed for row in conn.execute(select(table.c.name, table.c.sealed).where(wanted))}


def has_any(conn: Connection) -> bool:
    """Whether anybody has stored one."""
    return conn.execute(select(table.c.account).limit(1)).first() is not None


def owners(conn: Connection) -> Sequence[tuple[str, str]]:
    """Account and name of each."""
    return [(row.account, row.name) for row in conn.execute(select(table.c.account, table.c.name))]


def rewrite(conn: Connection, account: str, name: str, old: str, new: str) -> None:
    """The same value under another key, unless it was changed meanwhile."""
    same = (table.c.account == account) & (table.c.name == name) & (table.c.sealed == old)
    conn.execute(update(table).where(same).values(sealed=new))
