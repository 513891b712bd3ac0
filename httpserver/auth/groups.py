"""Groups of accounts, to share images and datasets with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from sqlalchemy import Connection, delete, insert, select

from headway.clock import Clock
from headway.errors import Conflict, InvalidInput, NotFound
from headway.logs import get_logger
from headway.store.database import Database

from .. import schemas as s
from .accounts import Accounts
from .model import Account
from .tables import groups, members

log = get_logger(__name__)


class Groups:
    """See the module. Everybody sees all groups, admins change them."""

    def __init__(self, db: Database, accounts: Accounts, clock: Clock) -> None:
        self._db = db
        self._accounts = accounts
        self._clock = clock
        self._when_deleted: list[Callable[[Connection, str], None]] = []

    def when_deleted(self, work: Callable[[Connection, str], None]) -> None:
        """``work(conn, name)`` runs in the transaction that deletes a group.

        It ends what is shared with the group, so that a later group of that name inherits nothing.
        """
        self._when_deleted.append(work)

    async def of(self, account: str) -> Collection[str]:
        """Names of the groups that the account is in."""
        query = select(members.c.group).where(members.c.account == account).order_by(members.c.group)
        return list(await self._db.read(lambda conn: conn.execute(query).scalars().all()))

    async def all(self) -> list[s.Group]:
        """All groups, by name."""
        return await self._db.read(_all)

    async def create(self, by: Account, name: str, people: Iterable[str]) -> s.Group:
        """
        Raises:
            Conflict: there is one of that name.
            InvalidInput: a member is no account.
        """
        wanted = self._checked(people)
        now = self._clock.now()

        def work(conn: Connection) -> s.Group:
            if _there(conn, name):
                raise Conflict(f"There is a group `{name}` already.")
            conn.execute(insert(groups).values(name=name, created_at=now, created_by=by.name))
            _add(conn, name, wanted)
            return _one(conn, name)

        group = await self._db.write(work)
        log.info("group.made", group=name, members=len(wanted), by=by.name)
        return group

    async def change(self, by: Account, name: str, *, add: Iterable[str], remove: Iterable[str]) -> s.Group:
        """
        Raises:
            NotFound: no such group.
            InvalidInput: who shall be added is no account.
        """
        wanted, unwanted = self._checked(add), sorted(set(remove))

        def work(conn: Connection) -> s.Group:
            if not _there(conn, name):
                raise _no_group(name)
            _add(conn, name, wanted)
            conn.execute(delete(members).where((members.c.group == name) & members.c.account.in_(unwanted)))
            return _one(conn, name)

        group = await self._db.write(work)
        log.info("group.changed", group=name, added=wanted, removed=unwanted, by=by.name)
        return group

    async def delete(self, by: Account, name: str) -> None:
        """
        Raises:
            NotFound: no such group.
        """

        def work(conn: Connection) -> None:
            if not _there(conn, name):
                raise _no_group(name)
            for also in self._when_deleted:
                also(conn, name)
            conn.execute(delete(members).where(members.c.group == name))
            conn.execute(delete(groups).where(groups.c.name == name))

        await self._db.write(work)
        log.info("group.deleted", group=name, by=by.name)

    def _checked(self, people: Iterable[str]) -> list[str]:
        wanted = sorted(set(people))
        unknown = [name for name in wanted if self._accounts.get(name) is None]
        if unknown:
            raise InvalidInput(f"There is no account `{unknown[0][:64]}`.")
        return wanted


def require_groups(conn: Connection, names: Collection[str]) -> None:
    """Checks that all these groups exist, in the transaction that shares something with them.

    So none is deleted in between, and a later group of its name inherits nothing.

    Raises:
        InvalidInput: one of them is no group.
    """
    known = set(conn.execute(select(groups.c.name).where(groups.c.name.in_(list(names)))).scalars())
    missing = sorted(set(names) - known)
    if missing:
        raise InvalidInput(f"There is no group `{missing[0][:64]}` to share with.")


def _all(conn: Connection) -> list[s.Group]:
    of: dict[str, list[str]] = {}
    for row in conn.execute(select(members).order_by(members.c.account)):
        of.setdefault(row.group, []).append(row.account)
    rows = conn.execute(select(groups).order_by(groups.c.name))
    return [s.Group(name=row.name, members=of.get(row.name, []), created_at=row.created_at) for row in rows]


def _one(conn: Connection, name: str) -> s.Group:
    row = conn.execute(select(groups).where(groups.c.name == name)).one()
    query = select(members.c.account).where(members.c.group == name).order_by(members.c.account)
    return s.Group(name=row.name, members=list(conn.execute(query).scalars()), created_at=row.created_at)


def _there(conn: Connection, name: str) -> bool:
    return conn.execute(select(groups.c.name).where(groups.c.name == name)).first() is not None


def _add(conn: Connection, name: str, people: Iterable[str]) -> None:
    present = set(conn.execute(select(members.c.account).where(members.c.group == name)).scalars())
    for account in people:
        if account not in present:
            conn.execute(insert(members).values(group=name, account=account))


def _no_group(name: str) -> NotFound:
    return NotFound(f"There is no group `{name[:64]}`.")
