"""Calls to an engine, of which a small server on a socket stands in for."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer

import pytest

from worker.ports import EngineUnavailable
from worker.runtime.docker_engine import DockerEngine


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
