"""Accepts attempts, stops them, adopts them after a restart, and removes containers without an owner.

It runs on one event loop. An attempt is accepted once its record is on the disk. Only then its container is started.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from headway.errors import HeadwayError
from headway.ids import AttemptId
from headway.logs import get_logger

from .. import wire
from ..box import StopWord
from ..model import AttemptRecord, AttemptStage, AttemptTimes, Condition, ExtendAttempt, LaunchAttempt
from ..ports import ContainerState, EngineUnavailable
from ..sampling import idle_rule
from ..sampling.idle_rule import IdleMode, IdleRule, IdleStep
from ..sampling.sampler import IdleNews, Watched
from .context import ExecutorContext
from .late_work import tell_late_warnings
from .launch_verdict import RefuseLaunch, verdict
from .leases import Lease, counts_from_s
from .platform_log import platform_log_line
from .task_executor import TaskExecutor

log = get_logger(__name__)

_FORGET_AFTER_S = 86_400.0
_FORGET_EVERY_S = 600.0
_MOST_CRASHES = 5  # of one attempt's life; a bug
_FORGET_BEYOND = 50_000  # it remembers at most so many ended attempts


@dataclass(frozen=True, slots=True)
class LaunchAccepted:
    """The Worker has accepted it. ``accepted_at`` is epoch seconds."""

    accepted_at: float


class TaskController:
    """See the module."""

    def __init__(
        self,
        context: ExecutorContext,
        conditions: Callable[[], Sequence[Condition]],
        *,
        keep_ended_s: float = 3_600.0,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._context = context
        self._conditions = conditions
        self._keep_ended_s = keep_ended_s
        self._on_change = on_change
        self._records: dict[AttemptId, AttemptRecord] = {}
        self._executors: dict[AttemptId, TaskExecutor] = {}
        self._lives: dict[AttemptId, asyncio.Task[None]] = {}
        self._crashes: Counter[AttemptId] = Counter()
        self._boxes_left: dict[AttemptId, float] = {}  # ended: when (monotonic) its box may be removed
        self._orphans: set[AttemptId] = set()  # of these only a box is known, in which something may still run
        self._forget_at = 0.0
        self._closed = False

    # -- what is here -------------------------------------------------------------------------------

    def live(self) -> list[AttemptId]:
        """Attempts that may still have a container here, or whose end TaskManager does not know yet."""
        live = [record.attempt for record, _ in self.held()]
        return [*live, *self._orphans]

    def held(self) -> list[tuple[AttemptRecord, LaunchAttempt]]:
        """Those of ``live`` whose launch is known."""
        return [
            (x.record, x.launch)
            for x in self._executors.values()
            if x.record.stage in (AttemptStage.LIVE, AttemptStage.ENDED)
        ]

    def using_resources(self) -> list[TaskExecutor]:
        """Attempts whose resources are in use."""
        return [x for x in self._executors.values() if x.record.stage is AttemptStage.LIVE or x.record.unsafe]

    def find(self, attempt: AttemptId) -> AttemptRecord | None:
        """The record of an attempt, if there is one."""
        return self._records.get(attempt)

    # -- orders -------------------------------------------------------------------------------------

    async def launch(self, launches: Sequence[tuple[LaunchAttempt, bytes]]) -> list[LaunchAccepted | RefuseLaunch]:
        """Accept or refuse each. What is accepted is on the disk when this returns. The bytes are what is stored.

        A caller may go away meanwhile: what is being stored begins all the same.

        Raises:
            StoreFull, StoreUnavailable: none was accepted.
        """
        answers: list[LaunchAccepted | RefuseLaunch] = []
        fresh: list[tuple[LaunchAttempt, AttemptRecord]] = []
        context = self._context
        now = context.clock.now()
        conditions = self._conditions()
        for launch, data in launches:
            record = self._records.get(launch.attempt)
            answer = verdict(
                launch,
                record=record,
                incarnation=context.incarnation,
                conditions=conditions,
                not_clean=context.gpus.refusal(launch.gpu_uuids),
            )
            if isinstance(answer, RefuseLaunch):
                answers.append(answer)
                continue
            if record is None:
                record = AttemptRecord(
                    launch.attempt,
                    AttemptStage.LIVE,
                    data,
                    AttemptTimes(accepted_at=now),
                    changed_at=now,
                    arrived_s=counts_from_s(
                        arrived_s=context.clock.monotonic(),
                        lease_s=launch.lease_s,
                        stop_s=context.limits.lease_stop_s,
                        answered=context.lease,
                    ),
                    arrived_boot_id=context.boot_id,
                )
                record.platform_log = platform_log_line(now, f"Accepted by {context.node_id}.") + self._scripted_line(
                    now
                )
                # In memory before it is stored: the same launch, or its stop, may come meanwhile and must find it.
                self._records[launch.attempt] = record
                fresh.append((launch, record))
            answers.append(LaunchAccepted(record.times.accepted_at))
        if fresh:
            await asyncio.shield(self._store_and_begin(fresh))
        return answers

    async def _store_and_begin(self, fresh: Sequence[tuple[LaunchAttempt, AttemptRecord]]) -> None:
        try:
            await self._context.store.put_many([record for _, record in fresh])
        except HeadwayError:
            for launch, _ in fresh:
                del self._records[launch.attempt]
            raise
        for launch, record in fresh:
            self._begin(TaskExecutor(record, launch, self._context))

    async def stop(self, orders: Sequence[tuple[AttemptId, StopWord]]) -> None:
        """End attempts. Each order is on the disk when this returns. Safe twice, in any state.

        Raises:
            StoreFull, StoreUnavailable: the stop is under way, but a restart might forget it. Call again.
        """
        changed = []
        for attempt, word in orders:
            record = self._records.get(attempt)
            if record is None:
                # Its launch may come later, and is refused then.
                now = self._context.clock.now()
                record = AttemptRecord(
                    attempt, AttemptStage.DONE, None, AttemptTimes(accepted_at=now), stop=word, changed_at=now
                )
                self._records[attempt] = record
            elif record.stage is not AttemptStage.LIVE or record.stop is not None:
                continue
            executor = self._executors.get(attempt)
            if executor is not None:
                executor.stop(word)
            else:
                record.stop = word  # accepted a moment ago: its executor looks at this first
            changed.append(record)
        if changed:
            await self._context.store.put_many(changed)

    async def extend(self, orders: Sequence[ExtendAttempt]) -> None:
        """Let attempts run longer. Each order is on the disk when this returns. Safe twice.

        Attempts that are ending or not here are skipped. The report of an end says which timeout counted.

        Raises:
            StoreFull, StoreUnavailable: the order may be under way, but a restart might forget it. Call again.
        """
        executors = [(self._executors.get(order.attempt), order) for order in orders]
        changed = [executor for executor, order in executors if executor is not None and executor.extend(order)]
        if changed:
            await self._context.store.put_many([executor.record for executor in changed])
            for executor in changed:
                executor.nudge()

    async def end_for_disk(self, attempt: AttemptId, sentence: str) -> None:
        """End the attempt that fills a disk. ``sentence`` is for its owner. One that is ending is left alone."""
        record = self._records.get(attempt)
        if record is None or record.stage is not AttemptStage.LIVE or record.stop is not None:
            return
        record.stop_detail = sentence
        with contextlib.suppress(HeadwayError):  # the stop is under way; perhaps this disk is the full one
            await self.stop([(attempt, StopWord.DISK_FULL)])

    def watched(self) -> list[Watched]:
        """Attempts whose process runs, for their samples."""
        found = []
        for executor in self._executors.values():
            record = executor.record
            started_at = record.times.process_started_at
            if record.stage is AttemptStage.LIVE and started_at is not None:
                share = bool(executor.launch.spec.resources.gpu_share_bytes)
                found.append(Watched(record.attempt, started_at, executor.launch.gpu_uuids, share))
        return found

    async def on_idle(self, rule: IdleRule, news: IdleNews) -> None:
        """An attempt's GPUs have been idle for long: warn its owner, or end it, as the rule says."""
        executor = self._executors.get(news.attempt)
        record = executor.record if executor is not None else None
        if executor is None or record is None or record.stage is not AttemptStage.LIVE or record.stop is not None:
            return
        log.info("attempt.gpus_idle", attempt=str(news.attempt), step=news.step.name.lower(), idle_s=news.idle_s)
        if news.step is not IdleStep.OVER:
            executor.warn(idle_rule.warning_sentence(rule, news.gpus, news.idle_s))
        elif rule.mode is IdleMode.DRY_RUN:
            executor.warn(idle_rule.would_end_sentence(rule, news.gpus, news.idle_s))
        elif rule.mode is IdleMode.ON:
            record.stop_detail = idle_rule.end_sentence(rule, news.gpus, news.idle_s)
            with contextlib.suppress(HeadwayError):  # the stop is under way
                await self.stop([(news.attempt, StopWord.GPU_IDLE)])

    async def end_for_share(self, attempt: AttemptId, sentence: str) -> None:
        """End the attempt that holds more than its share of a GPU. ``sentence`` is for its owner."""
        record = self._records.get(attempt)
        if record is None or record.stage is not AttemptStage.LIVE or record.stop is not None:
            return
        record.stop_detail = sentence
        with contextlib.suppress(HeadwayError):  # the stop is under way
            await self.stop([(attempt, StopWord.GPU_MEMORY)])

    async def end_for_gpus(self, attempt: AttemptId) -> None:
        """End an attempt whose cards are gone. Its record says so already, and so will its end."""
        with contextlib.suppress(HeadwayError):  # the stop is under way
            await self.stop([(attempt, StopWord.PLATFORM)])

    async def discard(self, attempts: Sequence[AttemptId], *, heard: bool = False) -> None:
        """End superseded attempts, and report no end of them. Safe twice.

        A good end is told once all the same: it still counts if the task has not begun again. ``heard``: TaskManager
        said so in its answer to a report.
        """
        for attempt in attempts:
            record = self._records.get(attempt)
            if record is None or record.stage is AttemptStage.DONE:
                continue
            if not record.discarded:
                log.info("attempt.discarded", attempt=str(attempt))
            record.discarded = True
            if record.stage is AttemptStage.ACKED or (not heard and wire.has_good_end(record)):
                continue
            self._context.reports.withdraw(attempt)
            executor = self._executors.get(attempt)
            if executor is not None and record.stage is AttemptStage.ENDED:
                executor.acked()
        with contextlib.suppress(HeadwayError):  # TaskManager sends the order again
            await self.stop([(attempt, StopWord.SUPERSEDED) for attempt in attempts if attempt in self._records])

    def acked(self, attempts: Sequence[AttemptId]) -> None:
        """TaskManager has stored these ends. It has taken those that it had told to discard, too."""
        for attempt in attempts:
            record = self._records.get(attempt)
            if record is not None:
                record.discarded = False
            executor = self._executors.get(attempt)
            if executor is not None:
                executor.acked()

    def warnings_told(self, attempt: AttemptId, warnings: tuple[str, ...]) -> None:
        """TaskManager has these warnings of the attempt, and no others of this kind."""
        record = self._records.get(attempt)
        if record is not None:
            record.late_told = warnings
            self._context.store.put_later(record)

    def lease_answered(self, lease: Lease) -> None:
        """A heartbeat was answered: attempts that waited for it may begin."""
        self._context.lease = lease
        for executor in self._executors.values():
            executor.lease_answered()

    def nudge(self, attempt: AttemptId) -> None:
        """The runtime says that something may have changed."""
        executor = self._executors.get(attempt)
        if executor is not None:
            executor.nudge()

    # -- life ---------------------------------------------------------------------------------------

    async def adopt(self) -> None:
        """At start: continue all attempts that the store holds."""
        taken = 0
        records = await self._context.store.load()
        known = {record.attempt for record in records}
        for record in [*records, *await self._from_boxes(known)]:
            self._records[record.attempt] = record
            self._context.gpus.adopt(record)
            if tuple(record.late.values()) != record.late_told:
                tell_late_warnings(self._context, record)
            if record.stage is AttemptStage.DONE or record.launch is None:
                if record.launch is not None:
                    self._box_left(record)
                continue
            try:
                launch = wire.stored_launch(record.launch)
            except (ValueError, KeyError) as error:
                log.error("attempt.unreadable", attempt=str(record.attempt), exc=error)
                await self._end_orphan(record.attempt)
                continue
            if record.stage is AttemptStage.LIVE:
                record.platform_log += platform_log_line(
                    self._context.clock.now(), f"The worker on {self._context.node_id} was restarted."
                )
            executor = TaskExecutor(record, launch, self._context, adopted=True)
            if record.stage is AttemptStage.ACKED:
                executor.acked()
            executor.report_again()
            self._begin(executor)
            taken += 1
        log.info("attempts.adopted", count=taken)

    async def _from_boxes(self, known: Collection[AttemptId]) -> list[AttemptRecord]:
        """Records anew, of attempts that have a box while the store has lost them: what a box proves still counts."""
        context, made = self._context, []
        now = context.clock.now()
        for attempt in await context.runtime.boxes():
            if attempt in known:
                continue
            launch = await context.runtime.stored_launch(attempt)
            log.warning("attempt.record_lost", attempt=str(attempt), from_box=launch is not None)
            if launch is None:
                await self._end_orphan(attempt)
                continue
            record = AttemptRecord(attempt, AttemptStage.LIVE, launch, AttemptTimes(accepted_at=now), changed_at=now)
            # Its box was made, whatever becomes of it.
            record.boot_id = context.boot_id
            made.append(record)
        if made:
            await context.store.put_many(made)
        return made

    async def _end_orphan(self, attempt: AttemptId) -> None:
        """End an attempt of which nothing is known but its box. It counts as live until nothing of it runs."""
        runtime = self._context.runtime
        if not await runtime.withdraw(attempt):
            self._orphans.add(attempt)
            with contextlib.suppress(OSError):
                await runtime.stop(attempt, StopWord.PLATFORM)

    async def _continue_crashed(self) -> None:
        """Those that crash again and again are given up once nothing of them runs, so TaskManager loses them."""
        runtime = self._context.runtime
        for attempt in [attempt for attempt in self._executors if attempt not in self._lives]:
            executor = self._executors[attempt]
            if self._crashes[attempt] >= _MOST_CRASHES and not await runtime.is_inhabited(attempt):
                log.error("attempt.given_up", attempt=str(attempt), crashes=self._crashes[attempt])
                del self._executors[attempt], self._crashes[attempt]
                continue
            again = TaskExecutor(executor.record, executor.launch, self._context, adopted=True)
            if executor.record.stage is AttemptStage.ACKED:
                again.acked()
            again.report_again()
            self._begin(again)

    async def _look_at_orphans(self) -> None:
        for attempt in list(self._orphans):
            if not await self._context.runtime.is_inhabited(attempt):
                self._orphans.discard(attempt)

    async def sweep(self) -> None:
        """Compare the engine with the records.

        Containers without an owner are removed, and so are boxes whose time is over. Attempts without a running
        container are nudged.
        """
        context = self._context
        now = context.clock.monotonic()
        for attempt in [a for a, at in self._boxes_left.items() if at <= now]:
            del self._boxes_left[attempt]
            await context.runtime.remove_box(attempt)
        self._forget_old()
        await self._continue_crashed()
        await self._look_at_orphans()
        try:
            containers = await context.runtime.list()
        except EngineUnavailable:
            context.on_engine_trouble()
            return
        for attempt, facts in containers.items():
            record = self._records.get(attempt)
            if (
                attempt not in self._executors
                and attempt not in self._orphans
                and (record is None or record.stage is AttemptStage.DONE)
            ):
                log.warning("container.reaped", attempt=str(attempt), state=facts.state.value)
                with contextlib.suppress(EngineUnavailable):
                    await context.runtime.remove(attempt)
        for attempt, executor in list(self._executors.items()):
            # Nudges may be lost. An attempt whose container does not run has changed.
            found = containers.get(attempt)
            if executor.record.stage is AttemptStage.LIVE and (
                found is None or found.state is not ContainerState.RUNNING
            ):
                executor.nudge()

    async def close(self) -> None:
        """Stop following all attempts. Their containers run on. Safe twice."""
        self._closed = True
        lives = list(self._lives.values())
        for life in lives:
            life.cancel()
        if lives:
            await asyncio.wait(lives, timeout=5.0)

    # -- inside -------------------------------------------------------------------------------------

    def _begin(self, executor: TaskExecutor) -> None:
        if self._closed:
            return  # accepted and stored: the next start continues it
        attempt = executor.record.attempt
        self._executors[attempt] = executor
        life = asyncio.get_running_loop().create_task(executor.run(), name=f"attempt {attempt}")
        self._lives[attempt] = life
        life.add_done_callback(lambda done: self._over(attempt, done))
        self._on_change()

    def _over(self, attempt: AttemptId, life: asyncio.Task[None]) -> None:
        self._lives.pop(attempt, None)
        error = None if life.cancelled() else life.exception()
        if error is not None:
            # It may run: it stays in the list of what is here, and the next sweep continues it.
            log.error("attempt.life_crashed", attempt=str(attempt), exc=error)
            self._crashes[attempt] += 1
            return
        self._crashes.pop(attempt, None)
        executor = self._executors.pop(attempt, None)
        if executor is None or life.cancelled():
            return
        self._box_left(executor.record)
        self._on_change()

    def _box_left(self, record: AttemptRecord) -> None:
        self._boxes_left[record.attempt] = self._context.clock.monotonic() + self._keep_ended_s

    def _forget_old(self) -> None:
        if self._context.clock.monotonic() < self._forget_at:
            return
        self._forget_at = self._context.clock.monotonic() + _FORGET_EVERY_S
        done = [r for r in self._records.values() if r.stage is AttemptStage.DONE and r.attempt not in self._boxes_left]
        before = self._context.clock.now() - _FORGET_AFTER_S
        done.sort(key=lambda record: record.changed_at)
        surplus = max(0, len(done) - _FORGET_BEYOND)
        old = [r.attempt for i, r in enumerate(done) if i < surplus or r.changed_at < before]
        for attempt in old:
            del self._records[attempt]
        self._context.store.forget_later(old)

    def _scripted_line(self, now: float) -> bytes:
        if not self._context.runtime.simulates:
            return b""
        return platform_log_line(now, "This node only simulates tasks: no program runs here.")
