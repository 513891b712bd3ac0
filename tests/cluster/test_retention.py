"""The rule of days through five processes: what goes goes from everywhere, and what was used stays known.

Nobody can wait for 90 days. So jobs are made old where they lie, in the databases.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headway.client import Client, Refused
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.waiting import soon

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

DAY_S = 86_400.0
ROOMS = ("httpserver", "job_manager", "task_manager", "resource_manager")
# What says for some days that there was a job: its removal, a repeated request, what the scheduler decided, and of an
# image the last run that ended well. Of its events the last one stays. The audit log has who submitted and deleted it.
REMEMBERS = {"audit_rows", "removal", "use_holds", "use_good_runs", "decisions", "job_events"}
TASKS = 2


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with a_cluster(tmp_path, worker__cpus=4, worker__memory_bytes=8 << 30) as cluster:
        yield cluster


def headway(user: Client, *words: str) -> subprocess.CompletedProcess[str]:
    """The command line as this account."""
    environment = {**os.environ, "HEADWAY_URL": user.profile.url, "HEADWAY_TOKEN": user.profile.token}
    command = [sys.executable, "-m", "headway", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)


def ended(user: Client, name: str) -> str:
    """A job of two tasks that ended, with logs on the mount."""
    env = {"HEADWAY_SCRIPTED_OUTPUT": "a line"}
    tasks = scripted_task("first", env=env), scripted_task("second", needs=["first"], env=env)
    job = str(user.submit(a_job(*tasks, name=name))["id"])
    assert user.wait(job, timeout_s=60)["state"] == "SUCCEEDED"
    return job


def is_instant(column: str) -> bool:
    return column.endswith("_at") or column == "ages_from"


def make_old(cluster: Cluster, days: float, *jobs: str) -> None:
    """As if these jobs had come and gone so many days earlier."""
    for room, key in (("job_manager", "id"), ("task_manager", "job_id")):
        with closing(sqlite3.connect(cluster.folder / "state" / f"{room}.db")) as db:
            for (table,) in db.execute("select name from sqlite_master where type = 'table'").fetchall():
                columns = [row[1] for row in db.execute(f"pragma table_info({table})")]
                name = "job_id" if "job_id" in columns else key if table == "job" else ""
                instants = ", ".join(f"{one} = {one} - {days * DAY_S}" for one in columns if is_instant(one))
                if name and instants:
                    db.executemany(f"update {table} set {instants} where {name} = ?", [(job,) for job in jobs])
            db.commit()


def tables_with(cluster: Cluster, job: str) -> set[str]:
    """All tables of all services that have the job's id in any column."""
    found: set[str] = set()
    for room in ROOMS:
        with closing(sqlite3.connect(f"file:{cluster.folder}/state/{room}.db?mode=ro", uri=True)) as db:
            for (table,) in db.execute("select name from sqlite_master where type = 'table'").fetchall():
                columns = [row[1] for row in db.execute(f"pragma table_info({table})")]
                says = " or ".join(f'instr("{column}", ?) > 0' for column in columns)
                if db.execute(f'select 1 from "{table}" where {says} limit 1', [job] * len(columns)).fetchone():
                    found.add(f"{table}")
    return found


def events_of(cluster: Cluster, job: str) -> list[str]:
    with closing(sqlite3.connect(f"file:{cluster.folder}/state/httpserver.db?mode=ro", uri=True)) as db:
        return [word for (word,) in db.execute("select word from job_events where job_id = ?", (job,))]


def pruned(user: Client, *more: str) -> dict[str, Any]:
    done = headway(user, "jobs", "prune", "--older", "90d", "-o", "json", *more)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def is_gone(cluster: Cluster, user: Client, job: str, why: str) -> None:
    """From the mount, every database, the API and the command line."""
    soon(lambda: not (cluster.mount / "jobs" / job).exists(), within_s=60, what="its folder is gone")
    soon(lambda: tables_with(cluster, job) <= REMEMBERS, within_s=60, what="no row is left")
    soon(lambda: events_of(cluster, job) == ["removed"], within_s=60, what="it says that it was removed")
    for words in (("show", job), ("logs", f"{job}/first"), ("explain", job), ("retry", job), ("delete", job)):
        told = headway(user, *words)
        assert told.returncode != 0, words
        assert f"The job {job} was deleted on " in told.stderr, words
        assert why in told.stderr, words
    assert job not in headway(user, "ps", "-a").stdout
    with pytest.raises(Refused, match="was deleted on"):
        user.ask("GET", f"/jobs/{job}/tasks/first/decisions")


def test_jobs_go_by_the_days_of_their_accounts_and_by_prune(cluster: Cluster) -> None:
    ann, bob, cy = (cluster.user(name) for name in ("ann", "bob", "cy"))
    bobs, bobs_pinned, anns, cys, cys_young = (
        ended(user, name) for user, name in ((bob, "b"), (bob, "bp"), (ann, "a"), (cy, "c"), (cy, "cy"))
    )
    bob.act("pin", bobs_pinned)
    soon(lambda: (cluster.mount / "jobs" / cys_young).exists(), what="its logs lie there")
    services = "job_manager", "task_manager"
    cluster.stop(*services)
    make_old(cluster, 200, bobs, bobs_pinned, anns, cys)
    cluster.start(*services)
    cluster.wait_ready()
    usage = headway(ann, "usage", "--by", "user", "--from", "300d", "-o", "json").stdout
    assert {row["key"]: row["attempts"] for row in json.loads(usage)["rows"]} == {"ann": 2, "bob": 4, "cy": 4}

    # What would go, and what goes.
    refused = headway(bob, "jobs", "prune", "--older", "90d", "--user", "ann")
    assert refused.returncode != 0
    assert "Only an admin may delete the jobs of others" in refused.stderr
    would, did = pruned(bob, "--dry-run"), pruned(bob)
    same = ("jobs", "tasks", "log_bytes", "unmeasured", "pinned")
    assert [would[key] for key in same] == [did[key] for key in same]
    assert [did[key] for key in same[:2]] == [1, TASKS]
    assert (did["log_bytes"] > 0, did["unmeasured"], did["pinned"]) == (True, 0, 1)
    is_gone(cluster, bob, bobs, "by bob.")
    assert pruned(bob)["jobs"] == 0

    # The rules, with days of her own for ann.
    with (cluster.folder / "headway.toml").open("a") as settings:
        settings.write("[retention]\ndays = 90\n[retention.accounts]\nann = {days = 365}\n")
    cluster.restart("job_manager")
    cluster.wait_ready()
    is_gone(cluster, cy, cys, "by the rules of retention, 90 days after its end.")
    assert "kept until" in headway(ann, "show", anns).stdout
    assert "pinned: kept until it is unpinned" in headway(bob, "show", bobs_pinned).stdout
    for user, job in ((ann, anns), (bob, bobs_pinned), (cy, cys_young)):
        assert headway(user, "logs", f"{job}/first").stdout == "a line"
        assert (cluster.mount / "jobs" / job).exists()

    after = headway(ann, "usage", "--by", "user", "--from", "300d", "-o", "json").stdout
    assert [_counts(row) for row in json.loads(after)["rows"]] == [_counts(row) for row in json.loads(usage)["rows"]]
    for job in (bobs, cys):
        assert tables_with(cluster, job) <= REMEMBERS


def _counts(row: dict[str, Any]) -> dict[str, Any]:
    return {key: pytest.approx(value) if isinstance(value, float) else value for key, value in row.items()}
