"""Brings a room's tables up to date.

A room keeps its steps in `<room>/migrations/versions/NNNN_what.py`, ordinary Alembic revisions in one line:

    revision, down_revision = "0002", "0001"

    def upgrade() -> None:
        op.add_column("jobs", sa.Column("priority", sa.Integer, nullable=False, server_default="0"))

The file names alone tell the newest revision. So a start with nothing to do imports no Alembic, which would cost half
a second and ten megabytes per process. An empty SQLite file needs none either: what all steps make of it is kept in
`<room>/migrations/empty.sql`, which `scripts/render_tables` writes.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, MetaData, create_engine, inspect, text

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
        statements = _of_empty(conn, room, known[-1])
        for statement in statements:
            conn.exec_driver_sql(statement)
        if not statements:
            _upgrade(conn, room)
    log.info("store.migrated", room=room, before=stored, now=known[-1])


def all_steps(room: str) -> str:
    """The statements that make of an empty SQLite file what all steps of the room make of it, as ``empty.sql``.

    Raises:
        HeadwayError: a step puts rows into a table; those would be missing.
    """
    engine = create_engine("sqlite://")
    with engine.begin() as conn:
        _upgrade(conn, room)
        made = conn.exec_driver_sql("SELECT name, type, sql FROM sqlite_master ORDER BY rowid").all()
        tables = [name for name, kind, _ in made if kind == "table" and not name.startswith("sqlite_")]
        for table in tables:
            if table != VERSION_TABLE and conn.exec_driver_sql(f'SELECT 1 FROM "{table}"').first():
                raise HeadwayError(f"A migration of {room} puts rows into {table}; only tables can be kept.")
    engine.dispose()
    statements = [_lines(sql) for name, _, sql in made if sql and not name.startswith("sqlite_")]
    statements.append(f"INSERT INTO {VERSION_TABLE} (version_num) VALUES ('{revisions(room)[-1]}')")
    head = f"-- Revision {revisions(room)[-1]}, written by scripts/render_tables."
    return "\n\n".join([head, *(f"{statement};" for statement in statements)]) + "\n"


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


def _lines(sql: str) -> str:
    return "\n".join(line.rstrip() for line in sql.splitlines() if line.strip())


def _of_empty(conn: Connection, room: str, newest: str) -> list[str]:
    """What makes an empty SQLite file whole at once; none for any other database, or where that is not kept."""
    if conn.dialect.name != "sqlite" or inspect(conn).get_table_names():
        return []
    try:
        kept = (_versions_folder(room).parent / "empty.sql").read_text("utf-8")
    except FileNotFoundError:
        return []
    head, *statements = kept.rstrip("\n").split("\n\n")
    if not head.startswith(f"-- Revision {newest},"):
        return []  # a step is newer than the file
    return statements


def _upgrade(conn: Connection, room: str, to: str = "head") -> None:
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory

    versions = _versions_folder(room)
    script = ScriptDirectory(str(versions.parent), version_locations=[str(versions)])

    def steps(current: Any, _context: Any) -> Any:
        return script._upgrade_revs(to, current)

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
