"""The drill: a backup of a living cluster, its managers and their disk lost, and the backup brought back."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx
import pytest

from headway.client import Client, Refused
from tests.support.cluster import SERVICES, Cluster, a_cluster, first_attempts, first_state, submitted
from tests.support.postgres import Postgres
from tests.support.waiting import soon

from .test_lost_commits import GPU, SETTINGS, never_two_at_once, reach

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def known(client: Client, job: str) -> bool:
    try:
        client.job(job)
    except Refused as refused:
        if refused.status != 404:
            raise
        return False
    return True


def lose_managers(cluster: Cluster) -> None:
    """Their machine is gone with its disk. Workers, the shared mount and any PostgreSQL server stand elsewhere."""
    cluster.kill9(*SERVICES)
    shutil.rmtree(cluster.folder / "state")
    for name in ("token", "first-admin", "headway.toml"):
        (cluster.folder / name).unlink()


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_a_lost_cluster_goes_on_from_its_backup(tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    places: dict[str, str] = {}
    if kind == "postgresql":
        server: Postgres = request.getfixturevalue("postgres")
        url = server.tcp_url(server.new_database())
        places = {f"{service}__database": url for service in SERVICES}
    with a_cluster(tmp_path / "cluster", workers=2, **{**SETTINGS, "cluster__lease_s": 90}, **places) as cluster:
        client, config = cluster.client, str(cluster.folder / "headway.toml")
        backup = tmp_path / "backup.tar.zst"
        ended = submitted(client, 0, resources=GPU)
        assert client.wait(ended, timeout_s=40)["state"] == "SUCCEEDED"
        runs_on = submitted(client, 40, resources=GPU)
        ends_between = [submitted(client, 12, resources=GPU) for _ in range(3)]
        reach(client, "RUNNING", runs_on, *ends_between)
        starts_between = submitted(client, 40, resources=GPU)
        waits = submitted(client, 1, resources=GPU)
        client.act("hold", waits)
        assert first_state(client, starts_between) == "QUEUED"
        made = cluster.headway("backup", str(backup), "--config", config)
        assert made.returncode == 0, made.stderr.decode()
        # All of this is lost.
        came_later = [submitted(client, run_s, resources=GPU) for run_s in (0, 600)]
        assert client.wait(came_later[0], timeout_s=60)["state"] == "SUCCEEDED"
        for job in ends_between:
            assert client.wait(job, timeout_s=60)["state"] == "SUCCEEDED"
        for job in (came_later[1], starts_between):
            soon(lambda job=job: bool(first_attempts(client, job)), within_s=60, what="it starts")  # type: ignore[misc]
        refused = cluster.headway("restore", str(backup), "--config", config, "--replace")
        assert refused.returncode == 4, "the cluster lives"
        assert b"Nothing was changed" in refused.stderr

        lose_managers(cluster)
        if kind == "postgresql":
            restored = cluster.headway("restore", str(backup), "--config", config)
            assert restored.returncode == 4
            assert b"would be lost" in restored.stderr
        replace = ["--replace"] if kind == "postgresql" else []
        restored = cluster.headway("restore", str(backup), "--config", config, *replace)
        assert restored.returncode == 0, restored.stderr.decode()
        assert came_later[0] in restored.stdout.decode()
        assert not any(job in restored.stdout.decode() for job in (ended, runs_on, *ends_between, waits))
        cluster.start()
        cluster.wait_ready()

        assert client.job(ended)["state"] == "SUCCEEDED"
        client.act("release", waits)
        for job in (*ends_between, starts_between, waits, runs_on):
            assert client.wait(job, timeout_s=120)["state"] == "SUCCEEDED", job
        never_two_at_once(client, *ends_between, starts_between, runs_on)
        assert len(first_attempts(client, runs_on)) == 1, "it ran on while nobody watched"
        assert not any(known(client, job) for job in came_later)
        soon(lambda: client.queue()["total_running"] == 0, within_s=90, what="nothing runs for a job that is lost")
        told = httpx.get(f"{cluster.url}/readyz", timeout=5).json()
        assert told["ready"] is True
        assert "restored from a backup" in told["conditions"]["restored"]
        assert "came after the backup." in told["conditions"]["restored"], "strangers get no ids"
        assert client._json("GET", "/nodes")["notices"] == [told["conditions"]["restored"]]
        assert came_later[0] in cluster.log("httpserver")
        assert client.wait(submitted(client, 0), timeout_s=60)["state"] == "SUCCEEDED"
