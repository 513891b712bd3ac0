"""Calls to an engine, of which a small server on a socket stands in for."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer

import pytest

from tests.unit.worker.runtime.test_boxed import ATTEMPT
from worker.ports import EngineUnavailable
from worker.runtime.docker import DockerRuntime
from worker.runtime.docker_engine import DockerEngine
from worker.runtime.docker_options import WorkerIdentity


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps({"ApiVersion": "1.41", "Version": "28"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "socket"

    def log_message(self, *_: object) -> None:
        pass


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


@pytest.fixture
def socket(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "s"
    with _Server(str(path), _Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield path
        server.shutdown()


async def test_an_engine_that_stops_takes_no_new_connection_and_answers_on_old_ones(socket: Path) -> None:
    """A graceful stop of dockerd waits for its containers; tasks it had ended seemed to be killed by a person."""
    engine = DockerEngine(f"unix://{socket}", timeout_s=5)
    try:
        assert (await engine.quick(lambda api: api.version()))["Version"] == "28"
        await engine.quick_anew()
        os.unlink(socket)
        assert (await engine.quick(lambda api: api.version()))["Version"] == "28"
        with pytest.raises(EngineUnavailable):
            await engine.quick_anew()
    finally:
        engine.close()


async def test_homes_that_take_long_keep_no_other_call_waiting(socket: Path) -> None:
    """Thirty starts of one image kept a node from every start, and from every kill."""
    engine, done = DockerEngine(f"unix://{socket}", timeout_s=5), threading.Event()
    try:
        calls = [engine.submit(lambda api: done.wait(20), on_disk=True) for _ in range(30)]
        assert (await asyncio.wait_for(engine.call(lambda api: api.version()), 5))["Version"] == "28"
        done.set()
        assert all([await engine.wait(call) for call in calls])
    finally:
        done.set()
        engine.close()


async def test_a_home_whose_start_was_cancelled_before_its_turn_is_never_made(socket: Path, tmp_path: Path) -> None:
    """What came after, its removal, said that the engine was still busy."""
    engine, done = DockerEngine(f"unix://{socket}", timeout_s=5), threading.Event()
    runtime = DockerRuntime(
        tmp_path / "attempts", engine=engine, identity=WorkerIdentity("lab", "n1", "x"), launcher=tmp_path / "launcher"
    )
    made: list[str] = []
    try:
        before = [engine.submit(lambda api: done.wait(20), on_disk=True) for _ in range(30)]
        start = asyncio.create_task(runtime._one_by_one(ATTEMPT, lambda api: made.append("home"), on_disk=True))
        await asyncio.sleep(0.05)
        start.cancel()
        await asyncio.gather(start, return_exceptions=True)
        removal = runtime._one_by_one(ATTEMPT, lambda api: made.append("removed"))
        await asyncio.wait_for(removal, 4)
        done.set()
        for call in before:
            await engine.wait(call)
        assert made == ["removed"]
    finally:
        done.set()
        engine.close()
