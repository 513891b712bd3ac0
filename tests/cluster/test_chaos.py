"""Ten machines in network namespaces: one is lost, and then all kinds of faults come under a load of jobs.

The chaos run has a fixed seed: a new one each time would make a test red for what has been there for long.
`python -m tests.chaos` draws new ones. HEADWAY_CHAOS_SEED names another, HEADWAY_CHAOS_SECONDS another length.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.lost import lost_machine
from tests.chaos.run import run
from tests.chaos.schedule import draw
from tests.support.machines.lab import Lab, a_lab
from tests.support.waiting import soon

pytestmark = [
    pytest.mark.docker,
    pytest.mark.gluster,
    pytest.mark.postgres,
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.timeout(1_200),
]

SEED = 82  # nearly all kinds of faults, among them a machine without power
SECONDS = 100.0


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    # A short path: GlusterFS makes sockets' names of it.
    folder = Path(tempfile.mkdtemp(prefix="ch", dir=os.environ.get("HEADWAY_TESTS_SCRATCH", "/tmp")))
    with a_lab(folder) as made:
        yield made


@pytest.mark.parametrize("way", ["nothing goes out", "power lost"])
def test_a_lost_machine_has_stopped_its_task_before_it_runs_elsewhere(lab: Lab, way: str) -> None:
    """`python -m benchmarks lost` tells after how many seconds."""
    with lost_machine(lab, way, f"lost-{way.split()[0]}") as loss:
        assert loss.first_ended_at_ns < loss.second_began_at_ns
        assert not any(line.what == "twice" for line in (*loss.first, *loss.second))
    attempts = [attempt for job in lab.client.jobs(q=f"lost-{way.split()[0]}") for attempt in _attempts(lab, job["id"])]
    assert [attempt["state"] for attempt in attempts] == ["LOST", "CANCELLED"]


def _attempts(lab: Lab, job_id: str) -> list[dict[str, object]]:
    return list(lab.client.job(job_id)["tasks"][0]["attempts"])


def test_the_mount_works_with_one_brick_and_the_other_one_gets_what_it_lacks(lab: Lab) -> None:
    """The fault "brick dead" of the run. Written by one machine, read by another one."""
    store = lab.volume.second
    here, there = (lab.mounts[name].at / "with-one-brick" for name in ("n1", "httpserver"))
    store.kill_brick()
    try:
        here.write_text("all of it")
        assert there.read_text() == "all of it"
        assert not (store.brick / here.name).exists()
        assert not lab.volume.healed()
    finally:
        store.start_brick()
    soon(lab.volume.healed, within_s=120, every_s=0.3, what="both bricks hold the same")
    assert (store.brick / here.name).read_text() == "all of it"
    here.unlink()


def test_whatever_fails_all_jobs_end_as_they_have_to_and_nothing_is_left(lab: Lab, tmp_path: Path) -> None:
    seed = int(os.environ.get("HEADWAY_CHAOS_SEED", SEED))
    seconds = float(os.environ.get("HEADWAY_CHAOS_SECONDS", SECONDS))
    print(f"seed {seed}; again: python -m tests.chaos --seed {seed} --minutes {seconds / 60:g}")
    outcome = run(draw(seed, seconds), lab, tmp_path)
    print("\n".join(outcome.notes))
    journal = (tmp_path / "journal").read_text("utf-8")
    assert outcome.problems == [], journal
    assert outcome.findings == [], journal
