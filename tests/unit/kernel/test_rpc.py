"""Calls among services: token, errors, deadlines, retries, refusal, parts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headway.clock import SystemClock
from headway.errors import (
    DeadlineExceeded,
    HeadwayError,
    JobFileInvalid,
    NotFound,
    PortTaken,
    Problem,
    Stopping,
    StoreFull,
    TooLarge,
    Unavailable,
)
from headway.lifecycle import Service
from headway.rpc import versions
from headway.rpc.channel import Peer
from headway.rpc.chunks import byte_parts, in_parts
from headway.rpc.errors_map import TOKEN_KEY, ClusterTokenWrong, error_of, problem_bytes
from headway.rpc.server import RpcServer
from headway.rpc.v1 import common_pb2
from headway.rpc.versions import VersionsApart
from tests.support.ports import free_port
from tests.support.waiting import eventually

TOKEN = "cluster-token-of-the-test"
NAME = "headway.test.Echo"


class Echo:
    """A toy servicer over plain bytes."""

    def __init__(self) -> None:
        self.fails_with: list[Exception] = []
        self.calls = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def one(self, request: bytes, context: Any) -> bytes:
        self.calls += 1
        await self.gate.wait()
        if self.fails_with:
            raise self.fails_with.pop(0)
        return request.upper()

    async def many(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        for byte in request:
            yield bytes([byte])
        if self.fails_with:
            raise self.fails_with.pop(0)
        await self.gate.wait()

    async def joined(self, requests: AsyncIterator[bytes], context: Any) -> bytes:
        self.calls += 1
        if self.fails_with:
            raise self.fails_with.pop(0)
        return b"".join([part async for part in requests])

    def handlers(self) -> dict[str, Any]:
        return {
            "One": grpc.unary_unary_rpc_method_handler(self.one),
            "Many": grpc.unary_stream_rpc_method_handler(self.many),
            "Joined": grpc.stream_unary_rpc_method_handler(self.joined),
        }


class Rig:
    """One service with the toy servicer, and peers to it."""

    def __init__(self, port: int) -> None:
        self.bind = f"127.0.0.1:{port}"
        self.echo = Echo()
        self._peers: list[Peer] = []

    async def start(self) -> None:
        self.service = Service("echo", drain_s=2)
        self.server = RpcServer(self.service, bind=self.bind, token=TOKEN)
        self.server.add_registered_method_handlers(NAME, self.echo.handlers())
        self.running = asyncio.create_task(self.service.run(signals=False))
        await eventually(lambda: self.service.health.ready or self.running.done())

    async def stop(self) -> None:
        self.service.request_stop()
        await self.running

    def peer(self, token: str = TOKEN) -> Peer:
        self._peers.append(Peer("Echo", self.bind, token=token))
        return self._peers[-1]

    async def close(self) -> None:
        for peer in self._peers:
            await peer.close()
        if not self.running.done():
            await self.stop()

    def one(self, peer: Peer) -> Any:
        return peer.channel.unary_unary(f"/{NAME}/One")

    def many(self, peer: Peer) -> Any:
        return peer.channel.unary_stream(f"/{NAME}/Many")

    def joined(self, peer: Peer) -> Any:
        return peer.channel.stream_unary(f"/{NAME}/Joined")


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    rig = Rig(free_port())
    await rig.start()
    yield rig
    await rig.close()


@pytest.fixture
async def call(rig: Rig) -> Callable[..., Awaitable[bytes]]:
    peer = rig.peer()
    method = rig.one(peer)

    async def one(request: bytes = b"hi", **options: Any) -> bytes:
        return bytes(await peer.call(method, request, **{"deadline_s": 5, **options}))

    return one


Call = Callable[..., Awaitable[bytes]]


async def collect(replies: AsyncIterator[bytes], into: list[bytes]) -> None:
    async for reply in replies:
        into.append(reply)  # noqa: PERF401 - what came before a failure counts


async def test_a_call_is_answered(call: Call) -> None:
    assert await call(b"hello") == b"HELLO"


async def test_an_error_arrives_as_it_was_raised(rig: Rig, call: Call) -> None:
    problem = Problem("/tasks/0/name", "unknown word ☃", line=3, column=7, allowed=("a", "b"), suggestion="a")
    rig.echo.fails_with = [JobFileInvalid("Zwei Fehler: ä", problems=[problem], extra={"n": 2})]
    with pytest.raises(JobFileInvalid, match="Zwei Fehler: ä") as caught:
        await call()
    assert caught.value.problems == (problem,)
    assert caught.value.extra == {"n": 2}
    assert caught.value.http_status == 422


@pytest.mark.parametrize("error", [NotFound("no job j1"), StoreFull(), Stopping(), HeadwayError("odd")])
async def test_each_class_comes_back_as_itself(rig: Rig, call: Call, error: HeadwayError) -> None:
    rig.echo.fails_with = [error]
    with pytest.raises(type(error)) as caught:
        await call()
    assert type(caught.value) is type(error)
    assert str(caught.value) == str(error)


async def test_ten_thousand_problems_fit(rig: Rig, call: Call) -> None:
    problems = [Problem(f"/tasks/{i}/image", "there is no such image " * 5) for i in range(10_000)]
    rig.echo.fails_with = [JobFileInvalid("many", problems=problems)]
    with pytest.raises(JobFileInvalid) as caught:
        await call()
    kept = len(caught.value.problems)
    assert kept > 100
    assert caught.value.extra["more_problems"] == 10_000 - kept
    assert caught.value.problems == tuple(problems[:kept])


async def test_a_crash_is_internal_with_a_request_id_that_the_log_has_once(
    rig: Rig, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    rig.echo.fails_with = [KeyError("the secret inside")]
    with caplog.at_level(logging.ERROR, "headway"), pytest.raises(HeadwayError) as caught:
        await call()
    assert "secret" not in str(caught.value)
    lines = [record for record in caplog.records if record.getMessage() == "rpc.crashed"]
    assert [line.fields["request_id"] for line in lines] == [caught.value.extra["request_id"]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x"])
async def test_without_the_token_nothing_is_done(rig: Rig, token: str) -> None:
    peer = rig.peer(token)
    with pytest.raises(ClusterTokenWrong):
        await peer.call(rig.one(peer), b"x", deadline_s=5)
    with pytest.raises(ClusterTokenWrong):
        await peer.upload(rig.joined(peer), lambda: [b"x"], deadline_s=5)
    with pytest.raises(ClusterTokenWrong):
        async for _ in peer.stream(rig.many(peer), b"x", deadline_s=5):
            pass
    assert rig.echo.calls == 0


async def test_a_stream_brings_all_and_then_its_error(rig: Rig) -> None:
    peer = rig.peer()
    rig.echo.fails_with = [NotFound("the end is missing")]
    got: list[bytes] = []
    with pytest.raises(NotFound, match="the end is missing"):
        await collect(peer.stream(rig.many(peer), b"abc", deadline_s=5), got)
    assert got == [b"a", b"b", b"c"]


@pytest.mark.parametrize("parts", [[], [b"a"]])
async def test_an_upload_to_nobody_is_an_error_like_any_other(parts: list[bytes]) -> None:
    peer = Peer("echo", f"127.0.0.1:{free_port()}", token=TOKEN)
    join = peer.channel.stream_unary(f"/{NAME}/Join")
    for _ in range(2):
        with pytest.raises(Unavailable, match="does not answer"):
            await peer.upload(join, lambda: parts, deadline_s=5)
    await peer.close()


class SleeplessClock(SystemClock):
    """Its pauses are over at once, and its time goes on by them."""

    def __init__(self) -> None:
        self.slept_s = 0.0

    def monotonic(self) -> float:
        return self.slept_s

    async def sleep(self, seconds: float) -> None:
        self.slept_s += seconds


async def test_a_peer_that_is_away_is_waited_for_shorter_than_its_work_may_take() -> None:
    """A submit waited a minute for a dead JobManager, and its client had given up and blamed the HttpServer."""
    clock = SleeplessClock()
    peer = Peer("echo", f"127.0.0.1:{free_port()}", token=TOKEN, clock=clock)
    join = peer.channel.stream_unary(f"/{NAME}/Joined")
    with pytest.raises(Unavailable, match="does not answer"):
        await peer.upload(join, lambda: [b"a"], deadline_s=60, idempotent=True, again_within_s=15)
    assert 5 < clock.slept_s <= 15
    await peer.close()


async def test_an_upload_can_be_cancelled(rig: Rig) -> None:
    peer = rig.peer()
    rig.echo.gate.clear()

    async def endless() -> AsyncIterator[bytes]:
        yield b"a"
        await asyncio.sleep(60)

    upload = asyncio.create_task(peer.upload(rig.joined(peer), endless, deadline_s=60))
    await asyncio.sleep(0.2)
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload


async def test_an_upload_starts_anew_when_the_peer_was_away(rig: Rig) -> None:
    peer = rig.peer()
    rig.echo.fails_with = [Unavailable("not yet")]
    reply = await peer.upload(rig.joined(peer), lambda: [b"a", b"b"], deadline_s=5, idempotent=True)
    assert reply == b"ab"
    assert rig.echo.calls == 2


async def test_only_idempotent_calls_are_made_again(rig: Rig, call: Call) -> None:
    rig.echo.fails_with = [Unavailable("once"), Unavailable("twice")]
    assert await call(idempotent=True) == b"HI"
    assert rig.echo.calls == 3
    rig.echo.fails_with = [Unavailable("once")]
    with pytest.raises(Unavailable, match="once"):
        await call()


async def test_a_refusal_is_not_repeated(rig: Rig, call: Call) -> None:
    rig.echo.fails_with = [NotFound("no"), NotFound("never")]
    with pytest.raises(NotFound, match="no"):
        await call(idempotent=True)
    assert rig.echo.calls == 1


async def test_a_call_ends_at_its_deadline(rig: Rig, call: Call) -> None:
    rig.echo.gate.clear()
    with pytest.raises(DeadlineExceeded, match=r"Echo at 127\.0\.0\.1:\d+ did not answer in time"):
        await call(deadline_s=0.1, idempotent=True)
    rig.echo.gate.set()


async def test_nobody_there_is_unavailable_within_the_deadline() -> None:
    peer = Peer("Echo", f"127.0.0.1:{free_port()}", token=TOKEN)
    method = peer.channel.unary_unary("/x/Y")
    with pytest.raises(Unavailable, match="does not answer"):
        await peer.call(method, b"", deadline_s=0.4, idempotent=True)
    await peer.close()


async def test_a_peer_that_comes_back_is_found_again(rig: Rig, call: Call) -> None:
    assert await call() == b"HI"
    await rig.stop()
    with pytest.raises(Unavailable):
        await call()
    restarted = asyncio.create_task(call(b"again", deadline_s=10, idempotent=True, wait_for_ready=True))
    await rig.start()
    assert await restarted == b"AGAIN"


async def test_a_stop_refuses_new_calls_and_finishes_those_in_hand(rig: Rig, call: Call) -> None:
    rig.echo.gate.clear()
    in_hand = asyncio.create_task(call(b"mine"))
    await eventually(lambda: rig.echo.calls == 1)
    rig.service.request_stop()
    await eventually(lambda: rig.server._refusing)
    with pytest.raises(Stopping):
        await call(b"late")
    rig.echo.gate.set()
    assert await in_hand == b"MINE"
    await rig.running


async def test_a_stop_does_not_wait_for_watchers(rig: Rig) -> None:
    rig.echo.gate.clear()
    peer = rig.peer()
    got: list[bytes] = []
    watching = asyncio.create_task(collect(peer.stream(rig.many(peer), b"abc", deadline_s=None), got))
    await eventually(lambda: len(got) == 3)
    async with asyncio.timeout(1.5):
        await rig.stop()
    with pytest.raises(Unavailable):
        await watching


async def test_a_message_above_4_mb_is_refused_clearly(call: Call) -> None:
    with pytest.raises(TooLarge, match="larger than 4 MiB"):
        await call(b"x" * (4 * 1024 * 1024 + 1))


async def test_health_needs_no_token_and_follows_the_service(rig: Rig) -> None:
    async with grpc.aio.insecure_channel(rig.bind) as channel:
        stub = health_pb2_grpc.HealthStub(channel)

        async def status(name: str) -> int:
            return int((await stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=5)).status)

        async def is_status(want: int) -> bool:
            return await status("") == want and await status(NAME) == want

        await eventually(lambda: is_status(health_pb2.HealthCheckResponse.SERVING))
        rig.service.health.set("database", False, "disk full")
        await eventually(lambda: is_status(health_pb2.HealthCheckResponse.NOT_SERVING))
        rig.service.health.set("database", True)
        await eventually(lambda: is_status(health_pb2.HealthCheckResponse.SERVING))


async def test_a_taken_port_is_one_sentence(rig: Rig) -> None:
    service = Service("second")
    RpcServer(service, bind=rig.bind, token=TOKEN)
    with pytest.raises(PortTaken, match="second can't listen at 127"):
        await service.run(signals=False)


def test_unreadable_trailers_do_not_hide_the_failure() -> None:
    for data in (b"", b"[]", b"{}", b'{"slug": 3, "message": "x"}', b"\xff"):
        assert isinstance(error_of(data), HeadwayError)
    newer = problem_bytes(NotFound("gone")).replace(b"not-found", b"not-yet-invented")
    assert type(error_of(newer)) is HeadwayError
    assert str(error_of(newer)) == "gone"


class Blob:
    def __init__(self, size: int) -> None:
        self.size = size

    def ByteSize(self) -> int:
        return self.size


@pytest.mark.parametrize(
    ("sizes", "want"),
    [
        ([], []),
        ([10], [[10]]),
        ([40, 40, 40], [[40, 40], [40]]),
        ([500, 1], [[500], [1]]),
        ([1, 500, 1], [[1], [500], [1]]),
    ],
)
def test_parts_stay_below_their_bound(sizes: list[int], want: list[list[int]]) -> None:
    parts = in_parts([Blob(size) for size in sizes], max_bytes=100)
    assert [[blob.size for blob in part] for part in parts] == want


def test_bytes_are_split_without_loss() -> None:
    assert list(byte_parts(b"abcdefg", max_bytes=3)) == [b"abc", b"def", b"g"]
    assert list(byte_parts(b"")) == []


async def test_a_closed_stream_ends_the_call_at_the_server(rig: Rig) -> None:
    peer = rig.peer()
    rig.echo.gate.clear()
    async with contextlib.aclosing(peer.stream(rig.many(peer), b"abc", deadline_s=None)) as replies:
        async for _ in replies:
            break
    rig.echo.gate.set()
    assert await peer.call(rig.one(peer), b"ok", deadline_s=5) == b"OK"


async def test_broken_bytes_are_the_callers_fault_and_no_crash(caplog: pytest.LogCaptureFixture) -> None:
    """They were INTERNAL with a traceback."""
    rig = Rig(free_port())
    common = common_pb2.Account

    async def echo(request: Any, context: Any) -> Any:
        return request

    async def several(request: Any, context: Any) -> AsyncIterator[Any]:
        yield request

    async def joined(requests: AsyncIterator[Any], context: Any) -> Any:
        return [request async for request in requests][-1]

    kinds = {"deserializer": common.FromString, "serializer": common.SerializeToString}
    handlers = {
        "One": grpc.unary_unary_rpc_method_handler(echo, kinds["deserializer"], kinds["serializer"]),
        "Many": grpc.unary_stream_rpc_method_handler(several, kinds["deserializer"], kinds["serializer"]),
        "Joined": grpc.stream_unary_rpc_method_handler(joined, kinds["deserializer"], kinds["serializer"]),
    }
    rig.echo.handlers = lambda: handlers  # type: ignore[method-assign]
    await rig.start()
    try:
        async with grpc.aio.insecure_channel(rig.bind) as channel:
            metadata = ((TOKEN_KEY, TOKEN.encode()),)
            for data in (b"\xff", b"\x0a\x05ab", b"\x0a\x02\xff\xfe"):
                for call in (
                    channel.unary_unary(f"/{NAME}/One")(data, metadata=metadata),
                    channel.stream_unary(f"/{NAME}/Joined")(iter([b"", data]), metadata=metadata),
                ):
                    with pytest.raises(grpc.aio.AioRpcError) as refused:
                        await call
                    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
                    assert "can't be read" in (refused.value.details() or "")
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await channel.unary_stream(f"/{NAME}/Many")(data, metadata=metadata).read()
                assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            # Without the token nobody learns even that.
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await channel.unary_unary(f"/{NAME}/One")(b"\xff")
            assert refused.value.code() is not grpc.StatusCode.INVALID_ARGUMENT
    finally:
        await rig.close()
    assert "Traceback" not in caplog.text


async def test_a_caller_two_versions_away_is_refused_and_a_near_one_is_not(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "MINE", "0.3.0")
    far = rig.peer()  # what it sends is fixed as it is made
    monkeypatch.setattr(versions, "MINE", "0.2.0")
    near = rig.peer()
    monkeypatch.setattr(versions, "MINE", "0.1.0")
    assert await near.call(rig.one(near), b"hi", deadline_s=5) == b"HI"
    before = rig.echo.calls
    with pytest.raises(VersionsApart, match=r"echo is Headway 0\.1\.0, and it was called by Headway 0\.3\.0"):
        await far.call(rig.one(far), b"hi", deadline_s=5)
    assert rig.echo.calls == before, "the handler has not seen it"
    with pytest.raises(VersionsApart):
        [part async for part in far.stream(rig.many(far), b"hi", deadline_s=5)]
