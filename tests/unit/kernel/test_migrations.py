"""Tables brought up to date: all steps or none, and nothing of a newer Headway is touched."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Column, Connection, Integer, MetaData, Table, Text, create_engine, inspect, text
from sqlalchemy.exc import OperationalError

from headway.errors import HeadwayError
from headway.store import Database, migrations
from headway.store.migrations import DatabaseTooNew, differences

ROOT = Path(__file__).resolve().parents[3]

STEPS = {
    "0001_first.py": """
import sqlalchemy as sa
from alembic import op
revision, down_revision = "0001", None
def upgrade():
    op.create_table("jobs", sa.Column("id", sa.Integer, primary_key=True))
""",
    "0002_names.py": """
import sqlalchemy as sa
from alembic import op
revision, down_revision = "0002", "0001"
def upgrade():
    op.execute("INSERT INTO jobs (id) VALUES (1)")
    op.add_column("jobs", sa.Column("name", sa.Text, nullable=False, server_default="x"))
""",
    "0003_broken.py": """
import sqlalchemy as sa
from alembic import op
revision, down_revision = "0003", "0002"
def upgrade():
    op.create_table("more", sa.Column("id", sa.Integer, primary_key=True))
    raise RuntimeError("step three fails")
""",
}


class Room:
    """A package with migrations, under its own name so that tests don't share modules."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self._versions = folder / name / "migrations" / "versions"
        self._versions.mkdir(parents=True)
        (folder / name / "__init__.py").write_text("")

    def has(self, *files: str) -> None:
        for old in self._versions.glob("*.py"):
            old.unlink()
        for file in files:
            (self._versions / file).write_text(STEPS[file])


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Room:
    monkeypatch.syspath_prepend(str(tmp_path))
    return Room(tmp_path, f"room_{abs(hash(request.node.name))}")


async def columns(db: Database) -> dict[str, list[str]]:
    def look(conn):  # type: ignore[no-untyped-def]
        inspector = inspect(conn)
        return {t: [c["name"] for c in inspector.get_columns(t)] for t in sorted(inspector.get_table_names())}

    return dict(await db.read(look))


async def test_an_empty_database_gets_all_steps(room: Room, url: str) -> None:
    room.has("0001_first.py", "0002_names.py")
    db = await Database.open(url, room=room.name)
    assert await columns(db) == {"alembic_version": ["version_num"], "jobs": ["id", "name"]}
    await db.close()


async def test_an_older_one_gets_the_missing_steps_and_keeps_its_rows(room: Room, url: str) -> None:
    room.has("0001_first.py")
    db = await Database.open(url, room=room.name)
    await db.write(lambda conn: conn.execute(text("INSERT INTO jobs (id) VALUES (7)")))
    await db.close()
    room.has("0001_first.py", "0002_names.py")
    db = await Database.open(url, room=room.name)
    rows = await db.read(lambda conn: conn.execute(text("SELECT id, name FROM jobs ORDER BY id")).all())
    assert [tuple(row) for row in rows] == [(1, "x"), (7, "x")]
    await db.close()
    again = await Database.open(url, room=room.name)
    await again.close()


async def test_a_failing_step_undoes_all_of_this_start(room: Room, url: str) -> None:
    room.has("0001_first.py")
    await (await Database.open(url, room=room.name)).close()
    room.has("0001_first.py", "0002_names.py", "0003_broken.py")
    with pytest.raises(RuntimeError, match="step three fails"):
        await Database.open(url, room=room.name)
    room.has("0001_first.py")
    db = await Database.open(url, room=room.name)
    assert await columns(db) == {"alembic_version": ["version_num"], "jobs": ["id"]}
    await db.close()


async def test_a_newer_one_is_refused_in_one_sentence_and_left_alone(room: Room, url: str) -> None:
    room.has("0001_first.py", "0002_names.py")
    await (await Database.open(url, room=room.name)).close()
    room.has("0001_first.py")
    with pytest.raises(DatabaseTooNew, match=r"newer Headway \(revision 0002; this version knows up to 0001\)"):
        await Database.open(url, room=room.name)
    room.has("0001_first.py", "0002_names.py")
    db = await Database.open(url, room=room.name)
    assert await columns(db) == {"alembic_version": ["version_num"], "jobs": ["id", "name"]}
    await db.close()


@pytest.mark.parametrize("files", [(), ("0002_names.py",)])
async def test_a_gap_is_a_fault_of_the_package(room: Room, tmp_path: Path, files: tuple[str, ...]) -> None:
    room.has(*files)
    with pytest.raises(HeadwayError, match="must hold 0001_"):
        await Database.open(str(tmp_path / "t.db"), room=room.name)


async def test_tables_in_code_are_compared_with_the_steps(room: Room, tmp_path: Path) -> None:
    room.has("0001_first.py", "0002_names.py")
    db = await Database.open(str(tmp_path / "t.db"), room=room.name)
    same, other = MetaData(), MetaData()
    Table("jobs", same, Column("id", Integer, primary_key=True), Column("name", Text, nullable=False))
    Table("jobs", other, Column("id", Integer, primary_key=True))
    assert differences(db._write_engine, room.name, same) == []
    assert differences(db._write_engine, room.name, other) != []
    await db.close()


ROOMS = ["httpserver", "job_manager", "resource_manager", "task_manager", "worker"]


def schema_of(conn: Connection) -> dict[str, list[str]]:
    """By the name of a table or index, the words that made it."""
    found = conn.execute(text("SELECT name, sql FROM sqlite_master")).all()
    return {name: (sql or "").split() for name, sql in found}


@pytest.mark.parametrize("name", ROOMS)
async def test_an_empty_file_becomes_what_all_steps_make_without_running_one(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_steps = create_engine(f"sqlite:///{tmp_path}/steps.db")
    with by_steps.begin() as conn:
        migrations._upgrade(conn, name)
        wanted = schema_of(conn)
    by_steps.dispose()
    monkeypatch.setattr(migrations, "_upgrade", None)
    db = await Database.open(str(tmp_path / "t.db"), room=name)
    assert await db.read(schema_of) == wanted, "run scripts/render_tables"
    stored = await db.read(lambda conn: conn.execute(text("SELECT version_num FROM alembic_version")).scalars().all())
    assert stored == [migrations.revisions(name)[-1]]
    await db.close()


@pytest.mark.slow
def test_what_an_empty_file_becomes_is_kept_fresh() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts" / "render_tables", "--check"], check=False)
    assert done.returncode == 0, "run scripts/render_tables"


async def test_a_kept_empty_file_older_than_the_steps_is_not_used(room: Room, tmp_path: Path) -> None:
    room.has("0001_first.py")
    (tmp_path / room.name / "migrations" / "empty.sql").write_text(migrations.all_steps(room.name))
    room.has("0001_first.py", "0002_names.py")
    db = await Database.open(str(tmp_path / "t.db"), room=room.name)
    assert await columns(db) == {"alembic_version": ["version_num"], "jobs": ["id", "name"]}
    await db.close()


async def test_a_file_that_has_tables_gets_the_steps(room: Room, tmp_path: Path) -> None:
    room.has("0001_first.py")
    (tmp_path / room.name / "migrations" / "empty.sql").write_text(migrations.all_steps(room.name))
    with sqlite3.connect(tmp_path / "t.db") as other:
        other.execute("CREATE TABLE jobs (other TEXT)")
    other.close()
    with pytest.raises(OperationalError, match="jobs already exists"):
        await Database.open(str(tmp_path / "t.db"), room=room.name)


def test_steps_that_put_rows_in_are_not_kept(room: Room) -> None:
    room.has("0001_first.py", "0002_names.py")
    with pytest.raises(HeadwayError, match="puts rows into jobs"):
        migrations.all_steps(room.name)


@pytest.mark.parametrize("name", ROOMS)
async def test_each_rooms_steps_build_its_tables(name: str, tmp_path: Path) -> None:
    db = await Database.open(str(tmp_path / "t.db"), room=name)
    await db.close()


def test_neither_a_first_start_nor_one_with_nothing_to_do_imports_alembic(tmp_path: Path, repository: Path) -> None:
    program = f"""
import asyncio, sys
from headway.store import Database
async def main():
    await (await Database.open({str(tmp_path / "t.db")!r}, room="job_manager")).close()
asyncio.run(main())
print("alembic" in sys.modules)
"""
    said = [
        subprocess.run(
            [sys.executable, "-c", program], cwd=repository, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert said == ["False\n", "False\n"]
