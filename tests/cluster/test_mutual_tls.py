"""Five services that know each other by certificates."""

from __future__ import annotations

from pathlib import Path

from tests.support.cluster import QUICK_LEASES, a_cluster, a_job, first_state, scripted_task, submitted
from tests.support.waiting import soon


def test_a_job_runs_and_its_log_is_read(tmp_path: Path) -> None:
    with a_cluster(tmp_path, workers=2, tls=True) as cluster:
        task = scripted_task(env={"HEADWAY_SCRIPTED_OUTPUT": "hello by certificates"})
        job = cluster.client.submit(a_job(task))["id"]
        assert cluster.client.wait(job, timeout_s=60)["state"] == "SUCCEEDED"
        for name in cluster.names:
            assert "token" not in cluster.log(name)
