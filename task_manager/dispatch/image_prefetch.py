"""Tells Workers which images the queue will need. A message that does not arrive does no harm."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from headway.clock import Clock
from headway.errors import HeadwayError
from headway.ids import NodeId, TaskId
from headway.logs import get_logger
from headway.store import Database

from .. import wire
from ..engine import pass_input
from ..engine.engine import Engine
from ..model import Task
from ..planning.image_forecast import HEADS_LOOKED_AT, ForecastImage, QueueHead, images_needed
from ..planning.placement import FreeResources
from ..ports import Workers
from ..store import queue_store

log = get_logger(__name__)

_EVERY_S = 1.0


class ImagePrefetchPlanner:
    """Looks at the head of the queue every second; a side task. It sends a Worker its list when the list has changed or
    the Worker was restarted."""

    def __init__(
        self, engine: Engine, db: Database, clock: Clock, workers: Workers, address: Callable[[NodeId], str]
    ) -> None:
        self._engine = engine
        self._db = db
        self._clock = clock
        self._workers = workers
        self._address = address
        self._images: dict[tuple[TaskId, int], ForecastImage | None] = {}  # of the heads, by task and generation
        self._told: dict[NodeId, tuple[int, tuple[ForecastImage, ...]]] = {}  # with the Worker's incarnation
        self._asking: dict[NodeId, frozenset[str]] = {}  # accounts in lists that were sent, before they arrive

    def prepares_for(self, node_id: NodeId, account: str) -> bool:
        """Whether the node was asked to have an image ready for this account. Its Worker fetches it as the account."""
        return account in self._asking.get(node_id, frozenset())

    async def run(self) -> None:
        while True:
            await self._clock.sleep(_EVERY_S)
            try:
                await self.round()
            except HeadwayError as error:
                log.info("images.round_failed", reason=str(error))

    async def round(self) -> None:
        """Looks once, and sends the lists that have changed."""
        async with self._engine.consistent_state() as state:
            ids = [task_id for task_id in state.queue.page(0, HEADS_LOOKED_AT) if state.queue.is_runnable(task_id)]
            tasks = [task for task_id in ids if (task := state.tasks[task_id]).shape.image]
            if not tasks and not any(images for _incarnation, images in self._told.values()):
                return
            rooms = pass_input.free_resources(state, self._engine.settings)
            plan = state.plan
            where = {task_id: place.node_id for task_id, place in plan.reservations.items()} if plan else {}
            incarnations = {room.node.id: state.incarnation(room.node.id) for room in rooms}
        lists = images_needed(await self._heads(tasks, where), rooms, self._engine.settings.cpu_tasks)
        await asyncio.gather(*(self._log_promises_and_failures(room, lists, incarnations) for room in rooms))
        for node_id in set(self._told).difference(incarnations):
            del self._told[node_id]
            self._asking.pop(node_id, None)

    async def _heads(self, tasks: list[Task], where: Mapping[TaskId, NodeId]) -> list[QueueHead]:
        images = self._images
        unknown = [task.id for task in tasks if (task.id, task.generation) not in images]
        specs = await self._db.read(lambda conn: queue_store.load_specs(conn, unknown)) if unknown else {}
        current: dict[tuple[TaskId, int], ForecastImage | None] = {}
        heads = []
        for task in tasks:
            key = (task.id, task.generation)
            image = images[key] if key in images else wire.wanted_image(specs[task.id]) if task.id in specs else None
            current[key] = image
            if image is not None:
                heads.append(QueueHead(task.shape, image, where.get(task.id)))
        self._images = current
        return heads

    async def _log_promises_and_failures(
        self, room: FreeResources, lists: Mapping[NodeId, tuple[ForecastImage, ...]], incarnations: Mapping[NodeId, int]
    ) -> None:
        node_id = room.node.id
        now = (incarnations[node_id], lists.get(node_id, ()))
        before = self._told.get(node_id)
        address = self._address(node_id)
        if before == now or (before is None and not now[1]) or room.closed or not address:
            return
        self._asking[node_id] = frozenset(image.account for image in now[1])
        try:
            await self._workers.prepare_images(node_id, address, now[1])
        except HeadwayError as error:
            log.info("images.untold", node=node_id, reason=str(error))
            return
        self._told[node_id] = now
