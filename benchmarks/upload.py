"""Uploads over loopback beside a bare endpoint that does the least: rate, memory, and what other calls feel."""

from __future__ import annotations

import base64
import hashlib
import http.client
import multiprocessing
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.support.cluster import Cluster
from tests.support.ports import free_ports
from tests.support.waiting import soon

from .measure import Figure, median, quantile

MIB = 1 << 20
GIB = 1 << 30
RATE_BYTES = GIB
ROUNDS = 3
LARGE_BYTES = 5 * GIB
AT_ONCE = 20
EACH_BYTES = 100 * MIB

# What one would write without a thought for resuming: the bytes to the disk, their SHA-256 back.
_BARE = textwrap.dedent(
    """
    import hashlib, os, sys
    import uvicorn
    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Route

    async def put(request):
        digest = hashlib.sha256()
        with open(sys.argv[2], "wb") as file:
            async for chunk in request.stream():
                digest.update(chunk)
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        return PlainTextResponse(digest.hexdigest())

    app = Starlette(routes=[Route("/", put, methods=["PUT"])])
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error", http="httptools")
    """
)


def upload() -> Iterator[Figure]:
    """Rate against the bare endpoint, memory for a large file, other calls beside many uploads."""
    with tempfile.TemporaryDirectory(prefix="hwb", dir=os.environ.get("HEADWAY_BENCHMARK_DIR")) as folder:
        cluster = Cluster(Path(folder) / "headway")
        cluster.start("httpserver")
        try:
            soon(lambda: _answers(cluster.http_port, "/healthz"), within_s=60, what="HttpServer answers")
            token = cluster.client.profile.token
            yield from _rate(cluster, token, Path(folder))
            yield from _memory(cluster, token)
            yield from _others(cluster, token)
        finally:
            cluster.close()


def _rate(cluster: Cluster, token: str, folder: Path) -> Iterator[Figure]:
    piece = secrets.token_bytes(MIB)
    digest = _digest(piece, RATE_BYTES)
    ours: list[float] = []
    bare: list[float] = []
    with _bare(folder) as port:
        # In turns, so that a busy machine is busy for both.
        for number in range(ROUNDS + 1):
            a = _timed(lambda: _put_bare(port, piece, RATE_BYTES, digest))
            b = _timed(lambda n=number: _send(cluster.http_port, token, f"rate-{n}", piece, RATE_BYTES, digest))  # type: ignore[misc]
            if number:  # the first finds files and memory cold
                bare.append(RATE_BYTES / a / MIB)
                ours.append(RATE_BYTES / b / MIB)
    note = f"{median(ours):.0f} and {median(bare):.0f} MiB/s, to the end on disk"
    yield Figure("upload: rate beside a bare endpoint", median(ours) / median(bare), "ratio", 0.8, False, note)


def _memory(cluster: Cluster, token: str) -> Iterator[Figure]:
    pid = cluster.processes["httpserver"].pid
    before = _resident_bytes(pid)
    most = before
    stop = threading.Event()

    def watch() -> None:
        nonlocal most
        while not stop.wait(0.05):
            most = max(most, _resident_bytes(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    piece = secrets.token_bytes(MIB)
    took = _timed(lambda: _send(cluster.http_port, token, "large", piece, LARGE_BYTES, _digest(piece, LARGE_BYTES)))
    stop.set()
    watcher.join()
    note = f"{LARGE_BYTES / took / MIB:.0f} MiB/s; {before / MIB:.0f} MiB before"
    yield Figure("upload: memory more for a file of 5 GiB", (most - before) / MIB, "MiB", 100.0, note=note)


def _others(cluster: Cluster, token: str) -> Iterator[Figure]:
    piece = secrets.token_bytes(MIB)
    digest = _digest(piece, EACH_BYTES)
    waits: list[float] = []
    stop = threading.Event()

    def ask() -> None:
        with httpx.Client(headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:
            while not stop.is_set():
                began = time.monotonic()
                client.get(f"{cluster.url}/api/v1/me")
                waits.append(time.monotonic() - began)
                time.sleep(0.01)

    # Senders are processes, as in life: threads of this one would slow the one that asks.
    context = multiprocessing.get_context("fork")
    senders = [
        context.Process(target=_send, args=(cluster.http_port, token, f"many-{n}", piece, EACH_BYTES, digest))
        for n in range(AT_ONCE)
    ]
    asker = threading.Thread(target=ask)
    began = time.monotonic()
    for sender in senders:
        sender.start()
    asker.start()
    for sender in senders:
        sender.join()
    took = time.monotonic() - began
    stop.set()
    asker.join()
    assert all(sender.exitcode == 0 for sender in senders), "an upload failed"
    note = f"{len(waits)} calls; {AT_ONCE} × {EACH_BYTES // MIB} MiB at {AT_ONCE * EACH_BYTES / took / MIB:.0f} MiB/s"
    yield Figure("upload: other calls beside 20 uploads, p99", quantile(waits, 0.99) * 1000, "ms", 200.0, note=note)
    yield Figure("  their median", median(waits) * 1000, "ms")


def _send(port: int, token: str, path: str, piece: bytes, length: int, digest: str) -> None:
    """Uploads over one connection with as little work here as there can be; returns when it is done."""
    headers = {"Authorization": f"Bearer {token}", "Tus-Resumable": "1.0.0"}
    said = ",".join(f"{k} {base64.b64encode(v.encode()).decode()}" for k, v in (("path", path), ("sha256", digest)))
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    line.request(
        "POST", "/api/v1/uploads/files", headers={**headers, "Upload-Length": str(length), "Upload-Metadata": said}
    )
    answer = line.getresponse()
    answer.read()
    assert answer.status == 201, answer.status
    at = str(answer.headers["location"])
    line.putrequest("PATCH", at)
    for key, value in {**headers, "Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}.items():
        line.putheader(key, value)
    line.putheader("Content-Length", str(length))
    line.endheaders()
    _pour(line.sock, piece, length)
    answer = line.getresponse()
    answer.read()
    assert answer.status == 204, answer.status
    while True:
        line.request("GET", at, headers=headers)
        state = line.getresponse().read()
        if b'"done"' in state:
            break
        assert b'"failed"' not in state, state
        time.sleep(0.01)
    line.close()


def _put_bare(port: int, piece: bytes, length: int, digest: str) -> None:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    line.putrequest("PUT", "/")
    line.putheader("Content-Length", str(length))
    line.endheaders()
    _pour(line.sock, piece, length)
    assert line.getresponse().read().decode() == digest
    line.close()


def _pour(line: socket.socket, piece: bytes, length: int) -> None:
    for _ in range(length // len(piece)):
        line.sendall(piece)


@contextmanager
def _bare(folder: Path) -> Iterator[int]:
    (port,) = free_ports(1)
    words = [sys.executable, "-c", _BARE, str(port), str(folder / "bare")]
    process = subprocess.Popen(words, start_new_session=True)
    try:
        soon(lambda: _answers(port, "/"), within_s=30, what="the bare endpoint answers")
        yield port
    finally:
        process.kill()
        process.wait()


def _answers(port: int, path: str) -> bool:
    try:
        httpx.get(f"http://127.0.0.1:{port}{path}")
    except httpx.TransportError:
        return False
    return True


def _digest(piece: bytes, length: int) -> str:
    found = hashlib.sha256()
    for _ in range(length // len(piece)):
        found.update(piece)
    return found.hexdigest()


def _timed(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
