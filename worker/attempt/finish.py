"""What follows an attempt's end: complete its log, store and report the end, and clean up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from headway.backoff import Backoff
from headway.errors import HeadwayError, MountUnavailable, StoreFull
from headway.frozen import replace
from headway.jobfile.spec import RunAs
from headway.logs import get_logger
from headway.units import format_size
from headway.waiting import wait

from .. import wire
from ..box import EndRecord, Stream
from ..logs.copier import CopyJob
from ..model import AttemptRecord, AttemptStage, EndDecision, LaunchAttempt
from ..ports import EngineUnavailable
from ..sampling.sampler import Measured
from . import late_sentences
from .container import AttemptContainer, StepTimedOut
from .context import ExecutorContext
from .home_files import give_to, publish
from .late_work import AGAIN, CONTAINER, FILES, LOG, OUTPUT, LateWork

log = get_logger(__name__)

_NS = 1_000_000_000
_LOOK_S = 5.0  # first pause between looks at a copy that does not end


def begin_copy(context: ExecutorContext, record: AttemptRecord) -> None:
    """Copy the attempt's logs to the mount from now on. Safe twice."""
    attempt = record.attempt
    context.copier.begin(
        attempt,
        context.mounted.job_folder(attempt),
        context.runtime.spool(attempt, Stream.STDOUT),
        context.runtime.spool(attempt, Stream.STDERR),
        context.runtime.index(attempt),
    )
    context.copier.set_platform_log(attempt, record.platform_log)


class AttemptFinish:
    """Call ``record_end`` once, then ``clean_up``. A restarted Worker continues with ``clean_up``.

    ``acked`` is set when TaskManager has stored the end, or does not want it.
    """

    def __init__(
        self,
        context: ExecutorContext,
        record: AttemptRecord,
        launch: LaunchAttempt,
        container: AttemptContainer,
        log_line: Callable[[str], None],
    ) -> None:
        self._context = context
        self._record = record
        self._launch = launch
        self._container = container
        self._log_line = log_line
        self._late = LateWork(context, record, launch.generation)
        self.acked = asyncio.Event()
        self.home_is_owners = False  # not known after a restart: then all its files are looked at

    async def record_end(self, decision: EndDecision, end: EndRecord | None) -> None:
        """Copy the logs to the mount if that is quick, store the end on disk, then report it."""
        context, record = self._context, self._record
        now = context.clock.now()
        measured = Measured()
        if context.sampler is not None:
            # First: what its GPUs do from now on is not its own.
            measured = await context.sampler.finish(record.attempt, self._launch.gpu_uuids)
        times = record.times
        if end is not None and end.started_wall_ns is not None:
            times = replace(times, ended_at=end.ended_wall_ns / _NS, run_s=end.run_ns / _NS)
        else:
            times = replace(times, ended_at=now)
        record.times = times
        if record.timeout_s is not None and end is not None and end.timeout_ms is not None:
            record.counted_s = end.timeout_ms / 1000
        for warning in decision.warnings:
            self._log_line(f"Warning: {warning}")
        self._log_line(f"Ended ({decision.reason.word.value}): {decision.reason.sentence}")
        if context.copier.get(record.attempt) is None:
            context.copier.begin(record.attempt, context.mounted.job_folder(record.attempt), None, None)
        may_have_left = self._launch.spec.user is RunAs.IMAGE and times.process_started_at is not None
        if may_have_left and not self.home_is_owners:
            try:
                await self._give_files()
            except (OSError, MountUnavailable) as error:
                await self._late.warn(FILES, f"{self._files_not_given(error)} {AGAIN}")
        job = context.copier.finish(record.attempt, platform_log=record.platform_log, trailer=self._trailer(end))
        if job is not None and job.spools and not await context.copier.wait(record.attempt, context.limits.copy_s):
            log.warning("attempt.logs_late", attempt=str(record.attempt), reason=job.problem)
            await self._warn_of_log(job)
        report = wire.report(
            record,
            decision.kind.value,
            node_id=context.node_id,
            incarnation=context.incarnation,
            at=now,
            generation=self._launch.generation,
            decision=decision,
            peak_memory_bytes=end.peak_memory_bytes if end else measured.peak_memory_bytes,
            use=measured.use,
            stdout_bytes=end.stdout_bytes if end else 0,
            stderr_bytes=end.stderr_bytes if end else 0,
            dropped_bytes=end.dropped_bytes if end else 0,
        )
        record.end_report = report.SerializeToString()
        record.stage = AttemptStage.ENDED
        await self._put(proven=end is not None or record.stop is not None)
        log.info("attempt.ended", attempt=str(record.attempt), reason=decision.reason.word.value)
        if record.discarded and not wire.has_good_end(record):
            self.acked.set()
        else:
            context.reports.submit(record.attempt, report, end=True)

    def _trailer(self, end: EndRecord | None) -> bytes:
        if end is None or not end.dropped_bytes:
            return b""
        limit = format_size(self._launch.spec.log_limit_bytes)
        return (
            f"\n[headway] {format_size(end.dropped_bytes)} of output (stdout and stderr) were dropped, past the log "
            f"limit of {limit}.\n"
        ).encode()

    async def clean_up(self) -> None:
        """Do what is left after the end is stored. Safe to begin again after a restart."""
        context, record = self._context, self._record
        await self._remove_container()
        if record.unsafe:
            record.unsafe = False
            log.info("attempt.gone_at_last", attempt=str(record.attempt))
        if record.stage is AttemptStage.ENDED:
            await self.acked.wait()
            record.stage = AttemptStage.ACKED
        if context.copier.get(record.attempt) is None:
            # After a restart. Without its last line the copy on the mount would be cut shorter.
            begin_copy(context, record)
            end = (await context.runtime.progress(record.attempt)).end
            context.copier.finish(record.attempt, platform_log=record.platform_log, trailer=self._trailer(end))
        if self._late.is_left(FILES):
            async with asyncio.TaskGroup() as works:
                works.create_task(self._give_files_at_last())
                works.create_task(self._copy_logs())
        else:
            await self._copy_logs()
        if context.sampler is not None:
            await context.sampler.copied(record.attempt)
        # Only the memory stays that the attempt was here.
        record.stage = AttemptStage.DONE
        record.launch, record.platform_log, record.end_report = b"", b"", None
        record.changed_at = context.clock.now()
        context.store.put_later(record)

    async def _remove_container(self) -> None:
        context, attempt = self._context, self._record.attempt
        try:
            await self._container.until_answered(
                lambda: context.runtime.remove(attempt), limit_s=context.limits.late_container_s
            )
        except StepTimedOut as error:
            sentence = late_sentences.container_not_removed(str(error.__cause__ or error), context.node_id)
            await self._late.warn(CONTAINER, f"{sentence} {AGAIN}")
            await self._container.until_answered(lambda: context.runtime.remove(attempt))
        self._late.done(CONTAINER)

    async def _copy_logs(self) -> None:
        """To the shared folder, however long that takes, and from there into the home."""
        context, record, folder = self._context, self._record, self._launch.spec.output_path
        job = context.copier.get(record.attempt)
        if job is not None and not job.done:
            context.store.put_later(record)
            pauses = Backoff(_LOOK_S, 60 * _LOOK_S)
            while not await wait(job.finished, pauses.next_s(), context.clock):
                await self._warn_of_log(job)
        self._late.done(LOG)
        context.copier.forget(record.attempt)
        if folder and not record.discarded:
            await self._publish(folder)

    async def _warn_of_log(self, job: CopyJob) -> None:
        if job.problem:
            sentence = late_sentences.log_not_copied(job.problem, job.problem_errno, job.target, self._context.node_id)
            await self._late.warn(LOG, f"{sentence} {AGAIN}")

    async def _give_files(self) -> None:
        """Change the owner of what a root task left in the home: the account could not even delete it."""
        context, owner = self._context, self._launch.owner
        home = await context.mounted.home(owner)
        await context.mounted.call(lambda: give_to(home, uid=owner.uid, gid=owner.gid), within_s=context.limits.give_s)

    async def _give_files_at_last(self) -> None:
        await self._late.until_done(
            FILES, self._give_files, self._files_not_given, given_up="Headway does not try again."
        )

    def _files_not_given(self, error: Exception) -> str:
        owner = self._launch.owner
        return late_sentences.files_not_given(error, self._context.mounted.home_folder(owner), owner)

    async def _publish(self, folder: str) -> None:
        """Copy the logs to the folder in the home that the user asked for."""
        context, owner, task = self._context, self._launch.owner, self._record.attempt.task
        logs, home = context.mounted.job_folder(self._record.attempt), context.mounted.home_folder(owner)
        ended_at = self._ended_at()

        async def copy() -> None:
            # It does not make the home: the account may have been removed meanwhile.
            if context.mounted.problem:
                raise MountUnavailable(context.mounted.problem)
            await context.mounted.call(
                lambda: publish(logs, home, folder, uid=owner.uid, gid=owner.gid, ended_at=ended_at),
                within_s=context.limits.publish_s,
            )

        await self._late.until_done(
            OUTPUT,
            copy,
            lambda error: late_sentences.output_not_copied(error, folder, home, owner),
            given_up=f"Headway does not try again; `headway logs {task.job_id}/{task.name}` shows it.",
        )

    def _ended_at(self) -> float:
        """When it ended by TaskManager's clock, where the launch told it: machines' clocks may differ.

        It is a little too early, by what the launch took here. So each attempt of a task is later than the one before.
        """
        times, placed_at = self._record.times, self._launch.placed_at
        ended_at = times.ended_at or times.accepted_at
        return placed_at + max(0.0, ended_at - times.accepted_at) if placed_at else ended_at

    async def _put(self, *, proven: bool) -> None:
        """Store the record, however long the disk stays full.

        ``proven``: the end is known without the container.
        """
        pauses = Backoff(0.5, 15.0)
        self._record.changed_at = self._context.clock.now()
        while True:
            try:
                await self._context.store.put(self._record)
                return
            except HeadwayError as error:
                log.error("attempt.not_stored", attempt=str(self._record.attempt), reason=str(error))
                if isinstance(error, StoreFull) and proven and not self._record.unsafe:
                    # The container itself may fill the disk, so its removal may be what makes space.
                    with contextlib.suppress(EngineUnavailable):
                        await self._context.runtime.remove(self._record.attempt)
            await self._context.clock.sleep(pauses.next_s())
