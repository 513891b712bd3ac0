"""Services are killed while jobs are removed: it goes on, nothing stays behind, and nothing else goes."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headway.client import Refused
from headway.client.usage import UsageClient
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task, submitted
from tests.support.waiting import soon

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TABLES = {
    "job_manager": {"job": "id", "job_graph": "job_id", "task": "job_id", "task_spec": "job_id", "action": "job_id"},
    "task_manager": {"tasks": "job_id", "task_specs": "job_id", "attempts": "job_id"},
}
JOBS, TASKS = 30, 5


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with a_cluster(tmp_path, worker__cpus=4, worker__memory_bytes=8 << 30) as cluster:
        yield cluster


def jobs_with_rows(cluster: Cluster) -> set[str]:
    """Ids in any table of JobManager or TaskManager."""
    found: set[str] = set()
    for service, tables in TABLES.items():
        with closing(sqlite3.connect(f"file:{cluster.folder}/state/{service}.db?mode=ro", uri=True)) as db:
            for table, column in tables.items():
                found |= {row[0] for row in db.execute(f"select distinct {column} from {table}")}
    return found


def folders(cluster: Cluster) -> set[str]:
    return {path.name for path in (cluster.mount / "jobs").iterdir()}


def test_a_removal_that_is_killed_again_and_again_is_done_in_the_end(cluster: Cluster) -> None:
    client, rng = cluster.client, random.Random(11)
    small = {"cpus": 0.1, "memory": "16MiB"}
    job = a_job(
        *(
            scripted_task(f"t{number}", resources=small, env={"HEADWAY_SCRIPTED_OUTPUT": "a line"})
            for number in range(TASKS)
        )
    )
    old = [client.submit(job)["id"] for _ in range(JOBS)]
    for one in old:
        assert client.wait(one, timeout_s=120)["state"] == "SUCCEEDED"
    pinned, old = old[0], old[1:]
    client.act("pin", pinned)
    lives = submitted(client, 600.0)
    soon(lambda: {pinned, *old} <= folders(cluster), what="logs lie on the mount")
    time.sleep(0.2)
    before = UsageClient(client).sums(by="user", begin="1d", end="", user="", most=10)["rows"][0]

    answer = client.ask("POST", "/jobs/prune", json={"older": "0.1s"})
    assert (answer["jobs"], answer["pinned"]) == (len(old), 1)
    for _ in range(5):
        time.sleep(rng.uniform(0.0, 0.4))
        cluster.restart(rng.choice(("job_manager", "task_manager", "httpserver")))
    cluster.wait_ready()

    soon(lambda: jobs_with_rows(cluster) == {pinned, lives}, within_s=120, what="no row is left")
    soon(lambda: not folders(cluster) & set(old), within_s=60, what="no folder is left")
    assert pinned in folders(cluster)
    assert client.job(pinned)["state"] == "SUCCEEDED"
    after = UsageClient(client).sums(by="user", begin="1d", end="", user="", most=10)["rows"][0]
    assert after["attempts"] == before["attempts"] >= JOBS * TASKS
    with pytest.raises(Refused, match="was deleted"):
        client.job(old[0])
    with pytest.raises(Refused, match="is pinned"):
        client.ask("DELETE", f"/jobs/{pinned}")
    client.act("cancel", lives)
