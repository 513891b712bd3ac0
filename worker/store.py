"""What the Worker must not forget: accepted attempts, stops, ends that were not delivered, and fetched images.

It is one SQLite file on the machine's own disk. A burst of launches or ends is one transaction, so it costs one fsync.
All of it is in memory too (``TaskController``), so it is read only at a start.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy import Connection

from headway.ids import AttemptId
from headway.store.batcher import Batcher
from headway.store.database import Database

from .box import StopWord
from .images.journal import SqlImageJournal
from .model import AttemptGpus, AttemptRecord, AttemptStage, AttemptTimes, attempt_of_folder

if TYPE_CHECKING:
    from headway.metrics.shared import DatabaseNumbers

_INSERT = (
    "INSERT OR REPLACE INTO attempts (folder, stage, launch, facts, notes, end_report, changed_at) "
    "VALUES (?, ?, ?, ?, ?, ?, ?)"
)


class WorkerStore:
    """See the module. Every call but ``close`` raises StoreFull or StoreUnavailable. Then nothing is stored."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.puts: Batcher[tuple[Any, ...], None] = Batcher(self._write, name="worker-store")
        self.images = SqlImageJournal(db)
        self.gpus = SqlGpuJournal(db)
        self._puts_of: dict[AttemptId, int] = {}  # how often each record was put
        self._later: _LaterRows | None = None
        self._later_lock = threading.Lock()

    @classmethod
    async def open(cls, path: str, numbers: DatabaseNumbers | None = None) -> WorkerStore:
        """Open the file for this process alone. It is made if it is missing."""
        return cls(await Database.open(path, room="worker", numbers=numbers))

    async def close(self) -> None:
        """Finish what was submitted. Safe twice."""
        await self.puts.close()
        await self._db.close()

    async def put(self, record: AttemptRecord) -> None:
        """Store the record. It is durable when this returns. Calls at the same time share one fsync."""
        self._counts(record)
        await self.puts.submit(record_to_row(record))

    async def put_many(self, records: Sequence[AttemptRecord]) -> None:
        """Store several records. When it raises, perhaps none was stored."""
        for record in records:
            self._counts(record)
        await self.puts.submit_many([record_to_row(record) for record in records])

    def put_later(self, record: AttemptRecord) -> None:
        """Store it with the next write, or half a second later. Use it for what may happen again after a crash.

        A ``put`` of the same record that comes in between counts: it holds more.
        """
        later = record_to_row(record), self._puts_of.get(record.attempt, 0)
        with self._later_lock:
            if self._later is not None and self._later.dropped == self._db.dropped:
                self._later[record.attempt] = later
                return
            rows = self._later = _LaterRows({record.attempt: later})
            rows.dropped = self._db.dropped
        self._db.defer(lambda conn: self._write_later(conn, rows))

    def _write_later(self, conn: Connection, rows: _LaterRows) -> None:
        with self._later_lock:
            if self._later is rows:
                self._later = None  # no more are added: when this fails, these are written again
        fresh = [row for attempt, (row, put) in rows.items() if self._puts_of.get(attempt, 0) == put]
        if fresh:
            conn.exec_driver_sql(_INSERT, fresh)

    def _counts(self, record: AttemptRecord) -> None:
        self._puts_of[record.attempt] = self._puts_of.get(record.attempt, 0) + 1

    def forget_later(self, attempts: Sequence[AttemptId]) -> None:
        """Drop records soon."""
        folders = [(attempt.folder,) for attempt in attempts]
        for attempt in attempts:
            self._puts_of.pop(attempt, None)
        if folders:
            self._db.defer(lambda conn: conn.exec_driver_sql("DELETE FROM attempts WHERE folder = ?", folders))

    async def load(self) -> list[AttemptRecord]:
        """All records."""

        def read(conn: Connection) -> list[AttemptRecord]:
            rows = conn.execute(sa.text("SELECT * FROM attempts")).all()
            return [record for row in rows if (record := record_from_row(row)) is not None]

        return await self._db.read(read)

    async def next_incarnation(self, now: float) -> int:
        """A number for this start, larger than all before, even if the wall clock was set back."""

        def write(conn: Connection) -> int:
            stored = conn.execute(sa.text("SELECT value FROM meta WHERE key = 'incarnation'")).scalar()
            number = max(int(now * 1000), int(stored or 0) + 1)
            conn.execute(
                sa.text("INSERT OR REPLACE INTO meta (key, value) VALUES ('incarnation', :value)"),
                {"value": str(number)},
            )
            return number

        return await self._db.write(write)

    async def identity(self) -> tuple[str, str]:
        """The id of this folder, made at its first start, and where it was used last; empty: nowhere yet."""

        def write(conn: Connection) -> tuple[str, str]:
            statement = sa.text("INSERT OR IGNORE INTO meta (key, value) VALUES ('uuid', :value)")
            conn.execute(statement, {"value": str(uuid.uuid4())})
            rows = conn.execute(sa.text("SELECT key, value FROM meta WHERE key IN ('uuid', 'place')")).all()
            stored = {row.key: str(row.value) for row in rows}
            return stored["uuid"], stored.get("place", "")

        return await self._db.write(write)

    async def settle(self, place: str) -> None:
        """Note where this folder is used, once ResourceManager has taken its Worker."""
        statement = sa.text("INSERT OR REPLACE INTO meta (key, value) VALUES ('place', :value)")
        await self._db.write(lambda conn: conn.execute(statement, {"value": place}))

    async def _write(self, rows: list[tuple[Any, ...]]) -> list[None]:
        await self._db.write(lambda conn: conn.exec_driver_sql(_INSERT, rows))
        return [None] * len(rows)


class SqlGpuJournal:
    """``ports.GpuJournal``."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def load(self) -> str:
        def read(conn: Connection) -> str:
            return str(conn.execute(sa.text("SELECT value FROM meta WHERE key = 'gpus'")).scalar() or "")

        return await self._db.read(read)

    async def save(self, text: str) -> None:
        statement = sa.text("INSERT OR REPLACE INTO meta (key, value) VALUES ('gpus', :value)")
        await self._db.write(lambda conn: conn.execute(statement, {"value": text}))


class _LaterRows(dict[AttemptId, tuple[tuple[Any, ...], int]]):
    """Rows for the next write, the newest of each record, and how often that record had been put."""

    dropped = 0  # how often the database had dropped what was deferred


def record_to_row(record: AttemptRecord) -> tuple[Any, ...]:
    """The row of a record in the table."""
    times = record.times
    facts: dict[str, Any] = {
        "accepted_at": times.accepted_at,
        "container_started_at": times.container_started_at,
        "process_started_at": times.process_started_at,
        "ended_at": times.ended_at,
        "run_s": times.run_s,
        "stop": record.stop.value if record.stop else None,
        "stop_detail": record.stop_detail,
        "discarded": record.discarded,
        "boot_id": record.boot_id,
        "arrived_s": record.arrived_s,
        "arrived_boot_id": record.arrived_boot_id,
        "container_id": record.container_id,
        "image_id": record.image_id,
        "timeout_s": record.timeout_s,
        "counted_s": record.counted_s,
        "given": record.extensions_logged,
        "unsafe": record.unsafe,
    }
    if record.late or record.late_told:
        facts |= {"late": record.late, "late_told": record.late_told, "generation": record.generation}
    if record.gpus:
        facts["gpus"] = asdict(record.gpus)
    return (
        record.attempt.folder,
        record.stage.value,
        record.launch,
        json.dumps(facts),
        record.platform_log,
        record.end_report,
        record.changed_at,
    )


def record_from_row(row: Any) -> AttemptRecord | None:
    """The record of a row. None: its name is no attempt's."""
    attempt = attempt_of_folder(row.folder)
    if attempt is None:
        return None
    facts = json.loads(row.facts)
    return AttemptRecord(
        attempt=attempt,
        stage=AttemptStage(row.stage),
        launch=row.launch,
        times=AttemptTimes(
            accepted_at=facts["accepted_at"],
            container_started_at=facts.get("container_started_at"),
            process_started_at=facts.get("process_started_at"),
            ended_at=facts.get("ended_at"),
            run_s=facts.get("run_s"),
        ),
        stop=StopWord(facts["stop"]) if facts.get("stop") else None,
        stop_detail=facts.get("stop_detail", ""),
        discarded=bool(facts.get("discarded")),
        boot_id=facts.get("boot_id", ""),
        arrived_s=facts.get("arrived_s", 0.0),
        arrived_boot_id=facts.get("arrived_boot_id", ""),
        container_id=facts.get("container_id", ""),
        image_id=facts.get("image_id", ""),
        platform_log=row.notes,
        end_report=row.end_report,
        changed_at=row.changed_at,
        timeout_s=facts.get("timeout_s"),
        counted_s=facts.get("counted_s"),
        extensions_logged=facts.get("given", 0),
        unsafe=bool(facts.get("unsafe")),
        late=facts.get("late", {}),
        late_told=tuple(facts.get("late_told", ())),
        generation=facts.get("generation", 0),
        gpus=AttemptGpus(**facts.get("gpus", {})),
    )
