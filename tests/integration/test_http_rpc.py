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
from headway.rpc.v1.http_server_pb2_grpc import HttpServerStub
from tests.integration.http_rig import TOKEN, Rig, a_job_file, a_rig
from tests.support.waiting import eventually


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with a_rig(tmp_path) as rig:
        yield rig


async def test_users_and_images_are_resolved_for_services_of_the_cluster_only(rig: Rig):
    rig.nodes.put(images=["base:latest", "team/torch:2.4"])
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
        unknown = await peer.call(stub.ResolveImage, hs.ResolveImageRequest(name="base:2"), deadline_s=5)
        assert unknown.source == common.IMAGE_SOURCE_UNKNOWN
    finally:
        await peer.close()
    stranger = Peer("HttpServer", rig.config.httpserver.grpc_bind, token="a guess")
    try:
        stub = HttpServerStub(stranger.channel)  # type: ignore[no-untyped-call]
        with pytest.raises(ClusterTokenWrong):
            await stranger.call(stub.ResolveUser, hs.ResolveUserRequest(name="ann"), deadline_s=5)
    finally:
        await stranger.close()


async def test_a_job_with_an_image_that_no_machine_has_is_taken_with_a_word(tmp_path: Path):
    async with a_rig(tmp_path) as rig:
        rig.nodes.put(images=["base:latest"])
        rig.parts.hub.on_nodes(await rig.nodes.WatchNodes(None, None).__anext__())  # type: ignore[arg-type]
        await eventually(lambda: rig.parts.hub.nodes())
        ann = await rig.client("ann")
        here = (await ann.post("/jobs", json=a_job_file("a"))).json()
        assert here["warnings"] == []
        document = a_job_file("a")
        document["defaults"]["image"] = "elsewhere/x:1"
        away = (await ann.post("/jobs", json=document)).json()
        assert away["id"]
        assert "`elsewhere/x:1`" in away["warnings"][0]
