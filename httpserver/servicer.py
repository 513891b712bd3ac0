"""HttpServer's gRPC service: what the other services ask it about accounts and images."""

from __future__ import annotations

from typing import Any

from headway.errors import NotFound
from headway.rpc import convert
from headway.rpc.v1 import http_server_pb2 as hs
from headway.rpc.v1.http_server_pb2_grpc import HttpServerServicer
from headway.trust.caller import require_node

from .auth.accounts import Accounts
from .auth.views import account_to_pb
from .job_events.event_log import JobEventLog
from .logs.job_folders import JobFolders
from .needs.pinning import Pinning
from .peers.node_rights import NodeRights
from .registries.service import Registries
from .secrets.service import Secrets


class HttpServerService(HttpServerServicer):
    """See proto/headway/rpc/v1/http_server.proto."""

    def __init__(
        self,
        accounts: Accounts,
        pinning: Pinning,
        registries: Registries,
        secrets: Secrets,
        folders: JobFolders,
        job_events: JobEventLog,
        node_rights: NodeRights,
    ) -> None:
        self._accounts = accounts
        self._pinning = pinning
        self._registries = registries
        self._secrets = secrets
        self._folders = folders
        self._job_events = job_events
        self._node_rights = node_rights

    async def ResolveUser(self, request: hs.ResolveUserRequest, context: Any) -> hs.ResolveUserReply:
        account = self._accounts.get(request.name)
        if account is None:
            raise NotFound(f"There is no account `{request.name}`.")
        return hs.ResolveUserReply(account=account_to_pb(account), enabled=account.enabled)

    async def ResolveImage(self, request: hs.ResolveImageRequest, context: Any) -> hs.ResolveImageReply:
        account = self._accounts.get(request.account) if request.account else None
        pin, unknown = await self._pinning.image(account, request.name)
        return hs.ResolveImageReply(
            source=pin.source,
            digest=pin.digest,
            nodes=pin.nodes,
            architecture=pin.architecture,
            require_cuda=pin.require_cuda,
            bytes=pin.bytes,
            sentence=unknown.message if unknown is not None else pin.warning,
        )

    async def GetRegistryAuth(self, request: hs.GetRegistryAuthRequest, context: Any) -> hs.GetRegistryAuthReply:
        await self._node_rights.require_account(request.account)
        login = await self._registries.login(request.account, request.registry)
        if login is None:
            return hs.GetRegistryAuthReply()
        return hs.GetRegistryAuthReply(username=login.username, password=login.password)

    async def GetTaskSecrets(self, request: hs.GetTaskSecretsRequest, context: Any) -> hs.GetTaskSecretsReply:
        attempt = convert.attempt_id(request.attempt)
        require_node(request.node_id)
        await self._node_rights.require_attempt(attempt)
        values, missing = await self._secrets.of_attempt(attempt, request.node_id, request.names)
        found = [hs.SecretValue(name=name, value=value) for name, value in values.items()]
        return hs.GetTaskSecretsReply(secrets=found, missing=missing)

    async def RemoveJobFolders(self, request: hs.RemoveJobFoldersRequest, context: Any) -> hs.RemoveJobFoldersReply:
        return hs.RemoveJobFoldersReply(gone=await self._folders.remove(request.job_ids))

    async def ApplyJobEvents(self, request: hs.ApplyJobEventsRequest, context: Any) -> hs.ApplyJobEventsReply:
        return hs.ApplyJobEventsReply(last_seq=await self._job_events.apply(request))
