"""Brings a room's tables up to date.

A room keeps its steps in `<room>/migrations/versions/NNNN_what.py`, ordinary Alembic revisions in one line:

    revision, down_revision = "0002", "0001"

    def upgrade() -> None:
        op.add_column("jobs", sa.Column("priority", sa.Integer, nullable=False, server_default="0"))

The file names alone tell the newest revision. So a start with nothing to do imports no Alembic, which would cost half
a second and ten megabytes per process.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, MetaData, inspect, text

from ..errors import HeadwayError
from ..logs import get_logger

log = get_logger(__name__)

VERSION_TABLE = "alembic_version"
_FILE = re.compile(r"(\d{4})_[a-z0-9_]+\.py")


class DatabaseTooNew(HeadwayError):
    """A newer Headway wrote this database; going on could destroy what it wrote."""

    code = "FAILED_PRECONDITION"
    slug = "database-too-new"
    title = "The database was written by a newer Headway"


def revisions(room: str) -> list[str]:
    """All revisions of a room, oldest first, read off the file names.

    Raises:
        HeadwayError: the room has no migrations, or a gap in their numbers.
    """
    found = sorted(m[1] for p in _versions_folder(room).glob("*.py") if (m := _FILE.fullmatch(p.name)))
    if not found or found != [f"{n:04d}" for n in range(1, len(found) + 1)]:
        raise HeadwayError(f"{room}/migrations/versions must hold 0001_….py, 0002_….py and so on; found {found}.")
    return found


def migrate(engine: Engine, room: str, place: str) -> None:
    """Runs the steps that `engine`'s database lacks, all in one transaction.

    Raises:
        DatabaseTooNew: the database holds a revision that this version doesn't know.
    """
    known = revisions(room)
    with engine.begin() as conn:
        stored = _stored_revision(conn)
        if stored == known[-1]:
            return
        if stored is not None and stored not in known:
            raise DatabaseTooNew(
                f"{place} was written by a newer Headway (revision {stored}; this version knows up to {known[-1]}): "
                "install that version again, or restore the backup made before the upgrade."
            )
        _upgrade(conn, room)
    log.info("store.migrated", room=room, before=stored, now=known[-1])


def differences(engine: Engine, room: str, metadata: MetaData) -> list[Any]:
    """What the room's tables in code say that its migrations don't build, and the reverse. For tests."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    with engine.begin() as conn:
        return list(compare_metadata(MigrationContext.configure(conn), metadata))


def _stored_revision(conn: Connection) -> str | None:
    if not inspect(conn).has_table(VERSION_TABLE):
        return None
    return conn.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()


def _upgrade(conn: Connection, room: str) -> None:
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    versions = _versions_folder(room)
    script = ScriptDirectory(str(versions.parent), version_locations=[str(versions)])

    def steps(current: Any, _context: Any) -> Any:
        return script._upgrade_revs("head", current)

    with EnvironmentContext(Config(), script, fn=steps) as env:
        # The caller's transaction holds all steps, DDL too, on SQLite as well.
        env.configure(connection=conn, transactional_ddl=True, version_table=VERSION_TABLE)
        env.run_migrations()


def _versions_folder(room: str) -> Path:
    spec = importlib.util.find_spec(room)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not places:
        raise HeadwayError(f"The package {room} can't be found.")
    return Path(places[0], "migrations", "versions")
