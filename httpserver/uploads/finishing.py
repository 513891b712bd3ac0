"""Finishes complete uploads in the background: checks them, hands them to their target, and records the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from headway.backoff import Backoff
from headway.clock import Clock
from headway.errors import HeadwayError, StoreFull, Unavailable
from headway.logs import get_logger
from headway.turns import Turns

from ..http.problems import INSIDE
from . import tus
from .errors import FileBroken
from .live_upload import LiveUpload
from .ports import FinishWatch, UploadOutcome, UploadTarget
from .records import RecordState, UploadFailure, UploadRecord, UploadRecords
from .upload_files import RunningDigest, UploadFiles

log = get_logger(__name__)

_PAUSE_S = 1.0
_MOST_PAUSE_S = 60.0
_GIVE_UP_S = 10.0


class UploadFinisher:
    """After a kill at any moment, the next start finishes the same upload again."""

    def __init__(
        self, records: UploadRecords, disk: UploadFiles, clock: Clock, targets: Mapping[str, UploadTarget]
    ) -> None:
        self._records = records
        self._disk = disk
        self._clock = clock
        self._targets = targets
        self._slots = {kind: Turns(target.at_once) for kind, target in targets.items()}
        self._running: set[asyncio.Task[None]] = set()
        self._watches: set[FinishWatch] = set()

    def start(self, upload: LiveUpload) -> None:
        """Begins, unless it has begun."""
        if upload.finishing is None:
            upload.watch = FinishWatch()
            upload.finishing = asyncio.create_task(self._run(upload, upload.watch), name="upload-finish")
            self._running.add(upload.finishing)
            upload.finishing.add_done_callback(self._running.discard)

    async def stop(self, upload: LiveUpload) -> None:
        """Gives up; what the target had begun is the target's to undo."""
        if upload.finishing is not None and upload.watch is not None:
            upload.watch.cancel()
            await self._end({upload.finishing})
            upload.finishing = None

    async def close(self) -> None:
        """Gives all up, for the next start to take up."""
        for watch in self._watches:
            watch.cancel()
        await self._end(set(self._running))

    async def _end(self, tasks: set[asyncio.Task[None]]) -> None:
        if not tasks:
            return
        # First a chance to notice: a target's thread can't be cancelled.
        _, late = await asyncio.wait(tasks, timeout=_GIVE_UP_S)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_GIVE_UP_S)

    async def _run(self, upload: LiveUpload, watch: FinishWatch) -> None:
        self._watches.add(watch)
        try:
            async with self._slots[upload.record.kind].of(upload.record.account):
                changes = await self._patiently(upload, watch)
            if changes is not None:
                await self._record(upload, watch, changes)
        finally:
            self._watches.discard(watch)
            upload.finishing = upload.watch = None

    async def _patiently(self, upload: LiveUpload, watch: FinishWatch) -> dict[str, Any] | None:
        pauses = Backoff(_PAUSE_S, _MOST_PAUSE_S)
        while not watch.cancelled():
            try:
                outcome = await self._outcome(upload, watch)
            except Unavailable as error:
                if watch.cancelled():
                    break
                log.warning("upload.finish_waits", upload=upload.record.id, reason=error.message)
                await self._pause(pauses.next_s(), watch)
            except HeadwayError as error:
                if watch.cancelled():
                    break
                return {"state": RecordState.FAILED, "problem": UploadFailure(error.slug, error.message)}
            except Exception as error:
                if watch.cancelled():
                    break
                log.error("upload.finish_broken", upload=upload.record.id, exc=error)
                return {"state": RecordState.FAILED, "problem": UploadFailure(HeadwayError.slug, INSIDE)}
            else:
                if outcome.choices:
                    return {"state": RecordState.CHOOSE, "choices": outcome.choices}
                return {"state": RecordState.DONE, "result": dict(outcome.result)}
        return None

    async def _outcome(self, upload: LiveUpload, watch: FinishWatch) -> UploadOutcome:
        record = upload.record
        wanted = tus.sha256_of(record.metadata)
        await self._disk.require(adds=False)
        if not record.choice:
            if wanted and upload.digest is None:
                upload.digest = RunningDigest()
            found = await self._disk.complete(
                record.place, record.length or 0, upload.digest if wanted else None, watch
            )
            if found != wanted and not watch.cancelled():
                raise FileBroken(
                    f"The file is not the one whose checksum was sent (sha256 {wanted[:12]}…, and {found[:12]}… "
                    "arrived): upload it again."
                )
            watch.progress = None
        return await self._targets[record.kind].finish(record.stored(), record.place, watch)

    async def _record(self, upload: LiveUpload, watch: FinishWatch, changes: dict[str, Any]) -> None:
        pauses = Backoff(_PAUSE_S, _MOST_PAUSE_S)
        now = self._clock.now()
        while True:
            try:
                record = await self._records.change(upload.record, touched_at=now, **changes)
                break
            except (Unavailable, StoreFull) as error:
                # Until it is recorded, the next start would finish it again, which targets bear.
                if watch.cancelled():
                    return
                log.warning("upload.record_waits", upload=upload.record.id, reason=error.message)
                await self._pause(pauses.next_s(), watch)
        reason = None if record.problem is None else record.problem.detail
        log.info("upload.finished", upload=record.id, kind=record.kind, state=record.state.value, reason=reason)
        if record.state is not RecordState.CHOOSE:
            await self._tidy(record)
        upload.record, upload.touched_at = record, now  # seen as over only once all is

    async def _tidy(self, record: UploadRecord) -> None:
        try:
            await self._disk.remove(record.place)
        except HeadwayError as error:
            # Tried again by the next start, and when the record goes.
            log.warning("upload.bytes_stay", upload=record.id, reason=error.message)
        if record.state is RecordState.FAILED:
            await self._targets[record.kind].abandon(record.stored(), record.place)

    async def _pause(self, seconds: float, watch: FinishWatch) -> None:
        until = self._clock.monotonic() + seconds
        while not watch.cancelled() and (left := until - self._clock.monotonic()) > 0:
            await self._clock.sleep(min(left, 1.0))
