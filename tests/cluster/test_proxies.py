"""The page behind nginx and Caddy, by the examples of deploy/proxies: sign-in, uploads, live streams, who calls."""

from __future__ import annotations

import os
import secrets
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from headway.client import Client, Profile
from headway.client.events import EventClient
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.ports import free_ports
from tests.support.proxies import KINDS, a_proxy
from tests.support.waiting import soon

pytestmark = [pytest.mark.proxies, pytest.mark.slow]


@dataclass(frozen=True)
class Front:
    """A cluster behind a proxy; ``trust`` holds the proxy's certificate."""

    cluster: Cluster
    url: str
    plain_url: str
    trust: Path

    @property
    def context(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.trust))


@pytest.fixture(scope="module", params=sorted(KINDS))
def front(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Front]:
    folder = tmp_path_factory.mktemp(request.param)
    port, plain = free_ports(2)
    settings = {"httpserver__behind_proxy": ["127.0.0.1/32"], "httpserver__public_url": f"https://localhost:{port}"}
    with (
        a_cluster(folder / "cluster", **settings) as cluster,
        a_proxy(request.param, folder / "proxy", page=cluster.http_port, port=port, plain=plain) as trust,
    ):
        yield Front(cluster, f"https://localhost:{port}", f"http://localhost:{plain}", trust)


@pytest.fixture
def client(front: Front, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """Signed in through the proxy."""
    monkeypatch.setenv("SSL_CERT_FILE", str(front.trust))
    name, password = (front.cluster.folder / "first-admin").read_text().split("\n")[:2]
    with Client(Profile(url=front.url)) as anonymous:
        answer = anonymous.login(name, password)
    with Client(Profile(url=front.url, token=answer["token"], user=name)) as signed:
        yield signed


def test_a_large_file_goes_up_and_down(client: Client, tmp_path: Path) -> None:
    source = tmp_path / "größe 日本.bin"
    source.write_bytes(os.urandom(9_000_000))  # more than one part, and than nginx's own limit of 1 MB
    client.put_file(source.name, source)
    with (tmp_path / "back").open("wb") as target:
        client.get_file(source.name, target)
    assert (tmp_path / "back").read_bytes() == source.read_bytes()


def test_events_come_as_they_happen(client: Client) -> None:
    seen = threading.Event()

    def listen() -> None:
        for event in EventClient(client).follow():
            if event["kind"] == "submitted":
                seen.set()
                return

    listener = threading.Thread(target=listen)
    listener.start()

    def told() -> bool:
        # Again until the stream stands; only what comes through a stream that is still open counts.
        client.submit(a_job(scripted_task(run_s=0.1)))
        return seen.wait(2)

    soon(told, within_s=30, what="an event came while the stream was open")
    listener.join()


def test_a_log_is_followed_while_its_task_runs(client: Client) -> None:
    text = {"HEADWAY_SCRIPTED_OUTPUT": "one line\n"}
    job_id = str(client.submit(a_job(scripted_task(run_s=300, env=text)))["id"])
    soon(lambda: client.job(job_id)["state"] == "RUNNING", within_s=30, what="it runs")
    try:
        got = b"".join(_first(client.follow_log(job_id, "a")))
        assert got == b"one line\n"
        assert client.job(job_id)["state"] == "RUNNING", "it came before the end"
    finally:
        client.ask("POST", f"/jobs/{job_id}/cancel")


def _first(pieces: Iterator[bytes]) -> list[bytes]:
    return [next(piece for piece in pieces if piece)]


def test_who_signs_in_is_known_by_the_address_that_the_proxy_saw(front: Front, client: Client) -> None:
    with httpx.Client(base_url=front.url, verify=front.context) as http:
        answer = http.post(
            "/api/v1/session",
            json={"username": f"nobody-{secrets.token_hex(4)}", "password": "wrong"},
            headers={"X-Forwarded-For": "203.0.113.9"},
        )
    assert answer.status_code == 401
    failed = [line for line in front.cluster.log("httpserver").splitlines() if "account.sign_in_failed" in line]
    assert failed
    assert "client=127.0.0.1" in failed[-1], "what the client says of itself counts for nothing"


def test_plain_http_leads_to_https_and_numbers_stay_inside(front: Front) -> None:
    answer = httpx.get(front.plain_url)
    assert answer.status_code in (301, 308)
    assert answer.headers["location"].startswith("https://localhost")
    assert httpx.get(f"{front.url}/metrics", verify=front.context).status_code == 404
    page = httpx.get(front.url, verify=front.context)
    assert page.status_code == 200
    assert "text/html" in page.headers["content-type"]
