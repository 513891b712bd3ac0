"""From which addresses each account has signed in before: there its right password always counts."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select, update

from .tables import known_addresses as table

_MOST = 50  # of one account; the one that was used longest ago goes


class KnownAddresses:
    """The table, with a copy in memory."""

    def __init__(self) -> None:
        self._of: dict[str, dict[str, float]] = {}

    def load(self, conn: Connection) -> None:
        for row in conn.execute(select(table)):
            self._of.setdefault(row.account, {})[row.address] = row.seen_at

    def has(self, account: str, address: str) -> bool:
        return address in self._of.get(account, {})

    def note(self, conn: Connection, account: str, address: str, now: float) -> None:
        """The account has signed in from there."""
        own = self._of.setdefault(account, {})
        here = (table.c.account == account) & (table.c.address == address)
        if not conn.execute(update(table).where(here).values(seen_at=now)).rowcount:
            conn.execute(insert(table).values(account=account, address=address, seen_at=now))
        own[address] = now
        while len(own) > _MOST:
            oldest = min(own, key=own.__getitem__)
            conn.execute(delete(table).where((table.c.account == account) & (table.c.address == oldest)))
            del own[oldest]

    def forget(self, account: str) -> None:
        self._of.pop(account, None)


def drop(conn: Connection, account: str) -> None:
    """Deletes the account's, inside a transaction."""
    conn.execute(delete(table).where(table.c.account == account))
