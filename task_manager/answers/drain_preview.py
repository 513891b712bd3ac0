"""What a drain of a node would touch: what runs there, and which waiting tasks could run nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from headway.errors import NotFound
from headway.ids import NodeId, TaskId
from headway.rpc import convert
from headway.rpc.v1 import task_manager_pb2 as pb
from headway.states import Admission, NodeHealth

from ..engine import pass_input
from ..engine.engine import Engine
from ..model import Shape
from ..planning.placement import CpuTasks, FreeResources
from ..planning.reasons.explain import ClusterSnapshot
from . import booking_list

_SHOWN = 100
_AT_ONCE = 5_000


class Alternatives:
    """Whether tasks could run elsewhere if one node took no work. Tasks of equal shape are looked at once."""

    def __init__(self, rooms: Sequence[FreeResources], cpu_tasks: CpuTasks, without: NodeId) -> None:
        self._cluster = ClusterSnapshot(rooms, cpu_tasks)
        self._without = without
        self._others = {
            room.node.id
            for room in rooms
            if room.node.id != without
            and room.node.admission is Admission.OPEN
            and room.node.health is not NodeHealth.DOWN
        }

    def is_stranded(self, shape: Shape) -> bool:
        """Whether only that node could hold the shape, of those that take work."""
        able = self._cluster.could_hold(shape)
        return self._without in able and not able & self._others


async def drain_preview(engine: Engine, request: pb.PreviewDrainRequest) -> pb.PreviewDrainReply:
    """What runs on the node and who would wait for it.

    Raises:
        NotFound: TaskManager knows no such node.
    """
    node_id = NodeId(request.node_id)
    settings = engine.settings
    async with engine.consistent_state() as state:
        if node_id not in state.nodes:
            raise NotFound(f"There is no node {request.node_id[:64]!r}.")
        reading = engine.read_clocks()
        reply = pb.PreviewDrainReply()
        held = await booking_list.held(state, settings, reading)
        there = [one for one in held if one.attempt.node_id == node_id]
        reply.total_running = len(there)
        reply.running.extend(one.message() for one in there[:_SHOWN])
        rooms = pass_input.free_resources(state, settings, reading.mono)
        elsewhere = Alternatives(rooms, settings.cpu_tasks, node_id)
        waiting: list[TaskId] = [*state.queue.page(0, len(state.queue)), *state.held]
        for number, task_id in enumerate(waiting, start=1):
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
            task = state.tasks[task_id]
            if not elsewhere.is_stranded(task.shape):
                continue
            reply.total_stranded += 1
            if reply.total_stranded <= _SHOWN:
                reply.stranded.add(task=convert.task_to_pb(task_id), owner=task.owner, job_name=task.job_name)
        return reply
