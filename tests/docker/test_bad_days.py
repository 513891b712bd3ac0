"""Real containers while services and engine are killed: nothing is lost, nothing runs twice, every log is whole."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docker.conftest import DOCKER_SETTINGS, Jobs, a_task
from tests.support.cluster import QUICK_LEASES, a_cluster
from tests.support.dockerd import Engine, start_engine
from tests.support.waiting import soon

pytestmark = [pytest.mark.docker, pytest.mark.slow]

COUNT = 50


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with start_engine() as engine:
        yield engine


@pytest.fixture
def rig(tmp_path: Path, engine: Engine) -> Iterator[Jobs]:
    settings = {**DOCKER_SETTINGS, **QUICK_LEASES, "worker__cpus": 2, "worker__docker_host": engine.url}
    with a_cluster(tmp_path, worker__pull_images=False, worker__engine_timeout_s=10, **settings) as cluster:
        yield Jobs(cluster, engine)
    engine.remove_containers()


def the_wave(rig: Jobs) -> str:
    """One job: 50 tasks that run at once, and 50 that wait for their room. Each writes when it begins and ends, into
    a file of its own in the home and into its log."""
    rig.home().mkdir(exist_ok=True)

    def task(number: int) -> dict[str, Any]:
        # They end some time after the kill, one after the other, so that some end while the service is away.
        lasts = 12 + number / 4 if number < COUNT else 0.1
        script = (
            f"f=/root/nfs/wave-{number}; echo begin >> $f; echo begin {number}; sleep {lasts:.2f}; "
            f"echo end >> $f; echo end {number}"
        )
        resources = {"cpus": 0.04, "memory": "16MiB"}
        return a_task(script, f"t{number}", timeout="90s" if number < COUNT else "2m", resources=resources)

    job = rig.begin(*(task(number) for number in range(2 * COUNT)))
    soon(lambda: len(list(rig.home().glob("wave-*"))) >= COUNT, within_s=60, every_s=0.2, what="50 run")
    return job


def assert_all_ran_once(rig: Jobs, job: str, *, within_s: float = 120) -> None:
    done = rig.cluster.client.wait(job, timeout_s=within_s)
    bad = [(t["name"], t["state"], t["reason"], len(t["attempts"])) for t in done["tasks"] if t["state"] != "SUCCEEDED"]
    assert not bad, bad[:5]
    attempts = {task["name"]: task["attempts"] for task in done["tasks"]}
    for number in range(2 * COUNT):
        written = (rig.home() / f"wave-{number}").read_text().split()
        assert written == ["begin", "end"], (written, attempts[f"t{number}"])
    for task in done["tasks"]:
        number = task["name"][1:]
        assert len(task["attempts"]) == 1, task
        assert rig.cluster.client.log(job, task["name"]).decode() == f"begin {number}\nend {number}\n"
    rig.none_is_left(within_s=60)


def test_each_service_killed_in_turn_then_all_then_the_engine(rig: Jobs) -> None:
    cluster = rig.cluster
    job = the_wave(rig)
    for victim in cluster.names:
        cluster.kill9(victim)
        time.sleep(0.5)
        cluster.start(victim)
    cluster.kill9(*cluster.names)
    time.sleep(1.0)
    cluster.start()
    time.sleep(1.0)
    rig.engine.kill9()
    time.sleep(1.0)
    rig.engine.start()
    cluster.wait_ready()
    assert_all_ran_once(rig, job)


def test_the_worker_and_the_engine_die_together(rig: Jobs) -> None:
    job = the_wave(rig)
    rig.cluster.kill9("n1")
    rig.engine.kill9()
    time.sleep(4.0)
    rig.cluster.start("n1")
    time.sleep(2.0)
    rig.engine.start()
    rig.cluster.wait_ready()
    assert_all_ran_once(rig, job)


def test_the_worker_is_dead_beyond_timeout_and_lease(rig: Jobs) -> None:
    """TIME-14, REC-04: limits were the Worker's to enforce, and a second copy was started when it came back."""
    long = rig.begin(a_task("date +%s >> /root/nfs/begins; echo up; sleep 22; echo done"))
    short = rig.begin(a_task("trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.1; done", timeout="4s"))
    for job in (long, short):
        rig.until_it_prints(job, b"up")
    rig.cluster.kill9("n1")
    time.sleep(15)
    assert rig.state(long) == "RUNNING"
    rig.cluster.start("n1")
    task = rig.ended(short, within_s=30)
    assert (task["state"], rig.out(task), len(task["attempts"])) == ("TIMED_OUT", b"up\nbye\n", 1)
    assert 4 <= task["attempts"][0]["phases"]["running_s"] < 15, "ended while its Worker was dead"
    task = rig.ended(long, within_s=60)
    assert (task["state"], rig.out(task), len(task["attempts"])) == ("SUCCEEDED", b"up\ndone\n", 1)
    assert len((rig.home() / "begins").read_text().split()) == 1
    rig.none_is_left()


def test_an_engine_that_hangs(rig: Jobs) -> None:
    """TIME-13, REC-06, REC-15: a wait without limit kept the slot for ever; tasks called dead were started twice."""
    runs = rig.begin(a_task("echo x >> /root/nfs/runs; echo up; sleep 3; echo done"))
    rig.until_it_prints(runs, b"up")
    rig.engine.pause()
    try:
        comes = rig.begin(a_task("echo x >> /root/nfs/comes; echo here"))

        def is_told() -> bool:
            conditions = rig.cluster.client.nodes()[0]["conditions"]
            return "engine_unavailable" in {condition["word"] for condition in conditions}

        soon(is_told, within_s=40, every_s=0.3, what="the node says that its engine does not answer")
        assert rig.cluster.client.nodes()[0]["health"] == "READY", "its heartbeat goes on"
        assert rig.state(comes) in ("QUEUED", "RUNNING")
    finally:
        rig.engine.resume()
    for job, text in ((runs, b"up\ndone\n"), (comes, b"here\n")):
        task = rig.ended(job, within_s=90)
        assert (task["state"], rig.out(task)) == ("SUCCEEDED", text), task["reason"]
    assert (rig.home() / "runs").read_text() == "x\n"
    assert (rig.home() / "comes").read_text() == "x\n"
    soon(lambda: not is_told(), within_s=20, what="the condition is over")
    rig.none_is_left()


def test_the_engine_restarts(rig: Jobs) -> None:
    """REC-07: containers alive during a restart stayed running for ever, or got 255 whatever they did."""
    job = rig.begin(a_task("echo up; sleep 5; exit 7"))
    rig.until_it_prints(job, b"up")
    rig.engine.restart()
    task = rig.ended(job, within_s=40)
    assert (task["reason"]["word"], task["reason"]["exit_code"]) == ("exited", 7)
    rig.none_is_left()
