"""Rows of the data market as values, and the statements on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from ..auth.model import Account
from .tables import datasets, shares, versions

PUBLISHING, READY, FAILED, DELETING = "publishing", "ready", "failed", "deleting"


@dataclass(frozen=True, slots=True)
class Version:
    """One version; see tables.py."""

    dataset: str
    version: str
    state: str
    account: str
    path: str
    copy: bool
    starts: int
    method: str
    files: int
    size_bytes: int
    checksum: str
    problem: str
    asked_at: float
    published_at: float | None

    @property
    def key(self) -> str:
        """The key of ``uses.Ref``."""
        return f"{self.dataset}@{self.version}"


@dataclass(frozen=True, slots=True)
class Dataset:
    """One dataset with its versions, in the order in which they were asked for."""

    name: str
    owner: str
    public: bool
    description: str
    created_at: float
    last_number: int
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    versions: tuple[Version, ...] = field(default=())

    def may_change(self, account: Account) -> bool:
        """Owner and admins."""
        return account.admin or account.name == self.owner

    def visible(self, account: Account, groups: Collection[str]) -> bool:
        """Whether the account may know of it."""
        return self.public or self.may_change(account) or account.name in self.users or bool(self.groups & set(groups))

    def newest(self) -> Version | None:
        """Of those that are ready."""
        ready = [v for v in self.versions if v.state == READY]
        return max(ready, key=lambda v: (v.published_at or 0, v.asked_at)) if ready else None

    def ready(self) -> list[str]:
        """Versions that jobs can have, the newest last."""
        ready = [v for v in self.versions if v.state == READY]
        return [v.version for v in sorted(ready, key=lambda v: (v.published_at or 0, v.asked_at))]

    def of(self, version: str) -> Version | None:
        """That version, in whatever state."""
        return next((v for v in self.versions if v.version == version), None)


def load(conn: Connection, name: str | None = None) -> list[Dataset]:
    """All datasets, or the one of that name, by name."""
    of_datasets, of_versions, of_shares = select(datasets), select(versions), select(shares)
    if name is not None:
        of_datasets = of_datasets.where(datasets.c.name == name)
        of_versions = of_versions.where(versions.c.dataset == name)
        of_shares = of_shares.where(shares.c.dataset == name)
    found: dict[str, list[Version]] = {}
    for row in conn.execute(of_versions.order_by(versions.c.asked_at, versions.c.version)):
        found.setdefault(row.dataset, []).append(Version(**row._mapping))
    with_whom: dict[tuple[str, str], set[str]] = {}
    for row in conn.execute(of_shares):
        with_whom.setdefault((row.dataset, row.kind), set()).add(row.name)
    return [
        Dataset(
            **row._mapping,
            users=frozenset(with_whom.get((row.name, "user"), ())),
            groups=frozenset(with_whom.get((row.name, "group"), ())),
            versions=tuple(found.get(row.name, ())),
        )
        for row in conn.execute(of_datasets.order_by(datasets.c.name))
    ]


def add_dataset(conn: Connection, row: Mapping[str, Any]) -> None:
    conn.execute(insert(datasets).values(**row))


def put_version(conn: Connection, row: Version) -> None:
    """New, or in place of one that failed."""
    key = (versions.c.dataset == row.dataset) & (versions.c.version == row.version)
    conn.execute(delete(versions).where(key))
    conn.execute(insert(versions).values(**{name: getattr(row, name) for name in Version.__slots__}))


def change_version(conn: Connection, row: Version, changes: Mapping[str, Any], *, state: str = "") -> None:
    """With ``state`` only while it is in that one."""
    key = (versions.c.dataset == row.dataset) & (versions.c.version == row.version)
    if state:
        key &= versions.c.state == state
    conn.execute(update(versions).where(key).values(**changes))


def change_dataset(conn: Connection, name: str, changes: Mapping[str, Any]) -> None:
    if changes:
        conn.execute(update(datasets).where(datasets.c.name == name).values(**changes))


def set_shares(conn: Connection, name: str, users: Collection[str], groups: Collection[str]) -> None:
    conn.execute(delete(shares).where(shares.c.dataset == name))
    rows = [("user", each) for each in sorted(set(users))] + [("group", each) for each in sorted(set(groups))]
    if rows:
        conn.execute(insert(shares), [{"dataset": name, "kind": kind, "name": each} for kind, each in rows])


def drop_account(conn: Connection, account: str) -> None:
    """The account is removed: nothing is shared with it any more."""
    conn.execute(delete(shares).where((shares.c.kind == "user") & (shares.c.name == account)))


def drop_group(conn: Connection, group: str) -> None:
    """The group is deleted: nothing is shared with it any more, also not with a later one of that name."""
    conn.execute(delete(shares).where((shares.c.kind == "group") & (shares.c.name == group)))


def drop_version(conn: Connection, name: str, version: str) -> None:
    """The dataset goes with its last version."""
    conn.execute(delete(versions).where((versions.c.dataset == name) & (versions.c.version == version)))
    if conn.execute(select(versions.c.version).where(versions.c.dataset == name).limit(1)).first() is None:
        conn.execute(delete(shares).where(shares.c.dataset == name))
        conn.execute(delete(datasets).where(datasets.c.name == name))


def published(conn: Connection, row: Version, changes: Mapping[str, Any]) -> None:
    """It is ready, unless it was deleted meanwhile; its number is never given again."""
    change_version(conn, row, changes, state=PUBLISHING)
    if row.version.isdecimal() and len(row.version) < 10:
        number = int(row.version)
        later = (datasets.c.name == row.dataset) & (datasets.c.last_number < number)
        conn.execute(update(datasets).where(later).values(last_number=number))


def hard_linked_by(conn: Connection, account: str) -> list[tuple[str, str]]:
    """Versions that took files over from this account."""
    mine = (versions.c.account == account) & (versions.c.method == "hardlink") & (versions.c.state != FAILED)
    return [(row.dataset, row.version) for row in conn.execute(select(versions).where(mine))]
