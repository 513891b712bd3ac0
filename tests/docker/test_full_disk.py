"""Tasks that fill the disk which engine, worker, databases and homes share, as on a single machine."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.conftest import DOCKER_SETTINGS, Jobs, a_task
from tests.support import images
from tests.support.cluster import a_cluster
from tests.support.dockerd import Engine
from tests.support.mounts import unmount_below
from tests.support.waiting import soon

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(240)]

MIB = 1 << 20
DISK_MIB = 600
LOW_MIB = 200  # critical under 100, and less than 50 is little
_FILL = "dd if=/dev/zero bs=1M count=%d 2>/dev/null >> %s"


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    """An ext4 of its own, without a reserve for root: full means full."""
    folder = Path(tempfile.mkdtemp(prefix="fd", dir=os.environ.get("HEADWAY_TESTS_SCRATCH", "/tmp")))
    image, at = folder / "image", folder / "disk"
    at.mkdir()
    with image.open("wb") as file:
        file.truncate(DISK_MIB * MIB)
    try:
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(at)], check=True)
        yield at
    finally:
        unmount_below(at)
        image.unlink()
        at.rmdir()
        folder.rmdir()


@pytest.fixture(scope="module")
def rig(disk: Path) -> Iterator[Jobs]:
    folder = Path(tempfile.mkdtemp(prefix="d", dir=os.environ.get("HEADWAY_TESTS_SCRATCH", "/tmp")))
    with Engine(folder, gpu_hook=False, options=[f"--data-root={disk / 'docker'}"]) as engine:
        client = engine.client()
        images.import_busybox(client)
        client.close()
        settings = {
            "cluster__heartbeat_s": 1,
            "resource_manager__poll_s": 1,
            "worker__docker_host": engine.url,
            "worker__disk_low_bytes": LOW_MIB * MIB,
            "worker__pull_images": False,
            **DOCKER_SETTINGS,
        }
        with a_cluster(disk / "cluster", **settings) as cluster:
            yield Jobs(cluster, engine)
        engine.remove_containers()


def free_mib(disk: Path) -> int:
    facts = os.statvfs(disk)
    return facts.f_bavail * facts.f_frsize // MIB


def disk_condition(rig: Jobs) -> str:
    conditions = rig.cluster.client.node("n1")["conditions"]
    return next((c["sentence"] for c in conditions if c["word"] == "disk_full" and c["blocks_work"]), "")


def assert_ended_for_it(rig: Jobs, job: str, *, at_least_mib: int) -> None:
    task = rig.ended(job, within_s=60)
    reason = task["reason"]
    assert (task["state"], reason["word"], len(task["attempts"])) == ("FAILED", "disk_full", 1), task
    assert "on n1" in reason["sentence"] or "of n1" in reason["sentence"]
    (wrote,) = [word for word in reason["sentence"].split() if word.endswith("MiB")][:1]
    assert at_least_mib <= float(wrote.removesuffix("MiB")) <= DISK_MIB, reason["sentence"]


def assert_all_is_well_again(rig: Jobs, disk: Path, sleeper: str, before_mib: int) -> None:
    """The others went on, space and node came back, and new work runs."""
    soon(lambda: free_mib(disk) > before_mib - 30, within_s=30, every_s=0.2, what="the space is given back")
    soon(lambda: not disk_condition(rig), within_s=40, every_s=0.3, what="the condition is lifted")
    assert rig.prints("echo new work") == b"new work\n"
    assert rig.state(sleeper) == "RUNNING"
    (rig.home() / "wake").touch()
    task = rig.ended(sleeper)
    assert (task["state"], rig.out(task), len(task["attempts"])) == ("SUCCEEDED", b"asleep\nawake\n", 1)
    (rig.home() / "wake").unlink()
    rig.none_is_left()


@pytest.fixture
def sleeper(rig: Jobs) -> str:
    """A task that has written some, though little, and sleeps until it is woken."""
    job = rig.begin(
        a_task(
            f"{_FILL % (20, '/root/some')}; echo asleep; until [ -e /root/nfs/wake ]; do sleep 0.2; done; echo awake",
            timeout="5m",
        )
    )
    rig.until_it_prints(job, b"asleep")
    return job


@pytest.mark.parametrize(
    "where",
    [
        pytest.param("/root/fill", id="its own file system"),
        pytest.param("/root/nfs/fill", id="its home on the same disk"),
    ],
)
def test_the_task_that_fills_the_disk_is_ended_and_no_other(rig: Jobs, disk: Path, sleeper: str, where: str) -> None:
    """RES-10: runs could fill the host's file system."""
    before = free_mib(disk)
    filler = rig.begin(a_task(f"while {_FILL % (4, where)}; do sleep 0.1; done; sleep 100", timeout="5m"))
    soon(lambda: disk_condition(rig), within_s=60, every_s=0.1, what="the node says that its disk is nearly full")
    assert str(disk) in disk_condition(rig), "the sentence names the disk"
    waiting = rig.begin(a_task("echo at last"))
    assert_ended_for_it(rig, filler, at_least_mib=before - LOW_MIB)
    if where.startswith("/root/nfs"):
        # What lies in a home is the user's: only they may remove it.
        assert disk_condition(rig)
        assert rig.state(waiting) == "QUEUED"
        (rig.home() / "fill").unlink()
    assert_all_is_well_again(rig, disk, sleeper, before)
    task = rig.ended(waiting)
    assert (task["state"], rig.out(task)) == ("SUCCEEDED", b"at last\n")


def test_a_disk_without_one_free_block(rig: Jobs, disk: Path, sleeper: str) -> None:
    """A task may be faster than anybody looks, and holds a file without a name: neither order nor end can be
    written down until its container is gone."""
    before = free_mib(disk)
    script = "exec 3> /root/fill; rm /root/fill; trap '' TERM; cat /dev/zero >&3 || while :; do sleep 1; done"
    filler = rig.begin(a_task(script, timeout="5m", grace="4m"))
    assert_ended_for_it(rig, filler, at_least_mib=before - LOW_MIB)
    assert_all_is_well_again(rig, disk, sleeper, before)


def test_who_wrote_little_is_not_ended(rig: Jobs, disk: Path, sleeper: str) -> None:
    """Somebody else fills the disk; a sparse file is as long as a disk and holds nothing."""
    sparse = rig.begin(a_task("truncate -s 9G /root/sparse && echo made; sleep 8; echo done", timeout="5m"))
    rig.until_it_prints(sparse, b"made")
    before = free_mib(disk)
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, (before - 60) * MIB)
    try:
        soon(lambda: disk_condition(rig), within_s=40, every_s=0.2, what="the node says that its disk is full")
        task = rig.ended(sparse)
        assert (task["state"], rig.out(task)) == ("SUCCEEDED", b"made\ndone\n")
        assert disk_condition(rig)
    finally:
        ballast.unlink()
    assert_all_is_well_again(rig, disk, sleeper, before)
