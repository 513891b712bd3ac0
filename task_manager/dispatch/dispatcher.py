"""Sends launches, stop orders and longer timeouts to the Workers; one call of each kind at a time to each Worker.

A placement is a booking that is already on disk, so nothing is lost here. A launch without an answer is sent again
until the Worker accepts or refuses it, or the attempt ends in another way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

from headway.backoff import Backoff
from headway.clock import Clock
from headway.errors import HeadwayError, Unavailable
from headway.ids import AttemptId, NodeId
from headway.logs import get_logger
from headway.states import AttemptState
from headway.store import Database
from headway.waiting import wait

from ..engine.engine import Engine, OrderSender
from ..engine.events import ExtendOrder, LaunchesAnswered, RefusedLaunch, StopOrder, StopsDelivered
from ..model import Attempt
from ..ports import LaunchOrder, Workers
from ..store import queue_store

log = get_logger(__name__)
T = TypeVar("T")

_BATCH = 200
_FIRST_PAUSE_S = 0.2
_LONGEST_LAUNCH_PAUSE_S = 5.0
_LONGEST_STOP_PAUSE_S = 30.0


class Dispatcher(OrderSender):
    """Has three queues for each node, so that a launch that hangs delays no stop order and no extension."""

    def __init__(self, engine: Engine, db: Database, clock: Clock, workers: Workers) -> None:
        self._engine = engine
        self._db = db
        self._clock = clock
        self._workers = workers
        self._launches: dict[NodeId, _DeliveryQueue[AttemptId]] = {}
        self._stops: dict[NodeId, _DeliveryQueue[StopOrder]] = {}
        self._extends: dict[NodeId, _DeliveryQueue[ExtendOrder]] = {}
        self._closed = False

    def launch(self, attempts: Iterable[AttemptId]) -> None:
        for attempt_id in attempts:
            attempt = self._engine.state.attempt(attempt_id)
            if attempt is not None and not self._closed:
                self._launch_queue(attempt.node_id).add(attempt_id, attempt_id)

    def stop(self, orders: Iterable[StopOrder]) -> None:
        for order in orders:
            attempt = self._engine.state.attempt(order.attempt)
            if attempt is not None and not self._closed:
                self._stop_queue(attempt.node_id).add(order.attempt, order)

    def extend(self, orders: Iterable[ExtendOrder]) -> None:
        for order in orders:
            attempt = self._engine.state.attempt(order.attempt)
            if attempt is not None and not self._closed:
                self._extend_queue(attempt.node_id).add(order.attempt, order)

    async def suspend_leases(self, within_s: float) -> None:
        """Tells all Workers at once that TaskManager stops as planned; it does not wait for those that answer late."""
        nodes = {*self._engine.state.nodes, *self._engine.state.leases}
        places = {node_id: address for node_id in nodes if (address := self.address(node_id))}
        if not places:
            return
        calls = [asyncio.create_task(self._suspend(*place)) for place in places.items()]
        _done, late = await asyncio.wait(calls, timeout=within_s)
        for call in late:
            call.cancel()

    async def close(self) -> None:
        """Ends all deliveries; what was not delivered is sent after the next start."""
        self._closed = True
        queues: list[_DeliveryQueue[Any]] = [*self._launches.values(), *self._stops.values(), *self._extends.values()]
        for queue in queues:
            await queue.close()

    async def _suspend(self, node_id: NodeId, address: str) -> None:
        try:
            await self._workers.suspend_leases(node_id, address)
        except HeadwayError as error:
            log.info("leases.suspension_untold", address=address, reason=str(error))

    def _launch_queue(self, node_id: NodeId) -> _DeliveryQueue[AttemptId]:
        queue = self._launches.get(node_id)
        if queue is None:
            queue = _DeliveryQueue(
                self._clock, lambda items: self._send_launches(node_id, items), _LONGEST_LAUNCH_PAUSE_S
            )
            self._launches[node_id] = queue
        return queue

    def _stop_queue(self, node_id: NodeId) -> _DeliveryQueue[StopOrder]:
        queue = self._stops.get(node_id)
        if queue is None:
            queue = _DeliveryQueue(self._clock, lambda items: self._send_stops(node_id, items), _LONGEST_STOP_PAUSE_S)
            self._stops[node_id] = queue
        return queue

    def _extend_queue(self, node_id: NodeId) -> _DeliveryQueue[ExtendOrder]:
        queue = self._extends.get(node_id)
        if queue is None:
            queue = _DeliveryQueue(
                self._clock, lambda orders: self._send_extends(node_id, orders), _LONGEST_STOP_PAUSE_S
            )
            self._extends[node_id] = queue
        return queue

    # -- launches ---------------------------------------------------------------------------------

    async def _send_launches(self, node_id: NodeId, ids: list[AttemptId]) -> list[AttemptId]:
        attempts = [a for a in (self._to_launch(i) for i in ids) if a is not None]
        if not attempts:
            return []
        specs = await self._db.read(lambda conn: queue_store.load_specs(conn, [a.id.task for a in attempts]))
        address = self.address(node_id)
        # Checked once more: some may have been cancelled while the specs were read.
        attempts = [a for a in (self._to_launch(a.id) for a in attempts) if a is not None]
        if not address:
            return [a.id for a in attempts]
        lease = self._engine.state.leases.get(node_id)
        launches = [
            LaunchOrder(a, specs[a.id.task], self._engine.settings.leases.lease_s, lease is not None and lease.granted)
            for a in attempts
            if a.id.task in specs
        ]
        return await self._call_launch(node_id, address, launches)

    async def _call_launch(self, node_id: NodeId, address: str, launches: list[LaunchOrder]) -> list[AttemptId]:
        if not launches:
            return []
        for launch in launches:
            self._touch(launch.attempt, sent=True)
        try:
            verdicts = await self._workers.launch(node_id, address, launches)
        except Unavailable as error:
            for launch in launches:
                self._touch(launch.attempt, uncertain=True)
            log.info("launch.no_answer", node=node_id, attempts=len(launches), reason=str(error))
            return [launch.attempt.id for launch in launches]
        except HeadwayError as error:
            if len(launches) > 1:
                again = []
                for launch in launches:
                    again += await self._call_launch(node_id, address, [launch])
                return again
            verdicts = [RefusedLaunch(launches[0].attempt.id, error.slug, str(error), again_later=True)]
        except BaseException:
            for launch in launches:
                self._touch(launch.attempt, uncertain=True)
            raise
        for launch in launches:
            self._touch(launch.attempt)
        await self._engine.submit(LaunchesAnswered(node_id, tuple(verdicts)))
        answered = {verdict.attempt for verdict in verdicts}
        return [launch.attempt.id for launch in launches if launch.attempt.id not in answered]

    def _to_launch(self, attempt_id: AttemptId) -> Attempt | None:
        """The attempt if its launch has to be sent now."""
        state = self._engine.state
        attempt = state.attempt(attempt_id)
        if attempt is None or attempt.answered_at is not None:
            return None
        tracking = state.tracking[attempt_id.task]
        if tracking.uncertain and state.incarnation(attempt.node_id) > attempt.incarnation:
            return None  # the Worker was restarted: its next heartbeat says whether it has the attempt
        if attempt.state is AttemptState.PLACED:
            return attempt
        # Once the Worker has the stop order, the same launch only asks whether the attempt ever arrived.
        return attempt if attempt.state is AttemptState.STOPPING and tracking.stop_delivered else None

    def _touch(self, attempt: Attempt, *, sent: bool = False, uncertain: bool = False) -> None:
        tracking = self._engine.state.tracking.get(attempt.id.task)
        current = self._engine.state.attempt(attempt.id)
        if tracking is None or current is None:
            return
        tracking.launched_s = self._clock.monotonic()
        tracking.sent |= sent
        tracking.uncertain |= uncertain

    # -- stop orders ------------------------------------------------------------------------------

    async def _send_stops(self, node_id: NodeId, orders: list[StopOrder]) -> list[StopOrder]:
        live = [order for order in orders if self._engine.state.attempt(order.attempt) is not None]
        if not live:
            return []
        address = self.address(node_id)
        if not address:
            return live
        try:
            await self._workers.stop(node_id, address, live)
        except HeadwayError as error:
            log.info("stop.undelivered", node=node_id, attempts=len(live), reason=str(error))
            return live
        await self._engine.submit(StopsDelivered(tuple(order.attempt for order in live)))
        return []

    # -- more time --------------------------------------------------------------------------------

    async def _send_extends(self, node_id: NodeId, orders: list[ExtendOrder]) -> list[ExtendOrder]:
        live = [order for order in orders if self._engine.state.attempt(order.attempt) is not None]
        address = self.address(node_id)
        if not live or not address:
            return live
        try:
            await self._workers.extend(node_id, address, live)
        except HeadwayError as error:
            log.info("extend.undelivered", node=node_id, attempts=len(live), reason=str(error))
            return live
        return []

    def address(self, node_id: NodeId) -> str:
        """The address of its Worker; empty: not known."""
        state = self._engine.state
        lease, node = state.leases.get(node_id), state.nodes.get(node_id)
        if lease is not None and (node is None or lease.incarnation >= node.incarnation) and lease.address:
            return lease.address
        return node.address if node is not None else ""


class _DeliveryQueue(Generic[T]):
    """Gives items to ``send`` in batches, one call at a time; what that returns is tried again later."""

    def __init__(self, clock: Clock, send: Callable[[list[T]], Awaitable[list[T]]], longest_pause_s: float) -> None:
        self._clock = clock
        self._send = send
        self._pauses = Backoff(_FIRST_PAUSE_S, longest_pause_s)
        self._pending: dict[AttemptId, T] = {}
        self._worker: asyncio.Task[None] | None = None
        self._fresh = asyncio.Event()
        self.pausing = False  # whether everything pending waits for its next try

    def add(self, key: AttemptId, item: T) -> None:
        self._pending[key] = item
        self._fresh.set()
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait((self._worker,))

    async def _work(self) -> None:
        self._pauses.reset()
        try:
            while self._pending:
                self._fresh.clear()
                keys = list(self._pending)[:_BATCH]
                batch = {key: self._pending.pop(key) for key in keys}
                try:
                    left = await self._send(list(batch.values()))
                except Exception as error:
                    # The engine could not store the answer (a full disk, say): the same call gets it again later.
                    expected = isinstance(error, HeadwayError)
                    log.warning("dispatch.held", reason=str(error), exc=None if expected else error)
                    left = list(batch.values())
                for key, item in batch.items():
                    if item in left:
                        self._pending.setdefault(key, item)
                if left:
                    await self._pause()
                else:
                    self._pauses.reset()
        finally:
            self._worker = None

    async def _pause(self) -> None:
        self.pausing = True
        try:
            # A new item ends the pause early: the Worker may be back.
            await wait(self._fresh, self._pauses.next_s(), self._clock)
        finally:
            self.pausing = False
