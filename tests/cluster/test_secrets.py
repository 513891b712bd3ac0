"""Secrets over all five services: what a task is given, what nobody else sees, services that are killed meanwhile."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.client import Client
from headway.client.errors import Refused
from headway.client.own import OwnAccount
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.leaks import forms, leaks
from tests.support.waiting import soon

pytestmark = [pytest.mark.timeout(180)]

OUTPUT = "HEADWAY_SCRIPTED_OUTPUT"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with a_cluster(tmp_path_factory.mktemp("secrets"), log__level="debug", task_manager__platform_retries=1) as cluster:
        yield cluster


def new_value() -> bytes:
    return b"geheim+/" + secrets.token_hex(24).encode()


def stored(client: Client, name: str, value: bytes) -> bytes:
    OwnAccount(client).set_secret(name, value)
    return value


def waits_for_secrets(cluster: Cluster, job: str) -> None:
    def waits() -> bool:
        return any("waits_for_secrets" in line and job in line for line in cluster.log("n1").splitlines())

    soon(waits, within_s=30, every_s=0.1, what="the worker waits for the secrets of the second task")


def ended(client: Client, *tasks: dict[str, Any]) -> dict[str, Any]:
    job = client.submit(a_job(*tasks))["id"]
    return client.wait(job, timeout_s=60, poll_s=0.1)


def test_a_task_has_it_and_no_file_of_the_cluster_does(cluster: Cluster) -> None:
    client = cluster.client
    told, kept = stored(client, "TOLD", new_value()), stored(client, "KEPT", new_value())
    stored(client, "BYTES", bytes(range(256)))
    tells = scripted_task("tells", secrets=[{"name": "TOLD", "env": OUTPUT}, {"name": "BYTES", "file": "b"}])
    keeps = scripted_task("keeps", secrets=["KEPT", {"name": "KEPT", "file": "id_rsa"}])
    job = ended(client, tells, keeps)
    assert [task["state"] for task in job["tasks"]] == ["SUCCEEDED", "SUCCEEDED"], job
    assert client.log(job["id"], "tells") == told
    assert list(leaks(cluster.folder, kept)) == [], "a value that no program printed"
    printed = {path.name for path in leaks(cluster.folder, told)}
    assert printed <= {"stdout", "stdout.log", "log", "stdout.txt"} or all("out" in name for name in printed), printed
    shown = cluster.headway("show", f"{job['id']}/keeps")
    for answer in (shown, cluster.headway("show", "-o", "json", job["id"]), cluster.headway("secrets", "list")):
        assert answer.returncode == 0, answer.stderr
        assert not any(form in answer.stdout + answer.stderr for form in forms(kept))
    assert b"KEPT as /run/secrets/id_rsa" in shown.stdout


def test_a_value_is_set_from_a_pipe_or_a_file_and_removed(cluster: Cluster, tmp_path: Path) -> None:
    value = tmp_path / "value"
    value.write_bytes(b"a\0b\n")
    assert cluster.headway("secrets", "set", "FROM_PIPE", input=b"abc\n").returncode == 0
    made = cluster.headway("secrets", "set", "FROM_FILE", "--file", str(value))
    assert made.returncode == 0, made.stderr
    assert b"as a file only" in made.stderr
    listed = cluster.headway("secrets", "list", "-o", "json").stdout
    sizes = {one["name"]: one["size_bytes"] for one in OwnAccount(cluster.client).secrets()}
    assert (sizes["FROM_PIPE"], sizes["FROM_FILE"]) == (3, 4)
    assert b"abc" not in listed
    for wrong, says in ((("set", "1X"), b"not a secret's name"), (("remove", "NONE"), b"no secret `NONE`")):
        refused = cluster.headway("secrets", *wrong, input=b"x")
        assert refused.returncode != 0
        assert says in refused.stderr
    assert cluster.headway("secrets", "set", "EMPTY", input=b"").returncode != 0
    assert cluster.headway("secrets", "remove", "FROM_PIPE").returncode == 0
    assert "FROM_PIPE" not in [one["name"] for one in OwnAccount(cluster.client).secrets()]


def test_the_value_at_the_start_counts_and_a_removed_one_ends_the_task(cluster: Cluster) -> None:
    client = cluster.client
    stored(client, "CHANGES", b"old")
    task = scripted_task("later", secrets=[{"name": "CHANGES", "env": OUTPUT}], retries=2)
    job = client.submit(a_job(scripted_task("first", run_s=600), {**task, "needs": {"first": "any"}}))["id"]
    newer = stored(client, "CHANGES", b"newer")
    client.ask("POST", f"/jobs/{job}/tasks/first/cancel")
    done = client.wait(job, timeout_s=60, poll_s=0.1)
    assert client.log(job, "later") == newer, done
    job = client.submit(a_job(scripted_task("first", run_s=600), {**task, "needs": {"first": "any"}}))["id"]
    OwnAccount(client).remove_secret("CHANGES")
    client.ask("POST", f"/jobs/{job}/tasks/first/cancel")
    later = next(one for one in client.wait(job, timeout_s=60, poll_s=0.1)["tasks"] if one["name"] == "later")
    assert (later["state"], later["reason"]["word"], later["attempt"]) == ("FAILED", "secret_missing", 1)
    assert "`CHANGES`" in later["reason"]["sentence"]
    with pytest.raises(Refused, match="no secret `CHANGES`"):
        client.submit(a_job(task))


def test_the_same_job_file_by_somebody_else_means_that_ones_own_secrets(cluster: Cluster) -> None:
    bob = cluster.user("bob")
    stored(cluster.client, "SHARED_NAME", b"of the admin")
    task = scripted_task("a", secrets=[{"name": "SHARED_NAME", "env": OUTPUT}])
    with pytest.raises(Refused, match="no secret"):
        bob.submit(a_job(task))
    stored(bob, "SHARED_NAME", b"of bob")
    job = ended(bob, task)
    assert bob.log(job["id"], "a") == b"of bob"
    # An admin who runs bob's job again runs it as bob, with what bob has.
    stored(bob, "SHARED_NAME", b"of bob, newer")
    failing = ended(bob, scripted_task("a", exit_code=1, secrets=[{"name": "SHARED_NAME", "env": OUTPUT}]))
    cluster.client.ask("POST", f"/jobs/{failing['id']}/retry")
    again = cluster.client.wait(failing["id"], timeout_s=60, poll_s=0.1)
    assert bob.log(failing["id"], "a") == b"of bob, newer", again


def test_an_httpserver_that_is_away_at_the_start_is_waited_for(cluster: Cluster) -> None:
    client = cluster.client
    value = stored(client, "LATE", new_value())
    task = {**scripted_task("second", secrets=[{"name": "LATE", "env": OUTPUT}]), "needs": ["first"]}
    job = client.submit(a_job(scripted_task("first", run_s=3), task))["id"]
    cluster.kill9("httpserver")
    waits_for_secrets(cluster, job)
    cluster.start("httpserver")
    cluster.wait_ready()
    assert [one["state"] for one in client.wait(job, timeout_s=60, poll_s=0.1)["tasks"]] == ["SUCCEEDED"] * 2
    assert client.log(job, "second") == value


def test_a_worker_that_is_killed_between_fetch_and_start_fetches_anew(cluster: Cluster) -> None:
    """HttpServer is away, so the start waits for the secrets; the Worker is killed in the midst of it."""
    client = cluster.client
    value = stored(client, "KILLED", new_value())
    task = {**scripted_task("second", secrets=[{"name": "KILLED", "env": OUTPUT}]), "needs": ["first"]}
    job = client.submit(a_job(scripted_task("first", run_s=3), task))["id"]
    cluster.kill9("httpserver")
    waits_for_secrets(cluster, job)
    cluster.restart("n1")
    cluster.start("httpserver")
    cluster.wait_ready()
    assert [one["state"] for one in client.wait(job, timeout_s=90, poll_s=0.1)["tasks"]] == ["SUCCEEDED"] * 2
    assert client.log(job, "second") == value
    others = {path for path in leaks(cluster.folder, value) if "out" not in path.name}
    assert not others


def test_a_hundred_secrets_of_64_kib_reach_one_task(cluster: Cluster) -> None:
    carol = cluster.user("carol")
    for number in range(100):
        stored(carol, f"S{number}", secrets.token_bytes(65_536))
    uses = [{"name": f"S{number}", "file": f"s{number}"} for number in range(100)]
    assert ended(carol, scripted_task("a", secrets=uses))["tasks"][0]["state"] == "SUCCEEDED"
    with pytest.raises(Refused, match="101 entries"):
        carol.submit(a_job(scripted_task("a", secrets=[*uses, "S1"])))
