"""Secrets in real containers: variables and files, whose they are, and where nobody finds them."""

from __future__ import annotations

import hashlib
import json
import secrets
import time

import pytest

from headway.client.own import OwnAccount
from tests.docker.conftest import Jobs, a_task
from tests.support.cluster import a_job
from tests.support.leaks import forms, leaks
from tests.support.waiting import soon
from worker.box import Box

pytestmark = [pytest.mark.docker, pytest.mark.timeout(180)]


def stored(jobs: Jobs, name: str, value: bytes | None = None) -> bytes:
    value = b"geheim+/" + secrets.token_hex(24).encode() if value is None else value
    OwnAccount(jobs.cluster.client).set_secret(name, value)
    return value


def boxes(jobs: Jobs) -> list[Box]:
    return [Box(path.parent.parent) for path in jobs.cluster.folder.glob("workers/*/attempts/*/box/run/spec")]


def test_a_variable_and_a_file_are_the_programs_alone(jobs: Jobs) -> None:
    token, key = stored(jobs, "TOKEN"), stored(jobs, "KEY")
    uses = ["TOKEN", {"name": "TOKEN", "env": "OTHER"}, {"name": "KEY", "file": "id_rsa"}]
    script = """
        set -e
        test "$TOKEN" = "$OTHER"
        stat -c '%a %u:%g' /run/secrets/id_rsa
        echo "$(id -u):$(id -g)"
        stat -f -c %T /run/secrets
        cat /run/secrets/id_rsa | wc -c
        echo $(ls -a /run/secrets)
        grep ' /run/secrets ' /proc/mounts
        echo mounted
        sleep 600
    """
    job = jobs.begin(a_task(script, secrets=uses, timeout="2m"))
    jobs.until_it_prints(job, b"id_rsa")
    jobs.until_it_prints(job, b"mounted")
    lines = jobs.cluster.client.log(job, "a").decode().splitlines()
    assert lines[0] == f"400 {lines[1]}"
    assert lines[1] != "0:0"
    assert (lines[2], lines[3].strip(), lines[4].split()) == ("tmpfs", str(len(key)), [".", "..", "id_rsa"])
    assert all(word in lines[5] for word in ("tmpfs", "nosuid", "nodev", "noexec")), lines
    # What root of the machine is shown of the container, its layers, and all files of the cluster.
    client = jobs.engine.client()
    try:
        (name,) = [name for name in jobs.containers() if job in name]
        told = json.dumps(client.api.inspect_container(name)).encode()
        diff = json.dumps(client.api.diff(name)).encode()
    finally:
        client.close()
    for form in (form for value in (token, key) for form in forms(value)):
        assert form not in told + diff
    assert list(leaks(jobs.cluster.folder, token, key)) == []
    for box in boxes(jobs):
        soon(lambda box=box: not box.secrets.exists(), within_s=10, every_s=0.1, what="the socket is gone")  # type: ignore[misc]
    # Another task, of the same account even, sees nothing of it.
    seen = jobs.prints(
        "ls /run/secrets 2>/dev/null | wc -l; env | grep -c TOKEN || true; cat /proc/*/environ | grep -c geheim || true"
    )
    assert seen.split() == [b"0", b"0", b"0"]
    jobs.cluster.client.ask("POST", f"/jobs/{job}/cancel")
    jobs.ended(job)
    jobs.none_is_left()
    assert list(leaks(jobs.cluster.folder, token, key)) == []


def test_the_program_can_not_look_into_the_launcher(jobs: Jobs) -> None:
    stored(jobs, "TOKEN")
    looks = [f"cat /proc/1/{name} > /dev/null && echo {name}" for name in ("environ", "mem", "maps")]
    script = "; ".join([*looks, "ls /headway-*/run || true"])
    task = jobs.task(script, secrets=["TOKEN"])
    assert (task["state"], jobs.out(task)) == ("SUCCEEDED", b"")


def test_the_files_of_a_task_that_is_its_images_user_are_that_users(jobs: Jobs) -> None:
    value = stored(jobs, "BYTES", bytes(range(256)) * 256)
    script = "stat -c '%a %u:%g' /run/secrets/b; id -u; sha256sum < /run/secrets/b"
    jobs.cluster.client.ask("PATCH", "/users/admin", json={"may_use_image_user": True})
    printed = jobs.prints(script, secrets=[{"name": "BYTES", "file": "b"}], user="image").decode().split()
    assert printed == ["400", "0:0", "0", hashlib.sha256(value).hexdigest(), "-"]


def test_a_hundred_secrets_arrive(jobs: Jobs) -> None:
    dora = jobs.cluster.user("dora")
    for number in range(100):
        OwnAccount(dora).set_secret(f"S{number}", f"value-{number}".encode())
    uses = [f"S{number}" if number % 2 else {"name": f"S{number}", "file": f"s{number}"} for number in range(100)]
    script = "env | grep -c '^S[0-9]*=value-'; cat /run/secrets/s* | tr v '\\n' | grep -c alue-"
    job = dora.wait(dora.submit(a_job(a_task(script, secrets=uses)))["id"], timeout_s=60, poll_s=0.1)
    assert job["tasks"][0]["state"] == "SUCCEEDED", job
    assert dora.log(job["id"], "a").split() == [b"50", b"50"]


def test_a_worker_that_is_killed_while_the_launcher_waits_gives_them_anew(jobs: Jobs) -> None:
    """The launcher is there, and its Worker is killed before it has asked: it waits for the next one."""
    value = stored(jobs, "TOKEN")
    cluster = jobs.cluster
    seen = set(jobs.containers())
    job = jobs.begin(a_task('printf %s "$TOKEN"; sleep 2', secrets=["TOKEN"]))
    until = time.monotonic() + 30
    while not [name for name in jobs.containers() if name not in seen]:
        assert time.monotonic() < until
        time.sleep(0.005)
    cluster.restart("n1")
    cluster.wait_ready()
    done = jobs.ended(job)
    assert done["state"] == "SUCCEEDED", done["reason"]
    assert cluster.client.log(job, "a") == value
