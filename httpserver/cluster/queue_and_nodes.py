"""Queue and nodes, as TaskManager and ResourceManager report them."""

from __future__ import annotations

import asyncio
from typing import Literal

from headway.clock import Clock
from headway.errors import Conflict, InvalidInput, NotFound, Problem
from headway.logs import get_logger
from headway.rpc.v1 import resource_manager_pb2 as rm
from headway.rpc.v1 import task_manager_pb2 as tm

from .. import bookings, wire
from .. import schemas as s
from ..auth.model import Account
from ..jobs.service import Jobs, may_see_all
from ..peers.clients import ACT_S, ServiceClients
from . import scheduling

log = get_logger(__name__)

_ADMISSION = {
    "cordon": rm.SetAdmissionRequest.ACTION_CORDON,
    "uncordon": rm.SetAdmissionRequest.ACTION_UNCORDON,
    "drain": rm.SetAdmissionRequest.ACTION_DRAIN,
}


class QueueAndNodes:
    """See the module."""

    def __init__(self, services: ServiceClients, jobs: Jobs, clock: Clock) -> None:
        self._services = services
        self._jobs = jobs
        self._clock = clock
        self.notices: list[str] = []  # about the whole cluster

    async def queue(self, account: Account, *, limit: int, offset: int, job: str, owner: str, running: int) -> s.Queue:
        """Waiting tasks in their order, and ``running`` of the running ones. ``job`` may be the start of an id;
        ``owner`` `me`: who asks."""
        job_id = await self._jobs.resolve(job) if job else ""
        request = tm.GetQueueRequest(
            limit=limit,
            offset=offset,
            job_id=job_id,
            owner=account.name if owner == "me" else owner,
            running_limit=running,
        )
        reply = await self._services.tasks.call("GetQueue", request)
        found = wire.queue(reply)
        entries = [
            entry
            if may_see_all(account, entry.owner)
            else entry.model_copy(update={"waits": wire.waits_for_others(entry.waits)})
            for entry in found.entries
        ]
        return found.model_copy(update={"entries": entries})

    async def set_scheduling(self, wanted: scheduling.SchedulingPatch, *, by: str) -> s.Scheduling:
        """Another policy or discipline from now on; see ``scheduling``."""
        return await scheduling.set_scheduling(self._services, wanted, by=by)

    async def nodes(self) -> s.NodeList:
        """All nodes, by id, with what is booked on them. Without TaskManager they are listed, and bookings null."""
        reply, booked = await self._with_bookings(rm.ListNodesRequest())
        nodes = [bookings.with_bookings(wire.node(node), booked) for node in sorted(reply.nodes, key=lambda n: n.id)]
        summary = bookings.summary(nodes, known=booked.known)
        return s.NodeList(nodes=nodes, gpus=summary, missing=list(booked.missing), notices=self.notices)

    async def node(self, node_id: str) -> s.NodeDetail:
        """One node.

        Raises:
            NotFound: no such node.
        """
        reply, booked = await self._with_bookings(rm.ListNodesRequest(node_id=node_id))
        if not reply.nodes:
            raise NotFound(f"There is no node `{node_id[:64]}`.")
        shown = bookings.with_bookings(wire.node(reply.nodes[0]), booked)
        return s.NodeDetail(**dict(shown), missing=list(booked.missing))

    async def _with_bookings(self, request: rm.ListNodesRequest) -> tuple[rm.ListNodesReply, bookings.Bookings]:
        listing = self._services.nodes.call("ListNodes", request)
        reply: rm.ListNodesReply
        booked: bookings.Bookings
        reply, booked = await asyncio.gather(listing, bookings.ask(self._services))
        return reply, booked

    async def usage(self, node_id: str, *, since: float, until: float, max_points: int) -> s.NodeUsage:
        """Readings of one node; ``since`` 0: of the last hour.

        Raises:
            InvalidInput: the time ends before it begins.
            NotFound: no such node.
        """
        if until and since > until:
            sentence = "The parameter `since` lies after `until`: ask for a time that begins before it ends."
            raise InvalidInput(sentence, problems=[Problem("/since", sentence)])
        since = since or max(0.0, (until or self._clock.now()) - 3600)
        request = rm.GetNodeUsageRequest(node_id=node_id, since=since, until=until, max_points=max_points)
        reply = await self._services.nodes.call("GetNodeUsage", request)
        return s.NodeUsage(points=[wire.usage_point(point) for point in reply.points], span_s=reply.span_s)

    async def set_admission(
        self,
        node_id: str,
        action: Literal["cordon", "uncordon", "drain"],
        *,
        note: str,
        by: str,
        wish: s.DrainRequest | None = None,
    ) -> s.NodeAdmission:
        """Cordon, uncordon or drain; idempotent. ``wish``: how a drain is to end.

        Raises:
            NotFound: no such node.
            InvalidInput: the drain can't end so.
        """
        request = rm.SetAdmissionRequest(node_id=node_id, action=_ADMISSION[action], note=note, by=by)
        if wish is not None:
            if wish.within_s is not None and wish.until_at is not None:
                sentence = "Name the deadline once: `within_s` or `until_at`."
                raise InvalidInput(sentence, problems=[Problem("/until_at", sentence)])
            until_at = wish.until_at if wish.within_s is None else self._clock.now() + wish.within_s
            if until_at is not None:
                request.until_at = until_at
            if wish.return_when_back is not None:
                request.return_when_back = wish.return_when_back
            if wish.return_at is not None:
                request.return_at = wish.return_at
        reply = await self._services.nodes.call("SetAdmission", request, deadline_s=ACT_S)
        log.info("node.admission", node=node_id, action=action, by=by)
        return s.NodeAdmission(**dict(wire.node(reply.node)), changed=reply.changed)

    async def drain_preview(self, node_id: str) -> s.DrainPreview:
        """What runs on a node, and which waiting tasks could run nowhere else.

        Raises:
            NotFound: no such node.
        """
        reply = await self._services.tasks.call("PreviewDrain", tm.PreviewDrainRequest(node_id=node_id))
        return wire.drain_preview(reply)

    async def replace(self, node_id: str, *, by: str) -> None:
        """Its machine was set up anew: the next Worker of this name is taken, whatever state folder it has.

        Raises:
            NotFound: no such node.
        """
        request = rm.ReplaceNodeRequest(node_id=node_id, by=by)
        await self._services.nodes.call("ReplaceNode", request, deadline_s=ACT_S)
        log.info("node.may_be_replaced", node=node_id, by=by)

    async def return_gpu(self, node_id: str, uuid: str, *, gone: bool, by: str) -> s.GpuReturned:
        """Give out a GPU again that was taken out, or forget one that is gone.

        Raises:
            NotFound: no such node, or no such GPU on it.
            Conflict: it is not clean.
        """
        request = rm.ReturnGpuRequest(node_id=node_id, uuid=uuid, by=by, gone=gone)
        reply = await self._services.nodes.call("ReturnGpu", request, deadline_s=ACT_S)
        log.info("node.gpu", node=node_id, gpu=uuid, by=by, returned=reply.returned, gone=gone)
        if not reply.returned:
            raise Conflict(reply.sentence)
        return s.GpuReturned(sentence=reply.sentence)

    async def declare_lost(self, node_id: str, *, by: str) -> s.NodeLost:
        """Its attempts are LOST at once; idempotent."""
        await self.node(node_id)
        request = tm.DeclareNodeLostRequest(node_id=node_id, by=by)
        reply = await self._services.tasks.call("DeclareNodeLost", request, deadline_s=ACT_S)
        log.warning("node.declared_lost", node=node_id, by=by, attempts=reply.attempts_lost)
        return s.NodeLost(attempts_lost=reply.attempts_lost)

    async def forget(self, node_id: str, *, by: str) -> None:
        """Takes it off the list; idempotent."""
        await self._services.nodes.call("ForgetNode", rm.ForgetNodeRequest(node_id=node_id), deadline_s=ACT_S)
        log.info("node.forgotten", node=node_id, by=by)
