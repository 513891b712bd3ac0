"""Two Workers with an engine each: one is cut off around a launch, its engine stopped, both go on at random moments.

No attempt may begin on the machine that was cut off once another one was given the task. Each task holds a lock on a
file of its own and writes there when it begins and ends. So two at once are seen for certain.

HEADWAY_PARTITION_ROUNDS: how many rounds (200). HEADWAY_PARTITION_LANES: how many clusters of two Workers work side by
side (3). HEADWAY_PARTITION_SEED: of the random moments.
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
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.cluster import Cluster, a_job
from tests.support.cut_lines import CutLines
from tests.support.dockerd import Engine, start_engine
from tests.support.ticking import import_ticker, read_file, still_runs, ticking_task
from tests.support.waiting import soon

from .measure import Figure

ROUNDS = 200
LANES = 3
TASKS = 4
TICKS = 20  # of half a second
LEASE_S = 18
LONGEST_S = 36.0  # of a cut and of a stop: some end before the lease, some long after it
SHORTEST_S = 6.0
HALF_A_NODE = {"cpus": 0.8, "memory": "16MiB"}  # so each machine gets two of the four
NODES = ("n1", "n2")
SETTINGS: dict[str, Any] = {
    "cluster.lease_s": LEASE_S,
    "cluster.heartbeat_s": 1,
    "cluster.lease_stop_s": 6,
    "cluster.lease_grace_s": 1,
    "resource_manager.poll_s": 1,
    "resource_manager.suspect_after_s": 3,
    "resource_manager.down_after_s": 6,
    "task_manager.platform_retry_delay_s": 0.5,
    "worker.runtime": "docker",
    "worker.cpus": 2,
    "worker.memory_bytes": 8 << 30,
    "worker.pull_images": False,
    "worker.engine_timeout_s": 10,
}


@dataclass
class Tally:
    """What was counted."""

    rounds: int = 0
    rounds_with_loss: int = 0
    tasks: int = 0
    at_once: int = 0
    again: int = 0
    not_succeeded: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass
class Lane:
    """One cluster of two Workers, and what cuts them off."""

    cluster: Cluster
    engines: dict[str, Engine]
    lines: dict[str, CutLines]
    tally: Tally = field(default_factory=Tally)

    def round(self, number: int, dice: random.Random) -> None:
        """One cut around a launch of some tasks, until all have ended."""
        client, victim = self.cluster.client, dice.choice(NODES)
        names = [f"r{number}-{i}" for i in range(TASKS)]
        tasks = [ticking_task(name, ticks=TICKS, network="none", resources=HALF_A_NODE) for name in names]
        job = ""

        def submit() -> None:
            nonlocal job
            job = client.submit(a_job(*tasks))["id"]

        steps = [(1.0, submit), *self._faults(victim, dice)]
        began = time.monotonic()
        for at, step in sorted(steps, key=lambda one: one[0]):
            time.sleep(max(0.0, began + at - time.monotonic()))
            step()
        done = client.wait(job, timeout_s=240)
        self.tally.rounds += 1
        self.tally.rounds_with_loss += any(len(task["attempts"]) > 1 for task in done["tasks"])
        for task in done["tasks"]:
            self._count(task, f"round {number}, {victim} cut off")
        self.cluster.wait_ready()

    def _faults(self, victim: str, dice: random.Random) -> list[tuple[float, Callable[[], None]]]:
        """When what happens: a cut always, mostly a stop of the engine, now and then a death of the Worker."""
        engine, lines = self.engines[victim], self.lines[victim]
        cut_at = dice.uniform(0.5, 3.0)
        deliver = dice.random() < 0.5
        faults: list[tuple[float, Callable[[], None]]] = [
            (cut_at, lines.cut),
            (cut_at + dice.uniform(SHORTEST_S, LONGEST_S), lambda: lines.heal(deliver=deliver)),
        ]
        if dice.random() < 0.7:
            at = dice.uniform(0.5, 3.0)
            faults += [(at, engine.pause), (at + dice.uniform(SHORTEST_S, LONGEST_S), engine.resume)]
        if dice.random() < 0.25:
            at = dice.uniform(1.0, 4.0)
            faults += [
                (at, lambda: self.cluster.kill9(victim)),
                (at + dice.uniform(0.5, LONGEST_S), lambda: self.cluster.start(victim)),
            ]
        return faults

    def _count(self, task: dict[str, Any], what: str) -> None:
        file = self.cluster.mount / "homes" / "admin" / task["name"]
        told, runs_on = read_file(file), still_runs(file)
        self.tally.tasks += 1
        self.tally.at_once += told.at_once or runs_on
        self.tally.again += told.again
        self.tally.not_succeeded += task["state"] != "SUCCEEDED"
        for attempt in task["attempts"]:
            reason = attempt["reason"] or {}
            if attempt["state"] != "SUCCEEDED":
                self.tally.reasons[f"{reason.get('word', attempt['state'])}: {reason.get('sentence', '')[:110]}"] += 1
        if told.at_once or runs_on or task["state"] != "SUCCEEDED":
            print(f"  {what}: {file}: {task['state']}, {told}, runs on: {runs_on}", file=sys.stderr, flush=True)
            for attempt in task["attempts"]:
                print(
                    f"    {attempt['number']} on {attempt['node_id']}: {attempt['reason']}", file=sys.stderr, flush=True
                )


def _a_lane(stack: ExitStack, folder: Path) -> Lane:
    engines = {name: stack.enter_context(start_engine(gpu_hook=False)) for name in NODES}
    for engine in engines.values():
        client = engine.client()
        try:
            import_ticker(client)
        finally:
            client.close()
    lines = {name: CutLines() for name in NODES}
    own = {name: {**lines[name].settings, "worker.docker_host": engines[name].url} for name in NODES}
    cluster = Cluster(folder, NODES, SETTINGS, own)
    stack.callback(cluster.close)
    for line in lines.values():
        stack.callback(line.close)
        line.connect(cluster)
    cluster.start()
    cluster.wait_ready(within_s=120)
    for name in NODES:
        soon(partial(_under_lease, cluster, name), within_s=60, what="leases are enforced")
    return Lane(cluster, engines, lines)


def _under_lease(cluster: Cluster, name: str) -> bool:
    return "enforced=true" in cluster.log(name).lower()


def partitions() -> Iterator[Figure]:
    """Rounds side by side, each until the tasks of its launch have ended."""
    wanted = int(os.environ.get("HEADWAY_PARTITION_ROUNDS", ROUNDS))
    lanes = min(wanted, int(os.environ.get("HEADWAY_PARTITION_LANES", LANES)))
    seed = int(os.environ.get("HEADWAY_PARTITION_SEED", random.SystemRandom().randrange(10_000)))
    folder = Path(tempfile.mkdtemp(prefix="hwb"))
    with ExitStack() as stack:
        ready = [_a_lane(stack, folder / str(number)) for number in range(lanes)]
        numbers = itertools.count()

        def work(lane: Lane) -> None:
            while (number := next(numbers)) < wanted:
                lane.round(number, random.Random(f"{seed}-{number}"))
                print(f"  round {number + 1} of {wanted} done", file=sys.stderr, flush=True)

        with ThreadPoolExecutor(lanes) as pool:
            for result in [pool.submit(work, lane) for lane in ready]:
                result.result()
    total = Tally()
    for lane in ready:
        for name in ("rounds", "rounds_with_loss", "tasks", "at_once", "again", "not_succeeded"):
            setattr(total, name, getattr(total, name) + getattr(lane.tally, name))
        total.reasons += lane.tally.reasons
    if total.at_once or total.not_succeeded:
        print(f"       what services and tasks wrote is kept in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    note = f"seed {seed}, lease {LEASE_S} s, {total.tasks} tasks; in {total.rounds_with_loss} rounds one began again"
    yield Figure(f"partitions: of {total.rounds} rounds, at once", total.at_once, "tasks", 0.0, note=note)
    yield Figure("partitions: ran again after an end on the cut-off machine", total.again, "tasks")
    yield Figure("partitions: ended otherwise than SUCCEEDED", total.not_succeeded, "tasks")
    for reason, count in total.reasons.most_common(8):
        print(f"       {count} attempts: {reason}")
