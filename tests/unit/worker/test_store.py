"""What the Worker must not forget, on a real file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event

from tests.unit.worker.builders import an_attempt
from worker.model import AttemptRecord, AttemptStage, AttemptTimes
from worker.store import WorkerStore


async def test_what_was_to_be_stored_later_never_overwrites_what_was_stored_since(tmp_path: Path) -> None:
    """An attempt's end was overwritten by the record of its start, and the attempt was told as lost."""
    store = await WorkerStore.open(str(tmp_path / "worker.db"))
    record = AttemptRecord(an_attempt(), AttemptStage.LIVE, b"launch", AttemptTimes(accepted_at=1.0))
    await store.put(record)
    store.put_later(record)
    record.stage = AttemptStage.ENDED
    await store.put(record)  # the deferred row joins this very transaction
    (stored,) = await store.load()
    assert stored.stage is AttemptStage.ENDED
    record.stage = AttemptStage.DONE
    store.put_later(record)
    await asyncio.sleep(0)
    await store.close()
    store = await WorkerStore.open(str(tmp_path / "worker.db"))
    (stored,) = await store.load()
    assert stored.stage is AttemptStage.DONE, "without a put in between it is stored"
    await store.close()


def _a_record(name: str, stage: AttemptStage = AttemptStage.LIVE) -> AttemptRecord:
    return AttemptRecord(an_attempt(task=name), stage, b"launch", AttemptTimes(accepted_at=1.0))


async def test_records_that_wait_for_the_next_write_are_one_statement_with_the_newest_of_each(tmp_path: Path) -> None:
    store = await WorkerStore.open(str(tmp_path / "worker.db"))
    statements: list[Any] = []
    event.listen(store._db._write_engine, "before_cursor_execute", lambda *call: statements.append(call[2:4]))
    first, second = _a_record("first"), _a_record("second")
    store.put_later(first)
    store.put_later(second)
    first.stage = AttemptStage.DONE
    store.put_later(first)
    await store.put(_a_record("third"))
    written = [rows for statement, rows in statements if statement.startswith("INSERT")]
    assert len(written) == 2, "the third, and both that waited"
    stages = {record.attempt.task.name: record.stage for record in await store.load()}
    assert stages == {"first": AttemptStage.DONE, "second": AttemptStage.LIVE, "third": AttemptStage.LIVE}
    await store.close()


async def test_records_that_wait_are_written_again_after_a_failed_write_with_what_came_since(tmp_path: Path) -> None:
    store = await WorkerStore.open(str(tmp_path / "worker.db"))
    early, late = _a_record("early"), _a_record("late")
    store.put_later(early)
    with pytest.raises(RuntimeError):
        await store._db.write(_fails_in_its_commit)
    early.stage = AttemptStage.DONE
    store.put_later(early)
    store.put_later(late)
    await store.put(_a_record("other"))
    stages = {record.attempt.task.name: record.stage for record in await store.load()}
    assert stages == {"early": AttemptStage.DONE, "late": AttemptStage.LIVE, "other": AttemptStage.LIVE}
    await store.close()


async def test_a_fault_in_what_else_was_deferred_keeps_no_later_record_from_the_disk(tmp_path: Path) -> None:
    """The database drops what is deferred when some of it fails in itself."""
    store = await WorkerStore.open(str(tmp_path / "worker.db"))
    store._db.defer(_fails)
    store.put_later(_a_record("dropped"))
    await store._db._flush_deferred()
    store.put_later(_a_record("kept"))
    await store.put(_a_record("other"))
    assert {record.attempt.task.name for record in await store.load()} == {"kept", "other"}
    await store.close()


def _fails(conn: Connection) -> None:
    raise RuntimeError("a fault")


def _fails_in_its_commit(conn: Connection) -> None:
    # After the deferred work, which joins this transaction.
    event.listen(conn, "commit", _fails, once=True)
