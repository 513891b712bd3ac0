"""What HttpServer answers to the other services."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headway.errors import NotFound
from headway.rpc.channel import Peer
from headway.rpc.errors_map import ClusterTokenWrong
from headway.rpc.v1 import common_pb2 as common
from headway.rpc.v1 import http_server_pb2 as hs
from headway.rpc.v1 import resource_manager_pb2 as rm
from headway.rpc.v1.http_server_pb2_grpc import HttpServerStub
from tests.integration.http_rig import TOKEN, Rig, a_machine, a_rig


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path) as rig:
        yield rig


async def test_users_and_images_are_resolved_for_services_of_the_cluster_only(rig: Rig):
    image_id = "sha256:" + "1" * 64
    await a_machine(rig, rm.EngineImage(id=image_id, names=["base:latest"], bytes=7))
    await rig.account("ann", may_use_high_priority=True)
    peer = Peer("HttpServer", rig.config.httpserver.grpc_bind, token=TOKEN)
    stub = HttpServerStub(peer.channel)  # type: ignore[no-untyped-call]
    try:
        reply = await peer.call(stub.ResolveUser, hs.ResolveUserRequest(name="ann"), deadline_s=5)
        known = rig.parts.accounts.get("ann")
        assert known is not None
        assert (reply.account.uid, reply.account.may_use_high_priority, reply.enabled) == (known.uid, True, True)
        with pytest.raises(NotFound):
            await peer.call(stub.ResolveUser, hs.ResolveUserRequest(name="nobody"), deadline_s=5)
        image = await peer.call(stub.ResolveImage, hs.ResolveImageRequest(name="base"), deadline_s=5)
        assert (image.source, list(image.nodes)) == (common.IMAGE_SOURCE_ENGINE, ["node-1"])
        assert (image.digest, image.bytes) == (image_id, 7)
        asked = hs.ResolveImageRequest(name="localhost:1/base:2", account="ann")
        unknown = await peer.call(stub.ResolveImage, asked, deadline_s=5)
        assert unknown.source == common.IMAGE_SOURCE_UNKNOWN
        assert "nobody listens there" in unknown.sentence
    finally:
        await peer.close()
    stranger = Peer("HttpServer", rig.config.httpserver.grpc_bind, token="a guess")
    try:
        stub = HttpServerStub(stranger.channel)  # type: ignore[no-untyped-call]
        with pytest.raises(ClusterTokenWrong):
            await stranger.call(stub.ResolveUser, hs.ResolveUserRequest(name="ann"), deadline_s=5)
    finally:
        await stranger.close()
