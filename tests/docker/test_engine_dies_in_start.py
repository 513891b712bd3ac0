"""An engine that dies while it starts a container: the box is the proof, and no task runs twice at once.

The engine's default runtime is a wrapper that goes on for a while after runc has started the program. So there is a
long moment in which the program runs and dockerd has not noted it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docker.conftest import DOCKER_SETTINGS, Jobs, a_task
from tests.docker.test_bad_days import LEASES
from tests.support import images
from tests.support.cluster import a_cluster
from tests.support.dockerd import Engine
from tests.support.scratch import short_folder
from tests.support.waiting import soon

pytestmark = [pytest.mark.docker, pytest.mark.slow]

_WRAPPER = """#!/bin/sh
runc "$@"
rc=$?
case " $* " in *" start "*) sleep 1.5;; esac
exit $rc
"""
_TICKS = (
    "n=0; while [ $n -lt {seconds} ]; do read up rest < /proc/uptime; echo $up >> /root/nfs/{file}; "
    "n=$((n+1)); sleep 1; done; echo done"
)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    folder = short_folder("w")
    wrapper = folder / "slow-runc"
    wrapper.write_text(_WRAPPER)
    wrapper.chmod(0o755)
    with Engine(folder, options=[f"--add-runtime=slow={wrapper}", "--default-runtime=slow"]) as engine:
        client = engine.client()
        try:
            images.import_busybox(client)
        finally:
            client.close()
        yield engine


@pytest.fixture
def rig(tmp_path: Path, engine: Engine) -> Iterator[Jobs]:
    settings: dict[str, Any] = {**DOCKER_SETTINGS, **LEASES, "worker__docker_host": engine.url}
    with a_cluster(tmp_path, worker__pull_images=False, worker__engine_timeout_s=10, **settings) as cluster:
        jobs = Jobs(cluster, engine)
        jobs.home().mkdir(exist_ok=True)
        yield jobs
    engine.remove_containers()


def begin(rig: Jobs, name: str, seconds: int = 12) -> tuple[str, Path]:
    """A task that ticks once a second into a file of its own; waits until the first tick is there."""
    ticks = rig.home() / name
    job = rig.begin(a_task(_TICKS.format(seconds=seconds, file=name)))
    soon(ticks.exists, within_s=60, every_s=0.01, what="the program runs")
    return job, ticks


def assert_ran_once(rig: Jobs, job: str, ticks: Path, seconds: int = 12) -> None:
    task = rig.ended(job, within_s=90)
    assert (task["state"], len(task["attempts"])) == ("SUCCEEDED", 1), (task["reason"], task["attempts"])
    moments = [float(line) for line in ticks.read_text().split()]
    gaps = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert len(moments) == seconds
    assert min(gaps) > 0.5, "two of it ran at the same time"
    assert rig.out(task) == b"done\n"
    rig.none_is_left(within_s=60)


@pytest.mark.parametrize("worker_too", [False, True])
def test_what_the_engine_did_not_note_runs_on_and_counts(rig: Jobs, worker_too: bool) -> None:
    """It was started a second time beside itself, was in no list, and held GPUs that were booked to others."""
    job, ticks = begin(rig, f"ticks-{worker_too}")
    rig.engine.kill9()
    if worker_too:
        rig.cluster.kill9("n1")
    time.sleep(2)
    rig.engine.start()
    if worker_too:
        rig.cluster.start("n1")
    assert_ran_once(rig, job, ticks)


def test_what_the_engine_did_not_note_is_cancelled_through_its_box(rig: Jobs) -> None:
    job, ticks = begin(rig, "cancelled", seconds=60)
    rig.engine.kill9()
    time.sleep(1)
    rig.cluster.client.act("cancel", job)
    task = rig.ended(job, within_s=40)
    assert task["state"] == "CANCELLED", "the engine is away, and is not needed for it"
    ended = len(ticks.read_text().split())
    time.sleep(2)
    assert len(ticks.read_text().split()) == ended
    rig.engine.start()
    rig.none_is_left(within_s=60)


def test_an_engine_that_dies_at_any_moment_of_a_start(rig: Jobs) -> None:
    """Some starts are not begun, some are half done, some are done: each task runs once, and no retry is used up."""
    for number, pause_s in enumerate((0.0, 0.2, 0.5, 1.0, 1.7)):
        ticks = rig.home() / f"moment-{number}"
        job = rig.begin(a_task(_TICKS.format(seconds=5, file=ticks.name)))
        soon(lambda job=job: rig.state(job) == "RUNNING", within_s=30, every_s=0.02, what="it is placed")
        time.sleep(pause_s)
        rig.engine.kill9()
        time.sleep(0.5)
        rig.engine.start()
        assert_ran_once(rig, job, ticks, seconds=5)
