"""Engine, Worker and containerd die while many tasks are started: no task runs twice at once, or again after its end.

Each task holds a lock on a file of its own and writes there when it begins and ends. So two at once are seen for
certain. A death comes 0 to 50 ms after a program's first line, or at a random moment.

HEADWAY_DEATHS_TASKS: how many tasks in all (1,500). HEADWAY_DEATHS_SEED: of the random moments.
"""

from __future__ import annotations

import itertools
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.cluster import Cluster, a_cluster, a_job
from tests.support.dockerd import Engine, start_engine
from tests.support.ticking import import_ticker, read_file, still_runs, ticking_task

from .measure import Figure

TASKS = 1_500
WAVE = 40
AT_ONCE = 40
TICKS = 24  # of half a second: a task outlives the restart of an engine, and what comes after it
SLOW_S = 1.5
FIRST_LINE_MS = 50
MOST_BETWEEN = 8  # first lines between two deaths, or the engine would do nothing but start
BESIDE = ("", "Worker", "containerd", "Worker, containerd")


@dataclass
class Tally:
    """What was counted."""

    tasks: int = 0
    deaths: int = 0
    at_once: int = 0
    again: int = 0
    ran_on: int = 0
    repeated: int = 0
    not_succeeded: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        for name in ("tasks", "deaths", "at_once", "again", "ran_on", "repeated", "not_succeeded"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.reasons += other.reasons


@contextmanager
def _a_house(folder: Path, slow_s: float) -> Iterator[tuple[Cluster, Engine]]:
    """A cluster with one Worker on an engine of its own."""
    with (
        start_engine(slow_start_s=slow_s) as engine,
        a_cluster(
            folder,
            worker__runtime="docker",
            worker__docker_host=engine.url,
            worker__cpus=AT_ONCE * 0.04,
            worker__memory_bytes=32 << 30,
            worker__pull_images=False,
            worker__engine_timeout_s=10,
            cluster__heartbeat_s=1,
            task_manager__platform_retry_delay_s=1,
        ) as cluster,
    ):
        client = engine.client()
        try:
            import_ticker(client)
        finally:
            client.close()
        _open_folder(cluster.mount / "homes" / "admin" / "waves")
        yield cluster, engine


def _open_folder(folder: Path) -> None:
    """A folder into which every account may write."""
    folder.mkdir(parents=True)
    folder.chmod(0o777)


def _first_lines(files: Path, more: int, within_s: float) -> None:
    """Until so many more tasks have written their first line; or for so long."""
    give_up_at = time.monotonic() + within_s
    wanted = len(os.listdir(files)) + more
    while len(os.listdir(files)) < wanted and time.monotonic() < give_up_at:
        time.sleep(0.002)


def _die(cluster: Cluster, engine: Engine, beside: str, dice: random.Random) -> None:
    """All of these die at one moment, and come back in any order."""
    deaths: list[Callable[[], object]] = [engine.kill9]
    births: list[Callable[[], object]] = [engine.start]
    if "Worker" in beside:
        deaths.append(lambda: cluster.kill9("n1"))
        births.append(lambda: cluster.start("n1"))
    if "containerd" in beside:
        deaths.append(engine.kill9_containerd)
    dice.shuffle(deaths)
    dice.shuffle(births)
    for death in deaths:
        death()
    time.sleep(dice.uniform(0, 1.5))
    if "containerd" in beside:
        engine.start_containerd()  # dockerd does not start without it
    for birth in births:
        birth()
        time.sleep(dice.uniform(0, 0.5))


def _a_wave(cluster: Cluster, engine: Engine, count: int, wave: int, beside: str, dice: random.Random) -> Tally:
    """``count`` tasks from submit to their end, with deaths until each has begun."""
    tally = Tally(tasks=count)
    files = cluster.mount / "homes" / "admin" / "waves" / str(wave)
    _open_folder(files)
    tasks = (ticking_task(f"t{i}", ticks=TICKS, folder=f"waves/{wave}", network="none") for i in range(count))
    job = cluster.client.submit(a_job(*tasks))["id"]
    seen: set[str] = set()
    give_up_at = time.monotonic() + 60 + 6 * count
    while len(seen) < count and time.monotonic() < give_up_at:
        if dice.random() < 0.75:
            _first_lines(files, min(dice.randint(1, MOST_BETWEEN), count - len(seen)), within_s=30)
            time.sleep(dice.uniform(0, FIRST_LINE_MS / 1000))
        else:
            time.sleep(dice.uniform(0, 2))
        _die(cluster, engine, beside, dice)
        tally.deaths += 1
        seen = set(os.listdir(files))
    done = cluster.client.wait(job, timeout_s=600)
    for task in done["tasks"]:
        _count(tally, task, files / task["name"])
    return tally


def _count(tally: Tally, task: dict[str, Any], file: Path) -> None:
    told = read_file(file)
    runs_on = still_runs(file)
    attempts = task["attempts"]
    bad = told.at_once or told.again or runs_on or task["state"] != "SUCCEEDED"
    tally.at_once += told.at_once
    tally.again += told.again
    tally.ran_on += runs_on
    tally.repeated += len(attempts) > 1
    tally.not_succeeded += task["state"] != "SUCCEEDED"
    for attempt in attempts[:-1] if task["state"] == "SUCCEEDED" else attempts:
        reason = attempt.get("reason") or {}
        tally.reasons[f"{reason.get('word', attempt['state'])}: {reason.get('sentence', '')[:120]}"] += 1
    if bad:
        print(f"  {file}: {task['state']}, {told}, runs on: {runs_on}", file=sys.stderr, flush=True)
        for attempt in attempts:
            told_why = f"{attempt['number']} on {attempt['node_id']}: {attempt['state']}, {attempt['reason']}"
            print(f"    {told_why}", file=sys.stderr, flush=True)


def deaths() -> Iterator[Figure]:
    """Two engines (one whose runtime is slow to end), four kinds of death; shares of all tasks alike."""
    wanted = int(os.environ.get("HEADWAY_DEATHS_TASKS", TASKS))
    seed = int(os.environ.get("HEADWAY_DEATHS_SEED", random.SystemRandom().randrange(10_000)))
    dice = random.Random(seed)
    variants = list(itertools.product((0.0, SLOW_S), BESIDE))
    share = -(-wanted // len(variants))
    total = Tally()
    for slow_s in (0.0, SLOW_S):
        folder = Path(tempfile.mkdtemp(prefix="hwb"))
        with _a_house(folder, slow_s) as (cluster, engine):
            wave = 0
            for beside in BESIDE:
                tally = Tally()
                while tally.tasks < share:
                    tally.add(_a_wave(cluster, engine, min(WAVE, share - tally.tasks), wave, beside, dice))
                    wave += 1
                total.add(tally)
                what = f"{'slow runtime' if slow_s else 'runc'}; dockerd{', ' if beside else ''}{beside} killed"
                note = f"of {tally.tasks} tasks, {tally.deaths} deaths, {tally.repeated} had more than one attempt"
                yield Figure(f"  deaths: at once ({what})", tally.at_once, "tasks", 0.0, note=note)
        if total.at_once or total.again or total.ran_on or total.not_succeeded:
            print(f"       what services and tasks wrote is kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    note = f"seed {seed}, {total.deaths} deaths"
    yield Figure(f"deaths: of {total.tasks} tasks, ran twice at once", total.at_once, "tasks", 0.0, note=note)
    yield Figure("deaths: ran again after an end that was written down", total.again, "tasks", 0.0)
    yield Figure("deaths: ran on after their end was told", total.ran_on, "tasks", 0.0)
    yield Figure("deaths: ended otherwise than SUCCEEDED", total.not_succeeded, "tasks")
    yield Figure("deaths: had more than one attempt", total.repeated, "tasks")
    for reason, count in total.reasons.most_common(8):
        print(f"       {count} attempts: {reason}")
