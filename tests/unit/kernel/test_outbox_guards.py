"""Numbers of events, by which their receiver tells old from new."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import MetaData, delete, select

from headway.store import Database, Outbox


async def test_a_number_is_not_used_again_after_its_event_was_delivered_and_forgotten(tmp_path: Path) -> None:
    """A receiver that has seen it would take the new event for the old one, and drop it."""
    metadata = MetaData()
    outbox = Outbox(metadata)
    numbers: list[int] = []
    for _ in range(3):
        db = await Database.open(str(tmp_path / "jobs.db"), room="job_manager", metadata=metadata)
        await db.write(lambda conn: outbox.add(conn, "tm", "event", b"x", 0.0))
        numbers += await db.write(lambda conn: list(conn.execute(select(outbox.table.c.seq)).scalars()))
        await db.write(lambda conn: conn.execute(delete(outbox.table)).rowcount)
        await db.close()
    assert numbers == [1, 2, 3]
