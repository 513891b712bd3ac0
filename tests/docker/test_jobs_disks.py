"""Real containers on a shared mount that is full, away or read-only, and readers of a log that grows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import httpx
import pytest

from tests.docker.conftest import DOCKER_SETTINGS, Jobs, a_task
from tests.support.cluster import a_cluster
from tests.support.dockerd import Engine
from tests.support.small_disks import SmallDisk, small_disks
from tests.support.waiting import soon

pytestmark = [pytest.mark.docker, pytest.mark.slow]

LINES = 200
# A line each 50 ms, of 1000 bytes.
COUNTING = f'i=0; while [ $i -lt {LINES} ]; do i=$((i+1)); printf "%0999d\\n" $i; sleep 0.05; done'
WANT = b"".join(b"%0999d\n" % i for i in range(1, LINES + 1))


@pytest.fixture(scope="module")
def on_small_mount(tmp_path_factory: pytest.TempPathFactory, docker_engine: Engine) -> Iterator[tuple[Jobs, SmallDisk]]:
    folder = tmp_path_factory.mktemp("mounted")
    with (
        small_disks((folder / "mount", 64)) as (disk,),
        a_cluster(
            folder,
            cluster__heartbeat_s=1,
            resource_manager__poll_s=1,
            worker__docker_host=docker_engine.url,
            worker__pull_images=False,
            **DOCKER_SETTINGS,
        ) as cluster,
    ):
        yield Jobs(cluster, docker_engine), disk
        docker_engine.remove_containers()


FAULTS: dict[str, tuple[Callable[[SmallDisk], None], Callable[[SmallDisk], None]]] = {
    "full": (SmallDisk.fill, SmallDisk.make_room),
    "gone": (SmallDisk.take_away, SmallDisk.put_back),
    "read-only": (lambda disk: disk.read_only(True), lambda disk: disk.read_only(False)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_program_is_not_held_up_by_the_mount_and_its_log_is_whole(
    on_small_mount: tuple[Jobs, SmallDisk], fault: str
) -> None:
    jobs, disk = on_small_mount
    break_it, mend_it = FAULTS[fault]
    job = jobs.begin(a_task(COUNTING))
    jobs.until_it_prints(job, b"0003\n")
    break_it(disk)
    try:
        # Its last line comes while the mount is of no use, and is there to be read.
        soon(lambda: jobs.cluster.client.log(job, "a") == WANT, within_s=60, every_s=0.3, what="it prints to its end")
        waiting = jobs.begin(a_task("echo after"))
        word = "disk_full" if fault == "full" else "mount_unavailable"
        soon(
            lambda: word in {wait["word"] for wait in jobs.cluster.client.job(waiting)["tasks"][0]["waits"]},
            within_s=30,
            every_s=0.3,
            what="new work waits for the mount",
        )
        if fault == "gone":
            assert list(jobs.cluster.mount.iterdir()) == []
    finally:
        mend_it(disk)
    ended = jobs.ended(job)
    assert ended["state"] == "SUCCEEDED"
    assert len(ended["attempts"]) == 1
    log = jobs.cluster.mount / "jobs" / job / "a" / "1" / "stdout.log"
    soon(lambda: log.is_file() and log.read_bytes() == WANT, within_s=30, every_s=0.2, what="the copy is whole")
    assert jobs.cluster.client.log(job, "a") == WANT
    after = jobs.ended(waiting)
    assert (after["state"], len(after["attempts"])) == ("SUCCEEDED", 1)
    assert jobs.out(after) == b"after\n"


def test_a_program_that_fills_the_shared_folder_is_told_and_hurts_itself_only(
    on_small_mount: tuple[Jobs, SmallDisk],
) -> None:
    jobs, _ = on_small_mount
    other = jobs.begin(a_task(COUNTING))
    # More memory than the disk has: what a tmpfs takes counts as the writer's.
    task = jobs.task("dd if=/dev/zero of=/root/nfs/big bs=64k && echo unexpected", resources={"memory": "256MiB"})
    try:
        assert (task["state"], task["reason"]["word"]) == ("FAILED", "exited")
        assert b"No space left" in jobs.out(task, "stderr")
    finally:
        (jobs.home() / "big").unlink()
    ended = jobs.ended(other)
    assert ended["state"] == "SUCCEEDED"
    assert jobs.out(ended) == WANT


def test_readers_of_a_log_that_grows(jobs: Jobs) -> None:
    """Ranges, tails and followers, from the start and from the middle, all at once."""
    job = jobs.begin(a_task(COUNTING))
    jobs.until_it_prints(job, b"0003\n")
    client = jobs.cluster.client
    got: dict[int, bytes] = {}

    def follow(offset: int) -> None:
        got[offset] = b"".join(client.follow_log(job, "a", offset=offset))

    threads = [threading.Thread(target=follow, args=(offset,)) for offset in (0, 1, 2_500, 100_000)]
    for thread in threads:
        thread.start()
    base = f"{jobs.cluster.url}/api/v1/jobs/{job}/tasks/a/attempts/1/logs/stdout"
    with httpx.Client(headers={"Authorization": f"Bearer {client.profile.token}"}) as http:
        for wanted, want in (
            ("bytes=0-0", WANT[:1]),
            ("bytes=999-1000", WANT[999:1001]),
            ("bytes=5-1004", WANT[5:1005]),
        ):
            answer = http.get(base, headers={"Range": wanted})
            assert (answer.status_code, answer.content) == (206, want)
        while jobs.state(job) == "RUNNING":
            answer = http.get(base, params={"tail": 1500})
            start = int(answer.headers["X-Log-Offset"])
            assert answer.content == WANT[start : start + len(answer.content)]
            assert len(answer.content) == 1500
            answer = http.get(base, headers={"Range": "bytes=-700"})
            first = int(answer.headers["Content-Range"].split()[1].split("-")[0])
            assert answer.content == WANT[first : first + 700]
            assert answer.headers["Content-Type"] == "text/plain"
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads), "followers end with the task"
        assert got == {offset: WANT[offset:] for offset in got}
        assert len(got) == 4
        assert jobs.ended(job)["state"] == "SUCCEEDED"
        assert http.get(base, params={"tail": 10}).content == WANT[-10:]
        assert http.get(base, headers={"Range": "bytes=-10"}).content == WANT[-10:]
        assert http.get(base, headers={"Range": f"bytes={len(WANT)}-"}).status_code == 416
        assert http.get(base, headers={"Range": "bytes=100000-"}).content == WANT[100_000:]
