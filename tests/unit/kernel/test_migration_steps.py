"""Every schema that Headway ever had, with a row in each table, comes up to today's on both databases."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from sqlalchemy import (
    Boolean,
    Connection,
    Engine,
    Float,
    LargeBinary,
    MetaData,
    Numeric,
    String,
    create_engine,
    func,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.pool import StaticPool

from headway.store import migrations
from headway.store.database import _engine, parse_url
from headway.store.migrations import VERSION_TABLE, DatabaseTooNew, differences, migrate, revisions
from tests.support.postgres import Postgres

TABLES = {
    "job_manager": "job_manager.tables",
    "task_manager": "task_manager.store.tables",
    "resource_manager": "resource_manager.tables",
    "httpserver": "httpserver.tables",
}
ON_SQLITE = [(room, "sqlite") for room in (*TABLES, "worker")]
# A Worker's journal is always a file on its machine.
ON_POSTGRES = [pytest.param(room, "postgresql", marks=pytest.mark.postgres, id=f"{room}-postgresql") for room in TABLES]


class Places:
    """New databases for one room, without tables."""

    def __init__(self, url: str) -> None:
        self._url = url

    def new(self, room: str) -> Engine:
        if not self._url:
            return create_engine("sqlite://", poolclass=StaticPool)
        engine = create_engine(parse_url(self._url))
        with engine.begin() as conn:
            conn.execute(text(f'DROP SCHEMA IF EXISTS "{room}" CASCADE'))
            conn.execute(text(f'CREATE SCHEMA "{room}"'))
        engine.dispose()
        return _engine(parse_url(self._url), room, size=1, writer=True)


@pytest.fixture
def places(request: pytest.FixtureRequest, kind: str) -> Places:
    url = ""
    if kind == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.tcp_url(server.new_database())
    return Places(url)


def a_value(column: Any) -> Any:
    match column.type:
        case Boolean():
            return True
        case LargeBinary():
            return b""
        case Float():
            return 1.5
        case Numeric():
            return 1
        case String():
            return "x"
        case _:
            return 1


def with_rows(conn: Connection) -> dict[str, int]:
    """Puts one row into each table, with a value in each column; how many rows each has then."""
    found = MetaData()
    found.reflect(conn)
    for table in found.sorted_tables:
        if table.name != VERSION_TABLE and not table.name.startswith("sqlite_"):
            conn.execute(insert(table), {column.name: a_value(column) for column in table.columns})
    return counted(conn)


def counted(conn: Connection) -> dict[str, int]:
    found = MetaData()
    found.reflect(conn)
    return {
        table.name: int(conn.execute(select(func.count()).select_from(table)).scalar_one())
        for table in found.sorted_tables
        if not table.name.startswith("sqlite_")
    }


def columns(conn: Connection) -> dict[str, set[str]]:
    found = MetaData()
    found.reflect(conn)
    return {table.name: {column.name for column in table.columns} for table in found.sorted_tables}


@pytest.mark.parametrize(("room", "kind"), [*ON_SQLITE, *ON_POSTGRES])
def test_each_step_of_the_past_leads_to_the_tables_of_today(places: Places, room: str, kind: str) -> None:
    today: dict[str, set[str]] = {}
    for revision in revisions(room):
        engine = places.new(room)
        with engine.begin() as conn:
            migrations._upgrade(conn, room, revision)
            before = with_rows(conn)
        migrate(engine, room, "the database")
        if not today and room in TABLES:
            importlib.import_module(f"{room}.app")  # all that adds tables
            assert differences(engine, room, importlib.import_module(TABLES[room]).metadata) == []
        with engine.begin() as conn:
            today = today or columns(conn)
            assert columns(conn) == today, revision
            after = counted(conn)
            assert conn.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar() == revisions(room)[-1]
        lost = {name for name, rows in before.items() if name in after and after[name] < rows}
        assert not lost, f"from {revision} rows were lost"
        engine.dispose()


@pytest.mark.parametrize(("room", "kind"), [ON_SQLITE[0], ON_POSTGRES[0]])
def test_the_database_of_a_newer_version_is_left_as_it_is(places: Places, room: str, kind: str) -> None:
    engine = places.new(room)
    migrate(engine, room, "the database")
    with engine.begin() as conn:
        conn.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
        with_rows(conn)
        before = counted(conn)
    with pytest.raises(DatabaseTooNew, match=r"revision 9999.*install that version again, or restore the backup"):
        migrate(engine, room, "the database")
    with engine.begin() as conn:
        assert counted(conn) == before
        assert inspect(conn).has_table("job")
    engine.dispose()
