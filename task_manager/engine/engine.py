"""The one writer of queue and attempts: takes events in batches, one turn and one transaction a batch.

Whatever has piled up while the last transaction was at work forms the next batch, so that a burst costs few fsyncs
and an idle service answers at once. Nothing is told to anybody before it is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any

from headway.clock import Clock
from headway.errors import HeadwayError, StoreUnavailable
from headway.ids import AttemptId, TaskId
from headway.logs import get_logger
from headway.states import AttemptState
from headway.store import Batcher, Database

from .. import clocks
from ..clocks import ClockReading, SteadyOffset
from ..decisions.recorder import FrameRecord, FrameRecorder
from ..hub import QueueEventHub
from ..model import Task
from ..order.policy import Policy
from ..planning.admission import contradictions
from ..settings import TaskManagerSettings
from ..store import confirmation_store, queue_store
from . import confirmation, extension, node_events
from .batch import apply, named_tasks
from .events import (
    Event,
    ExtendAttempt,
    StopAttempt,
    TaskCommands,
    TimePassed,
)
from .scheduling_choice import SchedulingChoice
from .state import EngineState
from .turn import OutgoingTaskEvent, Turn, unknown_tasks

log = get_logger(__name__)

_TICK_S = 2.0
_ASLEEP_S = 8.0  # some ticks have not come: the process, its machine or its disk stood still
_SLOW_S = 1.0  # a turn that takes longer holds up all others; mostly a policy of somebody else


class OrderSender:
    """What is to be done once a turn is on disk; see ``dispatcher.Dispatcher``."""

    def launch(self, attempts: Iterable[AttemptId]) -> None:
        """Sends launches, again where they were sent before."""

    def stop(self, orders: Iterable[StopAttempt]) -> None:
        """Sends stop orders."""

    def extend(self, orders: Iterable[ExtendAttempt]) -> None:
        """Tells of more time."""


class Engine:
    """Owns the book. Everything that changes goes through ``submit``."""

    def __init__(
        self,
        db: Database,
        clock: Clock,
        settings: TaskManagerSettings,
        policy: Policy,
        hub: QueueEventHub,
        encode: Callable[[OutgoingTaskEvent], tuple[str, bytes]],
    ) -> None:
        self._db = db
        self._clock = clock
        self.steering = SchedulingChoice(settings, policy)
        self._recorder = FrameRecorder()
        self._hub = hub
        self._encode = encode
        self.outgoing = OrderSender()
        self._heard: SteadyOffset | None = None  # of JobManager's steady clock
        self.book = self._new_book()
        self._started_s = clock.monotonic()
        self._ticked_s: float | None = None  # boot clock: when `run` last went on
        self._planned_stop = False
        self._settled = asyncio.Lock()
        self._stale = True  # the book may differ from the database
        self._loaded = False  # what policies have learnt
        self._inbox: Batcher[Event, Any] = Batcher(self._take, name="task-manager events")
        self._waker: asyncio.Task[None] | None = None
        self._wakes_at_s: float | None = None

    # -- doors ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Reads what the database holds; what was on its way is sent again."""
        async with self._settled:
            await self._reload()
        self._resume()

    async def submit(self, event: Event) -> Any:
        """Hands an event in; returns its answer once all that follows from it is on disk.

        Raises:
            StoreFull, StoreUnavailable: nothing was stored; the same event may come again.
            Fenced: a heartbeat of a superseded Worker.
        """
        return await self._inbox.submit(event)

    @property
    def settings(self) -> TaskManagerSettings:
        """What decisions depend on, as it counts now."""
        return self.steering.settings

    def now(self) -> float:
        """Wall-clock time in epoch seconds."""
        return self._clock.now()

    def mono(self) -> float:
        """The boot clock, in seconds."""
        return self._clock.monotonic()

    def here(self) -> ClockReading:
        """Both clocks at this moment."""
        return ClockReading(self._clock.now(), self._clock.monotonic(), self._clock.boot_id())

    def ahead_s(self, here: ClockReading) -> float:
        """By how many seconds the clock by which tasks age is ahead of the wall clock."""
        return clocks.ahead_s(self._heard, here)

    @contextlib.asynccontextmanager
    async def reading(self) -> AsyncIterator[EngineState]:
        """The book between two turns, when it says exactly what is on disk."""
        async with self._settled:
            yield self.book

    async def run(self) -> None:
        """Looks at leases and slow starts now and then; a side task."""
        while True:
            self._ticked_s = self._clock.monotonic()
            await self._clock.sleep(_TICK_S)
            try:
                await self.submit(TimePassed())
            except HeadwayError as error:
                log.warning("tick.failed", reason=str(error))

    async def close(self) -> None:
        """Finishes what was handed in."""
        await self._inbox.close()
        if self._waker is not None:
            self._waker.cancel()

    # -- one batch --------------------------------------------------------------------------------

    async def _take(self, events: list[Event]) -> list[Any]:
        async with self._settled:
            if self._stale:
                await self._reload()
                self._resume()
            past = await self._past(events)
            book = self.book
            here = self.here()
            self._look_whether_it_slept(here)
            heard = self._hear(events, here)
            book.begin(here, clocks.ahead_s(heard, here))
            turn = Turn(book, self.settings, past, planned_stop=self._planned_stop, steering=self.steering)
            waiting_before = len(book.queue) + len(book.held)
            try:
                began_s = time.perf_counter()
                answers = apply(turn, events)
                took_s = time.perf_counter() - began_s
                if took_s > _SLOW_S:
                    log.warning("turn.slow", took_s=round(took_s, 3), waiting=waiting_before, policy=book.policy.name)
                record = self._recorder.record(turn.frame, book.now) if turn.frame is not None else None
                if book.dirty or turn.told or turn.chosen or turn.states or heard is not self._heard:
                    changes = self._changes(turn, record, heard)
                    await asyncio.shield(self._db.write(lambda conn: queue_store.write(conn, changes)))
            except BaseException as error:
                book.rollback()
                # A broken connection can hide a commit that happened: only the database knows.
                self._stale = not isinstance(error, HeadwayError) or isinstance(error, StoreUnavailable)
                self._resume()
                raise
            self._heard = heard
            self._planned_stop = turn.planned_stop
            self.steering.commit(turn.settings, book.policy, turn.chosen, turn.states)
            if record is not None:
                self._recorder.wrote(record)
            queue_changed = bool(turn.launches or turn.chosen) or waiting_before != len(book.queue) + len(book.held)
            changed = list(book.dirty_attempts.values())
            book.commit()
        self._hub.publish(changed, queue_changed=queue_changed)
        self.outgoing.launch([*turn.launches, *turn.relaunches])
        self.outgoing.stop(turn.stops)
        self.outgoing.extend(turn.extends)
        self._arm()
        return answers

    def _look_whether_it_slept(self, here: ClockReading) -> None:
        """A process that was stopped for a while heard nobody, which is no silence of others; what is on its way is
        waited for as after a start."""
        if self._ticked_s is None or here.mono - self._ticked_s <= _ASLEEP_S:
            return
        log.warning("turn.asleep", for_s=round(here.mono - self._ticked_s, 1))
        self._ticked_s = self._started_s = here.mono
        self.book.woke(here.mono)

    async def _past(self, events: Sequence[Event]) -> dict[TaskId, Task]:
        unknown = unknown_tasks(self.book, named_tasks(events))
        if not unknown:
            return {}
        return await self._db.read(lambda conn: queue_store.load_tasks(conn, unknown))

    def _hear(self, events: Sequence[Event], here: ClockReading) -> SteadyOffset | None:
        found = self._heard
        for event in events:
            if isinstance(event, TaskCommands):
                found = clocks.updated_offset(found, event.steady_boot_id, event.steady_now, here)
        return found

    def _changes(self, turn: Turn, record: FrameRecord | None, heard: SteadyOffset | None) -> queue_store.TurnChanges:
        book = turn.book
        return queue_store.TurnChanges(
            tasks=list(book.dirty_tasks.values()),
            new_tasks=frozenset(task_id for task_id in turn.specs if task_id not in turn.past),
            specs=list(turn.specs.items()),
            attempts=list(book.dirty_attempts.values()),
            new_attempts=frozenset(turn.launches),
            nodes=list(book.dirty_nodes.items()),
            leases=list(book.dirty_leases.items()),
            places=list(book.dirty_places.items()),
            moved=list(book.dirty_moved.items()),
            events=[self._encode(told) for told in turn.told],
            here=book.here,
            heard=heard if heard is not self._heard else None,
            record=record,
            chosen=turn.chosen,
            states=turn.states,
        )

    # -- start and recovery -----------------------------------------------------------------------

    async def _reload(self) -> None:
        here = self.here()
        stored = await self._db.read(lambda conn: queue_store.load(conn, here))
        in_doubt = await self._db.read(confirmation_store.load)
        self._heard = stored.heard
        before = self.book
        self._recorder.start(stored.last_decision)
        self.steering.load(stored.chosen, stored.states)
        if not self._loaded:
            self.steering.restore(self.steering.policy)
            self._loaded = True
        book = self._new_book()
        book.started_s = self._started_s
        book.nodes_live = before.nodes_live
        for node in stored.nodes:
            book.put_node(node)
        for node_id, lease in stored.leases:
            heard = before.leases.get(node_id)
            book.leases[node_id] = heard if heard is not None else lease
        for node_id in in_doubt:
            confirmation.require_confirmation(book, node_id)
        book.doubts.update(before.doubts)
        for task in stored.tasks:
            book.adopt(task, None)
        for attempt in stored.attempts:
            book.adopt(None, attempt)
        book.places, book.moved = dict(stored.places), dict(stored.moved)
        book.commit()
        self.book = book
        self._stale = False
        node_events.log_contradictions([], contradictions(self.settings.limits, book.gpus))
        log.info("queue.loaded", waiting=len(book.queue) + len(book.held), running=len(book.attempts))

    def _new_book(self) -> EngineState:
        here = self.here()
        return EngineState(
            self.steering.policy,
            here,
            ahead_s=clocks.ahead_s(self._heard, here),
            limits=self.settings.limits,
            arrivals_s=self.settings.arrivals_s,
        )

    def _resume(self) -> None:
        """Whatever may not have reached a Worker is sent (again)."""
        unanswered = [
            a.id for a in self.book.attempts.values() if a.answered_at is None and a.state is AttemptState.PLACED
        ]
        stopping = [
            StopAttempt(a.id, a.stop_word or "cancelled")
            for a in self.book.attempts.values()
            if a.state is AttemptState.STOPPING
        ]
        self.outgoing.launch(unanswered)
        self.outgoing.stop(stopping)
        self.outgoing.extend(extension.extend_order(a) for a in self.book.attempts.values() if extension.is_due(a))
        self._arm()

    # -- waking at the end of a pause ---------------------------------------------------------------

    def _arm(self) -> None:
        at_s = self.book.next_wake_s
        if at_s is None or (self._wakes_at_s is not None and self._wakes_at_s <= at_s):
            return
        if self._waker is not None:
            self._waker.cancel()
        self._wakes_at_s = at_s
        self._waker = asyncio.get_running_loop().create_task(self._wake_at(at_s))

    async def _wake_at(self, at_s: float) -> None:
        await self._clock.sleep(at_s - self._clock.monotonic())
        self._wakes_at_s = None
        self._waker = None
        with contextlib.suppress(HeadwayError):  # the next tick comes anyway
            await self.submit(TimePassed())
