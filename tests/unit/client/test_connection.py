"""Real proxies on the way to the server, and whoever else may answer at its address."""

from __future__ import annotations

import http.server
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from headway.cli.main import exit_status
from headway.client import Client, NoService, Profile, Refused
from headway.client.connection import checked_url
from headway.client.errors import NotHeadway
from headway.errors import ConfigInvalid

FAR = "http://gpus.example.org:8080"


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class _Web(http.server.BaseHTTPRequestHandler):
    """Answers every request alike, as a server or as a proxy, and remembers what was asked."""

    answer: tuple[int, str, bytes]
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        status, media, body = self.answer
        self.send_response(status)
        self.send_header("Content-Type", media)
        if 300 <= status < 400:
            self.send_header("Location", "https://portal.example.org/login")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_CONNECT(self) -> None:
        self.asked.append(self.path)
        self.send_error(self.answer[0], "Proxy Authentication Required")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def web(status: int, media: str, body: bytes) -> Iterator[tuple[int, list[str]]]:
    asked: list[str] = []
    handler = type("Handler", (_Web,), {"answer": (status, media, body), "asked": asked})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def socks(answer: bytes) -> Iterator[tuple[int, list[str]]]:
    """A SOCKS 5 proxy (RFC 1928) for one connection, behind which a server says ``answer``."""
    asked: list[str] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            count = connection.recv(2)[1]
            connection.recv(count)
            connection.sendall(b"\x05\x00")
            kind = connection.recv(4)[3]
            assert kind == 3, "the name is left to the proxy"
            name = connection.recv(connection.recv(1)[0]).decode()
            (port,) = struct.unpack("!H", connection.recv(2))
            asked.append(f"{name}:{port}")
            connection.sendall(b"\x05\x00\x00\x01" + bytes(6))
            connection.recv(65_536)
            connection.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1], asked
    finally:
        thread.join(10)
        listener.close()


def test_a_call_goes_through_the_proxy_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with web(200, "application/json", b'{"name": "ann"}') as (port, asked):
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{port}")
        with Client(Profile(url=FAR)) as client:
            assert client.me() == {"name": "ann"}
    assert asked == [f"{FAR}/api/v1/me"]


def test_loopback_goes_past_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with web(200, "application/json", b'{"name": "ann"}') as (port, asked):
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.setenv("all_proxy", "http://127.0.0.1:9")
        with Client(Profile(url=f"http://localhost:{port}")) as client:
            assert client.me() == {"name": "ann"}
    assert asked == ["/api/v1/me"]


def test_a_socks_proxy_is_asked_for_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n" + b'{"name": "ann"}'
    with socks(answer) as (port, asked):
        monkeypatch.setenv("all_proxy", f"socks5h://127.0.0.1:{port}")
        with Client(Profile(url=FAR)) as client:
            assert client.me() == {"name": "ann"}
    assert asked == ["gpus.example.org:8080"]


def test_a_proxy_that_does_not_answer_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://ann:secret@127.0.0.1:9")
    with Client(Profile(url=FAR)) as client, pytest.raises(NoService) as told:
        client.me()
    assert told.value.message == (
        f"Headway does not answer at {FAR} through the proxy http://ann:***@127.0.0.1:9 that HTTP_PROXY names "
        "(ConnectError): are the address and the proxy right? NO_PROXY=gpus.example.org goes without it."
    )


def test_a_proxy_that_refuses_is_named_with_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    with web(407, "text/html", b"<html>") as (port, _asked):
        for name in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{port}")
        with Client(Profile(url=FAR)) as client, pytest.raises(Refused) as refused:
            client.me()
        with Client(Profile(url="https://gpus.example.org")) as client, pytest.raises(NoService) as told:
            client.me()
    assert f"through the proxy http://127.0.0.1:{port} that http_proxy names answered with status 407" in str(
        refused.value
    )
    assert "that https_proxy names (ProxyError: 407 Proxy Authentication Required)" in told.value.message


CALLS: list[Callable[[Client], object]] = [
    lambda client: client.me(),
    lambda client: list(client.jobs()),
    lambda client: list(client.files()),
    lambda client: client.log("j", "t"),
    lambda client: client.get_file("a", open("/dev/null", "wb")),  # noqa: SIM115
    lambda client: client.users(),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("status", "media", "body", "told"),
    [
        (200, "text/html; charset=utf-8", b"<html>Welcome", "isn't Headway (status 200, text/html)"),
        (302, "text/html", b"", "sends on to https://portal.example.org/login (status 302)"),
    ],
)
def test_a_portal_in_its_place_is_one_sentence(
    call: Callable[[Client], object], status: int, media: str, body: bytes, told: str
) -> None:
    with web(status, media, body) as (port, _asked):
        with Client(Profile(url=f"http://127.0.0.1:{port}/wrong")) as client, pytest.raises(NotHeadway) as found:
            call(client)
        assert told in found.value.message
        assert f"http://127.0.0.1:{port}/wrong/api/v1/" in found.value.message
    assert exit_status(found.value) == 3


@pytest.mark.parametrize(
    ("status", "media", "body", "told"),
    [
        (200, "application/json", b"{", "isn't Headway (status 200, application/json)"),
        (200, "application/json", b"", "isn't Headway (status 200, application/json)"),
        (200, "text/plain", b"ok", "isn't Headway (status 200, text/plain)"),
        (200, "", b"ok", "isn't Headway (status 200, no content type)"),
        (200, "application/json", b'{"version": "7.1"}', "has no `jobs`: it isn't Headway that answers there"),
    ],
)
def test_another_service_at_the_address_is_one_sentence(status: int, media: str, body: bytes, told: str) -> None:
    with (
        web(status, media, body) as (port, _asked),
        Client(Profile(url=f"http://127.0.0.1:{port}")) as client,
        pytest.raises(NotHeadway) as found,
    ):
        list(client.jobs())
    assert told in found.value.message
    assert "/api/v1/jobs" in found.value.message
    assert "limit" not in found.value.message, "an address is told without what was asked"


@pytest.mark.parametrize(
    ("status", "media", "body", "told"),
    [
        (502, "text/html", b"<html>nginx", "answered with status 502 and text/html: a proxy is there, and Headway"),
        (404, "text/html", b"<html>nginx", "answered with status 404 and text/html. Headway refuses otherwise"),
        (404, "application/json", b'{"message": "Not Found"}', "answered with status 404 and application/json."),
        (403, "", b"", "answered with status 403 and no content type."),
    ],
)
def test_a_refusal_of_somebody_else_says_who_may_stand_there(status: int, media: str, body: bytes, told: str) -> None:
    with (
        web(status, media, body) as (port, _asked),
        Client(Profile(url=f"http://127.0.0.1:{port}")) as client,
        pytest.raises(Refused) as refused,
    ):
        client.me()
    assert told in refused.value.message


def test_tls_where_there_is_none_is_one_sentence() -> None:
    with (
        web(200, "application/json", b"{}") as (port, _asked),
        Client(Profile(url=f"https://127.0.0.1:{port}")) as client,
        pytest.raises(NoService) as told,
    ):
        client.me()
    assert "speaks no TLS" in told.value.message
    assert "is it http:// instead of https://?" in told.value.message


def test_a_password_of_netrc_does_not_replace_the_token(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, request: pytest.FixtureRequest
) -> None:
    (tmp_path / ".netrc").write_text("machine gpus.example.org login ann password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    seen: list[str] = []

    def handler(asked: httpx.Request) -> httpx.Response:
        seen.append(asked.headers["Authorization"])
        return httpx.Response(200, json={})

    with Client(Profile(url=FAR, token="mine"), transport=httpx.MockTransport(handler)) as client:
        client.me()
    assert seen == ["Bearer mine"]


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("gpus:8080", "write http://gpus:8080"),
        ("localhost", "write http://localhost"),
        ("ftp://gpus", "starts with http:// or https://"),
        ("", "as in http://127.0.0.1:8080"),
        ("http://", "is no address of Headway"),
        ("http://:8080", "is no address of Headway"),
        ("http://gpus:0", "is no address of Headway"),
        ("http://gpus:99999", "is no address of Headway"),
        ("http://gpus:web", "is no address of Headway"),
        ("http://[::1", "is no address of Headway"),
        ("http://g pus", "is no address of Headway"),
        (" http://gpus", "blanks or signs"),
        ("http://gpus\n", "blanks or signs"),
        ("http://gpus/?a=1", "is no address of Headway"),
        ("http://ann:secret@gpus", "holds no name and no password"),
    ],
)
def test_what_is_no_address_is_one_sentence(url: str, told: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        Client(Profile(url=url))
    assert told in refused.value.message
    assert "secret" not in refused.value.message


def test_an_address_may_have_a_folder() -> None:
    assert checked_url("https://gpus.example.org/headway/") == "https://gpus.example.org/headway"
    assert checked_url("http://[fd00::1]:8080") == "http://[fd00::1]:8080"
