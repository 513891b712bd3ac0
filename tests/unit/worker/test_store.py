"""What the Worker must not forget, on a real file."""

from __future__ import annotations

import asyncio
from pathlib import Path

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
