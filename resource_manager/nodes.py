"""The nodes of the cluster: a change is stored first, then known, then published.

What operators say and who is registered is committed at once. Readings are written once a minute, all in one
transaction, so that an idle cluster costs next to nothing. ``usage_history`` keeps them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from sqlalchemy import Connection

from headway.clock import Clock
from headway.errors import Conflict, Fenced, HeadwayError, InvalidInput, NotFound, Unavailable
from headway.logs import get_logger
from headway.rpc.v1 import resource_manager_pb2
from headway.states import Admission, NodeHealth
from headway.store import Database

from . import (
    admission_changes,
    drain,
    health,
    history,
    identity,
    inventory,
    node_admission,
    node_events,
    store,
    usage_history,
)
from .drain import DrainWish
from .hub import NodeEventHub
from .inventory import Node, Status
from .node_events import KeptNodeEvent, NodeEventWord

log = get_logger(__name__)

FLUSH_S = 60.0
_TICK_S = 1.0
_PROBE_S = 3.0
_NO_WISH = DrainWish()


async def _nobody_answers(node_id: str, address: str, deadline_s: float) -> Status:
    raise Unavailable(f"Nobody asks the Worker at {address}.")


class Nodes:
    """All nodes. Belongs to the event loop."""

    def __init__(
        self, db: Database, clock: Clock, hub: NodeEventHub, limits: health.SilenceLimits, *, usage_days: int = 366
    ) -> None:
        self._db = db
        self._clock = clock
        self._hub = hub
        self._limits = limits
        self.history = usage_history.UsageHistory(db, clock, usage_days=usage_days)
        self._nodes: dict[str, Node] = {}
        self._published: dict[str, bytes] = {}
        # One registration or wish at a time: each is stored before it is known.
        self._changing = asyncio.Lock()
        self.on_membership: Callable[[], None] = lambda: None
        # Asks a Worker at an address for its status, within so many seconds.
        self.probe: Callable[[str, str, float], Awaitable[Status]] = _nobody_answers

    async def load(self) -> None:
        """At start: the nodes known from before."""
        monotonic = self._clock.monotonic()
        for node in await self._db.read(lambda conn: store.load_nodes(conn, monotonic)):
            self._put(node)
        self.on_membership()

    # -- asking ---------------------------------------------------------------------------------

    def ids(self) -> list[str]:
        return sorted(self._nodes)

    def all(self) -> list[Node]:
        """As they are known now, in order of id."""
        return [self._nodes[one] for one in self.ids()]

    def by_health(self) -> Mapping[NodeHealth, int]:
        """How many nodes are in each health."""
        return Counter(node.health_state.health for node in self._nodes.values())

    def by_admission(self) -> Mapping[Admission, int]:
        """How many nodes may take work, and how many may not, and why."""
        return Counter(node.admission for node in self._nodes.values())

    def address(self, node_id: str) -> str | None:
        """Where the node's Worker listens; None for one that is not known."""
        node = self._nodes.get(node_id)
        return node.address if node is not None else None

    def view(self, node_id: str = "") -> list[resource_manager_pb2.Node]:
        """All nodes in order of id, or one.

        Raises:
            NotFound: there is no such node.
        """
        chosen = [node_id] if node_id else self.ids()
        monotonic = self._clock.monotonic()
        return [inventory.to_pb(self._node(one), monotonic) for one in chosen]

    async def usage(
        self, node_id: str, since: float, until: float, max_points: int
    ) -> tuple[list[history.Point], history.Level]:
        """A node's readings over a time, at most so many points, and their roll-up; ``until`` 0: now.

        Raises:
            NotFound: there is no such node.
            InvalidInput: the time ends before it begins.
        """
        self._node(node_id)
        until = until or self._clock.now()
        if since > until:
            raise InvalidInput("`since` lies after `until`, or has not come yet: ask for a time that begins before.")
        return await self.history.points(node_id, since, until, max_points)

    # -- Workers --------------------------------------------------------------------------------

    async def register(self, request: resource_manager_pb2.RegisterNodeRequest) -> None:
        """A Worker has started, or thinks that it is not known.

        Raises:
            Fenced: a newer incarnation of the node is known, or its state folder is a copy of another Worker's.
            Conflict: the name or the folder is that of another Worker, which may still be alive. Ask again.
            InvalidInput: no name, no address, an incarnation out of range, or something far too long.
        """
        inventory.check_request(request)
        while True:
            claim = identity.claim(request, self._nodes.values())
            probed = claim.to_probe
            # Others register meanwhile: a machine that is gone takes some seconds not to answer.
            answers = probed is not None and await self._answers(probed)
            async with self._changing:
                claim = identity.claim(request, self._nodes.values())
                if not identity.is_same_place(claim.to_probe, probed):
                    continue
                self._check(claim, old_answers=answers)
                node = await self._take(claim)
            break
        log.info("node.registered", node=node.id, address=node.address, incarnation=node.incarnation)
        if claim.known is None or claim.renamed_from is not None or claim.known.address != node.address:
            self.on_membership()

    async def _answers(self, node: Node) -> bool:
        """Whether the Worker that has registered as this node runs at its address now."""
        try:
            status = await self.probe(node.id, node.address, _PROBE_S)
        except HeadwayError:
            return False
        return identity.is_same_worker(node, status) and status.incarnation <= node.incarnation

    def _check(self, claim: identity.Claim, *, old_answers: bool) -> None:
        try:
            identity.check(claim, old_answers=old_answers)
        except (Fenced, Conflict) as error:
            about = claim.to_probe or claim.known
            if about is not None:
                event = KeptNodeEvent(self._clock.now(), NodeEventWord.REFUSED, error.message)
                self._put(replace(about, events=node_events.added(about.events, event)))
            log.warning("node.refused", node=claim.node_id, address=claim.request.address, reason=error.message)
            raise

    async def _take(self, claim: identity.Claim) -> Node:
        node = identity.admitted(claim, now=self._clock.now(), monotonic=self._clock.monotonic())
        old = claim.renamed_from

        def write(conn: Connection) -> None:
            if old is not None:
                store.delete_node(conn, old.id)
            store.save_node(conn, node)

        await self._db.write(write)
        if old is not None:
            self._drop(old.id)
            log.warning("node.renamed", node=node.id, before=old.id)
        self._put(node)
        return node

    async def report(self, status: Status) -> bool:
        """A Worker tells of a change; False: it has to register (again).

        Raises:
            Fenced: a newer incarnation of the node is known.
            InvalidInput: the status is far too large.
        """
        inventory.check_status(status)
        node = self._nodes.get(status.node_id)
        if node is None or status.incarnation > node.incarnation:
            return False
        if not identity.is_same_worker(node, status):
            return False
        if status.incarnation < node.incarnation:
            raise Fenced(f"Node {status.node_id} has registered with a later start of its worker, {node.incarnation}.")
        self._put(inventory.reported(node, status, now=self._clock.now()))
        return True

    async def on_answer(self, node_id: str, status: Status, asked_at: float) -> None:
        """A Worker answered a poll that was sent at ``asked_at`` (monotonic)."""
        known = self._nodes.get(node_id)
        if known is None:
            return
        if not identity.is_same_worker(known, status):
            self.on_failure(node_id, "the Worker of another machine, or one that was set up anew, answers there")
            return
        try:
            inventory.check_status(status)
        except InvalidInput as error:
            self.on_failure(node_id, error.message)
            return
        now = self._clock.now()
        node = inventory.answered(known, status, now=now, monotonic=self._clock.monotonic())
        if node is None:
            log.warning("node.old_incarnation_answered", node=node_id, address=known.address)
            self.on_failure(node_id, "an older start of its Worker answers there")
            return
        self._put(node)
        self.history.add(node_id, history.reading(node.status, now))
        if asked_at >= node.admission_since:
            await self._after_status(node)

    def on_failure(self, node_id: str, failure: str) -> None:
        """A poll failed."""
        node = self._nodes.get(node_id)
        if node is not None:
            self._put(replace(node, health_state=health.on_failure(node.health_state, failure)))

    async def _after_status(self, node: Node) -> None:
        after = node_admission.after_status(node.admission, node.status.live_attempts)
        if after is node.admission:
            return
        async with self._changing:
            current = self._nodes.get(node.id)
            if current is None or current.admission is not node.admission:
                return
            said = replace(current, admission=after)
            await self._store_admission(said)
        log.info("node.admission", node=node.id, admission=after)

    # -- operators ------------------------------------------------------------------------------

    async def set_admission(
        self, node_id: str, event: node_admission.AdmissionEvent, note: str, by: str, wish: DrainWish = _NO_WISH
    ) -> resource_manager_pb2.SetAdmissionReply:
        """Cordon, uncordon or drain; harmless when said twice. ``note`` stays until the node is opened again.

        ``changed`` says what others had said of the node and holds no longer.

        Raises:
            NotFound: there is no such node.
            InvalidInput: the wish is no drain's, or can't be kept.
        """
        is_drain = event is node_admission.AdmissionEvent.DRAIN
        if not is_drain and not wish.empty:
            raise InvalidInput("Only a machine that is being emptied has a deadline, or a time of its return.")
        drain.check(wish, self._clock.now())
        async with self._changing:
            before = self._node(node_id)
            after = admission_changes.said(
                before, event, note, by, wish, now=self._clock.now(), monotonic=self._clock.monotonic()
            )
            if after is not before:
                await self._store_admission(after)
        log.info("node.admission", node=node_id, admission=after.admission, by=by, note=after.note)
        changed = drain.told_change(before.admission, before.note, before.drain, after.admission, after.drain)
        node = inventory.to_pb(self._node(node_id), self._clock.monotonic())
        return resource_manager_pb2.SetAdmissionReply(node=node, changed=changed)

    async def _store_admission(self, said: Node) -> None:
        await self._db.write(lambda conn: store.save_node(conn, said))
        # Polls go on meanwhile: only what was said is taken over into what is known by now.
        current = self._nodes.get(said.id)
        if current is not None:
            self._put(
                replace(
                    current,
                    admission=said.admission,
                    note=said.note,
                    admission_since=said.admission_since,
                    drain=said.drain,
                    events=said.events,
                    may_be_replaced=said.may_be_replaced,
                )
            )

    async def allow_replacement(self, node_id: str, by: str) -> None:
        """Let the next Worker of this name have it, whatever state folder it has.

        Raises:
            NotFound: there is no such node.
        """
        async with self._changing:
            await self._store_admission(replace(self._node(node_id), may_be_replaced=True))
        log.info("node.may_be_replaced", node=node_id, by=by)

    async def cordon_known(self, node_id: str, note: str, by: str) -> bool:
        """Cordons a node if there is one of this name; whether there is."""
        if node_id not in self._nodes:
            return False
        await self.set_admission(node_id, node_admission.AdmissionEvent.CORDON, note, by)
        return True

    async def open_due(self) -> None:
        """Opens the nodes whose drain said that they open at a time that has come. One that is away opens when back."""
        now = self._clock.now()
        for node in self.all():
            if not drain.opens_by_clock(node.drain, now) or node.health_state.health is not NodeHealth.READY:
                continue
            async with self._changing:
                current = self._nodes.get(node.id)
                if current is None or not drain.opens_by_clock(current.drain, now):
                    continue
                why = "The time of its return has come, and it is open."
                await self._store_admission(
                    admission_changes.opened(current, why, now=now, monotonic=self._clock.monotonic())
                )
            log.info("node.admission", node=node.id, admission=Admission.OPEN, by="return_at")

    async def forget(self, node_id: str) -> None:
        """Drop a node that will not come back, with its history.

        Raises:
            NotFound: there is no such node.
            Conflict: it is alive, and would be back at once.
        """
        async with self._changing:
            if self._node(node_id).health_state.health is NodeHealth.READY:
                raise Conflict(f"Node {node_id} is alive. Stop its Worker first, then forget it.")
            await self._db.write(lambda conn: store.delete_node(conn, node_id))
            self._drop(node_id)
        log.info("node.forgotten", node=node_id)
        self.on_membership()

    def _drop(self, node_id: str) -> None:
        self._nodes.pop(node_id, None)
        self._published.pop(node_id, None)
        self.history.forget(node_id)
        self._hub.publish(node_id, None)

    # -- side tasks -----------------------------------------------------------------------------

    async def keep_time(self) -> None:
        """Judges silence, once a second."""
        last = self._clock.monotonic()
        while True:
            await self._clock.sleep(_TICK_S)
            monotonic = self._clock.monotonic()
            pause_s = monotonic - last - _TICK_S
            # Much longer than it slept: this machine was suspended or starved, and heard nobody.
            self.tick(monotonic, pause_s if pause_s > self._limits.suspect_after_s / 4 else 0.0)
            last = monotonic
            try:
                await self.open_due()
            except HeadwayError as error:
                log.warning("node.not_opened", reason=str(error))

    def tick(self, monotonic: float, pause_s: float = 0.0) -> None:
        """Silence as it is at ``monotonic``, of which this service itself stood still ``pause_s`` seconds."""
        for node in list(self._nodes.values()):
            health_state = health.forgive(node.health_state, pause_s) if pause_s else node.health_state
            health_state = health.on_time(health_state, monotonic, self._limits)
            if health_state is not node.health_state:
                self._put(replace(node, health_state=health_state))

    async def keep_history(self) -> None:
        """Writes readings once a minute and rolls them up every ten."""
        rolled_up_at = self._clock.monotonic()
        while True:
            await self._clock.sleep(FLUSH_S)
            try:
                await self.flush()
                if self._clock.monotonic() - rolled_up_at >= history.MINUTES.block_s:
                    rolled_up_at = self._clock.monotonic()
                    await self.roll_up()
            except HeadwayError as error:
                # Readings are worth less than the service: they wait, and the oldest are lost.
                log.warning("usage.not_written", reason=str(error))

    async def flush(self) -> None:
        """Write the readings that wait, and what was last seen of each node."""
        waiting = self.history.waiting()
        if not waiting:
            return
        # An unknown node's readings would outlive it.
        nodes = [self._nodes[node_id] for node_id in waiting if node_id in self._nodes]

        def write(conn: Connection) -> None:
            store.save_statuses(conn, nodes)
            for node in nodes:
                usage_history.write(conn, node.id, waiting[node.id])

        await self._db.write(write)
        self.history.written(waiting)

    async def roll_up(self) -> None:
        """Readings of minutes and hours that are over become means; what is too old goes."""
        await self.history.roll_up(self.ids())

    # -- one node -------------------------------------------------------------------------------

    def _node(self, node_id: str) -> Node:
        node = self._nodes.get(node_id)
        if node is None:
            raise NotFound(f"There is no node {node_id!r}.")
        return node

    def _put(self, node: Node) -> None:
        before = self._nodes.get(node.id)
        self._nodes[node.id] = node
        if before is not None and before.health_state.health is not node.health_state.health:
            why = health.sentence(node.health_state, self._clock.monotonic())
            write = log.info if node.health_state.health is NodeHealth.READY else log.warning
            write("node.health", node=node.id, health=node.health_state.health, reason=why)
        facts = inventory.watched_facts(node)
        if self._published.get(node.id) != facts:
            self._published[node.id] = facts
            self._hub.publish(node.id, inventory.to_pb(node, self._clock.monotonic()))
