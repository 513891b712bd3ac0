"""The calls that the Worker makes to other services."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headway.errors import HeadwayError
from headway.ids import AttemptId
from headway.model.reasons import EndWord
from headway.rpc import convert
from headway.rpc.channel import Peer
from headway.rpc.v1 import http_server_pb2
from headway.rpc.v1 import resource_manager_pb2 as rm
from headway.rpc.v1 import task_manager_pb2 as tm
from headway.rpc.v1.http_server_pb2_grpc import HttpServerStub
from headway.rpc.v1.resource_manager_pb2_grpc import ResourceManagerStub
from headway.rpc.v1.task_manager_pb2_grpc import TaskManagerStub

from . import wire
from .attempt.task_secrets import FetchedSecrets
from .holds.waiting import WaitingJobs
from .model import AttemptRecord, LaunchAttempt, WantedImage
from .node.heartbeat import HeartbeatAnswer
from .ports import RegistryCredentials, RuntimeRefused

_DEADLINE_S = 15.0
_SECRETS_AT_ONCE = 20  # so many of the largest fit into a message


class TaskManagerClient:
    """Heartbeats and reports. Calls raise a HeadwayError, and their loops try again."""

    def __init__(
        self,
        peer: Peer,
        *,
        node_id: str,
        incarnation: int,
        address: str,
        live: Callable[[], Sequence[AttemptId]],
        held: Callable[[], Sequence[tuple[AttemptRecord, LaunchAttempt]]] = tuple,
        waiting: Callable[[], WaitingJobs] = WaitingJobs,
    ) -> None:
        self._waiting = waiting
        self._peer = peer
        self._stub = TaskManagerStub(peer.channel)  # type: ignore[no-untyped-call]
        self._node_id = node_id
        self._incarnation = incarnation
        self._address = address
        self._live = live
        self._held = held
        self.stopping = False  # a planned stop: TaskManager suspends this node's leases

    async def heartbeat(self, sent_s: float, suspended: bool, *, deadline_s: float = 10.0) -> HeartbeatAnswer:
        """Send one heartbeat. See ``heartbeat.Heartbeat``."""
        waiting = self._waiting()
        request = tm.HeartbeatRequest(
            node_id=self._node_id,
            incarnation=self._incarnation,
            address=self._address,
            live=[convert.attempt_to_pb(attempt) for attempt in self._live()],
            sent_monotonic_s=sent_s,
            stopping=self.stopping,
            lease_suspended_ack=suspended,
            attempts=[wire.live_attempt(record, launch) for record, launch in self._held()],
            waiting_jobs=waiting.jobs,
            waiting_known_s=waiting.known_s,
        )
        reply = await self._peer.call(self._stub.Heartbeat, request, deadline_s=deadline_s)
        return HeartbeatAnswer(
            lease_s=reply.lease_s,
            lease_enforced=reply.lease_enforced,
            discard=tuple(convert.attempt_id(attempt) for attempt in reply.discard),
            stop=tuple((convert.attempt_id(order.attempt), wire.stop_word(order.word)) for order in reply.stop),
            extend=tuple(wire.extend_orders(reply.extend)),
        )

    async def report(self, reports: Sequence[tm.AttemptReport]) -> list[AttemptId]:
        """Deliver reports. Returns the attempts to discard."""
        request = tm.ReportAttemptsRequest(reports=reports)
        reply = await self._peer.call(self._stub.ReportAttempts, request, deadline_s=_DEADLINE_S)
        return [convert.attempt_id(attempt) for attempt in reply.discard]

    async def warn(self, warnings: Sequence[tm.LateWarnings]) -> None:
        """Deliver what can't be done after attempts' ends. An older TaskManager takes it for nothing."""
        request = tm.ReportAttemptsRequest(late_warnings=warnings)
        await self._peer.call(self._stub.ReportAttempts, request, deadline_s=_DEADLINE_S)


class HttpServerClient:
    """Credentials for registries, and secrets of tasks."""

    def __init__(self, peer: Peer, *, node_id: str = "") -> None:
        self._peer = peer
        self._node_id = node_id
        self._stub = HttpServerStub(peer.channel)  # type: ignore[no-untyped-call]

    async def credentials(self, wanted: WantedImage) -> RegistryCredentials | None:
        """The account's credentials for the image's registry. None: it has none. Raises RuntimeRefused."""
        if not wanted.account:
            return None
        request = http_server_pb2.GetRegistryAuthRequest(account=wanted.account, registry=registry_of(wanted.name))
        try:
            reply = await self._peer.call(self._stub.GetRegistryAuth, request, deadline_s=_DEADLINE_S, idempotent=True)
        except HeadwayError as error:
            raise RuntimeRefused(
                f"The credentials for the image {wanted.name} could not be fetched: {error.message}",
                word=EndWord.IMAGE_PULL_FAILED,
                elsewhere=True,
            ) from error
        return RegistryCredentials(reply.username, reply.password) if reply.username else None

    async def secrets(self, attempt: AttemptId, names: Sequence[str]) -> FetchedSecrets:
        """The values of some secrets that the attempt's task names. Raises a HeadwayError."""
        values: dict[str, bytes] = {}
        missing: list[str] = []
        for start in range(0, len(names), _SECRETS_AT_ONCE):
            reply = await self._some_secrets(attempt, names[start : start + _SECRETS_AT_ONCE])
            values.update({one.name: one.value for one in reply.secrets})
            missing += reply.missing
        return FetchedSecrets(values, tuple(missing))

    async def _some_secrets(self, attempt: AttemptId, names: Sequence[str]) -> http_server_pb2.GetTaskSecretsReply:
        request = http_server_pb2.GetTaskSecretsRequest(
            attempt=convert.attempt_to_pb(attempt), node_id=self._node_id, names=names
        )
        reply: http_server_pb2.GetTaskSecretsReply = await self._peer.call(
            self._stub.GetTaskSecrets, request, deadline_s=_DEADLINE_S, idempotent=True
        )
        return reply


def registry_of(image: str) -> str:
    """The registry's host and port in an image's name, as Docker reads it."""
    first, slash, _rest = image.partition("/")
    return first if slash and ("." in first or ":" in first or first == "localhost") else "docker.io"


class ResourceManagerClient:
    """Registration and status. Calls raise a HeadwayError."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._stub = ResourceManagerStub(peer.channel)  # type: ignore[no-untyped-call]

    async def register(self, status: rm.NodeStatus, *, address: str, version: str) -> float:
        """Register. Returns the poll interval in seconds. Raises Fenced if a newer incarnation is registered."""
        request = rm.RegisterNodeRequest(
            node_id=status.node_id, incarnation=status.incarnation, address=address, status=status, version=version
        )
        reply = await self._peer.call(self._stub.RegisterNode, request, deadline_s=_DEADLINE_S)
        return float(reply.poll_s)

    async def report_status(self, status: rm.NodeStatus) -> bool:
        """Report the status. Returns whether ResourceManager knows this node."""
        request = rm.ReportStatusRequest(status=status)
        reply = await self._peer.call(self._stub.ReportStatus, request, deadline_s=_DEADLINE_S)
        return bool(reply.known)
