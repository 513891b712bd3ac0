"""One attempt's life on this machine: from its image to the last byte of its log.

It may begin anywhere in that life, since the Worker may be restarted at any moment: it looks at what is there (the box,
the container, the stored record) and goes on from it. Ordinary progress comes as a nudge from the runtime; alarms
stand behind it for when the launcher or the engine fails to do what it should.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TypeVar

from headway.errors import HeadwayError, InvalidInput, MountUnavailable
from headway.jobfile.spec import RunAs
from headway.logs import get_logger
from headway.model.reasons import EndReason, EndWord
from headway.states import AttemptEventKind
from headway.units import format_duration, format_size

from . import endings, wire
from .alarms import Alarm
from .box import EndRecord, StartedRecord, StopWord, Stream
from .container import Container, TookTooLong
from .endings import EndContext, Ending
from .house import House
from .launch_spec import argv, launch_spec, working_dir
from .leases import after_answer
from .model import Launch, Stage
from .notes import note
from .ports import (
    ContainerFacts,
    ContainerState,
    ImageFacts,
    Progress,
    RuntimeRefused,
    StartOrder,
)
from .publish import give_to, publish
from .store import Record

log = get_logger(__name__)
T = TypeVar("T")

_NS = 1_000_000_000
_OVER = frozenset({ContainerState.EXITED, ContainerState.ABSENT})


class TaskExecutor:
    """See the module. ``run`` is the life; the other methods may be called at any moment of it."""

    def __init__(self, record: Record, launch: Launch, house: House, *, adopted: bool = False) -> None:
        self.record = record
        self.launch = launch
        self._house = house
        self._adopted = adopted
        self._changed = asyncio.Event()
        self._acked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._beginning = False
        self._stop_cut_in = False
        self._stop_ordered = False
        self._overran = False
        self._alarm: Alarm | None = None
        self._container = Container(house, record.attempt, self._changed, self._note)

    # -- from outside -------------------------------------------------------------------------------

    def nudge(self) -> None:
        """Something may have changed."""
        self._changed.set()

    def acked(self) -> None:
        """TaskManager has the end, or does not want it."""
        self._acked.set()

    def stop(self, word: StopWord) -> None:
        """End it, whatever it is doing; the first word stands. The caller stores the record."""
        record = self.record
        if record.stage is not Stage.LIVE:
            return
        if record.stop is None:
            record.stop = word
            self._note(f"Told to stop: {word.value.replace('_', ' ')}.")
        if self._beginning and self._task is not None and not self._stop_cut_in:
            # A fetch may take half an hour: it is cut short, and what it made is cleaned up.
            self._stop_cut_in = True
            self._task.cancel()
        self._changed.set()

    # -- the life -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Returns when nothing is left to do for it. Cancelled when the Worker stops: the container runs on."""
        self._task = asyncio.current_task()
        record = self.record
        if record.stage is Stage.LIVE:
            try:
                ending, end = await self._until_end()
            except Exception as error:
                log.error("attempt.crashed", attempt=str(record.attempt), exc=error)
                ending = Ending(
                    EndReason(EndWord.PLATFORM_ERROR, detail=f"Headway failed on {self._house.node_id}: {error}"),
                    elsewhere=True,
                )
                end = None
                record.unsafe = not await self._container.get_rid()
            await self._record_end(ending, end)
        await self._after_end()

    async def _until_end(self) -> tuple[Ending, EndRecord | None]:
        runtime, attempt = self._house.runtime, self.record.attempt
        progress = await runtime.progress(attempt)
        if progress.started is None and progress.end is None and not await self._container_is_there():
            ending = await self._begin()
            if ending is not None:
                return ending, None
        else:
            self._copy_begins()
        return await self._watch()

    async def _container_is_there(self) -> bool:
        if not self._adopted:
            return False
        facts = await self._container.ask(lambda: self._house.runtime.inspect(self.record.attempt))
        return facts.state in (ContainerState.RUNNING, ContainerState.EXITED)

    # -- beginning ----------------------------------------------------------------------------------

    async def _begin(self) -> Ending | None:
        """Image, box, container. None once the container was started."""
        record = self.record
        if record.stop is not None:
            return self._stopped_ending()
        self._beginning = True
        try:
            await self._prepare_and_start()
            return None
        except asyncio.CancelledError:
            if not self._stop_cut_in or self._task is None:
                raise
            self._task.uncancel()
        except TookTooLong as error:
            self._beginning = False
            record.unsafe = not await self._container.get_rid()
            return Ending(EndReason(EndWord.START_FAILED, detail=str(error)), elsewhere=True)
        except RuntimeRefused as error:
            return Ending(EndReason(error.word, detail=_sentence(error)), elsewhere=error.elsewhere)
        except MountUnavailable as error:
            return Ending(EndReason(EndWord.MOUNT_UNAVAILABLE, detail=_sentence(error)), elsewhere=True)
        except InvalidInput as error:
            return Ending(EndReason(EndWord.IMAGE_BAD, detail=_sentence(error)))
        finally:
            self._beginning = False
        # Cut short by a stop; the engine may be creating the container in this very moment.
        await self._house.runtime.stop(record.attempt, record.stop or StopWord.CANCELLED, 0)
        record.unsafe = not await self._container.get_rid()
        return self._stopped_ending()

    async def _prepare_and_start(self) -> None:
        house, launch, record = self._house, self.launch, self.record
        limits, spec = house.limits, launch.spec
        home = await house.mounted.home(launch.owner)
        image = await self._image()
        if record.image_id != image.id:
            record.image_id = image.id
            self._note(f"Image {spec.image} is {image.id}.")
        command = spec.command if isinstance(spec.command, str) else None
        now = house.clock.now()
        order = StartOrder(
            attempt=record.attempt,
            image=image,
            spec=launch_spec(launch, image, now=now, lease_grace_s=limits.lease_grace_s),
            command=command,
            lease_until_boot_ns=self._first_lease(),
            cpus_centi=spec.resources.cpus_centi,
            memory_bytes=spec.resources.memory_bytes,
            shm_bytes=spec.resources.shm_bytes,
            network=spec.network.value == "outgoing",
            gpu_uuids=launch.gpu_uuids,
            home=home,
            datasets={name: await house.mounted.dataset(name) for name in spec.datasets},
            job_name=launch.job_name,
            owner=launch.owner.name,
        )
        record.boot_id = house.boot_id
        self._tell(AttemptEventKind.CONTAINER_STARTING)
        facts = await self._container.ask(lambda: house.runtime.start(order), limit_s=limits.create_s)
        record.container_id = facts.id
        self._copy_begins()
        record.times = replace(record.times, container_started_at=facts.started_at or house.clock.now())
        self._note(f"Container {facts.id[:12] or record.attempt.folder} is started.")

    async def _image(self) -> ImageFacts:
        house, spec = self._house, self.launch.spec

        def on_fetch() -> None:
            self._note(f"Image {spec.image} is not on this machine yet; fetching it.")
            self._tell(AttemptEventKind.PULL_STARTED)

        try:
            async with asyncio.timeout(house.limits.pull_s):
                return await self._container.ask(
                    lambda: house.runtime.prepare_image(spec.image, self.launch.image_digest, on_fetch)
                )
        except TimeoutError as error:
            raise RuntimeRefused(
                f"Fetching the image {spec.image} took longer than {format_duration(house.limits.pull_s)}.",
                word=EndWord.IMAGE_PULL_FAILED,
                elsewhere=True,
            ) from error

    def _first_lease(self) -> int | None:
        house, launch = self._house, self.launch
        if house.lease.enforced or not launch.lease_enforced:
            return house.lease.until_boot_ns
        # TaskManager has begun to enforce leases since the last heartbeat.
        return after_answer(
            sent_s=house.clock.monotonic(), lease_s=launch.lease_s, enforced=True, stop_s=house.limits.lease_stop_s
        ).until_boot_ns

    def _copy_begins(self) -> None:
        house, attempt = self._house, self.record.attempt
        house.copier.begin(
            attempt,
            house.mounted.job_folder(attempt),
            house.runtime.spool(attempt, Stream.STDOUT),
            house.runtime.spool(attempt, Stream.STDERR),
        )
        house.copier.set_notes(attempt, self.record.notes)

    # -- watching -----------------------------------------------------------------------------------

    async def _watch(self) -> tuple[Ending, EndRecord | None]:
        """From the container's start to its end."""
        house, record = self._house, self.record
        runtime, attempt = house.runtime, record.attempt
        first = True
        while True:
            self._changed.clear()
            progress = await runtime.progress(attempt)
            news = progress.end is not None
            if progress.started is not None and record.times.process_started_at is None:
                self._started(progress.started)
                news = True
            if progress.end is not None:
                return await self._settle(progress.end), progress.end
            if record.stop is not None and not self._stop_ordered:
                self._stop_ordered = news = True
                await runtime.stop(attempt, record.stop)
                self._alarm_at(house.clock.monotonic() + self.launch.spec.grace_s + house.limits.slack_s)
            elif self._alarm is None:
                self._alarm_at(self._overdue_at(progress.started))
            elif self._alarm.at <= house.clock.monotonic():
                return await self._overdue(progress)
            # A wake without news, or an adopted attempt: the container itself may be gone.
            if self._adopted if first else not news:
                facts = await self._container.ask(lambda: runtime.inspect(attempt))
                if facts.state in _OVER or (facts.state is ContainerState.CREATED and self._adopted):
                    # The record is written before the container ends: look once more.
                    last = await runtime.progress(attempt)
                    return await self._settle(last.end, facts), last.end
            first = False
            await self._changed.wait()

    def _started(self, started: StartedRecord) -> None:
        record, spec = self.record, self.launch.spec
        record.times = replace(record.times, process_started_at=started.wall_ns / _NS)
        self._note(
            f"Process started; its timeout is {format_duration(spec.timeout_s)}, with {format_duration(spec.grace_s)} "
            "from TERM to KILL."
            if spec.grace_s
            else f"Process started; its timeout is {format_duration(spec.timeout_s)}."
        )
        self._tell(AttemptEventKind.PROCESS_STARTED)
        if not self._stop_ordered:
            self._alarm_at(self._overdue_at(started))
        log.info("attempt.started", attempt=str(record.attempt))

    def _overdue_at(self, started: StartedRecord | None) -> float:
        """When the launcher must have ended it; or, before the start, when the process must run."""
        limits, spec = self._house.limits, self.launch.spec
        if started is None:
            return self._house.clock.monotonic() + limits.exec_s
        return started.boot_ns / _NS + spec.timeout_s + spec.grace_s + limits.slack_s

    def _alarm_at(self, at: float) -> None:
        self._house.alarms.cancel(self._alarm)
        self._alarm = self._house.alarms.set(at, self._changed.set)

    async def _overdue(self, progress: Progress) -> tuple[Ending, EndRecord | None]:
        """The launcher did not do its part in time; the Worker does."""
        record = self.record
        if record.stop is None and progress.started is not None:
            self._overran = True
        log.warning("attempt.overdue", attempt=str(record.attempt), started=progress.started is not None)
        self._note("The launcher did not end it in time; killing the container.")
        facts = await self._container.kill()
        last = await self._house.runtime.progress(record.attempt)
        if facts is None:
            return self._cannot_kill(), last.end
        if progress.started is None and record.stop is None and last.end is None:
            limit = format_duration(self._house.limits.exec_s)
            detail = f"Its process did not start within {limit} of its container on {self._house.node_id}."
            return Ending(EndReason(EndWord.START_FAILED, detail=detail), elsewhere=True), None
        return endings.decide(last.end, facts, self._context()), last.end

    # -- the end ------------------------------------------------------------------------------------

    async def _settle(self, end: EndRecord | None, facts: ContainerFacts | None = None) -> Ending:
        """The container has ended or is about to: make sure of it, and say why."""
        if end is not None and self.record.times.process_started_at is None and end.started_wall_ns is not None:
            self.record.times = replace(self.record.times, process_started_at=end.started_wall_ns / _NS)
        if facts is None:
            facts = await self._container.exited()
            if facts is None:
                return self._cannot_kill()
        return endings.decide(end, facts, self._context())

    def _cannot_kill(self) -> Ending:
        node = self._house.node_id
        self.record.unsafe = True
        log.error("attempt.cannot_be_killed", attempt=str(self.record.attempt))
        self._note(f"It could not be killed on {node}; what it holds there is not given to others until it is gone.")
        return Ending(
            EndReason(EndWord.PLATFORM_ERROR, detail=f"It could not be killed on worker {node}."), elsewhere=True
        )

    def _stopped_ending(self) -> Ending:
        return endings.decide(None, ContainerFacts(ContainerState.ABSENT), self._context())

    def _context(self) -> EndContext:
        launch, record = self.launch, self.record
        spec = launch.spec
        image = ImageFacts(record.image_id)
        words = argv(launch, image)
        return EndContext(
            node=self._house.node_id,
            timeout_s=spec.timeout_s,
            memory_bytes=spec.resources.memory_bytes,
            log_limit_bytes=spec.log_limit_bytes,
            program=words[0] if words else "",
            shell=(spec.shell.value if spec.shell else "sh") if isinstance(spec.command, str) else "",
            working_dir=working_dir(launch, image),
            stop=record.stop,
            overran=self._overran,
            ever_started=record.times.process_started_at is not None,
            rebooted=bool(record.boot_id) and record.boot_id != self._house.boot_id,
        )

    async def _record_end(self, ending: Ending, end: EndRecord | None) -> None:
        """Logs to the mount (if it takes them soon), the end to the disk, then the report."""
        house, record = self._house, self.record
        house.alarms.cancel(self._alarm)
        now = house.clock.now()
        times = record.times
        if end is not None and end.started_wall_ns is not None:
            times = replace(times, ended_at=end.ended_wall_ns / _NS, run_s=end.run_ns / _NS)
        else:
            times = replace(times, ended_at=now)
        record.times = times
        for warning in ending.warnings:
            self._note(f"Warning: {warning}")
        self._note(f"Ended ({ending.reason.word.value}): {ending.reason.sentence}")
        if house.copier.get(record.attempt) is None:
            house.copier.begin(record.attempt, house.mounted.job_folder(record.attempt), None, None)
        if self.launch.spec.user is RunAs.IMAGE and times.process_started_at is not None:
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
        await self._put()
        log.info("attempt.ended", attempt=str(record.attempt), reason=ending.reason.word.value)
        if record.discarded:
            self._acked.set()
        else:
            house.reports.tell(record.attempt, report, end=True)

    def _trailer(self, end: EndRecord | None) -> bytes:
        if end is None or not end.dropped_bytes:
            return b""
        limit = format_size(self.launch.spec.log_limit_bytes)
        return (
            f"\n[headway] {format_size(end.dropped_bytes)} of output (stdout and stderr) were dropped, past the log "
            f"limit of {limit}.\n"
        ).encode()

    async def _after_end(self) -> None:
        house, record = self._house, self.record
        await self._container.ask(lambda: house.runtime.remove(record.attempt))
        if record.unsafe:
            record.unsafe = False
            log.info("attempt.gone_at_last", attempt=str(record.attempt))
        if record.stage is Stage.ENDED:
            await self._acked.wait()
            record.stage = Stage.ACKED
        if house.copier.get(record.attempt) is None:
            self._copy_begins()
            house.copier.finish(record.attempt, notes=record.notes)
        job = house.copier.get(record.attempt)
        if job is not None and not job.done:
            house.store.put_later(record)
            await job.finished.wait()
        house.copier.forget(record.attempt)
        if self.launch.spec.output_path and not record.discarded:
            await self._publish(self.launch.spec.output_path)
        # Everything is where it belongs; what stays is the memory that the attempt was here.
        record.stage = Stage.DONE
        record.launch, record.notes, record.end_report = b"", b"", None
        record.changed_at = house.clock.now()
        house.store.put_later(record)

    async def _give_files(self) -> None:
        """A task that ran as the image's user leaves files that the account could not even delete."""
        house, owner = self._house, self.launch.owner
        try:
            home = await house.mounted.home(owner)
            await house.mounted.call(lambda: give_to(home, uid=owner.uid, gid=owner.gid), within_s=house.limits.give_s)
        except (OSError, MountUnavailable) as error:
            self._note(f"Not all files in the home of {owner.name} could be given to them: {error}")

    async def _publish(self, folder: str) -> None:
        """Put the logs where the user wants them, too."""
        house, owner, logs = self._house, self.launch.owner, self._house.mounted.job_folder(self.record.attempt)
        pause_s = 1.0
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
                    log.warning("logs.not_published", attempt=str(self.record.attempt), reason=str(error))
                    return
            await house.clock.sleep(pause_s)
            pause_s *= 4

    # -- helpers ------------------------------------------------------------------------------------

    async def _put(self) -> None:
        """Store the record, however long the disk stays full."""
        pause_s = 0.5
        self.record.changed_at = self._house.clock.now()
        while True:
            try:
                await self._house.store.put(self.record)
                return
            except HeadwayError as error:
                log.error("attempt.not_stored", attempt=str(self.record.attempt), reason=str(error))
            await self._house.clock.sleep(pause_s)
            pause_s = min(15.0, 2 * pause_s)

    def _note(self, text: str) -> None:
        self.record.notes += note(self._house.clock.now(), text)
        self._house.copier.set_notes(self.record.attempt, self.record.notes)

    def _tell(self, kind: AttemptEventKind) -> None:
        house, record = self._house, self.record
        if record.discarded:
            return
        report = wire.report(
            record, kind.value, node_id=house.node_id, incarnation=house.incarnation, at=house.clock.now()
        )
        house.reports.tell(record.attempt, report)

    def tell_again(self) -> None:
        """For a TaskManager that may not know how far this attempt is: after a restart of this Worker."""
        record = self.record
        if record.stage is Stage.ENDED and record.end_report is not None and not record.discarded:
            self._house.reports.tell(record.attempt, wire.stored_report(record.end_report), end=True)
        elif record.stage is Stage.LIVE and record.times.process_started_at is not None:
            self._tell(AttemptEventKind.PROCESS_STARTED)


def _sentence(error: HeadwayError) -> str:
    text = error.message.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
