"""What follows an attempt's end: its log is completed, the end stored and told, and everything cleared up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace

from headway.backoff import Backoff
from headway.errors import HeadwayError, MountUnavailable, StoreFull
from headway.jobfile.spec import RunAs
from headway.logs import get_logger
from headway.units import format_size

from .. import wire
from ..box import EndRecord, Stream
from ..model import Launch, Stage
from ..ports import EngineUnavailable
from ..store import Record
from .container import Container
from .context import House
from .endings import Ending
from .home_files import give_to, publish

log = get_logger(__name__)

_NS = 1_000_000_000


def begin_copy(house: House, record: Record) -> None:
    """Copy the attempt's logs to the mount from now on. Safe twice."""
    attempt = record.attempt
    house.copier.begin(
        attempt,
        house.mounted.job_folder(attempt),
        house.runtime.spool(attempt, Stream.STDOUT),
        house.runtime.spool(attempt, Stream.STDERR),
    )
    house.copier.set_notes(attempt, record.notes)


class Aftermath:
    """``record_end`` once, then ``clear_up``; a restarted Worker goes on with ``clear_up``. ``acked`` is set when
    TaskManager has the end, or does not want it."""

    def __init__(
        self, house: House, record: Record, launch: Launch, container: Container, note: Callable[[str], None]
    ) -> None:
        self._house = house
        self._record = record
        self._launch = launch
        self._container = container
        self._note = note
        self.acked = asyncio.Event()

    async def record_end(self, ending: Ending, end: EndRecord | None) -> None:
        """Logs to the mount (if it takes them soon), the end to the disk, then the report."""
        house, record = self._house, self._record
        now = house.clock.now()
        times = record.times
        if end is not None and end.started_wall_ns is not None:
            times = replace(times, ended_at=end.ended_wall_ns / _NS, run_s=end.run_ns / _NS)
        else:
            times = replace(times, ended_at=now)
        record.times = times
        if record.timeout_s is not None and end is not None and end.timeout_ms is not None:
            record.counted_s = end.timeout_ms / 1000
        for warning in ending.warnings:
            self._note(f"Warning: {warning}")
        self._note(f"Ended ({ending.reason.word.value}): {ending.reason.sentence}")
        if house.copier.get(record.attempt) is None:
            house.copier.begin(record.attempt, house.mounted.job_folder(record.attempt), None, None)
        if self._launch.spec.user is RunAs.IMAGE and times.process_started_at is not None:
            await self._give_files()
        job = house.copier.finish(record.attempt, notes=record.notes, trailer=self._trailer(end))
        if job is not None and job.spools and not await house.copier.wait(record.attempt, house.limits.copy_s):
            log.warning("attempt.logs_late", attempt=str(record.attempt), reason=job.problem)
        report = wire.report(
            record,
            ending.kind.value,
            node_id=house.node_id,
            incarnation=house.incarnation,
            at=now,
            ending=ending,
            peak_memory_bytes=end.peak_memory_bytes if end else None,
            stdout_bytes=end.stdout_bytes if end else 0,
            stderr_bytes=end.stderr_bytes if end else 0,
            dropped_bytes=end.dropped_bytes if end else 0,
        )
        record.end_report = report.SerializeToString()
        record.stage = Stage.ENDED
        await self._put(proven=end is not None or record.stop is not None)
        log.info("attempt.ended", attempt=str(record.attempt), reason=ending.reason.word.value)
        if record.discarded:
            self.acked.set()
        else:
            house.reports.tell(record.attempt, report, end=True)

    def _trailer(self, end: EndRecord | None) -> bytes:
        if end is None or not end.dropped_bytes:
            return b""
        limit = format_size(self._launch.spec.log_limit_bytes)
        return (
            f"\n[headway] {format_size(end.dropped_bytes)} of output (stdout and stderr) were dropped, past the log "
            f"limit of {limit}.\n"
        ).encode()

    async def clear_up(self) -> None:
        """Everything that is left to do after the end is stored; again after a restart. Returns when nothing is."""
        house, record = self._house, self._record
        await self._container.ask(lambda: house.runtime.remove(record.attempt))
        if record.unsafe:
            record.unsafe = False
            log.info("attempt.gone_at_last", attempt=str(record.attempt))
        if record.stage is Stage.ENDED:
            await self.acked.wait()
            record.stage = Stage.ACKED
        if house.copier.get(record.attempt) is None:
            # After a restart. The last line is written anew, else what lies on the mount would be cut before it.
            begin_copy(house, record)
            end = (await house.runtime.progress(record.attempt)).end
            house.copier.finish(record.attempt, notes=record.notes, trailer=self._trailer(end))
        job = house.copier.get(record.attempt)
        if job is not None and not job.done:
            house.store.put_later(record)
            await job.finished.wait()
        house.copier.forget(record.attempt)
        if self._launch.spec.output_path and not record.discarded:
            await self._publish(self._launch.spec.output_path)
        # Everything is where it belongs; what stays is the memory that the attempt was here.
        record.stage = Stage.DONE
        record.launch, record.notes, record.end_report = b"", b"", None
        record.changed_at = house.clock.now()
        house.store.put_later(record)

    async def _give_files(self) -> None:
        """A task that ran as the image's user leaves files that the account could not even delete."""
        house, owner = self._house, self._launch.owner
        try:
            home = await house.mounted.home(owner)
            await house.mounted.call(lambda: give_to(home, uid=owner.uid, gid=owner.gid), within_s=house.limits.give_s)
        except (OSError, MountUnavailable) as error:
            self._note(f"Not all files in the home of {owner.name} could be given to them: {error}")

    async def _publish(self, folder: str) -> None:
        """Put the logs where the user wants them, too."""
        house, owner, logs = self._house, self._launch.owner, self._house.mounted.job_folder(self._record.attempt)
        pauses = Backoff(1.0, 256.0, factor=4.0)
        for last in (False, False, False, False, False, True):
            try:
                home = await house.mounted.home(owner)
                await house.mounted.call(
                    lambda home=home: publish(logs, home, folder, uid=owner.uid, gid=owner.gid),  # type: ignore[misc]
                    within_s=house.limits.publish_s,
                )
                return
            except (OSError, MountUnavailable) as error:
                if last:
                    log.warning("logs.not_published", attempt=str(self._record.attempt), reason=str(error))
                    return
            await house.clock.sleep(pauses.next_s())

    async def _put(self, *, proven: bool) -> None:
        """Store the record, however long the disk stays full. ``proven``: how it ended is known without the
        container."""
        pauses = Backoff(0.5, 15.0)
        self._record.changed_at = self._house.clock.now()
        while True:
            try:
                await self._house.store.put(self._record)
                return
            except HeadwayError as error:
                log.error("attempt.not_stored", attempt=str(self._record.attempt), reason=str(error))
                if isinstance(error, StoreFull) and proven and not self._record.unsafe:
                    # What the container wrote may be what is missing: it would wait here for itself to go.
                    with contextlib.suppress(EngineUnavailable):
                        await self._house.runtime.remove(self._record.attempt)
            await self._house.clock.sleep(pauses.next_s())
