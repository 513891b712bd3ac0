"""Databases of both kinds for the tests of stores.

A module whose tests take `both_databases` (tests/conftest.py) runs once on SQLite and once on PostgreSQL. There every
file that a test or a rig would open is a database of its own, the same one for the same path. Databases have the tables
of all rooms already, and are used again once the test has ended that had them: both save most of the time.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest
from sqlalchemy import Engine, create_engine

from headway.store import Database
from headway.store.database import parse_url

from .postgres import Postgres

KINDS = ("sqlite", pytest.param("postgresql", marks=pytest.mark.postgres))
ROOMS = ("job_manager", "task_manager", "resource_manager", "httpserver")


@dataclass(slots=True)
class _Place:
    """A database that stands for a file. ``test``: the one that opened it first."""

    url: str
    test: str
    opened: list[Database] = field(default_factory=list)

    def is_over(self) -> bool:
        return self.test != _this_test() and all(db._closed for db in self.opened)


_instead: dict[str, _Place] = {}  # by the path of the file


def url_of(path: object) -> str:
    """What is opened in place of a file: its path, or the URL of the database that stands for it."""
    place = _instead.get(os.path.abspath(str(path)))
    return str(path) if place is None else place.url


def engine_of(path: object, room: str) -> Engine:
    """A look at such a database, past the service that has it."""
    url = parse_url(url_of(path))
    options: dict[str, Any] = (
        {} if url.database and url.get_backend_name() == "sqlite" else {"options": f"-csearch_path={room}"}
    )
    return create_engine(url, connect_args=options)


@contextmanager
def postgresql_for_files(server: Postgres) -> Iterator[None]:
    """Until the end, what the rooms of the managers open as a file is a database of this server."""
    real = Database.open

    async def opened(url: str, *, room: str, **more: Any) -> Database:
        if "://" in url or room not in ROOMS:
            return await real(url, room=room, **more)
        place = await asyncio.to_thread(_place_of, url, server, real)
        place.opened.append(db := await real(place.url, room=room, **more))
        return db

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Database, "open", opened)
        try:
            yield
        finally:
            _instead.clear()


def _place_of(file: str, server: Postgres, real: Any) -> _Place:
    path = os.path.abspath(file)
    if path not in _instead:
        _instead[path] = _empty_place(server, real)
    return _instead[path]


def _empty_place(server: Postgres, real: Any) -> _Place:
    """A database that an earlier test has done with, else a new one."""
    for path, place in _instead.items():
        if place.is_over():
            del _instead[path]
            with psycopg.connect(place.url, autocommit=True) as connection:
                connection.execute(_EMPTY)
            return _Place(place.url, _this_test())
    return _Place(server.tcp_url(server.new_database(of=_template(server, real))), _this_test())


def _this_test() -> str:
    return os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0]


# As after the migrations: no rows, and each sequence at its start.
_EMPTY = b"""
DO $$ DECLARE one record; BEGIN
SET LOCAL session_replication_role = replica;
FOR one IN SELECT schemaname, tablename FROM pg_tables WHERE schemaname IN
    ('job_manager', 'task_manager', 'resource_manager', 'httpserver') AND tablename <> 'alembic_version' LOOP
  EXECUTE format('DELETE FROM %I.%I', one.schemaname, one.tablename);
END LOOP;
FOR one IN SELECT schemaname, sequencename FROM pg_sequences LOOP
  EXECUTE format('ALTER SEQUENCE %I.%I RESTART', one.schemaname, one.sequencename);
END LOOP;
END $$
"""


def _template(server: Postgres, real: Any) -> str:
    """The database of this server that has the tables of all rooms, made once."""
    if not server.template:
        name = server.new_database()

        async def make() -> None:
            for room in ROOMS:
                await (await real(server.tcp_url(name), room=room)).close()

        # In a thread: a test's own loop runs in this one.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: asyncio.run(make())).result()
        server.template = name
    return server.template
