"""People who mean harm at the door of a running cluster: names that lead out, what is not theirs, pages of others."""

from __future__ import annotations

import secrets
from pathlib import Path

import httpx
import pytest

from headway.client import Client
from tests.support.cluster import Cluster, a_job, scripted_task
from tests.support.raw_http import exchange, get

from .door import (
    API,
    SCRIPT,
    assert_problem,
)

pytestmark = pytest.mark.slow


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
