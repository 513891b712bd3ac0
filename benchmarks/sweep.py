"""Old jobs go while others ask: how long their answers take meanwhile, and what the disk gets back.

`HEADWAY_SWEEP_TASKS` sets the number of old tasks (1,000,000).
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from headway.ids import new_job_id
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task

from .measure import Figure, median, quantile

TASKS = int(os.environ.get("HEADWAY_SWEEP_TASKS", "1000000"))
A_JOB = 100  # tasks
GOAL_MS = 100.0
QUIET_S = 30.0
_OLD_S = 200 * 86_400.0
_INSTANTS = ("_at", "ages_from")
# The tables that have rows of jobs: which column names the job, and which hold instants.
_JOB_MANAGER = {"job": "id", "job_graph": "job_id", "task": "job_id", "task_spec": "job_id"}
_TASK_MANAGER = {"tasks": "job_id", "task_specs": "job_id", "attempts": "job_id"}


def sweep() -> Iterator[Figure]:
    """Prunes jobs of `TASKS` tasks in all beside steady questions and submits."""
    with (
        tempfile.TemporaryDirectory(prefix="hwb") as folder,
        a_cluster(Path(folder), worker__cpus=2, worker__memory_bytes=64 << 30) as cluster,
    ):
        small = {"cpus": 0.01, "memory": "16MiB"}
        job = a_job(*(scripted_task(f"t{number}", resources=small) for number in range(A_JOB)))
        pattern = cluster.client.wait(cluster.client.submit(job)["id"], timeout_s=300)["id"]
        copies = [new_job_id(1_600_000_000.0 + number) for number in range(max(1, TASKS // A_JOB))]
        files = [cluster.folder / "state" / f"{name}.db" for name in ("job_manager", "task_manager")]
        cluster.stop("job_manager", "task_manager")
        for path, tables in zip(files, (_JOB_MANAGER, _TASK_MANAGER), strict=True):
            _copy(path, tables, pattern, copies)
        _write_logs(cluster.mount / "jobs", copies)
        before = _bytes(files)
        cluster.start()
        cluster.wait_ready()
        quiet = _asked(cluster, pattern, lambda: time.sleep(QUIET_S))
        began = time.monotonic()
        meanwhile = _asked(cluster, pattern, lambda: _pruned(cluster, files, pattern, len(copies)))
        took = time.monotonic() - began
        # Other programs on the machine come and go, so both sides of the sweep are compared with it.
        quiet += _asked(cluster, pattern, lambda: time.sleep(QUIET_S))
        left = sum((cluster.mount / "jobs" / copy).exists() for copy in copies)
        cluster.stop("job_manager", "task_manager")  # so that what is in the write-ahead logs counts
        after = _bytes(files)
    p99, quiet_p99 = quantile(meanwhile, 0.99), quantile(quiet, 0.99)
    note = f"median {median(meanwhile) * 1000:.0f} ms; without it p99 {quiet_p99 * 1000:.0f} ms, "
    note += f"median {median(quiet) * 1000:.0f} ms, of {len(quiet)} calls"
    name = f"sweep: {TASKS} old tasks, p99 of {len(meanwhile)} calls"
    yield Figure(name, p99 * 1000, "ms", GOAL_MS, note=note)
    yield Figure("  times the p99 of the same calls before and after it", p99 / quiet_p99, "")
    yield Figure("  until all of it was gone", took, "s", note=f"{TASKS / took:.0f} tasks/s")
    yield Figure("  share of both databases that the disk got back", 1 - after / before, "", 0.8, at_most=False)
    yield Figure("  folders of jobs that are left on the mount", left, "", 0.0)


def _copy(path: Path, tables: dict[str, str], pattern: str, copies: Sequence[str]) -> None:
    """Makes rows of many old jobs out of those of one."""
    db = sqlite3.connect(path)
    # Only the filling need not be safe; a million tasks would take far longer.
    for pragma in ("synchronous=off", "cache_size=-400000", "temp_store=memory"):
        db.execute(f"pragma {pragma}")
    db.execute("create temp table copies (id text primary key)")
    db.executemany("insert into copies values (?)", [(one,) for one in copies])
    for table, key in tables.items():
        columns = [row[1] for row in db.execute(f"pragma table_info({table})")]
        values = [_value(name, key) for name in columns]
        db.execute(
            f"insert into {table} ({', '.join(columns)}) select {', '.join(values)} "
            f"from temp.copies c, {table} t where t.{key} = ?",
            (pattern,),
        )
    db.commit()
    db.close()


def _value(column: str, key: str) -> str:
    if column == key:
        return "c.id"
    if column == "request_id":
        return "null"
    return f"t.{column} - {_OLD_S}" if column.endswith(_INSTANTS) else f"t.{column}"


def _write_logs(jobs: Path, copies: Sequence[str]) -> None:
    """A folder for each job, with the log of one task."""
    for copy in copies:
        folder = jobs / copy / "t0" / "1"
        folder.mkdir(parents=True)
        (folder / "stdout.log").write_bytes(b"a line\n" * 100)


def _asked(cluster: Cluster, job: str, work: Callable[[], None]) -> list[float]:
    """How long answers took while ``work`` was done, in seconds."""
    done = threading.Event()
    took: list[float] = []

    def ask(call: Callable[[], object], pause_s: float) -> None:
        while not done.is_set():
            began = time.monotonic()
            call()
            took.append(time.monotonic() - began)
            time.sleep(pause_s)

    client, one = cluster.client, a_job(scripted_task(resources={"cpus": 0.01, "memory": "16MiB"}))
    paths = ("/jobs?limit=50", "/queue", f"/jobs/{job}?tasks_limit=20")
    calls: list[tuple[Callable[[], object], float]] = [(partial(client.ask, "GET", path), 0.02) for path in paths]
    calls.append((lambda: client.submit(one), 0.2))
    asking = [threading.Thread(target=ask, args=call) for call in calls]
    for thread in asking:
        thread.start()
    work()
    done.set()
    for thread in asking:
        thread.join()
    return took


def _pruned(cluster: Cluster, files: list[Path], pattern: str, jobs: int) -> None:
    """Prunes all that is old, and waits until nothing of it is left."""
    cursor, chosen = "", 0
    while True:
        reply = cluster.client.ask("POST", "/jobs/prune", json={"older": "100d", "owner": "", "cursor": cursor})
        cursor, chosen = reply["next_cursor"], chosen + reply["jobs"]
        if not cursor:
            break
    assert chosen == jobs, f"{chosen} of {jobs} old jobs were chosen"  # else the wait below has no end
    for path, table, key in zip(files, ("job", "tasks"), ("id", "job_id"), strict=True):
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        # Ids begin with their time. Counting all rows would be work for the machine that is measured.
        while db.execute(f"select 1 from {table} where {key} < ? limit 1", (pattern,)).fetchone():
            time.sleep(1.0)
        # The free pages go in small steps behind the rows.
        while db.execute("pragma freelist_count").fetchone()[0] > 1_000:
            time.sleep(1.0)
        db.close()


def _bytes(files: list[Path]) -> int:
    return sum(path.stat().st_size for path in files)
