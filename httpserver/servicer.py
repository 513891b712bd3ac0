"""HttpServer's gRPC door: what it answers to the other services about accounts and images."""

from __future__ import annotations

from typing import Any

from headway.errors import HeadwayError, NotFound
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import http_server_pb2 as hs
from headway.rpc.v1 import resource_manager_pb2 as rm
from headway.rpc.v1.http_server_pb2_grpc import HttpServerServicer

from .auth.accounts import Accounts
from .auth.model import Account
from .images import nodes_with
from .remote import Services


class Servicer(HttpServerServicer):
    """See proto/headway/rpc/v1/http_server.proto."""

    def __init__(self, accounts: Accounts, services: Services) -> None:
        self._accounts = accounts
        self._services = services

    async def ResolveUser(self, request: hs.ResolveUserRequest, context: Any) -> hs.ResolveUserReply:
        account = self._accounts.get(request.name)
        if account is None:
            raise NotFound(f"There is no account `{request.name}`.")
        return hs.ResolveUserReply(account=account_to_pb(account), enabled=account.enabled)

    async def ResolveImage(self, request: hs.ResolveImageRequest, context: Any) -> hs.ResolveImageReply:
        try:
            reply = await self._services.nodes.call("ListNodes", rm.ListNodesRequest())
        except HeadwayError:
            return hs.ResolveImageReply(source=common.IMAGE_SOURCE_UNKNOWN)
        nodes = nodes_with(request.name, reply.nodes)
        if nodes:
            return hs.ResolveImageReply(source=common.IMAGE_SOURCE_ENGINE, nodes=nodes)
        return hs.ResolveImageReply(source=common.IMAGE_SOURCE_UNKNOWN)


def account_to_pb(account: Account) -> common.Account:
    """As JobManager keeps it with a job."""
    return common.Account(
        name=account.name,
        uid=account.uid,
        gid=account.gid,
        admin=account.admin,
        may_use_image_user=account.may_use_image_user,
        may_use_high_priority=account.may_use_high_priority,
    )
