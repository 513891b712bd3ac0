"""Asks every Worker for its status, again and again.

Each node has a loop of its own. A Worker that hangs holds up nobody else, and is never asked a second time while the
first question is open. Pauses vary a little, so that many nodes don't answer in one instant.
"""

from __future__ import annotations

import asyncio
import random

from headway.clock import Clock
from headway.errors import HeadwayError, NotFound
from headway.logs import get_logger
from headway.rpc.v1 import resource_manager_pb2

from .nodes import Nodes
from .ports import WorkersPort

log = get_logger(__name__)

_DEADLINE_S = 5.0
_RETURN_S = 10.0
_FIRST_WITHIN_S = 1.0
_FIRST_PER_S = 250.0  # with many nodes the first polls take longer, so that they are no storm
_JITTER = 0.1


class Poller:
    """Keeps a loop running for each node that is known."""

    def __init__(
        self, nodes: Nodes, workers: WorkersPort, clock: Clock, *, poll_s: float, chance: random.Random | None = None
    ) -> None:
        self._nodes = nodes
        self._workers = workers
        self._clock = clock
        self._poll_s = poll_s
        self._deadline_s = min(_DEADLINE_S, poll_s)
        self._chance = chance or random.Random()
        self._loops: dict[str, asyncio.Task[None]] = {}
        self._addresses: dict[str, str] = {}
        self._look = asyncio.Event()
        nodes.on_membership = self._look.set
        nodes.probe = workers.get_status

    async def run(self) -> None:
        """Runs until cancelled; raises what a loop raised."""
        self._look.set()
        try:
            while True:
                await self._look.wait()
                self._look.clear()
                await self._follow_membership()
        finally:
            for loop in self._loops.values():
                loop.cancel()

    async def _follow_membership(self) -> None:
        for loop in self._loops.values():
            if loop.done() and not loop.cancelled():
                loop.result()
        known = self._nodes.ids()
        for node_id in self._loops.keys() - set(known):
            self._loops.pop(node_id).cancel()
            await self._workers.forget(self._addresses.pop(node_id, ""))
        for node_id in known:
            if node_id not in self._loops:
                loop = asyncio.create_task(self._loop(node_id), name=f"poll {node_id}")
                loop.add_done_callback(lambda _: self._look.set())
                self._loops[node_id] = loop

    async def _loop(self, node_id: str) -> None:
        # Soon after the start, so that a restart of this service is over within a second or two.
        within_s = max(_FIRST_WITHIN_S, len(self._loops) / _FIRST_PER_S)
        await self._clock.sleep(self._chance.uniform(0, min(within_s, self._poll_s)))
        while True:
            asked_at = self._clock.monotonic()
            await self._poll(node_id, asked_at)
            spent_s = self._clock.monotonic() - asked_at
            pause_s = self._poll_s * self._chance.uniform(1 - _JITTER, 1 + _JITTER)
            await self._clock.sleep(max(0.0, pause_s - spent_s))

    async def return_gpu(self, request: resource_manager_pb2.ReturnGpuRequest) -> resource_manager_pb2.ReturnGpuReply:
        """Have a node's Worker look at a card that was taken out, and know at once what became of it.

        Raises:
            NotFound: there is no such node, or no such card on it.
            HeadwayError: its Worker did not answer.
        """
        address = self._nodes.address(request.node_id)
        if address is None:
            raise NotFound(f"There is no node {request.node_id!r}.")
        reply = await self._workers.return_gpu(request.node_id, address, request, _RETURN_S)
        log.info("node.gpu", node=request.node_id, gpu=request.uuid, by=request.by, returned=reply.returned)
        await self._poll(request.node_id, self._clock.monotonic())
        return reply

    async def _poll(self, node_id: str, asked_at: float) -> None:
        address = self._nodes.address(node_id)
        if address is None:
            return
        before = self._addresses.get(node_id)
        self._addresses[node_id] = address
        if before is not None and before != address:
            await self._workers.forget(before)
        try:
            status = await self._workers.get_status(node_id, address, self._deadline_s)
            await self._nodes.on_answer(node_id, status, asked_at)
        except HeadwayError as error:
            self._nodes.on_failure(node_id, error.message)
