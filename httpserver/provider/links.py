"""Links between people at the provider and accounts here."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, insert, select

from headway.clock import Clock
from headway.errors import Conflict, NotFound
from headway.logs import get_logger
from headway.store import Database

from ..auth.accounts import Accounts
from .tables import provider_links as table

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Link:
    """One person at the provider, and the account."""

    issuer: str
    subject: str
    account: str
    linked_at: float
    linked_by: str


class Links:
    """The table, asked in the database itself: a sign-in is rare."""

    def __init__(self, db: Database, accounts: Accounts, clock: Clock) -> None:
        self._db = db
        self._accounts = accounts
        self._clock = clock
        accounts.when_removed(_drop)

    async def account_of(self, issuer: str, subject: str) -> str | None:
        """The account that this person is linked to."""
        query = select(table.c.account).where(table.c.issuer == issuer, table.c.subject == subject)
        found: str | None = await self._db.read(lambda conn: conn.execute(query).scalar())
        return found

    async def of(self, account: str) -> list[Link]:
        """Who may sign in as this account.

        Raises:
            NotFound: no such account.
        """
        self._check(account)
        query = select(table).where(table.c.account == account).order_by(table.c.linked_at, table.c.subject)
        return [Link(**row._mapping) for row in await self._db.read(lambda conn: conn.execute(query).all())]

    async def admins(self) -> list[str]:
        """The enabled admins that somebody at a provider is linked to."""
        names = set(await self._db.read(lambda conn: conn.execute(select(table.c.account)).scalars().all()))
        return [one.name for one in await self._accounts.all() if one.admin and one.enabled and one.name in names]

    async def link(self, issuer: str, subject: str, account: str, *, by: str) -> Link:
        """From now on this person signs in as this account; one that is linked so already is fine.

        Raises:
            NotFound: no such account.
            Conflict: the person is linked to another account.
        """
        self._check(account)
        new = Link(issuer, subject, account, self._clock.now(), by)

        def work(conn: Connection) -> Link:
            row = conn.execute(select(table).where(table.c.issuer == issuer, table.c.subject == subject)).first()
            if row is None:
                add(conn, new)
                return new
            if row.account != account:
                raise Conflict(f"That person is linked to the account `{row.account}`: unlink it there first.")
            return Link(**row._mapping)

        link = await self._db.write(work)
        log.info("account.linked", name=account, issuer=issuer, subject=subject, by=by)
        return link

    async def unlink(self, account: str, *, by: str) -> int:
        """Nobody at a provider signs in as this account any more; how many could. Sessions stay as they are.

        Raises:
            NotFound: no such account.
        """
        self._check(account)
        ended = await self._db.write(
            lambda conn: int(conn.execute(delete(table).where(table.c.account == account)).rowcount)
        )
        log.info("account.unlinked", name=account, ended=ended, by=by)
        return ended

    def _check(self, account: str) -> None:
        if self._accounts.get(account) is None:
            raise NotFound(f"There is no account `{account[:64]}`.")


def add(conn: Connection, link: Link) -> None:
    """Inside a transaction."""
    conn.execute(insert(table).values(**asdict(link)))


def _drop(conn: Connection, account: str) -> None:
    conn.execute(delete(table).where(table.c.account == account))
