"""Job events while JobManager and HttpServer are killed again and again: each is stored once, and none is missed."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

from headway.client import Client, Profile
from headway.client.events import EventClient
from tests.support.cluster import a_cluster, a_job, scripted_task
from tests.support.waiting import soon

TASKS = 60


def test_no_event_is_lost_or_doubled_by_kills(tmp_path: Path) -> None:
    with a_cluster(tmp_path, worker__cpus=64, worker__memory_bytes=64 << 30) as cluster:
        followed: list[dict[str, Any]] = []
        mine = Profile(cluster.client.profile.url, cluster.client.profile.token)

        def follow() -> None:
            with Client(mine) as client:
                for event in EventClient(client).follow("0"):
                    followed.append(event)
                    if event["kind"] == "ended":
                        return

        follower = threading.Thread(target=follow, daemon=True)
        follower.start()
        names = [f"t{number:02}" for number in range(TASKS)]
        job = cluster.client.submit(a_job(*(scripted_task(name, run_s=0.5) for name in names)))["id"]
        soon(lambda: followed, what="the follower has seen the submission")
        for victim in ("httpserver", "job_manager", "httpserver"):
            cluster.kill9(victim)
            cluster.start(victim)
            cluster.wait_ready()
        # Away for a while: what happens meanwhile waits at JobManager.
        cluster.kill9("httpserver")
        cluster.kill9("job_manager")
        cluster.start("job_manager", "httpserver")
        cluster.wait_ready()
        done = cluster.client.wait(job, timeout_s=120)
        assert done["state"] == "SUCCEEDED"
        soon(lambda: not follower.is_alive(), within_s=60, what="the follower has seen the end")
        stored = [event for event in EventClient(cluster.client).past() if event["job_id"] == job]
        words = [event["kind"] for event in stored]
        assert Counter(words) == {"submitted": 1, "started": 1, "task_ended": TASKS, "ended": 1}
        assert (words[0], words[1], words[-1]) == ("submitted", "started", "ended")
        assert sorted(event["task"] for event in stored if event["task"]) == names
        assert [event["cursor"] for event in followed] == [event["cursor"] for event in stored]
