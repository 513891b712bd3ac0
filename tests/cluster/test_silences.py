"""Services that are silent, clocks that are set, and a Worker that is there twice."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from headway.client import Client, Refused
from tests.support.cluster import (
    QUICK_LEASES,
    Cluster,
    a_cluster,
    first_attempts,
    first_state,
    submitted,
)
from tests.support.compiling import compiled
from tests.support.ports import free_port
from tests.support.waiting import soon

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

WHOLE_NODE = {"cpus": 1, "memory": "64MiB"}


def all_run(client: Client, *jobs: str) -> None:
    soon(lambda: all(first_state(client, job) == "RUNNING" for job in jobs), within_s=30, what="all run")


def under_lease(cluster: Cluster) -> None:
    """Until every Worker knows that leases count."""
    soon(
        lambda: all("lease.mode enforced=true" in cluster.log(name).lower() for name in cluster.workers),
        within_s=30,
        what="leases are enforced",
    )


def test_without_task_manager_for_longer_than_a_lease_tasks_stop_and_are_queued_again(tmp_path: Path):
    """No retry is used up by it, not even the platform's, and they keep their age: what came later stays behind."""
    with a_cluster(
        tmp_path,
        workers=2,
        **QUICK_LEASES,
        worker__cpus=1,
        worker__memory_bytes=8 << 30,
        task_manager__platform_retries=0,
    ) as cluster:
        client = cluster.client
        first = [submitted(client, 600, resources=WHOLE_NODE) for _ in range(2)]
        all_run(client, *first)
        later = submitted(client, 0, resources=WHOLE_NODE)
        under_lease(cluster)
        time.sleep(2.5)  # some heartbeats under it
        cluster.kill9("task_manager")
        ended_before = time.monotonic()
        time.sleep(14)
        cluster.start("task_manager")
        cluster.wait_ready()
        soon(
            lambda: all(len(first_attempts(client, job)) == 2 for job in first),
            within_s=40,
            what=f"they run again ({time.monotonic() - ended_before:.0f} s after the kill)",
        )
        assert first_state(client, later) == "QUEUED", "what came later must not overtake them"
        for job in first:
            one, two = first_attempts(client, job)
            assert (one["state"], two["state"]) == ("LOST", "RUNNING") or two["state"] in ("PLACED", "STARTING")
            assert one["ended_at"] <= two["placed_at"], "never two at once"
        for job in first:
            client.act("cancel", job)
        assert client.wait(later, timeout_s=60)["state"] == "SUCCEEDED"
        assert [len(first_attempts(client, job)) for job in (*first, later)] == [2, 2, 1]


def test_a_good_end_that_comes_late_counts_while_the_task_still_waits(tmp_path: Path):
    """Its Worker was away for longer than a lease. The task ended well meanwhile, and nobody else could begin it."""
    with a_cluster(tmp_path, workers=2, **QUICK_LEASES, worker__cpus=1, worker__memory_bytes=8 << 30) as cluster:
        client = cluster.client
        blocker, job = submitted(client, 600, resources=WHOLE_NODE), submitted(client, 5, resources=WHOLE_NODE)
        all_run(client, blocker, job)
        under_lease(cluster)
        time.sleep(1.5)
        (first,) = first_attempts(client, job)
        cluster.kill9(first["node_id"])
        soon(lambda: first_attempts(client, job)[0]["state"] == "LOST", within_s=40, what="its lease is over")
        assert first_state(client, job) == "QUEUED"
        cluster.start(first["node_id"])
        assert client.wait(job, timeout_s=60)["state"] == "SUCCEEDED"
        (first,) = first_attempts(client, job)
        assert first["state"] == "SUCCEEDED"
        assert first_state(client, blocker) == "RUNNING"
        # The node takes work again.
        assert client.wait(submitted(client, 0, resources=WHOLE_NODE), timeout_s=60)["state"] == "SUCCEEDED"


def test_a_planned_stop_of_task_manager_ends_nothing_however_long(tmp_path: Path):
    with a_cluster(tmp_path, workers=2, **QUICK_LEASES) as cluster:
        client = cluster.client
        jobs = [submitted(client, 600) for _ in range(4)]
        all_run(client, *jobs)
        under_lease(cluster)
        time.sleep(2.5)
        cluster.stop("task_manager")
        time.sleep(15)
        cluster.start("task_manager")
        cluster.wait_ready()
        time.sleep(3)  # some heartbeats
        for job in jobs:
            assert [a["state"] for a in first_attempts(client, job)] == ["RUNNING"]


def test_a_wall_clock_that_is_set_loses_nobody_and_times_nothing_out(tmp_path: Path, repository: Path):
    """TIME-10: healthy nodes were declared lost when the time was set."""
    shim = compiled(repository / "tests/support/wall_clock.c", "wall_clock.so", "-shared", "-fPIC", "-O1")
    clock = tmp_path / "clock"
    clock.write_text("0")
    with a_cluster(tmp_path / "c", workers=2, start=False, **QUICK_LEASES) as cluster:
        cluster.environment = {"LD_PRELOAD": str(shim), "HEADWAY_TESTS_CLOCK": str(clock)}
        cluster.start()
        cluster.wait_ready()
        client = cluster.client
        short = submitted(client, 10, timeout="30s")
        endless = submitted(client, 600, timeout="12s", grace="1s")
        all_run(client, short, endless)
        under_lease(cluster)
        another = ""
        for jump_s in (3600, -3600):
            clock.write_text(str(jump_s))
            another = submitted(client, 0)
            until = time.monotonic() + 5
            while time.monotonic() < until:
                assert {node["health"] for node in client.nodes()} == {"READY"}
                time.sleep(0.3)
        assert client.wait(short, timeout_s=60)["state"] == "SUCCEEDED"
        assert client.wait(another, timeout_s=60)["state"] == "SUCCEEDED"
        done = client.wait(endless, timeout_s=60)
        assert done["tasks"][0]["state"] == "TIMED_OUT"
        for job in (short, endless):
            (attempt,) = first_attempts(client, job)
            assert 8 <= attempt["phases"]["running_s"] <= 20, attempt
        cluster.restart("task_manager", "resource_manager")
        cluster.wait_ready()
        assert client.wait(submitted(client, 0), timeout_s=30)["state"] == "SUCCEEDED"
        # Far ahead, sessions are over.
        clock.write_text(str(60 * 86_400))
        with pytest.raises(Refused) as caught:
            client.me()
        assert caught.value.status == 401


@pytest.mark.parametrize("jump_s", [7200, -7200])
def test_order_and_promises_stand_though_the_wall_clock_is_set_by_hours(
    tmp_path: Path, repository: Path, jump_s: int
) -> None:
    """Who came after the jump seemed hours older, or hours younger, than those who waited already."""
    shim = compiled(repository / "tests/support/wall_clock.c", "wall_clock.so", "-shared", "-fPIC", "-O1")
    clock = tmp_path / "clock"
    clock.write_text("0")
    settings = {"worker__cpus": 1, "worker__memory_bytes": 8 << 30}
    with a_cluster(tmp_path / "c", workers=1, start=False, **QUICK_LEASES, **settings) as cluster:
        cluster.environment = {"LD_PRELOAD": str(shim), "HEADWAY_TESTS_CLOCK": str(clock)}
        cluster.start()
        cluster.wait_ready()
        client = cluster.client

        def entries() -> dict[str, dict[str, Any]]:
            return {one["job_id"]: one for one in client.queue()["entries"]}

        blocker = submitted(client, 600, timeout="20m", resources=WHOLE_NODE)
        all_run(client, blocker)
        waits = [submitted(client, 0, timeout="1s", resources=WHOLE_NODE)]
        soon(lambda: entries().get(waits[0], {}).get("promised_start_at"), within_s=30, what="the first has a promise")
        promised = entries()[waits[0]]["promised_start_at"]
        waits.append(submitted(client, 0, timeout="5m", resources=WHOLE_NODE))
        clock.write_text(str(jump_s))
        waits.append(submitted(client, 0, timeout="5m", resources=WHOLE_NODE))
        cluster.kill9("task_manager", "job_manager")
        cluster.start("task_manager", "job_manager")
        cluster.wait_ready()
        waits.append(submitted(client, 0, timeout="5m", resources=WHOLE_NODE))
        soon(lambda: entries().keys() == set(waits), within_s=30, what="all wait")
        found = entries()
        assert [one["job_id"] for one in sorted(found.values(), key=lambda one: one["position"])] == waits
        assert all(one["terms"]["waited_s"] < 600 for one in found.values())
        assert found[waits[0]]["promised_start_at"] - jump_s <= promised + 2
        client.act("cancel", blocker)
        done = [client.wait(job, timeout_s=60) for job in waits]
        assert {job["state"] for job in done} == {"SUCCEEDED"}
        assert [job["id"] for job in sorted(done, key=lambda job: job["tasks"][0]["started_at"])] == waits
        assert "promise.m" not in cluster.log("task_manager")


class TestTwice:
    """Two processes that call themselves n1."""

    def second(self, cluster: Cluster, *, own_folder: bool) -> None:
        before, _, rest = (cluster.folder / "n1.toml").read_text().partition("[worker]\n")
        section, _, after = rest.partition("\n[")
        lines = [line for line in section.splitlines() if not line.startswith("bind = ")]
        lines.append(f'bind = "127.0.0.1:{free_port()}"')
        if own_folder:
            folder = cluster.folder / "workers" / "again"
            folder.mkdir()
            lines = [line for line in lines if not line.startswith("folder = ")] + [f'folder = "{folder}"']
        text = before + "[worker]\n" + "\n".join(line for line in lines if line) + ("\n\n[" + after if after else "\n")
        (cluster.folder / "again.toml").write_text(text)
        cluster.workers = (*cluster.workers, "again")
        cluster.start("again")

    def test_in_the_same_folder_the_second_does_not_start(self, tmp_path: Path):
        with a_cluster(tmp_path, **QUICK_LEASES) as cluster:
            job = submitted(cluster.client, 5)
            all_run(cluster.client, job)
            self.second(cluster, own_folder=False)
            code = cluster.processes["again"].wait(60)
            assert code != 0
            assert "Traceback" not in cluster.log("again")
            assert cluster.client.wait(job, timeout_s=60)["state"] == "SUCCEEDED"
            assert len(first_attempts(cluster.client, job)) == 1

    def test_elsewhere_the_newer_is_refused_and_the_older_is_untouched(self, tmp_path: Path):
        """A machine was set up with another one's settings, its name included."""
        with a_cluster(tmp_path, **QUICK_LEASES) as cluster:
            client = cluster.client
            job = submitted(client, 10)
            all_run(client, job)
            self.second(cluster, own_folder=True)
            assert cluster.processes["again"].wait(60) != 0
            assert "Traceback" not in cluster.log("again")
            assert "worker.node_id" in cluster.log("again"), "what to do about it"
            assert cluster.processes["n1"].poll() is None
            assert client.wait(submitted(client, 0), timeout_s=60)["state"] == "SUCCEEDED"
            assert client.wait(job, timeout_s=90)["state"] == "SUCCEEDED"
            assert len(first_attempts(client, job)) == 1
