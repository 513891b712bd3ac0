"""Clients of the other services."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from headway.clock import Clock
from headway.errors import HeadwayError, Unavailable
from headway.rpc.channel import Peer
from headway.rpc.v1.job_manager_pb2_grpc import JobManagerStub
from headway.rpc.v1.resource_manager_pb2_grpc import ResourceManagerStub
from headway.rpc.v1.task_manager_pb2_grpc import TaskManagerStub
from headway.rpc.v1.worker_pb2_grpc import WorkerStub
from headway.trust.identity import Role

if TYPE_CHECKING:
    from headway.trust.certificates import Certificates

READ_S = 5.0
PARTS_S = 30.0  # of an answer that comes in parts
ACT_S = 20.0
SUBMIT_S = 60.0
# A restart takes less. A client that waits longer than 30 s gives up, and blames this service.
AWAY_S = 15.0


class ServiceClient:
    """One other service.

    A call that may be repeated is tried again for a few seconds when the service is away, as at a restart. While it
    is known to be away, calls fail at once, so that a page does not wait for a dead service every time.
    """

    def __init__(self, peer: Peer, make_stub: Callable[[Any], Any]) -> None:
        self._peer = peer
        self.stub: Any = make_stub(peer.channel)
        self._away = False

    @property
    def name(self) -> str:
        return self._peer.name

    async def call(
        self, method: str, request: Any, *, deadline_s: float = READ_S, again: bool = True, request_id: str = ""
    ) -> Any:
        """One answer.

        Raises:
            HeadwayError: as the service raised it; Unavailable with ``extra["service"]`` when it doesn't answer.
        """
        try:
            reply = await self._peer.call(
                getattr(self.stub, method),
                request,
                deadline_s=deadline_s,
                idempotent=again and not self._away,
                request_id=request_id,
            )
        except HeadwayError as error:
            raise self._noted(error) from error.__cause__
        self._away = False
        return reply

    async def upload(
        self,
        method: str,
        parts: Callable[[], Iterable[Any] | AsyncIterable[Any]],
        *,
        deadline_s: float,
        request_id: str,
    ) -> Any:
        """Parts out, one answer in; the call must be idempotent.

        Raises:
            HeadwayError: as for ``call``.
        """
        try:
            reply = await self._peer.upload(
                getattr(self.stub, method),
                parts,
                deadline_s=deadline_s,
                idempotent=not self._away,
                again_within_s=AWAY_S,
                request_id=request_id,
            )
        except HeadwayError as error:
            raise self._noted(error) from error.__cause__
        self._away = False
        return reply

    async def parts(
        self, method: str, request: Any, *, deadline_s: float | None = PARTS_S
    ) -> AsyncGenerator[Any, None]:
        """An answer in parts.

        Raises:
            HeadwayError: as for ``call``.
        """
        try:
            async for part in self._peer.stream(getattr(self.stub, method), request, deadline_s=deadline_s):
                self._away = False
                yield part
        except HeadwayError as error:
            raise self._noted(error) from error.__cause__

    async def watch(self, method: str, request: Any) -> AsyncGenerator[Any, None]:
        """A stream without an end; waits for the service to be there."""
        async for message in self._peer.stream(
            getattr(self.stub, method), request, deadline_s=None, wait_for_ready=True
        ):
            self._away = False
            yield message

    async def check(self, make_stub: Callable[[Any], Any], request: Any, *, deadline_s: float) -> Any:
        """The answer of its health service.

        Raises:
            HeadwayError: as for ``call``.
        """
        try:
            return await self._peer.call(make_stub(self._peer.channel).Check, request, deadline_s=deadline_s)
        except HeadwayError as error:
            raise self._noted(error) from error.__cause__

    def _noted(self, error: HeadwayError) -> HeadwayError:
        if type(error) is Unavailable:
            self._away = True
            return Unavailable(
                f"{self.name} does not answer now; try again soon.", extra={**error.extra, "service": self.name}
            )
        if isinstance(error, Unavailable):
            error.extra.setdefault("service", self.name)
        return error


class ServiceClients:
    """All other services; workers are found by their addresses as they are needed."""

    _MOST_WORKERS = 200

    def __init__(
        self, *, job_manager: str, task_manager: str, resource_manager: str, token: str | Certificates, clock: Clock
    ) -> None:
        self._token = token
        self._clock = clock
        self._peers: list[Peer] = []
        self._workers: dict[tuple[str, str], tuple[Peer, ServiceClient]] = {}
        self.jobs = self._remote("JobManager", job_manager, Role.JOB_MANAGER, JobManagerStub)
        self.tasks = self._remote("TaskManager", task_manager, Role.TASK_MANAGER, TaskManagerStub)
        self.nodes = self._remote("ResourceManager", resource_manager, Role.RESOURCE_MANAGER, ResourceManagerStub)

    def _remote(self, name: str, address: str, role: Role, make_stub: Callable[[Any], Any]) -> ServiceClient:
        peer = Peer(name, address, token=self._token, role=role, clock=self._clock)
        self._peers.append(peer)
        return ServiceClient(peer, make_stub)

    async def worker(self, node_id: str, address: str) -> ServiceClient:
        """The worker of this node, which listens there."""
        found = self._workers.pop((node_id, address), None)
        if found is None:
            peer = Peer("The worker", address, token=self._token, role=Role.WORKER, node=node_id, clock=self._clock)
            found = (peer, ServiceClient(peer, WorkerStub))
        self._workers[node_id, address] = found  # at the end: the least recently used one goes first
        if len(self._workers) > self._MOST_WORKERS:
            oldest = next(iter(self._workers))
            await self._workers.pop(oldest)[0].close()
        return found[1]

    def all(self) -> tuple[ServiceClient, ...]:
        """The three that every installation has."""
        return self.jobs, self.tasks, self.nodes

    async def close(self) -> None:
        """Ends all calls. Safe to call twice."""
        for peer in (*self._peers, *(peer for peer, _ in self._workers.values())):
            await peer.close()
