"""Copies of living databases, each as of one moment, and what PostgreSQL's own programs do for that."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import text

from ..errors import ConfigInvalid, HeadwayError, StoreUnavailable
from ..store.database import parse_url
from ..store.faults import StoreDamaged
from ..store.migrations import VERSION_TABLE
from .parts import DatabasePlace

_HOURS_S = 24 * 3_600.0


class PostgresProgramFailed(HeadwayError):
    """pg_dump or pg_restore did not do its work."""

    slug = "database-program-failed"
    title = "A program of PostgreSQL failed"


def copy_sqlite(source: Path, target: Path) -> str:
    """Copies a database that a service may be writing to; returns its revision.

    All pages are read in one transaction. With a write-ahead log that keeps no writer waiting.

    Raises:
        StoreDamaged: the copy is not sound, and so the database is not.
        StoreUnavailable: it can't be read.
    """
    try:
        with (
            closing(sqlite3.connect(f"file:{quote(str(source))}?mode=ro", uri=True, timeout=30.0)) as living,
            closing(sqlite3.connect(target)) as copy,
        ):
            living.backup(copy)
            # One file from here on, without a log beside it.
            copy.execute("PRAGMA journal_mode=DELETE")
            said = [row[0] for row in copy.execute("PRAGMA quick_check(1)")]
            if said != ["ok"]:
                raise StoreDamaged(f"The database {source} is damaged ({said[0]}): no backup of it can be made.")
            return _revision(copy.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone())
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise StoreUnavailable(f"The database {source} can't be copied: {error}.") from error
        raise StoreDamaged(f"The database {source} is damaged ({error}): no backup of it can be made.") from error


def dump_postgres(place: DatabasePlace, target: Path) -> str:
    """The same of a schema of PostgreSQL, by pg_dump.

    Raises:
        ConfigInvalid: pg_dump is not here.
        PostgresProgramFailed: it failed; the sentence has what it said.
    """
    revision = postgres_revision(place)
    _run(
        place,
        "pg_dump",
        ["--format=custom", "--no-owner", "--no-privileges", f"--schema={place.service}", f"--file={target}"],
    )
    return revision or ""


def load_postgres(place: DatabasePlace, dump: Path) -> None:
    """Puts a dump in, whole or not at all.

    Raises:
        ConfigInvalid: pg_restore is not here.
        PostgresProgramFailed: it failed, and nothing is in the database.
    """
    _run(place, "pg_restore", ["--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges", str(dump)])


def postgres_revision(place: DatabasePlace) -> str | None:
    """The revision of a room's tables; None if it has none there.

    Raises:
        StoreUnavailable: the server does not answer, or not to this user.
    """
    from sqlalchemy import create_engine

    from ..store.faults import translated

    engine = create_engine(parse_url(place.url), connect_args={"connect_timeout": 5})
    try:
        with translated(place.shown, None), engine.connect() as conn:
            name = f'"{place.service}".{VERSION_TABLE}'
            if conn.execute(text("SELECT to_regclass(:name)"), {"name": name}).scalar() is None:
                return None
            return _revision(conn.execute(text(f"SELECT version_num FROM {name}")).first())
    finally:
        engine.dispose()


def require_program(name: str) -> str:
    """The path of a program of PostgreSQL's client.

    Raises:
        ConfigInvalid: it is not on this machine; the sentence says what to install.
    """
    found = shutil.which(name)
    if found:
        return found
    # Debian keeps them off the PATH of some accounts.
    kept = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: path.parts[-3].zfill(4))
    if not kept:
        raise ConfigInvalid(
            f"{name} is not on this machine: install PostgreSQL's client of the server's version (Debian: "
            "postgresql-client). Or back the PostgreSQL server up by its own means, and name the other services."
        )
    return str(kept[-1])


def _run(place: DatabasePlace, program: str, options: Sequence[str]) -> None:
    words, environment = connection(place)
    done = subprocess.run(
        [require_program(program), "--no-password", *options, f"--dbname={words}"],
        env={**os.environ, **environment, "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_HOURS_S,
        check=False,
    )
    if done.returncode:
        said = " ".join(done.stderr.split())[:500]
        raise PostgresProgramFailed(f"{program} failed for {place.shown}: {said or f'status {done.returncode}'}")


def connection(place: DatabasePlace) -> tuple[str, dict[str, str]]:
    """How libpq reaches a database: words for an option, and what must not stand among a process's words."""
    from psycopg.conninfo import make_conninfo

    url = parse_url(place.url)
    _, given = url.get_dialect()().create_connect_args(url)
    settings: dict[str, Any] = {key: value for key, value in given.items() if key not in ("password", "options")}
    password = given.get("password")
    return make_conninfo(**settings), {"PGPASSWORD": str(password)} if password else {}


def _revision(row: Any) -> str:
    return str(row[0]) if row else ""
