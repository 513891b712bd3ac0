"""Programs that mean harm or don't know better: bodies, ranges, slow and many readers cost others nothing."""

from __future__ import annotations

import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from headway.client import Client
from tests.support.cluster import Cluster, a_job, scripted_task
from tests.support.raw_http import exchange, get
from tests.support.waiting import soon

from .door import (
    API,
    MIB,
    memory_of,
)

pytestmark = pytest.mark.slow


def bombs() -> dict[str, tuple[bytes, str]]:
    layers = "a: &a [" + ",".join("x" * 9) + "]\n"
    for letter in "bcdefghij":
        layers += f"{letter}: &{letter} [{','.join(['*' + chr(ord(letter) - 1)] * 9)}]\n"
    quadratic = "a: &a " + "x" * 1_000_000 + "\nb: [" + ",".join(["*a"] * 100_000) + "]\n"
    merged = "".join(f"m{i}: &m{i}\n  <<: [*m{i - 1}, *m{i - 1}]\n" if i else "m0: &m0 {a: 1}\n" for i in range(60))
    return {
        "laughs": (layers.encode(), "application/yaml"),
        "quadratic": (quadratic.encode(), "application/yaml"),
        "merge keys": (merged.encode(), "application/yaml"),
        "deep flow": (b"[" * 2_000_000, "application/yaml"),
        "deep blocks": (b"".join(b" " * i + b"a:\n" for i in range(2_500)), "application/yaml"),
        "deep dashes": (b"- " * 1_500_000, "application/yaml"),
        "deep JSON": (b"[" * 4_000_000, "application/json"),
        "deep JSON objects": (b'{"a":' * 1_000_000, "application/json"),
        "long number": (b'{"version": ' + b"9" * 5_000_000 + b"}", "application/json"),
        "long number in YAML": (b"version: " + b"9" * 5_000_000, "application/yaml"),
        "long exponent": (b'{"version": 1e999999999}', "application/json"),
        "many keys": (("{" + ",".join(f'"k{i}":1' for i in range(100_000)) + "}").encode(), "application/json"),
        "many documents": (b"---\n" * 1_500_000, "application/yaml"),
        "many tasks": (b'{"version":1,"name":"x","tasks":[' + b"{}," * 200_000 + b"{}]}", "application/json"),
        "surrogates": (b'{"version":1,"name":"\\ud800","tasks":[]}', "application/json"),
        "UTF-16": ("version: 1\n".encode("utf-16"), "application/yaml"),
        "zeros": (b"\0" * 8_000_000, "application/yaml"),
    }


@pytest.mark.parametrize("kind", bombs())
def test_a_bomb_is_refused_soon_and_costs_others_nothing(cluster: Cluster, ann: Client, bob: Client, kind: str):
    content, media = bombs()[kind]
    before = memory_of(cluster)
    most, slowest, over = 0, 0.0, threading.Event()
    failed: list[Exception] = []

    def watch() -> None:
        nonlocal most, slowest
        while not over.is_set():
            began = time.monotonic()
            try:
                bob.me()
            except Exception as error:  # such as an answer that does not come within the client's patience
                failed.append(error)
            slowest = max(slowest, time.monotonic() - began)
            most = max(most, memory_of(cluster))
            over.wait(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    began = time.monotonic()
    try:
        answer = httpx.post(
            f"{cluster.url}{API}/jobs",
            content=content,
            headers={"Authorization": f"Bearer {ann.profile.token}", "Content-Type": media},
            timeout=100,
        )
    finally:
        over.set()
        watcher.join()
    took = time.monotonic() - began
    print(f"{kind}: {answer.status_code} after {took:.2f} s, {(most - before) / MIB:.0f} MiB, others {slowest:.2f} s")
    assert answer.status_code in (400, 413, 422), answer.text[:300]
    assert len(answer.content) < MIB
    assert not failed, f"others were not answered: {failed[0]}"
    assert most - before < 900 * MIB


def test_bodies_of_100_mb_are_not_kept(cluster: Cluster, ann: Client):
    before = memory_of(cluster)
    most = 0

    def body(block: bytes) -> Iterator[bytes]:
        nonlocal most
        for i in range(100):
            if i % 10 == 0:
                most = max(most, memory_of(cluster))
            yield block

    block = b"x" * MIB
    auth = {"Authorization": f"Bearer {ann.profile.token}"}
    with httpx.Client(base_url=cluster.url + API, timeout=60) as http:
        for method, path, headers in (
            ("POST", "/jobs", {**auth, "Content-Type": "application/yaml"}),
            ("POST", "/session", {"Content-Type": "application/json"}),
            ("POST", "/tokens", {**auth, "Content-Type": "application/json"}),
            ("GET", "/me", auth),
            ("POST", "/jobs", {"Content-Type": "application/yaml"}),
        ):
            try:
                answer = http.request(method, path, content=body(block), headers=headers)
            except httpx.TransportError:
                continue  # cut off while sending is an answer too
            assert answer.status_code in (200, 401, 413), (path, answer.text[:200])
        answer = http.put("/files/large", content=body(block), headers=auth)
        assert answer.status_code == 201
        assert ann.get_file("large", _Nowhere()) == 100 * MIB  # type: ignore[arg-type]
        most = max(most, memory_of(cluster))
        ann.delete_file("large")
        # Headers are memory too.
        for size in (70_000, 2_000_000):
            try:
                answer = http.get("/me", headers={**auth, "X-Long": "x" * size})
                assert answer.status_code in (200, 400, 413, 431)
            except httpx.TransportError:
                continue
    assert most - before < 80 * MIB, f"{(most - before) / MIB:.0f} MiB more"


class _Nowhere:
    def write(self, data: bytes) -> None:
        pass


def test_a_packed_body_is_not_unpacked(cluster: Cluster, ann: Client):
    import gzip

    packed = gzip.compress(b"a" * (50 * MIB))
    for encoding in ("gzip", "deflate", "br", "x"):
        answer = httpx.post(
            f"{cluster.url}{API}/jobs",
            content=packed,
            headers={
                "Authorization": f"Bearer {ann.profile.token}",
                "Content-Type": "application/yaml",
                "Content-Encoding": encoding,
            },
        )
        assert answer.status_code in (400, 415, 422), answer.text[:200]


def test_ranges_cannot_be_abused(cluster: Cluster, ann: Client, anns_job: str, tmp_path: Path):
    content = bytes(range(256)) * 4096
    (tmp_path / "f").write_bytes(content)
    ann.put_file("ranged", tmp_path / "f")
    log = ann.log(anns_job, "t")
    ranges = [
        "bytes=" + ",".join(f"{i}-" for i in range(8_000)), "bytes=" + ",".join(["0-"] * 5_000), "bytes=0-0,-1",
        "bytes=-0", "bytes=--1", "bytes=-99999999999999999999999", "bytes=99999999999999999999-", "bytes=5-2",
        "bytes=0-99999999999999999999999999", "bytes=abc", "bytes=", "=", "lines=1-2", "bytes=0x0-0x5", "bytes=1.5-2",
        "bytes=\u0661-\u0662", "bytes=-1--1", "bytes= 0 - 5 ", "bytes=0-5\x0b", "bytes=18446744073709551616-",
        "bytes=9223372036854775807-", "bytes=-9223372036854775808",
    ]  # fmt: skip
    for target, whole in (
        (f"{API}/files/ranged", content),
        (f"{API}/jobs/{anns_job}/tasks/t/attempts/1/logs/stdout", log),
    ):
        for value in ranges:
            answer = get(cluster.http_port, target, ann.profile.token, f"Range: {value}")
            assert answer.status in (200, 206, 400, 416, 431), (value[:60], answer.head)
            if answer.status in (200, 206):
                assert len(answer.body) <= len(whole)
                assert answer.body in whole
            if answer.status == 200:
                assert answer.body == whole
            if answer.status == 206:
                (said,) = answer.header("content-range")
                span = said.removeprefix(b"bytes ").split(b"/")[0]
                first, last = (int(part) for part in span.split(b"-"))
                assert answer.body == whole[first : last + 1]


def test_slow_clients_hold_up_nobody(cluster: Cluster, ann: Client):
    """Clients that send a header byte by byte, a body never, or read nothing."""
    start = f"POST {API}/jobs HTTP/1.1\r\nHost: 127.0.0.1:{cluster.http_port}\r\n".encode()
    auth = f"Authorization: Bearer {ann.profile.token}\r\n".encode()
    before = memory_of(cluster)
    with ExitStack() as open_lines:
        lines = []
        for i in range(300):
            line = open_lines.enter_context(socket.create_connection(("127.0.0.1", cluster.http_port)))
            match i % 4:
                case 0:
                    line.sendall(start + b"X-A: ")
                case 1:
                    line.sendall(
                        start + auth + b"Content-Type: application/yaml\r\nContent-Length: 8000000\r\n\r\nversion"
                    )
                case 2:
                    line.sendall(
                        start + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n"
                    )
                case _:
                    line.sendall(b"")
            lines.append(line)
        for _ in range(5):
            for line in lines:
                try:
                    line.sendall(b"x")
                except OSError:
                    continue  # cut off: fine
            assert ann.me()["name"] == "ann"
        done = ann.wait(ann.submit(a_job(scripted_task()))["id"], timeout_s=30)
        assert done["state"] == "SUCCEEDED"
        assert memory_of(cluster) - before < 100 * MIB


def test_more_connections_than_it_can_hold_end_with_themselves(cluster: Cluster, ann: Client):
    pid = cluster.processes["httpserver"].pid
    ann.me()
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    assert before[0] >= min(65_536, before[1]), "a shell's soft limit is raised"
    log_before = len(cluster.log("httpserver"))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (400, before[1]))
    try:
        with ExitStack() as open_lines:
            for _ in range(500):
                line = open_lines.enter_context(socket.create_connection(("127.0.0.1", cluster.http_port)))
                with suppress(OSError):  # cut off
                    line.sendall(b"GET ")
            # Who has a connection already keeps it, and the service still reaches the others.
            done = ann.wait(ann.submit(a_job(scripted_task()))["id"], timeout_s=30)
            assert done["state"] == "SUCCEEDED"

        def is_back() -> bool:
            with suppress(OSError):
                return get(cluster.http_port, "/healthz").status == 200
            return False

        soon(is_back, within_s=30, every_s=0.2, what="it is back")
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
    news = cluster.log("httpserver")[log_before:]
    assert "watch_broke" not in news
    assert len(news) < MIB


def test_two_hundred_pages_see_a_job_pass(cluster: Cluster, ann: Client):
    before = memory_of(cluster)
    request = (
        f"GET {API}/events HTTP/1.1\r\nHost: 127.0.0.1:{cluster.http_port}\r\n"
        f"Authorization: Bearer {ann.profile.token}\r\n\r\n"
    ).encode()
    with ExitStack() as open_lines:
        pages: list[tuple[socket.socket, bytearray]] = []
        for _ in range(200):
            line = open_lines.enter_context(socket.create_connection(("127.0.0.1", cluster.http_port)))
            line.sendall(request)
            line.setblocking(False)
            pages.append((line, bytearray()))

        def read_all() -> None:
            for line, got in pages:
                try:
                    while data := line.recv(1 << 16):
                        got += data
                except BlockingIOError:
                    continue

        def all_have(word: bytes) -> bool:
            read_all()
            return all(word in got for _, got in pages)

        soon(lambda: all_have(b"event: reset"), within_s=30, every_s=0.2, what="200 streams are open")
        job_id = ann.submit(a_job(*(scripted_task(f"t{i}") for i in range(20))))["id"]
        assert ann.wait(job_id, timeout_s=60)["state"] == "SUCCEEDED"
        for i in range(20):
            wanted = f'"name":"t{i}"'.encode()
            soon(lambda w=wanted: all_have(w), within_s=30, every_s=0.2, what=f"all saw t{i}")
        # Half of them never read again, while much happens.
        for _ in range(5):
            ann.submit(a_job(*(scripted_task(f"u{i}") for i in range(100))))
        soon(lambda: ann.queue()["total_waiting"] == 0, within_s=60)
        assert memory_of(cluster) - before < 150 * MIB, f"{(memory_of(cluster) - before) / MIB:.0f} MiB more"

    def closed() -> bool:
        metrics = httpx.get(f"{cluster.url}/metrics").text
        return "headway_http_event_streams 0.0" in metrics

    soon(closed, within_s=30, every_s=0.2, what="streams end with their readers")


def test_requests_that_are_none_are_answered_or_cut(cluster: Cluster):
    host = f"Host: 127.0.0.1:{cluster.http_port}\r\n"
    post = f"POST {API}/session HTTP/1.1\r\n{host}"
    for sent in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500 + b"\r\n\r\n",
        b"GET\r\n\r\n", b"\0" * 1000 + b"\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        f"GET http://evil.example/ HTTP/1.1\r\n{host}Connection: close\r\n\r\n".encode(),
        f"GET {API}/me HTTP/1.1\r\n{host}{host}Connection: close\r\n\r\n".encode(),
        f"CONNECT evil.example:443 HTTP/1.1\r\n{host}Connection: close\r\n\r\n".encode(),
        f"TRACE / HTTP/1.1\r\n{host}Connection: close\r\n\r\n".encode(),
        f"{'A' * 5000} / HTTP/1.1\r\n{host}Connection: close\r\n\r\n".encode(),
        f"POST {API}/session HTTP/1.1\r\n{host}Content-Length: -5\r\nConnection: close\r\n\r\n".encode(),
        f"{post}Content-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n".encode(),
        f"POST {API}/session HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\nzz\r\n".encode(),
        f"{post}Content-Length: 99999999999999999999999\r\nConnection: close\r\n\r\n".encode(),
        f"GET / HTTP/1.1\r\n{host}Upgrade: websocket\r\nConnection: Upgrade, close\r\n\r\n".encode(),
    ):  # fmt: skip
        try:
            answer = exchange(cluster.http_port, sent, timeout_s=10)
        except (TimeoutError, ConnectionResetError, BrokenPipeError):
            continue
        if answer.head:
            assert answer.status != 500, (sent[:80], answer)
