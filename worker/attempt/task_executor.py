"""One attempt's life on this machine, from its image to the last byte of its log.

The Worker may be restarted at any moment, so an executor may begin anywhere in that life. It looks at the box, the
container and the stored record, and continues from there. Ordinary progress comes as a nudge from the runtime. Alarms
cover the case that the launcher or the engine does not do its part.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TypeVar

from headway.errors import HeadwayError, InvalidInput, MountUnavailable
from headway.frozen import replace
from headway.logs import get_logger
from headway.model.reasons import EndReason, EndWord
from headway.model.simulated_gpus import is_simulated
from headway.states import AttemptEventKind
from headway.units import format_duration
from headway.waiting import wait

from .. import wire
from ..alarms import Alarm
from ..box import BoxStanding, EndRecord, StartedRecord, StopWord
from ..model import AttemptRecord, AttemptStage, EndDecision, ExtendAttempt, LaunchAttempt, LocalHold
from ..ports import AttemptProgress, ContainerFacts, ContainerState, LocalImage, RuntimeRefused, StartOrder
from . import end_decision, task_secrets
from .container import AttemptContainer, StepTimedOut
from .context import ExecutorContext
from .end_decision import EndEvidence
from .finish import AttemptFinish, begin_copy
from .launch_spec import dataset_versions, hold_order, launch_spec
from .leases import Lease, first_lease, usable_s
from .platform_log import platform_log_line
from .start_faults import asked_of
from .time_limit import TimeLimit

log = get_logger(__name__)
T = TypeVar("T")

_NS = 1_000_000_000
_OVER = frozenset({ContainerState.EXITED, ContainerState.ABSENT})
_NOT_BEGUN = frozenset({BoxStanding.UNUSED, BoxStanding.MAY_START})
# Without a record of the end, processes are looked for: a launcher that was killed may be survived for a moment.
_NOT_PROVEN = frozenset({BoxStanding.UNKNOWN, BoxStanding.UNUSED, BoxStanding.OVER})


class TaskExecutor:
    """See the module. ``run`` is the attempt's life. Other methods may be called at any moment of it."""

    def __init__(
        self, record: AttemptRecord, launch: LaunchAttempt, context: ExecutorContext, *, adopted: bool = False
    ) -> None:
        self.record = record
        self.launch = launch
        self._context = context
        self._adopted = adopted
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._beginning = False
        self._cancelled_by_stop = False
        self._stop_ordered = False
        self._overran = False
        self._local_image: LocalImage | None = None  # not known after a restart of the Worker
        self._waits_for_lease = False
        self._rebooted = False  # its box is of another boot
        self._notice = ""  # its owner was told last; in all reports, since a newer one replaces one that waits
        self._look_again = False  # soon, though nobody nudges
        self._giving: asyncio.Task[None] | None = None  # of secrets, to a launcher of an earlier life
        self._alarm: Alarm | None = None
        self._container = AttemptContainer(context, record.attempt, self._changed, self._log_line)
        self._limit = TimeLimit(context, record, launch, self._log_line)
        self._finish = AttemptFinish(context, record, launch, self._container, self._log_line)

    # -- from outside -------------------------------------------------------------------------------

    def nudge(self) -> None:
        """Something may have changed."""
        self._changed.set()

    def lease_answered(self) -> None:
        """A heartbeat was answered."""
        if self._waits_for_lease:
            self._changed.set()

    def acked(self) -> None:
        """TaskManager has stored the end, or does not want it."""
        self._finish.acked.set()

    def stop(self, word: StopWord) -> None:
        """End it, whatever it is doing. The first stop word counts. The caller stores the record."""
        record = self.record
        if record.stage is not AttemptStage.LIVE:
            return
        if record.stop is None:
            record.stop = word
            self._log_line(f"Headway stops it: {word.value.replace('_', ' ')}.")
        if self._beginning and self._task is not None and not self._cancelled_by_stop:
            # A fetch may take half an hour, so it is cancelled. What it made is cleaned up.
            self._cancelled_by_stop = True
            self._task.cancel()
        self._changed.set()

    def warn(self, sentence: str) -> None:
        """Tell its owner something about the running attempt: in its platform log, and as a job event."""
        self._log_line(f"Warning: {sentence}")
        self._notice = sentence
        self._report(AttemptEventKind.PROCESS_STARTED)

    def extend(self, order: ExtendAttempt) -> bool:
        """Let it run longer. False: there is nothing to do. True: the caller stores the record, then nudges."""
        return self._limit.take(order)

    # -- the life -----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Returns when nothing is left to do. It is cancelled when the Worker stops, and the container runs on."""
        self._task = asyncio.current_task()
        record = self.record
        if record.stage is AttemptStage.LIVE:
            try:
                decision, end = await self._until_end()
            except Exception as error:
                log.error("attempt.crashed", attempt=str(record.attempt), exc=error)
                decision, end = await self._after_crash(error)
            self._context.alarms.cancel(self._alarm)
            self._forget_secrets()
            decision = await self._context.gpus.ended(record, self.launch, decision)
            await self._record_end(decision, end)
        await self._finish.clean_up()

    async def _record_end(self, decision: EndDecision, end: EndRecord | None) -> None:
        """The end is told, whatever its sentences hold: without them, where they can't be written or sent."""
        try:
            await self._finish.record_end(decision, end)
        except Exception as error:
            if self.record.stage is not AttemptStage.LIVE:
                raise
            log.error("attempt.end_without_words", attempt=str(self.record.attempt), exc=error)
            bare = replace(decision, reason=replace(decision.reason, detail=""), warnings=())
            await self._finish.record_end(bare, end)

    async def _after_crash(self, error: Exception) -> tuple[EndDecision, EndRecord | None]:
        """The attempt is ended. What its launcher wrote down before still counts."""
        self.record.unsafe = not await self._end_by_force()
        with contextlib.suppress(Exception):  # perhaps this is what crashed
            end = (await self._context.runtime.progress(self.record.attempt)).end
            if end is not None:
                return end_decision.decide(end, ContainerFacts(ContainerState.EXITED), self._evidence()), end
        detail = f"Headway failed on {self._context.node_id}: {error}"
        return EndDecision(EndReason(EndWord.PLATFORM_ERROR, detail=detail), elsewhere=True), None

    async def _end_by_force(self) -> bool:
        """Make sure that nothing of it runs, now or later. False: it could not be killed."""
        return await self._never_starts() or await self._container.kill() is not None

    async def _until_end(self) -> tuple[EndDecision, EndRecord | None]:
        """Goes on from what the box proves, wherever in its life the attempt is."""
        standing = await self._context.runtime.standing(self.record.attempt)
        if standing is BoxStanding.NEVER_STARTED:
            # Withdrawn before a restart of this Worker, which is why: that was not stored.
            return self._decision_of_never(), None
        # A box that was made, and is gone, proves nothing.
        was_begun = standing is BoxStanding.UNUSED and bool(self.record.boot_id)
        if standing in _NOT_BEGUN and not was_begun:
            decision = await self._begin()
            if decision is not None:
                return decision, None
        else:
            begin_copy(self._context, self.record)
            if standing is BoxStanding.RUNS and self.launch.spec.secrets and not await self._has_begun():
                self._giving = asyncio.create_task(self._give_secrets_again(), name="secrets")
        try:
            return await self._watch()
        finally:
            if self._giving is not None:
                self._giving.cancel()

    async def _has_begun(self) -> bool:
        return (await self._context.runtime.progress(self.record.attempt)).started is not None

    # -- beginning ----------------------------------------------------------------------------------

    async def _begin(self) -> EndDecision | None:
        """Prepare the image, the box and the container. None: a launcher has begun, or is about to."""
        try:
            decision = await self._try_to_begin()
        finally:
            self._beginning = False
        if decision is None or await self._never_starts():
            return decision
        self._log_line("Its launcher was quicker: the task runs.")
        begin_copy(self._context, self.record)
        return None

    async def _try_to_begin(self) -> EndDecision | None:
        record = self.record
        if record.stop is not None:
            return self._decision_of_stop()
        self._beginning = True
        try:
            await self._prepare_and_start()
            return None
        except asyncio.CancelledError:
            if not self._cancelled_by_stop or self._task is None:
                raise
            self._task.uncancel()
            return self._decision_of_stop()
        except StepTimedOut as error:
            return await self._decision_of_silence(str(error))
        except RuntimeRefused as error:
            reason = EndReason(error.word, detail=_sentence(error))
            return EndDecision(reason, elsewhere=error.elsewhere, engine_away=error.of_node)
        except MountUnavailable as error:
            return EndDecision(EndReason(EndWord.MOUNT_UNAVAILABLE, detail=_sentence(error)), elsewhere=True)
        except InvalidInput as error:
            return EndDecision(EndReason(EndWord.IMAGE_BAD, detail=_sentence(error)))

    async def _never_starts(self) -> bool:
        """Take the launch ticket back, before anybody says that the attempt never started.

        False: a launcher has taken it, so the attempt counts as running. Its stop order is given in ``_watch``.
        """
        return await self._context.runtime.withdraw(self.record.attempt)

    async def _prepare_and_start(self) -> None:
        context, launch, record = self._context, self.launch, self.record
        if launch.local is not None:
            await self._offer(launch.local)
            return
        limits, spec = context.limits, launch.spec
        home = await context.mounted.home(launch.owner)
        image = await self._image()
        self._local_image = image
        if record.image_id != image.id:
            record.image_id = image.id
            self._log_line(f"Image {spec.image} is {image.id}.")
        if any(is_simulated(uuid) for uuid in launch.gpu_uuids):
            self._log_line("Its GPUs are only simulated: it gets no device.")
        command = spec.command if isinstance(spec.command, str) else None
        datasets = {
            name: await context.mounted.dataset(name, version) for name, version in dataset_versions(launch).items()
        }
        code = await context.mounted.code(launch.owner.name, spec.code) if spec.code else None
        await context.gpus.begins(record, launch)
        mps_pipe = context.mps_pipe if spec.resources.gpu_share_bytes else None
        await self._give_secrets()
        # Last: what comes between it and the box could make it an old one.
        lease = await self._first_lease()
        now = context.clock.now()
        order = StartOrder(
            attempt=record.attempt,
            image=image,
            spec=launch_spec(launch, image, now=now, lease_grace_s=limits.lease_grace_s, mps=mps_pipe is not None),
            command=command,
            lease_until_boot_ns=lease.until_boot_ns,
            cpus_centi=spec.resources.cpus_centi,
            memory_bytes=spec.resources.memory_bytes,
            shm_bytes=spec.resources.shm_bytes,
            network=spec.network,
            ulimits=spec.ulimits,
            gpu_uuids=launch.gpu_uuids,
            mps_pipe=mps_pipe,
            home=home,
            datasets=datasets,
            code=code,
            job_name=launch.job_name,
            owner=launch.owner.name,
            account_uid=launch.owner.uid,
            account_gid=launch.owner.gid,
            launch=record.launch or b"",
        )
        record.boot_id = context.boot_id
        self._report(AttemptEventKind.CONTAINER_STARTING)
        facts = await self._container.until_answered(lambda: context.runtime.start(order), limit_s=limits.create_s)
        record.container_id = facts.id
        context.store.put_later(record)  # its box was made: if that is gone after a restart, it is not made again
        begin_copy(self._context, self.record)
        record.times = replace(record.times, container_started_at=facts.started_at or context.clock.now())
        self._finish.home_is_owners = facts.home_is_owners
        for note in facts.notes:
            self._log_line(note)
        self._log_line(f"Container {facts.id[:12] or record.attempt.folder} is started.")

    async def _give_secrets(self) -> None:
        """To the runtime, as they are now. Raises RuntimeRefused."""
        context, attempt, uses = self._context, self.record.attempt, self.launch.spec.secrets
        if uses:

            def waits(why: str) -> None:
                self._log_line(f"It waits for its secrets: {why}")
                log.warning("attempt.waits_for_secrets", attempt=str(attempt), reason=why)

            values = await task_secrets.fetch(
                context.secrets, attempt, uses, context.clock, limit_s=context.limits.secrets_s, on_wait=waits
            )
            await context.runtime.give_secrets(attempt, values)

    async def _give_secrets_again(self) -> None:
        """After a restart of the Worker its launcher may wait for them. It gives up by itself if they don't come."""
        try:
            await self._give_secrets()
        except (RuntimeRefused, OSError) as error:
            self._log_line(f"Its secrets could not be given again: {error}")

    async def _offer(self, local: LocalHold) -> None:
        """Nothing is fetched, and no container is made: a person's own process takes the GPUs."""
        context, launch, record = self._context, self.launch, self.record
        await context.gpus.begins(record, launch)
        lease = await self._first_lease()
        order = hold_order(
            launch,
            local,
            now=context.clock.now(),
            until_boot_ns=lease.until_boot_ns,
            grace_s=context.limits.lease_grace_s,
        )
        order = replace(order, launch=record.launch or b"")
        record.boot_id = context.boot_id
        self._report(AttemptEventKind.CONTAINER_STARTING)
        await self._container.until_answered(lambda: context.runtime.start(order), limit_s=context.limits.create_s)
        context.store.put_later(record)
        begin_copy(context, record)
        record.times = replace(record.times, container_started_at=context.clock.now())
        self._log_line(f"Its GPUs are offered to the process on {context.node_id} that asked for them.")

    async def _image(self) -> LocalImage:
        context, spec = self._context, self.launch.spec
        wanted, reported = self.launch.image, False

        def on_fetch() -> None:
            nonlocal reported
            if not reported:  # the call is repeated when the engine did not answer
                reported = True
                self._log_line(f"Image {spec.image} is not on this machine yet. Headway fetches it.")
                self._report(AttemptEventKind.PULL_STARTED)

        try:
            async with asyncio.timeout(context.limits.pull_s):
                return await self._container.until_answered(lambda: context.images.prepare(wanted, on_fetch))
        except TimeoutError as error:
            if await self._container.engine_is_away():
                raise StepTimedOut(f"The container engine of {context.node_id} does not answer.") from error
            raise RuntimeRefused(
                f"Fetching the image {spec.image} took longer than {format_duration(context.limits.pull_s)}.",
                word=EndWord.IMAGE_PULL_FAILED,
                elsewhere=True,
            ) from error

    async def _first_lease(self) -> Lease:
        """The lease with which it begins. Past its deadline it waits for an answered heartbeat.

        Shortly before it, too: with the rest of an old lease it would be ended soon after its start.
        """
        context, launch, record = self._context, self.launch, self.record
        least_ns = round(usable_s(launch.lease_s, context.limits.lease_stop_s) / 4 * _NS)
        arrival_counts = record.arrived_boot_id == context.boot_id and (launch.lease_enforced or not self._adopted)
        waited = False
        while True:
            self._changed.clear()
            lease = first_lease(
                launched_enforced=launch.lease_enforced,
                lease_s=launch.lease_s,
                stop_s=context.limits.lease_stop_s,
                arrived_s=record.arrived_s if arrival_counts else None,
                answered=context.lease,
            )
            now_ns = round(context.clock.monotonic() * _NS)
            if lease is not None and (lease.until_boot_ns is None or lease.until_boot_ns > now_ns + least_ns):
                self._waits_for_lease = False
                return lease
            if not waited:
                waited = self._waits_for_lease = True
                self._log_line(
                    "It begins when Headway's scheduler has answered: it may have been given to another machine."
                )
                log.info("attempt.waits_for_lease", attempt=str(record.attempt))
            await self._changed.wait()

    # -- watching -----------------------------------------------------------------------------------

    async def _watch(self) -> tuple[EndDecision, EndRecord | None]:
        """From the container's start to its end."""
        context, record = self._context, self.record
        runtime, attempt = context.runtime, record.attempt
        first = True
        while True:
            self._changed.clear()
            progress = await runtime.progress(attempt)
            changed = progress.end is not None
            if progress.started is not None and record.times.process_started_at is None:
                self._started(progress.started)
                changed = True
            if progress.end is not None:
                return await self._settle(progress.end), progress.end
            if self._limit.is_confirmed_anew(progress):
                changed = True
                self._report(AttemptEventKind.PROCESS_STARTED)
            if record.stop is not None and not self._stop_ordered:
                self._stop_ordered = changed = True
                await self._order_stop(record.stop)
                if await runtime.standing(attempt) in _NOT_BEGUN and await runtime.withdraw(attempt):
                    return self._decision_of_stop(), None
            elif record.stop is None and progress.started is not None and await self._limit.send_to_launcher():
                changed = True
                self._alarm_at(self._overdue_at(progress.started))
            elif self._alarm is None:
                self._alarm_at(self._overdue_at(progress.started))
            elif self._alarm.at <= context.clock.monotonic():
                return await self._overdue(progress)
            # Woken without a change, or adopted: the launcher itself may be gone.
            if (self._adopted if first else not changed) and await self._is_over():
                # The record is written before the launcher ends, so look once more.
                last = await runtime.progress(attempt)
                return await self._settle(last.end, await self._container.last_facts()), last.end
            first = False
            await self._wait_for_change()

    async def _is_over(self) -> bool:
        """Whether nothing of the attempt runs any more. The box decides, the engine is only asked what it knows."""
        runtime, attempt = self._context.runtime, self.record.attempt
        standing = await runtime.standing(attempt)
        self._rebooted = standing is BoxStanding.OTHER_BOOT
        if standing is BoxStanding.MAY_START:
            # The container was started, and no launcher has come yet. If the container has ended, none will.
            facts = await self._container.facts_now()
            self._look_again = True
            return facts is not None and facts.state in _OVER and await runtime.withdraw(attempt)
        if standing in _NOT_PROVEN and await runtime.is_inhabited(attempt):
            standing = BoxStanding.RUNS
        # The engine tells of the container's end. It may have lost sight of it, so the box is looked at again.
        self._look_again = standing is BoxStanding.RUNS
        return standing is not BoxStanding.RUNS

    async def _wait_for_change(self) -> None:
        if not self._look_again:
            await self._changed.wait()
            return
        self._look_again = False
        await wait(self._changed, self._context.limits.look_s, self._context.clock)

    async def _order_stop(self, word: StopWord) -> None:
        context, grace_s = self._context, self.launch.spec.grace_s
        grace_ms = None
        if word in (StopWord.DISK_FULL, StopWord.GPU_MEMORY) and grace_s > context.limits.disk_grace_s:
            # It would go on filling the disk, or taking memory of the tasks on its GPU, for its whole grace.
            grace_s = context.limits.disk_grace_s
            grace_ms = round(grace_s * 1000)
        try:
            await context.runtime.stop(self.record.attempt, word, grace_ms)
        except OSError as error:
            # The order is a file, which a full disk does not take. The engine can still end it.
            self._log_line(f"The order to stop could not be passed on to the launcher ({error.strerror}).")
            grace_s = -context.limits.slack_s
        self._alarm_at(context.clock.monotonic() + grace_s + context.limits.slack_s)

    def _started(self, started: StartedRecord) -> None:
        record, spec = self.record, self.launch.spec
        record.times = replace(record.times, process_started_at=started.wall_ns / _NS)
        self._forget_secrets()
        self._log_line(
            f"Process started. Its timeout is {format_duration(spec.timeout_s)}, with {format_duration(spec.grace_s)} "
            "from TERM to KILL."
            if spec.grace_s
            else f"Process started. Its timeout is {format_duration(spec.timeout_s)}."
        )
        self._report(AttemptEventKind.PROCESS_STARTED)
        if not self._stop_ordered:
            self._alarm_at(self._overdue_at(started))
        log.info("attempt.started", attempt=str(record.attempt))

    def _overdue_at(self, started: StartedRecord | None) -> float:
        """When the launcher must have ended it. Before the start: when the process must run."""
        limits, spec = self._context.limits, self.launch.spec
        if started is None:
            return self._context.clock.monotonic() + limits.exec_s
        return started.boot_ns / _NS + self._limit.timeout_s + spec.grace_s + limits.slack_s

    def _alarm_at(self, at: float) -> None:
        self._context.alarms.cancel(self._alarm)
        self._alarm = self._context.alarms.set(at, self._changed.set)

    async def _overdue(self, progress: AttemptProgress) -> tuple[EndDecision, EndRecord | None]:
        """The launcher did not act in time, so the Worker kills the container."""
        record = self.record
        if record.stop is None and progress.started is not None:
            self._overran = True
        log.warning("attempt.overdue", attempt=str(record.attempt), started=progress.started is not None)
        self._log_line("The launcher did not end it in time, so Headway kills the container.")
        never_starts = await self._never_starts()  # before the KILL: a launcher that comes after it begins nothing
        facts = await self._container.kill()
        last = await self._context.runtime.progress(record.attempt)
        if facts is None or (not never_starts and await self._context.runtime.standing(record.attempt) in _NOT_BEGUN):
            return self._cannot_kill(), last.end
        if progress.started is None and record.stop is None and last.end is None:
            limit = format_duration(self._context.limits.exec_s)
            detail = f"Its process did not start within {limit} of its container on {self._context.node_id}."
            return await self._decision_of_silence(detail, never_starts), None
        return end_decision.decide(last.end, facts, self._evidence()), last.end

    # -- the end ------------------------------------------------------------------------------------

    async def _settle(self, end: EndRecord | None, facts: ContainerFacts | None = None) -> EndDecision:
        """Make sure that the container has ended, and decide why."""
        if end is not None and self.record.times.process_started_at is None and end.started_wall_ns is not None:
            self.record.times = replace(self.record.times, process_started_at=end.started_wall_ns / _NS)
        if facts is None:
            facts = await self._container.exited()
            if facts is None:
                return self._cannot_kill()
        return end_decision.decide(end, facts, self._evidence(await self._engine_went(end, facts)))

    async def _engine_went(self, end: EndRecord | None, facts: ContainerFacts) -> bool:
        """Whether the engine, in going or coming, may be what ended it. Asked only where it looks like that."""
        if not end_decision.looks_killed_outside(end, facts) or self.record.stop is not None:
            return False
        runtime, context = self._context.runtime, self._context
        at = end.ended_wall_ns / _NS if end is not None else facts.ended_at or context.clock.now()
        # The engine may be stopping at this moment, and may be back before it is asked.
        return (
            runtime.engine_was_away(at)
            or await runtime.engine_goes_away(context.limits.engine_goes_s)
            or runtime.engine_was_away(at)
        )

    def _cannot_kill(self) -> EndDecision:
        node = self._context.node_id
        self.record.unsafe = True
        log.error("attempt.cannot_be_killed", attempt=str(self.record.attempt))
        self._log_line(f"It could not be killed on {node}. Its resources stay reserved until it is gone.")
        return EndDecision(
            EndReason(EndWord.PLATFORM_ERROR, detail=f"It could not be killed on the machine {node}."), elsewhere=True
        )

    async def _decision_of_silence(self, detail: str, never_starts: bool = True) -> EndDecision:
        """It did not start in time. If nobody gets an answer of the engine, that is no fault that counts."""
        away = never_starts and await self._container.engine_is_away()
        return EndDecision(EndReason(EndWord.START_FAILED, detail=detail), elsewhere=True, engine_away=away)

    def _decision_of_never(self) -> EndDecision:
        """Of an attempt whose ticket was withdrawn by an earlier life of this Worker."""
        if self.record.stop is not None:
            return self._decision_of_stop()
        detail = f"It was not started on {self._context.node_id}: its worker was restarted while it was refused."
        return EndDecision(EndReason(EndWord.START_FAILED, detail=detail), elsewhere=True)

    def _decision_of_stop(self) -> EndDecision:
        return end_decision.decide(None, ContainerFacts(ContainerState.ABSENT), self._evidence())

    def _evidence(self, engine_was_away: bool = False) -> EndEvidence:
        launch, record = self.launch, self.record
        spec = launch.spec
        return EndEvidence(
            node=self._context.node_id,
            timeout_s=self._limit.timeout_s,
            memory_bytes=spec.resources.memory_bytes,
            log_limit_bytes=spec.log_limit_bytes,
            asked=asked_of(launch, self._local_image),
            stop=record.stop,
            stop_detail=record.stop_detail,
            overran=self._overran,
            ever_started=record.times.process_started_at is not None,
            rebooted=self._rebooted or (bool(record.boot_id) and record.boot_id != self._context.boot_id),
            alone_s=usable_s(launch.lease_s, self._context.limits.lease_stop_s),
            engine_was_away=engine_was_away,
        )

    # -- helpers ------------------------------------------------------------------------------------

    def _forget_secrets(self) -> None:
        if self._giving is not None:
            self._giving.cancel()
        if self.launch.spec.secrets:
            self._context.runtime.forget_secrets(self.record.attempt)

    def _log_line(self, text: str) -> None:
        self.record.platform_log += platform_log_line(self._context.clock.now(), text)
        self._context.copier.set_platform_log(self.record.attempt, self.record.platform_log)

    def _report(self, kind: AttemptEventKind) -> None:
        context, record = self._context, self.record
        if record.discarded:
            return
        report = wire.report(
            record,
            kind.value,
            node_id=context.node_id,
            incarnation=context.incarnation,
            at=context.clock.now(),
            generation=self.launch.generation,
            notice=self._notice,
        )
        context.reports.submit(record.attempt, report)

    def report_again(self) -> None:
        """After a restart of this Worker: TaskManager may not know the attempt's progress."""
        record = self.record
        told = not record.discarded or wire.has_good_end(record)
        if record.stage is AttemptStage.ENDED and record.end_report is not None and told:
            self._context.reports.submit(record.attempt, wire.stored_report(record.end_report), end=True)
        elif record.stage is AttemptStage.LIVE and record.times.process_started_at is not None:
            self._report(AttemptEventKind.PROCESS_STARTED)


def _sentence(error: HeadwayError) -> str:
    text = error.message.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
