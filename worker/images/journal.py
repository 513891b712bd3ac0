"""The images that Headway fetched, and who may use them, in the Worker's own database."""

from __future__ import annotations

import json
from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import Connection

from headway.store.database import Database

from .eviction import FetchedImage

_PUT = "INSERT OR REPLACE INTO images (key, image_id, names, size_bytes, brought_at, used_at) VALUES (?, ?, ?, ?, ?, ?)"
_GRANT = "INSERT OR REPLACE INTO image_rights (account, key, given_at) VALUES (?, ?, ?)"
_REVOKE = "DELETE FROM image_rights WHERE account = ? AND key = ?"


class SqlImageJournal:
    """``ports.ImageJournal`` in SQLite. Awaited calls raise StoreFull or StoreUnavailable."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def load(self) -> list[FetchedImage]:
        """All entries."""

        def read(conn: Connection) -> list[FetchedImage]:
            rows = conn.execute(sa.text("SELECT * FROM images")).all()
            return [
                FetchedImage(
                    row.key, row.image_id, tuple(json.loads(row.names)), row.size_bytes, row.brought_at, row.used_at
                )
                for row in rows
            ]

        return await self._db.read(read)

    async def put(self, one: FetchedImage) -> None:
        """Store an entry. It is durable when this returns."""
        await self._db.write(lambda conn: conn.exec_driver_sql(_PUT, _row(one)))

    def used_later(self, keys: Sequence[str], at: float) -> None:
        """Store a use soon. A crash may lose it, which only changes the order of removal a little."""
        rows = [(at, key) for key in keys]
        if rows:
            self._db.defer(lambda conn: conn.exec_driver_sql("UPDATE images SET used_at = ? WHERE key = ?", rows))

    def forget_later(self, keys: Sequence[str]) -> None:
        """Drop entries soon."""
        rows = [(key,) for key in keys]
        if rows:
            self._db.defer(lambda conn: conn.exec_driver_sql("DELETE FROM images WHERE key = ?", rows))

    async def load_permissions(self) -> dict[tuple[str, str], float]:
        """When registries last gave an image, by account and key."""

        def read(conn: Connection) -> dict[tuple[str, str], float]:
            rows = conn.execute(sa.text("SELECT account, key, given_at FROM image_rights")).all()
            return {(row.account, row.key): row.given_at for row in rows}

        return await self._db.read(read)

    def grant_later(self, permission: tuple[str, str], at: float) -> None:
        """Store it soon. If a crash loses it, the registry is asked again."""
        row = (*permission, at)
        self._db.defer(lambda conn: conn.exec_driver_sql(_GRANT, row))

    def drop_permissions_later(self, permissions: Sequence[tuple[str, str]]) -> None:
        """Drop old permissions soon."""
        if permissions:
            self._db.defer(lambda conn: conn.exec_driver_sql(_REVOKE, list(permissions)))

    async def revoke(self, permissions: Sequence[tuple[str, str]]) -> None:
        """Drop permissions. It is durable when this returns."""
        if permissions:
            await self._db.write(lambda conn: conn.exec_driver_sql(_REVOKE, list(permissions)))


def _row(one: FetchedImage) -> tuple[object, ...]:
    return (one.key, one.image_id, json.dumps(one.names), one.size_bytes, one.fetched_at, one.used_at)
