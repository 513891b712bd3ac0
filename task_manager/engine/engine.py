"""The only writer of the queue and of attempts. It takes events in batches: each batch is one turn and one transaction.

The events that arrive during one transaction form the next batch. So a burst costs few fsyncs, and an idle service
answers at once. Nothing leaves this service before it is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

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
from ..model import Attempt, Task
from ..order.policy import Policy
from ..order.recent_timeouts import RecentTimeouts
from ..planning.limit_checks import contradictions
from ..settings import TaskManagerSettings
from ..store import confirmation_store, queue_store
from . import confirmation, extension, node_events, retry
from .batch import apply, late_attempts, named_tasks
from .events import (
    Event,
    ExtendOrder,
    StopOrder,
    TaskCommands,
    TimePassed,
)
from .scheduling_choice import SchedulingChoice
from .state import EngineState
from .turn import OutgoingTaskEvent, Turn, unknown_tasks

if TYPE_CHECKING:
    from ..metrics import TaskManagerNumbers

log = get_logger(__name__)

_TICK_S = 2.0
_ASLEEP_S = 8.0  # some ticks are missing: the process, its machine or its disk stood still
_SLOW_S = 1.0  # a longer turn delays all others; the cause is mostly a third-party policy


class OrderSender:
    """Sends orders to Workers once a turn is on disk; see ``dispatcher.Dispatcher``."""

    def launch(self, attempts: Iterable[AttemptId]) -> None:
        """Sends launches, again where they were sent before."""

    def stop(self, orders: Iterable[StopOrder]) -> None:
        """Sends stop orders."""

    def extend(self, orders: Iterable[ExtendOrder]) -> None:
        """Sends longer timeouts."""


class Engine:
    """Owns the state. Every change goes through ``submit``."""

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
        self.scheduling_choice = SchedulingChoice(settings, policy)
        self._recorder = FrameRecorder()
        self._hub = hub
        self._encode = encode
        self.order_sender = OrderSender()
        self._steady_offset: SteadyOffset | None = None  # of JobManager's steady clock
        self.state = self._new_state()
        self._started_s = clock.monotonic()
        self._ticked_s: float | None = None  # boot clock: when `run` last did something
        self._planned_stop = False
        self._turn_lock = asyncio.Lock()
        self._stale = True  # the state may differ from the database
        self._loaded = False  # whether policies have their stored state
        self._inbox: Batcher[Event, Any] = Batcher(self._run_turn, name="task-manager events")
        self.numbers: TaskManagerNumbers | None = None
        self._waker: asyncio.Task[None] | None = None
        self._wakes_at_s: float | None = None

    @property
    def inbox(self) -> Batcher[Event, Any]:
        """Where events wait for their turn."""
        return self._inbox

    # -- doors ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Reads the database, and sends again what a Worker may not have received."""
        async with self._turn_lock:
            await self._reload()
        self._resend_orders()

    async def submit(self, event: Event) -> Any:
        """Submits an event; returns its answer once everything that follows from it is on disk.

        Raises:
            StoreFull, StoreUnavailable: nothing was stored; the same event may come again.
            Fenced: a heartbeat of a superseded Worker.
        """
        return await self._inbox.submit(event)

    @property
    def settings(self) -> TaskManagerSettings:
        """The settings that decisions use now."""
        return self.scheduling_choice.settings

    def now(self) -> float:
        """Wall-clock time in epoch seconds."""
        return self._clock.now()

    def mono(self) -> float:
        """The boot clock, in seconds."""
        return self._clock.monotonic()

    def read_clocks(self) -> ClockReading:
        """Both clocks at this moment."""
        return ClockReading(self._clock.now(), self._clock.monotonic(), self._clock.boot_id())

    def ahead_s(self, reading: ClockReading) -> float:
        """By how many seconds the steady clock, by which tasks age, is ahead of the wall clock."""
        return clocks.ahead_s(self._steady_offset, reading)

    @contextlib.asynccontextmanager
    async def consistent_state(self) -> AsyncIterator[EngineState]:
        """The state between two turns, when it is exactly what is on disk."""
        async with self._turn_lock:
            yield self.state

    async def run(self) -> None:
        """Checks leases and slow starts every two seconds; a side task."""
        while True:
            self._ticked_s = self._clock.monotonic()
            await self._clock.sleep(_TICK_S)
            try:
                await self.submit(TimePassed())
            except HeadwayError as error:
                log.warning("tick.failed", reason=str(error))

    async def close(self) -> None:
        """Finishes what was submitted."""
        await self._inbox.close()
        if self._waker is not None:
            self._waker.cancel()

    # -- one batch --------------------------------------------------------------------------------

    async def _run_turn(self, events: list[Event]) -> list[Any]:
        async with self._turn_lock:
            if self._stale:
                await self._reload()
                self._resend_orders()
            past = await self._load_past_tasks(events)
            past_attempts = await self._load_late_attempts(events)
            state = self.state
            reading = self.read_clocks()
            self._check_for_sleep(reading)
            steady_offset = self._updated_steady_offset(events, reading)
            state.begin(reading, clocks.ahead_s(steady_offset, reading))
            turn = Turn(
                state,
                self.settings,
                past,
                past_attempts,
                planned_stop=self._planned_stop,
                scheduling_choice=self.scheduling_choice,
            )
            waiting_before = state.waiting_count
            try:
                began_s = time.perf_counter()
                answers = apply(turn, events)
                took_s = time.perf_counter() - began_s
                if took_s > _SLOW_S:
                    log.warning("turn.slow", took_s=round(took_s, 3), waiting=waiting_before, policy=state.policy.name)
                record = self._recorder.record(turn.frame, state.now) if turn.frame is not None else None
                if state.dirty or turn.has_more_to_store or steady_offset is not self._steady_offset:
                    changes = self._changes(turn, record, steady_offset)
                    await asyncio.shield(self._db.write(lambda conn: queue_store.write(conn, changes)))
            except BaseException as error:
                state.rollback()
                # After a broken connection only the database knows whether the commit happened.
                self._stale = not isinstance(error, HeadwayError) or isinstance(error, StoreUnavailable)
                self._resend_orders()
                raise
            self._steady_offset = steady_offset
            self._planned_stop = turn.planned_stop
            self.scheduling_choice.commit(turn.settings, state.policy, turn.admin_choices, turn.policy_states)
            if record is not None:
                self._recorder.committed(record)
            queue_changed = bool(turn.launches or turn.admin_choices) or waiting_before != state.waiting_count
            changed = list(state.dirty_attempts.values())
            state.commit()
        if self.numbers is not None:
            placed = [a for a in map(state.attempt, turn.launches) if a is not None]
            self.numbers.turned(took_s, turn.pass_s, placed, turn.ended)
        self._hub.publish(changed, queue_changed=queue_changed)
        self.order_sender.launch([*turn.launches, *turn.relaunches])
        self.order_sender.stop(turn.stops)
        self.order_sender.extend(turn.extends)
        self._schedule_wake()
        return answers

    def _check_for_sleep(self, reading: ClockReading) -> None:
        """Notices that this process stood still: then heartbeats are missing through no fault of the nodes. What is
        under way is waited for as after a start."""
        if self._ticked_s is None or reading.mono - self._ticked_s <= _ASLEEP_S:
            return
        log.warning("turn.asleep", for_s=round(reading.mono - self._ticked_s, 1))
        self._ticked_s = self._started_s = reading.mono
        self.state.after_sleep(reading.mono)

    async def _load_past_tasks(self, events: Sequence[Event]) -> dict[TaskId, Task]:
        unknown = unknown_tasks(self.state, named_tasks(events))
        if not unknown:
            return {}
        return await self._db.read(lambda conn: queue_store.load_tasks(conn, unknown))

    async def _load_late_attempts(self, events: Sequence[Event]) -> dict[AttemptId, Attempt]:
        late = late_attempts(self.state, events)
        if not late:
            return {}
        return await self._db.read(lambda conn: queue_store.load_named_attempts(conn, late))

    def _updated_steady_offset(self, events: Sequence[Event], reading: ClockReading) -> SteadyOffset | None:
        found = self._steady_offset
        for event in events:
            if isinstance(event, TaskCommands):
                found = clocks.updated_offset(found, event.steady_boot_id, event.steady_now, reading)
        return found

    def _changes(
        self, turn: Turn, record: FrameRecord | None, steady_offset: SteadyOffset | None
    ) -> queue_store.TurnChanges:
        state = turn.state
        return queue_store.TurnChanges(
            tasks=list(state.dirty_tasks.values()),
            new_tasks=frozenset(task_id for task_id in turn.specs if task_id not in turn.past),
            specs=list(turn.specs.items()),
            attempts=list(state.dirty_attempts.values()),
            new_attempts=frozenset((*turn.launches, *turn.taken_back)),
            nodes=list(state.dirty_nodes.items()),
            leases=list(state.dirty_leases.items()),
            reservations=list(state.dirty_reservations.items()),
            moved_promises=list(state.dirty_moved_promises.items()),
            events=[self._encode(event) for event in turn.outgoing],
            reading=state.reading,
            steady_offset=steady_offset if steady_offset is not self._steady_offset else None,
            record=record,
            admin_choices=turn.admin_choices,
            policy_states=turn.policy_states,
        )

    # -- start and recovery -----------------------------------------------------------------------

    async def _reload(self) -> None:
        reading = self.read_clocks()
        stored = await self._db.read(lambda conn: queue_store.load(conn, reading))
        unconfirmed = await self._db.read(confirmation_store.load)
        self._steady_offset = stored.steady_offset
        before = self.state
        self._recorder.start(stored.last_decision)
        self.scheduling_choice.load(stored.admin_choices, stored.policy_states)
        first = not self._loaded
        if first:
            self.scheduling_choice.restore(self.scheduling_choice.policy)
            self._loaded = True
        state = self._new_state()
        state.started_s = self._started_s
        state.gates = before.gates
        if first and self.settings.compare_at_start:
            state.gates.at_start_s = self._started_s
        state.nodes_live = before.nodes_live
        for node in stored.nodes:
            state.put_node(node)
        for node_id, lease in stored.leases:
            known = before.leases.get(node_id)
            state.leases[node_id] = known if known is not None else lease
        for node_id in unconfirmed:
            confirmation.require_confirmation(state, node_id)
        state.unconfirmed.update(before.unconfirmed)
        state.recent_timeouts = RecentTimeouts(stored.recent_timeouts)
        for task in stored.tasks:
            state.adopt(task, None)
        for attempt in stored.attempts:
            state.adopt(None, attempt)
        state.reservations, state.moved_promises = dict(stored.reservations), dict(stored.moved_promises)
        state.commit()
        self.state = state
        self._stale = False
        node_events.log_contradictions([], contradictions(self.settings.limits, state.gpus))
        log.info("queue.loaded", waiting=state.waiting_count, running=len(state.attempts))

    def _new_state(self) -> EngineState:
        reading = self.read_clocks()
        return EngineState(
            self.scheduling_choice.policy,
            reading,
            ahead_s=clocks.ahead_s(self._steady_offset, reading),
            limits=self.settings.limits,
            arrivals_s=self.settings.arrivals_s,
            longest_pause_s=retry.longest_pause_s(self.settings.retry),
        )

    def _resend_orders(self) -> None:
        """Sends every order again that a Worker may not have received."""
        unanswered = [
            a.id for a in self.state.attempts.values() if a.answered_at is None and a.state is AttemptState.PLACED
        ]
        stopping = [
            StopOrder(a.id, a.stop_word or "cancelled")
            for a in self.state.attempts.values()
            if a.state is AttemptState.STOPPING
        ]
        self.order_sender.launch(unanswered)
        self.order_sender.stop(stopping)
        self.order_sender.extend(extension.extend_order(a) for a in self.state.attempts.values() if extension.is_due(a))
        self._schedule_wake()

    # -- waking at the end of a pause ---------------------------------------------------------------

    def _schedule_wake(self) -> None:
        at_s = self.state.next_wake_s
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
