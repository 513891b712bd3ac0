"""Five services that know each other by certificates."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headway.trust.identity import Role
from tests.support.certificates import revoke, serial_of
from tests.support.cluster import a_cluster, a_job, first_state, scripted_task, submitted
from tests.support.waiting import soon

pytestmark = pytest.mark.slow


def test_a_job_runs_its_log_is_read_and_a_revoked_machine_is_cut_off(tmp_path: Path) -> None:
    with a_cluster(tmp_path, workers=2, tls=True, resource_manager__poll_s=1) as cluster:
        assert not (cluster.folder / "token").exists()
        output = {"HEADWAY_SCRIPTED_OUTPUT": "hello by certificates\n"}
        job = cluster.client.submit(a_job(*(scripted_task(f"t{i}", env=output) for i in range(4))))["id"]
        assert cluster.client.wait(job, timeout_s=60)["state"] == "SUCCEEDED"
        assert cluster.client.log(job, "t0") == b"hello by certificates\n"

        running = submitted(cluster.client, 60)
        soon(lambda: first_state(cluster.client, running) == "RUNNING", what="a task runs, and its log is live")
        assert cluster.client.log(running, "a") == b""

        # The managers' machine has ResourceManager's list. No restart is needed.
        revoke(cluster.trust(), serial_of(cluster.trust("n2"), Role.WORKER))
        soon(
            lambda: "of worker n2 was revoked" in cluster.log("n2"),
            within_s=60, every_s=0.2, what="n2 is told that its certificate counts no more",
        )  # fmt: skip
        assert "was revoked" not in cluster.log("n1")


def test_a_service_with_anothers_certificate_does_not_start(tmp_path: Path) -> None:
    with a_cluster(tmp_path, tls=True, start=False) as cluster:
        trust = cluster.trust("n1")
        trust.certificate(Role.WORKER).write_bytes(cluster.trust().certificate(Role.TASK_MANAGER).read_bytes())
        trust.key(Role.WORKER).write_bytes(cluster.trust().key(Role.TASK_MANAGER).read_bytes())
        ended = subprocess.run(
            [sys.executable, "-m", "headway", "serve", "worker", "--config", str(cluster.folder / "n1.toml")],
            capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        assert ended.returncode == 2
        assert b"has the certificate" not in ended.stdout
        assert b"the certificate of task_manager, and this is worker n1" in ended.stderr
