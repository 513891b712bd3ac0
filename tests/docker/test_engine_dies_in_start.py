"""An engine that dies while it starts a container: the box is the proof, and no task runs twice at once.

The engine's default runtime is a wrapper that goes on for a while after runc has started the program. So there is a
long moment in which the program runs and dockerd has not noted it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docker.conftest import DOCKER_SETTINGS, Jobs
from tests.support.cluster import QUICK_LEASES, a_cluster
from tests.support.dockerd import Engine, start_engine
from tests.support.ticking import import_ticker, read_file, still_runs, ticking_task
from tests.support.waiting import soon

pytestmark = [pytest.mark.docker, pytest.mark.slow]

SLOW_S = 1.5


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with start_engine(slow_start_s=SLOW_S) as engine:
        client = engine.client()
        try:
            import_ticker(client)
        finally:
            client.close()
        yield engine


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, engine: Engine) -> Iterator[Jobs]:
    settings: dict[str, Any] = {**DOCKER_SETTINGS, **QUICK_LEASES, "worker__docker_host": engine.url}
    folder = tmp_path_factory.mktemp("rig")
    with a_cluster(
        folder,
        worker__pull_images=False,
        worker__engine_timeout_s=10,
        task_manager__platform_retry_delay_s=0.5,
        **settings,
    ) as cluster:
        yield Jobs(cluster, engine)
    engine.remove_containers()


def begin(rig: Jobs, name: str, *, ticks: int = 16) -> tuple[str, Path]:
    """A task that ticks twice a second; waits until its program has begun."""
    job, file = rig.begin(ticking_task(name, ticks=ticks)), rig.home() / name
    soon(file.exists, within_s=60, every_s=0.01, what="the program runs")
    return job, file


def assert_ran_once(rig: Jobs, job: str, file: Path) -> None:
    task = rig.ended(job, within_s=90)
    assert (task["state"], len(task["attempts"])) == ("SUCCEEDED", 1), (task["reason"], task["attempts"])
    told = read_file(file)
    assert (told.begun, told.ended, told.at_once) == (("1",), ("1",), False)
    assert rig.out(task) == b"done\n"


@pytest.mark.parametrize("worker_too", [False, True])
def test_what_the_engine_did_not_note_runs_on_and_counts(rig: Jobs, worker_too: bool) -> None:
    """It was started a second time beside itself, was in no list, and held GPUs that were booked to others."""
    job, file = begin(rig, f"noted-{worker_too}".lower())
    rig.engine.kill9()
    if worker_too:
        rig.cluster.kill9("n1")
    time.sleep(2)
    rig.engine.start()
    if worker_too:
        rig.cluster.start("n1")
    assert_ran_once(rig, job, file)
    rig.none_is_left(within_s=60)


def test_what_the_engine_did_not_note_is_cancelled_through_its_box(rig: Jobs) -> None:
    job, file = begin(rig, "cancelled", ticks=120)
    rig.engine.kill9()
    try:
        time.sleep(1)
        rig.cluster.client.act("cancel", job)
        task = rig.ended(job, within_s=40)
        assert task["state"] == "CANCELLED", "the engine is away, and is not needed for it"
        assert not still_runs(file)
        assert read_file(file).ended == ()
    finally:
        rig.engine.start()
    rig.none_is_left(within_s=60)


def test_an_engine_that_dies_at_any_moment_of_a_start(rig: Jobs) -> None:
    """Some starts are not begun, some are half done, some are done: each task runs once, and no retry is used up."""
    begun = []
    for number, pause_s in enumerate((0.0, 0.2, 0.5, 1.0, 1.7)):
        name = f"moment-{number}"
        job = rig.begin(ticking_task(name, ticks=16))
        begun.append((job, rig.home() / name))
        soon(lambda job=job: rig.state(job) == "RUNNING", within_s=30, every_s=0.02, what="it is placed")
        time.sleep(pause_s)
        rig.engine.kill9()
        time.sleep(0.5)
        rig.engine.start()
    for job, file in begun:
        assert_ran_once(rig, job, file)
    rig.none_is_left(within_s=60)
