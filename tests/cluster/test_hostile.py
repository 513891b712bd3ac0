"""People who mean harm, and programs that don't know better, at the door of a running cluster."""

from __future__ import annotations

import json
import resource
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import psutil
import pytest

from headway.client import Client
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.raw_http import RawAnswer, exchange, get
from tests.support.waiting import soon

pytestmark = pytest.mark.slow

API = "/api/v1"
SCRIPT = "<script>document.title='gone'</script><svg onload=alert(1)>"
MIB = 1 << 20


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("hostile")
    with a_cluster(folder, worker__cpus=16, worker__memory_bytes=64 << 30) as running:
        yield running
        done = running.client.wait(running.client.submit(a_job(scripted_task()))["id"], timeout_s=30)
        assert done["state"] == "SUCCEEDED", "after all of this it does its work"


@pytest.fixture(scope="module")
def ann(cluster: Cluster) -> Client:
    return cluster.user("ann")


@pytest.fixture(scope="module")
def bob(cluster: Cluster) -> Client:
    return cluster.user("bob")


@pytest.fixture(scope="module")
def anns_job(ann: Client) -> str:
    """Ended, with a log, a secret in its environment, and script in all that may hold text."""
    task = scripted_task("t", env={"SECRET": "s3cr3t-of-ann", "HEADWAY_SCRIPTED_OUTPUT": f"{SCRIPT}\n" * 100})
    job_id = str(ann.submit(a_job(task, name=SCRIPT))["id"])
    assert ann.wait(job_id, timeout_s=30)["state"] == "SUCCEEDED"
    return job_id


@pytest.fixture(autouse=True)
def nothing_failed_inside(cluster: Cluster) -> Iterator[None]:
    """After each test the services live, and nothing was an error inside."""
    before = {name: len(cluster.log(name)) for name in cluster.names}
    yield
    for name, process in cluster.processes.items():
        assert process.poll() is None, f"{name} ended\n{cluster.log(name)[-3000:]}"
        news = cluster.log(name)[before[name] :]
        assert "Traceback" not in news, f"{name}\n{news[-4000:]}"
        assert "http.failed" not in news, f"{name}\n{news[-4000:]}"


def memory_of(cluster: Cluster, service: str = "httpserver") -> int:
    """Bytes of a service and its children."""
    process = psutil.Process(cluster.processes[service].pid)
    total = 0
    for one in (process, *process.children(recursive=True)):
        try:
            total += one.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def assert_problem(answer: RawAnswer, *want: int) -> None:
    assert answer.status in (want or (400, 401, 403, 404, 405, 409, 413, 414, 415, 416, 422, 431)), answer
    if answer.header("content-type") == [b"application/problem+json"]:
        assert json.loads(answer.body)["request_id"]


HOSTILE_PATHS = [
    "..", "../..", "../../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..%2f..%2f..%2fetc%2fpasswd", "%2e%2e%2f",
    "a/../../../etc/passwd", "./../bob", "..%5c..%5cetc", "%252e%252e%252fetc", "%00", "x%00.txt", "%2fetc%2fpasswd",
    "//etc/passwd", "%c0%ae%c0%ae/%c0%ae%c0%ae/etc/passwd", "%ff%fe", "%", "%zz", "~root/.ssh", "a" * 5_000,
    "/".join(["a"] * 2_000), "%0d%0aSet-Cookie:%20x=1", "..;/..;/etc/passwd", "\\..\\..\\etc", "proc/self/environ",
    "con", "%e2%80%ae", "file%3a%2f%2f%2fetc%2fpasswd",
]  # fmt: skip


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_no_path_leads_out_of_the_personal_space(cluster: Cluster, ann: Client, method: str):
    list(ann.files())  # makes the space
    before = sorted(p.name for p in (cluster.mount / "homes").iterdir())
    for path in HOSTILE_PATHS:
        answer = get(cluster.http_port, f"{API}/files/{path}", ann.profile.token, "Content-Length: 0", method=method)
        assert b"root:" not in answer.body, path
        assert answer.status < 500, (path, answer)
        assert answer.header("set-cookie") == [], path
        if method == "GET" and answer.status == 200:
            # What means the space itself, or is a plain odd name that a PUT made, is shown.
            assert b"SECRET" not in answer.body
    assert sorted(p.name for p in (cluster.mount / "homes").iterdir()) == before
    assert not (cluster.mount / "etc").exists()
    assert all((cluster.mount / name).is_dir() for name in ("homes", "jobs", "images", "datasets"))


def test_no_name_of_a_job_or_task_leads_anywhere(cluster: Cluster, ann: Client, anns_job: str):
    for path in HOSTILE_PATHS:
        for target in (
            f"/jobs/{path}", f"/jobs/{path}/spec", f"/jobs/{path}/logs.zip", f"/jobs/{anns_job}/tasks/{path}",
            f"/jobs/{anns_job}/tasks/{path}/attempts/1/logs/stdout",
            f"/jobs/{anns_job}/tasks/t/attempts/{path}/logs/stdout",
            f"/jobs/{anns_job}/tasks/t/attempts/1/logs/{path}",
            f"/nodes/{path}", f"/users/{path}", f"/{path}",
        ):  # fmt: skip
            answer = get(cluster.http_port, API + target, ann.profile.token)
            assert answer.status < 500, (target[:200], answer)
            assert b"root:" not in answer.body
            assert b"s3cr3t" not in answer.body or target.endswith("/spec")
    for number in ("0", "-1", "99999999999999999999", "1e3", "0x1", "1.0", "%31%00", "NaN"):
        for tail in ("", "?tail=-1", "?tail=99999999999999999999999", "?offset=-5", "?follow=maybe", "?tail=1e400"):
            target = f"{API}/jobs/{anns_job}/tasks/t/attempts/{number}/logs/stdout{tail}"
            assert_problem(get(cluster.http_port, target, ann.profile.token))
    for query in ("limit=-1", "limit=1e9", "cursor=%00", "cursor=" + "A" * 4000, "state=%27%20OR%201", "q=%25%27--"):
        answer = get(cluster.http_port, f"{API}/jobs?{query}", ann.profile.token)
        assert answer.status < 500, (query, answer)


@pytest.mark.parametrize("name", ["../x", "a/b", "..", ".", "-rf", "a\0b", "a\nb", "", "x" * 64, "ä", "a b", SCRIPT])
def test_task_names_that_could_be_paths_are_refused_with_their_place(cluster: Cluster, ann: Client, name: str):
    answer = httpx.post(
        f"{cluster.url}{API}/jobs",
        content=a_job(scripted_task(name)),
        headers={"Authorization": f"Bearer {ann.profile.token}", "Content-Type": "application/json"},
    )
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"] == "/tasks/0/name"


@pytest.mark.parametrize(
    "name", ["[x] y", "a/b", "..", ".hidden", "x" * 100, "日本 ñ", "'; DROP TABLE jobs;--", "${HOME}$(id)"]
)
def test_job_names_are_shown_exactly(cluster: Cluster, ann: Client, name: str):
    """SPEC-18: square brackets in a name crashed a server."""
    job_id = ann.submit(a_job(scripted_task(), name=name))["id"]
    assert ann.job(job_id)["name"] == name
    assert name in [job["name"] for job in ann.jobs(limit=50)]
    assert ann.wait(job_id, timeout_s=30)["state"] == "SUCCEEDED"


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

    def watch() -> None:
        nonlocal most, slowest
        while not over.is_set():
            began = time.monotonic()
            bob.me()
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
    assert took < 30
    assert slowest < 5
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


def test_what_is_no_valid_token_opens_nothing(cluster: Cluster, ann: Client, anns_job: str):
    gone = cluster.user("gone")
    disabled = cluster.user("disabled")
    gone.logout()
    cluster.client.change_user("disabled", {"enabled": False})
    good = ann.profile.token
    values = [
        "Bearer ", "Bearer", "Bearer x", f"Basic {good}", f"Bearer {good[:-1]}", f"Bearer {good}x",
        f"Bearer {good.upper()}", "Bearer " + "A" * 20_000,
        f"Bearer {gone.profile.token}", f"Bearer {disabled.profile.token}",
        "Bearer null",
        f"Bearer {good[:10]}%00", "Bearer ' OR 1=1 --", "Bearer " + secrets.token_urlsafe(32), f"{good}",
    ]  # fmt: skip
    for value in values:
        for target in (
            "/me",
            "/jobs",
            f"/jobs/{anns_job}",
            f"/jobs/{anns_job}/logs.zip",
            "/files/",
            "/events",
            "/users",
        ):
            answer = exchange(
                cluster.http_port,
                f"GET {API}{target} HTTP/1.1\r\nHost: 127.0.0.1:{cluster.http_port}\r\nConnection: close\r\n"
                f"Authorization: {value}\r\n\r\n".encode(),
            )
            assert_problem(answer, 400, 401, 431)
    # Not ASCII, and several at once: the true one doesn't count because it stands somewhere.
    for lines in (
        b"Authorization: Bearer \xff\xfe\x00",
        b"Authorization: Bearer x\r\nAuthorization: Bearer " + good.encode(),
    ):
        answer = exchange(
            cluster.http_port,
            f"GET {API}/me HTTP/1.1\r\nHost: 127.0.0.1:{cluster.http_port}\r\nConnection: close\r\n".encode()
            + lines + b"\r\n\r\n",
        )  # fmt: skip
        assert_problem(answer, 400, 401)


def test_others_see_neither_spec_nor_logs_nor_files_and_have_no_levers(
    cluster: Cluster, ann: Client, bob: Client, anns_job: str, tmp_path: Path
):
    """SEC-04."""
    (tmp_path / "secret").write_text("s3cr3t-of-ann")
    ann.put_file("secret", tmp_path / "secret")
    base = f"/jobs/{anns_job}"
    for method, target in (
        ("GET", f"{base}/spec"), ("GET", f"{base}/logs.zip"), ("GET", f"{base}/tasks/t/attempts/1/logs/stdout"),
        ("GET", f"{base}/tasks/t/attempts/latest/logs/platform"), ("POST", f"{base}/cancel"), ("POST", f"{base}/retry"),
        ("POST", f"{base}/hold"), ("POST", f"{base}/release"), ("POST", f"{base}/tasks/t/cancel"),
        ("GET", "/files/secret?account=ann"), ("DELETE", "/files/secret?account=ann"), ("GET", "/files/../ann/secret"),
        ("GET", "/users"), ("POST", "/nodes/n1/drain"), ("POST", "/nodes/n1/lost"), ("GET", "/files/?account=ann"),
    ):  # fmt: skip
        answer = get(cluster.http_port, API + target, bob.profile.token, "Content-Length: 0", method=method)
        assert_problem(answer, 400, 403, 404, 422)
        assert b"s3cr3t" not in answer.body
    # What everybody may see doesn't hold it either, and neither do the services' logs.
    for target in (base, "/jobs?limit=50", "/queue", "/nodes", "/nodes/n1"):
        answer = get(cluster.http_port, API + target, bob.profile.token)
        assert answer.status == 200
        assert b"s3cr3t" not in answer.body
    for name in cluster.names:
        assert "s3cr3t" not in cluster.log(name)
    patched = httpx.patch(
        f"{cluster.url}{API}/users/bob",
        json={"admin": True},
        headers={"Authorization": f"Bearer {bob.profile.token}"},
    )
    assert patched.status_code == 403
    assert bob.me()["admin"] is False
    assert ann.job(anns_job)["state"] == "SUCCEEDED"


def test_another_sites_page_cannot_act_with_the_cookie(cluster: Cluster, ann: Client, anns_job: str):
    """WEB-03."""
    cookie = {"Cookie": f"headway_session={ann.profile.token}"}
    assert httpx.get(cluster.url + API + "/me", headers=cookie).status_code == 200, "the cookie is good"
    jobs = len(list(ann.jobs()))
    foreign = [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{cluster.http_port + 1}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site", "Origin": "http://evil.127.0.0.1"},
        {"Referer": "https://evil.example/page"},
        {},
    ]
    with httpx.Client(base_url=cluster.url + API) as http:
        for extra in foreign:
            for media in ("application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
                for method, path, content in (
                    ("POST", "/jobs", a_job(scripted_task())),
                    ("POST", f"/jobs/{anns_job}/retry", b""),
                    ("PUT", "/files/evil", b"x"),
                    ("POST", "/tokens", b'{"name": "evil"}'),
                    ("DELETE", "/session", b""),
                ):
                    answer = http.request(
                        method, path, content=content, headers={**cookie, **extra, "Content-Type": media}
                    )
                    assert answer.status_code in (403, 415), (extra, media, path, answer.text)
        for origin in ("https://evil.example", "null"):
            answer = http.options(
                "/jobs", headers={"Origin": origin, "Access-Control-Request-Method": "POST", **cookie}
            )
            assert "access-control-allow-origin" not in answer.headers
        answer = http.get("/me", headers={**cookie, "Host": "evil.example"})
        assert answer.status_code in (400, 403, 421), "a name that was made to point here"
    assert len(list(ann.jobs())) == jobs
    assert "evil" not in [entry["name"] for entry in ann.files()]


def test_script_stays_text(cluster: Cluster, ann: Client, anns_job: str, tmp_path: Path):
    """WEB-01."""
    (tmp_path / "page.html").write_text(SCRIPT)
    ann.put_file("page.html", tmp_path / "page.html")
    (tmp_path / "x.svg").write_text(SCRIPT)
    ann.put_file("x.svg", tmp_path / "x.svg")
    want = {
        f"/jobs/{anns_job}": b"application/json",
        f"/jobs/{anns_job}/tasks/t/attempts/1/logs/stdout": b"text/plain",
        f"/jobs/{anns_job}/tasks/t/attempts/1/logs/stdout?follow=true": b"text/plain",
        f"/jobs/{anns_job}/tasks/t/attempts/1/logs/platform": b"text/plain",
        f"/jobs/{anns_job}/logs.zip": b"application/zip",
        "/files/page.html": b"application/octet-stream",
        "/files/x.svg": b"application/octet-stream",
        f"/jobs/{SCRIPT.replace(' ', '%20')}": b"application/problem+json",
    }
    for target, media in want.items():
        answer = get(cluster.http_port, API + target, ann.profile.token)
        assert answer.header("content-type") == [media], target
        assert answer.header("x-content-type-options") == [b"nosniff"], target
        (policy,) = answer.header("content-security-policy")
        assert b"script-src 'self'" in policy
        if b"json" not in media:
            assert answer.header("content-disposition")[0].startswith(b"attachment"), target
    assert ann.log(anns_job, "t") == f"{SCRIPT}\n".encode() * 100
    assert ann.job(anns_job)["name"] == SCRIPT


@pytest.mark.parametrize(
    "name",
    [
        'a"b',
        "a;b",
        "a,b",
        "a\nb",
        "a\r\nSet-Cookie: evil=1",
        "a\\b",
        "ü",
        "😀",
        "x" * 255,
        "-rf",
        "%0d%0a",
        "a'b",
        "\t",
        "\x7f",
        "‮txt.exe",
    ],
)
def test_no_file_name_makes_a_header(cluster: Cluster, ann: Client, tmp_path: Path, name: str):
    """STO-05."""
    from urllib.parse import quote

    source = tmp_path / "source"
    source.write_bytes(b"content")
    ann.put_file(name, source)
    answer = get(cluster.http_port, f"{API}/files/{quote(name, safe='')}", ann.profile.token)
    assert answer.status == 200, answer
    assert answer.body == b"content"
    assert answer.header("set-cookie") == []
    assert len(answer.header("content-disposition")) == 1
    assert len(answer.header("content-type")) == 1
    assert name in [entry["name"] for entry in ann.files()] or not name.isprintable()


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
            began = time.monotonic()
            answer = get(cluster.http_port, target, ann.profile.token, f"Range: {value}")
            assert answer.status in (200, 206, 400, 416, 431), (value[:60], answer.head)
            assert time.monotonic() - began < 10
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
            began = time.monotonic()
            assert ann.me()["name"] == "ann"
            assert time.monotonic() - began < 5
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
