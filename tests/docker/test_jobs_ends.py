"""How tasks end: timeouts, cancels, memory, signals, and that nothing is left of them."""

from __future__ import annotations

import contextlib
import os
import random
import time

import docker
import pytest

from tests.docker.conftest import Jobs, a_task
from tests.support.waiting import soon

pytestmark = pytest.mark.docker

MIB = 1 << 20


def test_a_timeout_ends_all_of_it(jobs: Jobs) -> None:
    """TIME-01: only the wrapping shell got the signal, and the program went on."""
    job = jobs.begin(
        a_task("(while :; do echo x >> /root/nfs/grows; sleep 0.2; done) & wait", timeout="2s", grace="1s")
    )
    task = jobs.ended(job)
    assert (task["state"], task["reason"]["word"]) == ("TIMED_OUT", "timed_out")
    assert 2 <= task["attempts"][0]["phases"]["running_s"] < 60
    jobs.none_is_left()
    size = (jobs.home() / "grows").stat().st_size
    time.sleep(0.6)
    assert (jobs.home() / "grows").stat().st_size == size


def test_a_silent_task_is_not_dead(jobs: Jobs) -> None:
    """TIME-12, in small: the engine's own timeouts say nothing about a task."""
    assert jobs.prints("sleep 4; echo woke", timeout="10s") == b"woke\n"
    assert jobs.task("sleep 60", timeout="1s", grace="1s")["state"] == "TIMED_OUT"


def test_a_cancel_lets_the_program_say_goodbye(jobs: Jobs) -> None:
    """TIME-03: the signal never reached the program, so each stop took the whole grace."""
    job = jobs.begin(a_task("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done", grace="10m"))
    jobs.until_it_prints(job, b"up")
    jobs.cluster.client.act("cancel", job)
    task = jobs.ended(job)  # which does not wait for the whole grace
    assert (task["state"], jobs.out(task)) == ("CANCELLED", b"up\nbye\n")
    answer = jobs.cluster.client.act("cancel", job)
    assert answer["job"]["state"] == "CANCELLED"


def test_deaf_to_term_then_killed(jobs: Jobs) -> None:
    job = jobs.begin(a_task("trap '' TERM; echo up; while :; do sleep 0.1; done", grace="1s"))
    jobs.until_it_prints(job, b"up")
    jobs.cluster.client.act("cancel", job)
    assert jobs.ended(job, within_s=10)["state"] == "CANCELLED"


def test_cancelled_while_it_is_being_made(jobs: Jobs) -> None:
    """TIME-15: the delete came before the container, which then ran for ever."""
    chance = random.Random(15)
    ids = []
    for _ in range(20):
        ids.append(jobs.begin(a_task("sleep 300", grace="1s")))
        time.sleep(chance.random() * 0.3)
        jobs.cluster.client.act("cancel", ids[-1])
    for job in ids:
        assert jobs.ended(job)["state"] == "CANCELLED"
    jobs.none_is_left()
    assert jobs.cluster.client.queue()["total_running"] == 0


def test_removed_by_hand(jobs: Jobs) -> None:
    """TIME-17: a cancel failed since there was nothing to stop, and the record said so for ever."""
    job = jobs.begin(a_task("echo up; sleep 300"))
    jobs.until_it_prints(job, b"up")
    client = jobs.engine.client()
    try:
        client.api.remove_container(f"headway-{job}.a.1", force=True)
    finally:
        client.close()
    jobs.cluster.client.act("cancel", job)
    task = jobs.ended(job, within_s=15)
    assert task["state"] in ("CANCELLED", "FAILED")
    assert task["reason"]["word"] in ("cancelled", "killed_outside")
    assert b"up\n" in jobs.out(task)


@pytest.fixture(scope="module")
def settled(jobs: Jobs) -> Jobs:
    """The engine is there for longer than the time around its coming, in which it counts as who sent a KILL."""
    assert jobs.task("true")["state"] == "SUCCEEDED"
    time.sleep(6)
    return jobs


class TestFiveSendersOf137:
    """RES-01: people raised their memory without need."""

    def test_out_of_memory(self, jobs: Jobs) -> None:
        task = jobs.task("exec tail /dev/zero")
        assert (task["state"], task["reason"]["word"]) == ("OUT_OF_MEMORY", "out_of_memory")
        assert "64MiB" in task["reason"]["sentence"]
        assert task["attempts"][0]["peak_memory_bytes"] > 40 * MIB

    def test_exit_137(self, jobs: Jobs) -> None:
        task = jobs.task("exit 137")
        assert (task["reason"]["word"], task["reason"]["exit_code"], task["reason"]["signal"]) == ("exited", 137, None)

    def test_killed_from_outside(self, settled: Jobs, docker_client: docker.DockerClient) -> None:
        job = settled.begin(a_task("echo up; sleep 300"))
        settled.until_it_prints(job, b"up")
        docker_client.api.kill(f"headway-{job}.a.1")
        task = settled.ended(job, within_s=10)
        assert (task["state"], task["reason"]["word"]) == ("FAILED", "killed_outside")

    def test_its_process_is_killed_from_outside(self, settled: Jobs, docker_client: docker.DockerClient) -> None:
        job = settled.begin(a_task(["sleep", "300"]))

        def its_process() -> int | None:
            # The program may run a moment before the engine says that its container does, and the container before
            # there is a process of the program in it.
            with contextlib.suppress(docker.errors.APIError):
                for line in docker_client.api.top(f"headway-{job}.a.1")["Processes"]:
                    if "sleep" in line[-1] and "launcher" not in line[-1]:
                        return int(line[1])
            return None

        os.kill(soon(its_process, what="it runs"), 9)
        task = settled.ended(job, within_s=10)
        assert (task["state"], task["reason"]["word"]) == ("FAILED", "killed_outside")

    def test_by_the_program_itself(self, jobs: Jobs) -> None:
        task = jobs.task("kill -TERM $$; sleep 5")
        assert (task["reason"]["word"], task["reason"]["exit_code"], task["reason"]["signal"]) == ("exited", None, 15)


def test_a_child_out_of_memory_is_a_warning(jobs: Jobs) -> None:
    task = jobs.task("tail /dev/zero || true; echo went on")
    assert (task["state"], jobs.out(task)) == ("SUCCEEDED", b"went on\n")
    assert "memory" in task["attempts"][0]["warnings"][0]


def test_shared_memory(jobs: Jobs) -> None:
    """RES-03: data loaders died of 64 MB."""
    script = "dd if=/dev/zero of=/dev/shm/x bs=1M count=100 2>/dev/null; df -m /dev/shm | tail -1 | awk '{print $2}'"
    assert jobs.prints(script, resources={"memory": "256MiB"}) == b"128\n"
    assert jobs.prints(script, resources={"memory": "256MiB", "shm": "200MiB"}) == b"200\n"


def test_the_memory_limit_is_what_was_asked(jobs: Jobs) -> None:
    """RES-04."""
    script = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null || cat /sys/fs/cgroup/memory.max"
    for asked, want in (("64MiB", 64 * MIB), ("100MB", 100_000_000), ("0.5GiB", 512 * MIB)):
        got = int(jobs.prints(script, resources={"memory": asked}))
        assert got == want // 4096 * 4096


def test_a_fork_bomb_is_held(jobs: Jobs) -> None:
    """SEC-02: one user's bomb froze a machine."""
    bomb = jobs.begin(a_task("bomb() { bomb | bomb & }; bomb; sleep 100", timeout="3s", grace="1s"))
    neighbour = jobs.begin(a_task("for i in 1 2 3 4; do echo $i; sleep 0.5; done"))
    assert jobs.ended(neighbour, within_s=30)["state"] == "SUCCEEDED"
    task = jobs.ended(bomb, within_s=30)
    assert task["state"] in ("TIMED_OUT", "FAILED", "OUT_OF_MEMORY")
    jobs.none_is_left()
    assert jobs.cluster.client.nodes()[0]["health"] == "READY"


def test_more_cpus_than_the_machine_has(jobs: Jobs) -> None:
    assert jobs.prints("echo ok", resources={"cpus": 6}) == b"ok\n"


def test_many_at_once_leave_nothing(jobs: Jobs) -> None:
    done = jobs.run(*(a_task(f"echo {i}", f"t{i}", resources={"cpus": 0.1}) for i in range(30)), within_s=120)
    assert done["state"] == "SUCCEEDED", done
    jobs.none_is_left()
