"""`GET /metrics`: what it answers, whom it cuts off, and what the kernel's parts count."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
from sqlalchemy import MetaData

from headway.errors import NotFound, PortTaken
from headway.lifecycle import Service
from headway.metrics import endpoint as endpoint_module
from headway.metrics import open_metrics
from headway.metrics import process as process_module
from headway.metrics.endpoint import MetricsEndpoint
from headway.metrics.process import Metrics
from headway.rpc.channel import Peer
from headway.rpc.errors_map import TOKEN_KEY
from headway.rpc.server import RpcServer
from headway.store import Batcher, Database, Outbox, OutboxRow
from tests.support.clock import FakeClock
from tests.support.ports import free_port
from tests.support.raw_http import RawAnswer, exchange
from tests.support.running import running
from tests.support.waiting import eventually

TOKEN = "cluster-token-of-the-test"
METHOD = "headway.test.Echo"


@contextlib.asynccontextmanager
async def shown(listen: str = "127.0.0.1:0") -> AsyncIterator[tuple[Metrics, MetricsEndpoint]]:
    service = Service("tester")
    metrics = Metrics(service)
    endpoint = MetricsEndpoint(service, metrics, listen)
    async with running(service):
        yield metrics, endpoint


async def send(endpoint: MetricsEndpoint, text: str) -> RawAnswer:
    return await asyncio.to_thread(exchange, endpoint.port, text.encode())


def request(method: str = "GET", path: str = "/metrics", version: str = "HTTP/1.1") -> str:
    return f"{method} {path} {version}\r\nHost: x\r\n\r\n"


async def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    await metrics.as_text()
    return metrics.registry.get_sample_value(name, labels)


# -- the endpoint ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request(), 200),
        (request(version="HTTP/1.0"), 200),
        (request(path="/metrics?name=up"), 200),
        (request("HEAD"), 200),
        (request(path="/"), 404),
        (request(path="/metrics/"), 404),
        (request("POST", "/elsewhere"), 404),
        (request("POST"), 405),
        (request("DELETE"), 405),
        (request(version="HTTP/2"), 400),
        (request(path="metrics"), 400),
        ("\r\n\r\n", 400),
        ("\xff GET\r\n\r\n", 400),
        (f"GET /metrics HTTP/1.1\r\nX: {'x' * 9_000}\r\n\r\n", 431),
    ],
)
async def test_what_is_answered(sent: str, status: int) -> None:
    async with shown() as (_, endpoint):
        answer = await send(endpoint, sent)
    assert answer.status == status
    assert answer.header("connection") == [b"close"]
    assert answer.header("allow") == ([b"GET, HEAD"] if status == 405 else [])
    length = int(answer.header("content-length")[0])
    assert len(answer.body) == (0 if sent.startswith("HEAD") else length)
    if status == 200:
        assert length > 100
        assert answer.header("content-type")[0].startswith(b"text/plain; version=")


async def test_the_text_names_the_service_and_says_whether_it_is_ready() -> None:
    async with shown() as (_, endpoint):
        body = (await send(endpoint, request())).body.decode()
    assert 'headway_info{service="tester",version="' in body
    assert "headway_ready 1.0" in body
    assert "process_open_fds" in body


async def test_a_port_that_is_taken_is_one_sentence() -> None:
    async with shown() as (_, endpoint):
        listen = f"127.0.0.1:{endpoint.port}"
        with pytest.raises(PortTaken) as refused:
            async with shown(listen):
                pass
    assert str(refused.value) == (
        f"tester can't listen for metrics at {listen}: another program does. Stop that program or set another "
        "`metrics_listen`."
    )


async def test_who_sends_nothing_or_too_slowly_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "_REQUEST_S", 0.2)
    async with shown() as (_, endpoint):
        for start in (b"", b"GET /metrics HTT"):
            reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
            writer.write(start)
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 10) == b""
            writer.close()
        assert (await send(endpoint, request())).status == 200


async def test_who_reads_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "_ANSWER_S", 0.2)
    async with shown() as (metrics, endpoint):

        async def endless() -> tuple[bytes, str]:
            return b"x" * (64 << 20), "text/plain"

        monkeypatch.setattr(metrics, "as_text", endless)
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port, limit=1_024)
        writer.write(request().encode())
        await eventually(lambda: len(endpoint._writers) == 1, what="it is being answered")
        await eventually(lambda: not endpoint._writers, what="it is cut off")
        writer.close()
        del reader


async def test_only_some_at_once_and_then_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown() as (_, endpoint):
        lines = [await asyncio.open_connection("127.0.0.1", endpoint.port) for _ in range(8)]
        await eventually(lambda: len(endpoint._writers) == 8, what="all are there")
        reader, ninth = await asyncio.open_connection("127.0.0.1", endpoint.port)
        ninth.write(request().encode())
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 10) == b""
        ninth.close()
        for _, writer in lines:
            writer.close()
        await eventually(lambda: not endpoint._writers, what="they are gone")
        assert (await send(endpoint, request())).status == 200


async def test_a_stop_waits_for_no_client() -> None:
    async with shown() as (_, endpoint):
        _, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        await eventually(lambda: len(endpoint._writers) == 1, what="it is there")
    assert not endpoint._server or not endpoint._server.is_serving()
    writer.close()


async def test_one_number_that_can_not_be_had_takes_no_other_away() -> None:
    async with shown() as (metrics, endpoint):

        async def broken() -> None:
            raise RuntimeError("gone")

        metrics.before_scrape("broken", broken)
        assert (await send(endpoint, request())).status == 200


# -- what is counted ---------------------------------------------------------------------------------


async def test_a_database_that_hangs_leaves_all_other_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many looks hang, the whole answer comes in time; and each hangs once."""
    monkeypatch.setattr(process_module, "_LOOK_S", 0.3)
    monkeypatch.setattr(process_module, "_FRESH_S", 0.0)
    monkeypatch.setattr(endpoint_module, "_REQUEST_S", 0.25)
    begun, goes_on = [], asyncio.Event()

    async def hang() -> None:
        begun.append(1)
        while not goes_on.is_set():  # in a thread that no cancellation ends
            with contextlib.suppress(asyncio.CancelledError):
                await goes_on.wait()

    async with shown() as (metrics, endpoint):
        for number in range(30):
            metrics.before_scrape(f"hangs {number}", hang)
        try:
            for _ in range(2):
                answer = await asyncio.wait_for(send(endpoint, request()), 20)
                assert answer.status == 200
                assert b"headway_ready 1.0" in answer.body
            assert len(begun) == 30
        finally:
            goes_on.set()
        await eventually(lambda: not metrics._hanging)
        assert (await send(endpoint, request())).status == 200
        assert len(begun) == 60


class Echo:
    async def one(self, request: bytes, context: Any) -> bytes:
        if request == b"no":
            raise NotFound
        if request == b"bug":
            raise RuntimeError
        return request

    async def many(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        yield request
        await asyncio.Event().wait()


async def test_calls_are_counted_by_method_and_code() -> None:
    service = Service("echo")
    metrics = Metrics(service)
    server = RpcServer(service, bind=f"127.0.0.1:{free_port()}", token=TOKEN, numbers=metrics.rpc)
    echo = Echo()
    server.add_registered_method_handlers(
        METHOD,
        {
            "One": grpc.unary_unary_rpc_method_handler(echo.one),
            "Many": grpc.unary_stream_rpc_method_handler(echo.many),
        },
    )
    async with running(service):
        peer = Peer("Echo", f"127.0.0.1:{server.port}", token=TOKEN)
        one = peer.channel.unary_unary(f"/{METHOD}/One")
        many = peer.channel.unary_stream(f"/{METHOD}/Many")
        nowhere = peer.channel.unary_unary(f"/{METHOD}/Nowhere")
        metadata = ((TOKEN_KEY, TOKEN),)
        assert await one(b"yes", metadata=metadata) == b"yes"
        for sent, how in ((b"no", metadata), (b"bug", metadata), (b"yes", ())):
            with pytest.raises(grpc.aio.AioRpcError):
                await one(sent, metadata=how)
        with pytest.raises(grpc.aio.AioRpcError):
            await nowhere(b"yes", metadata=metadata)
        stream = many(b"yes", metadata=metadata)
        assert await stream.read() == b"yes"
        assert await sample(metrics, "headway_grpc_streams", method="Echo/Many") == 1
        stream.cancel()

        async def ended() -> bool:
            return await sample(metrics, "headway_grpc_calls_total", method="Echo/Many", code="CANCELLED") == 1

        await eventually(ended, what="the stream's end is counted")
        await peer.close()
    assert await sample(metrics, "headway_grpc_streams", method="Echo/Many") == 0
    for code in ("OK", "NOT_FOUND", "INTERNAL", "UNAUTHENTICATED"):
        assert await sample(metrics, "headway_grpc_calls_total", method="Echo/One", code=code) == 1, code
    assert await sample(metrics, "headway_grpc_call_seconds_count", method="Echo/One") == 4
    assert b"Nowhere" not in (await metrics.as_text())[0]


async def test_writes_batches_and_what_waits_for_delivery(tmp_path: Any, clock: FakeClock) -> None:
    metrics = Metrics(Service("tester"))
    metadata = MetaData()
    outbox = Outbox(metadata)
    db = await Database.open(str(tmp_path / "x.db"), room="job_manager", metadata=metadata, numbers=metrics.database)

    async def send(rows: list[OutboxRow]) -> None:
        pass

    async def handle(items: list[int]) -> list[int]:
        return items

    inbox = Batcher(handle, name="numbers")
    metrics.watch_inbox("numbers", inbox)
    pump = outbox.pump(db, "peer", send, clock)
    metrics.watch_outbox(pump)
    before = clock.now()
    await db.write(lambda conn: outbox.add_many(conn, "peer", [("k", b"1"), ("k", b"2")], before))
    await db.write(lambda conn: outbox.add(conn, "other", "k", b"3", before))
    await clock.advance(7.0)
    await inbox.submit_many([1, 2, 3])
    try:
        assert await sample(metrics, "headway_db_write_seconds_count") == 2
        assert await sample(metrics, "headway_db_commit_seconds_count") == 2
        assert await sample(metrics, "headway_db_writes_waiting") == 0
        assert await sample(metrics, "headway_inbox_batch_items_sum", inbox="numbers") == 3
        assert await sample(metrics, "headway_inbox_items", inbox="numbers") == 0
        assert await sample(metrics, "headway_outbox_rows", target="peer") == 2
        assert await sample(metrics, "headway_outbox_oldest_age_seconds", target="peer") == 7.0
        with pytest.raises(ZeroDivisionError):
            await db.write(lambda conn: 1 / 0)
        assert await sample(metrics, "headway_db_write_seconds_count") == 2, "what was not stored is not counted"
        pumping = asyncio.create_task(pump.run())

        async def delivered() -> bool:
            return await pump.backlog() == (0, 0.0)

        await eventually(delivered, what="the outbox is empty")
        pumping.cancel()
    finally:
        await db.close()


async def test_the_loops_lag_is_looked_at_only_while_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service("tester")
    metrics = Metrics(service)
    assert metrics._lag._timer is None
    monkeypatch.setattr("headway.metrics.shared._TICK_S", 0.01)
    monkeypatch.setattr("headway.metrics.shared._WATCHED_S", 0.05)
    await metrics.as_text()
    await eventually(lambda: metrics._lag._timer is None, what="nobody has asked for a while")
    assert (await sample(metrics, "headway_event_loop_lag_seconds_count") or 0) > 0
    metrics._lag.close()
    metrics._lag.close()


def test_a_service_that_shows_no_numbers_imports_nothing_for_them() -> None:
    assert open_metrics(Service("tester"), "") is None
    code = (
        "import sys, job_manager.app, resource_manager.app, task_manager.app, worker.app; "
        "print('prometheus_client' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
