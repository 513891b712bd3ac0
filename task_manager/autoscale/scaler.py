"""Looks at the queue now and then, and tells the hook what it lacks: one call at a time, never within the cool-down."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from headway.clock import Clock
from headway.errors import HeadwayError
from headway.ids import NodeId, TaskId
from headway.logs import get_logger
from headway.store import Database

from ..engine.engine import Engine
from ..engine.state import EngineState
from ..store import autoscale_store
from .decision import Ask, Rules, Waiting, lacks, to_json

log = get_logger(__name__)

LOOK_S = 5.0
_AT_ONCE = 2_000


class Hook(Protocol):
    """What is told. Raises a HeadwayError if it fails."""

    async def tell(self, message: Mapping[str, object]) -> None: ...


@dataclass(frozen=True, slots=True)
class Growth:
    """Who is told, when, and of which cluster. ``hook`` None: a dry run, which only logs."""

    rules: Rules
    hook: Hook | None
    cluster: str


class Autoscaler:
    """Belongs to the event loop. Its own failures never reach the queue."""

    def __init__(self, engine: Engine, db: Database, clock: Clock, growth: Growth) -> None:
        self._engine = engine
        self._db = db
        self._clock = clock
        self._rules = growth.rules
        self._hook = growth.hook
        self._cluster = growth.cluster
        self._idle_since: dict[NodeId, float] = {}
        # Since when each task waits, by the boot clock, with its place in the queue: nobody's wall clock moves it.
        self._waits_since: dict[TaskId, tuple[float, float]] = {}
        self._asks_again_s: float | None = None  # by the boot clock; None: not read yet
        self.failure = ""  # of the last call
        self._unfinished: Ask | None = None  # machines were to leave, and the hook failed
        self.calls = {"ok": 0, "failed": 0}

    async def run(self) -> None:
        """A side task."""
        while True:
            await self._clock.sleep(LOOK_S)
            try:
                await self.look()
            except HeadwayError as error:
                log.warning("autoscale.not_looked", reason=str(error))

    async def look(self) -> Ask | None:
        """Look once; what the hook was told."""
        if self._asks_again_s is None:
            self._asks_again_s = await self._kept_cooldown()
        ask = await self.ask() or self._unfinished
        if ask is None or self._clock.monotonic() < self._asks_again_s:
            return None
        # Noted before the call: a restart in the middle of it must not repeat it.
        now = self._clock.now()
        await self._db.write(lambda conn: autoscale_store.save(conn, now))
        self._asks_again_s = self._clock.monotonic() + self._rules.cooldown_s
        await self._tell(ask)
        return ask

    async def ask(self) -> Ask | None:
        """What there is to tell now, whatever the cool-down."""
        async with self._engine.consistent_state() as state:
            waiting = await self._waiting(state)
            nodes = list(state.nodes.values())
            idle_s = self._idle(state)
        return lacks(waiting, nodes, idle_s, self._rules)

    async def _tell(self, ask: Ask) -> None:
        message = to_json(ask, at=self._clock.now(), cluster=self._cluster, rules=self._rules)
        log.info(
            "autoscale.told", want=message["want"], tasks=sum(lack.count for lack in ask.lacks),
            idle=[one.node_id for one in ask.idle], dry_run=self._hook is None,
        )  # fmt: skip
        if self._hook is None:
            return
        try:
            await self._hook.tell(message)
        except HeadwayError as error:
            self.calls["failed"] += 1
            self.failure = error.message
            # Machines that it has closed already are not named again by themselves.
            self._unfinished = ask if ask.idle else None
            log.error("autoscale.failed", reason=error.message, again_s=self._rules.cooldown_s)
        else:
            self.calls["ok"] += 1
            self.failure, self._unfinished = "", None

    async def _kept_cooldown(self) -> float:
        asked_at = await self._db.read(autoscale_store.load)
        mono = self._clock.monotonic()
        if asked_at is None:
            return mono
        # A wall clock that was set back must not lengthen it.
        left_s = min(self._rules.cooldown_s, asked_at + self._rules.cooldown_s - self._clock.now())
        return mono + max(0.0, left_s)

    def _idle(self, state: EngineState) -> dict[NodeId, float]:
        """For how long each node has been idle. It counts from the start of this service at the earliest."""
        mono = self._clock.monotonic()
        busy = {attempt.node_id for attempt in state.attempts.values()}
        busy |= {place.node_id for place in state.reservations.values()}
        for node_id in state.nodes:
            if node_id in busy:
                self._idle_since.pop(node_id, None)
            else:
                self._idle_since.setdefault(node_id, mono)
        for node_id in self._idle_since.keys() - state.nodes.keys():
            del self._idle_since[node_id]
        return {node_id: mono - since for node_id, since in self._idle_since.items()}

    async def _waiting(self, state: EngineState) -> list[Waiting]:
        """The tasks that could run, each with what the last pass says. Those on hold or in a pause are left out."""
        found, since = [], {}
        for position, task_id in enumerate(state.queue.page(0, len(state.queue)), start=1):
            if position % _AT_ONCE == 0:
                await asyncio.sleep(0)
            if not state.queue.is_runnable(task_id):
                continue
            task = state.tasks[task_id]
            known = self._waits_since.get(task_id)
            if known is None or known[0] != task.queued_at:
                known = (task.queued_at, state.mono - max(0.0, state.now - task.queued_at))
            since[task_id] = known
            estimate = wait = None
            if state.plan is not None:
                estimate, wait = state.plan.estimate_of(task, position), state.plan.wait_of(task)
            place = state.reservations.get(task_id)
            promised_s = None if place is None else place.promised_s
            found.append(
                Waiting(
                    task.shape,
                    state.mono - known[1],
                    None if estimate is None else max(0.0, estimate.start_s - state.mono),
                    None if promised_s is None else state.now + promised_s - state.mono,
                    None if wait is None else wait.why,
                )
            )
        self._waits_since = since
        return found
