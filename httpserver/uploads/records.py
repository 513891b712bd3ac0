"""Uploads as they are recorded, and how they get into the database and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from headway.store import Database

from . import tus
from .ports import StoredUpload, UploadPlace
from .tables import uploads as table


class RecordState(StrEnum):
    """What is recorded of an upload's progress. The file itself shows whether all bytes have come."""

    OPEN = "open"  # bytes come, or are being checked
    CHOOSE = "choose"
    DONE = "done"
    FAILED = "failed"


OVER = frozenset({RecordState.DONE, RecordState.FAILED})


@dataclass(frozen=True, slots=True)
class UploadFailure:
    """Why an upload failed."""

    slug: str
    detail: str


@dataclass(frozen=True, slots=True)
class UploadRecord:
    """One row."""

    id: str
    kind: str
    account: str
    length: int | None
    raw_metadata: str  # Upload-Metadata as it came
    metadata: Mapping[str, str]
    place: UploadPlace
    created_at: float
    touched_at: float  # to about a minute
    state: RecordState = RecordState.OPEN
    choice: str = ""
    choices: tuple[str, ...] = ()
    problem: UploadFailure | None = None
    result: Mapping[str, Any] | None = field(default=None)
    unchecked_from: int | None = None

    def stored(self) -> StoredUpload:
        """As its target sees it."""
        return StoredUpload(self.id, self.account, self.length or 0, self.metadata, self.created_at, self.choice)


class UploadRecords:
    """The database first: what a method returns is durable."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def all(self) -> list[UploadRecord]:
        """Every record, oldest first."""

        def work(conn: Connection) -> list[UploadRecord]:
            return [_record(row) for row in conn.execute(select(table).order_by(table.c.created_at))]

        return await self._db.read(work)

    async def add(self, record: UploadRecord) -> None:
        """A new one."""
        await self._db.write(lambda conn: conn.execute(insert(table).values(**_columns(record))))

    async def change(self, record: UploadRecord, **changes: Any) -> UploadRecord:
        """The record with these fields changed."""
        changed = replace(record, **changes)
        columns = _columns(changed)
        where = table.c.id == record.id
        await self._db.write(lambda conn: conn.execute(update(table).where(where).values(**columns)))
        return changed

    async def drop(self, upload_id: str) -> None:
        """Forgets it; fine if it is forgotten already."""
        await self._db.write(lambda conn: conn.execute(delete(table).where(table.c.id == upload_id)))

    def touched(self, record: UploadRecord, at: float) -> UploadRecord:
        """Stored with the next write; lost in a kill, the upload only expires a little sooner."""
        where = table.c.id == record.id
        self._db.defer(lambda conn: conn.execute(update(table).where(where).values(touched_at=at)))
        return replace(record, touched_at=at)


def _columns(record: UploadRecord) -> dict[str, Any]:
    problem = record.problem
    return {
        "id": record.id,
        "kind": record.kind,
        "account": record.account,
        "length": record.length,
        "metadata": record.raw_metadata,
        "folder": record.place.folder,
        "name": record.place.name,
        "uid": record.place.uid,
        "gid": record.place.gid,
        "state": record.state.value,
        "choice": record.choice,
        "choices": json.dumps(record.choices),
        "problem": "" if problem is None else json.dumps([problem.slug, problem.detail]),
        "result": "" if record.result is None else json.dumps(dict(record.result)),
        "created_at": record.created_at,
        "touched_at": record.touched_at,
        "unchecked_from": record.unchecked_from,
    }


def _record(row: Row[Any]) -> UploadRecord:
    return UploadRecord(
        id=row.id,
        kind=row.kind,
        account=row.account,
        length=row.length,
        raw_metadata=row.metadata,
        metadata=tus.metadata(row.metadata),
        place=UploadPlace(row.folder, row.name, row.uid, row.gid),
        created_at=row.created_at,
        touched_at=row.touched_at,
        state=RecordState(row.state),
        choice=row.choice,
        choices=tuple(json.loads(row.choices)),
        problem=UploadFailure(*json.loads(row.problem)) if row.problem else None,
        result=json.loads(row.result) if row.result else None,
        unchecked_from=row.unchecked_from,
    )
