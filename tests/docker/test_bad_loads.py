"""A Worker that is killed and a disk that fills while an engine takes an image in: nothing half loaded stays, and the
task runs in the end."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.docker.conftest import DOCKER_SETTINGS, Jobs
from tests.support.cluster import a_cluster
from tests.support.dockerd import Engine
from tests.support.images import Entry, import_busybox
from tests.support.small_disks import SmallDisk, small_disks
from tests.support.waiting import soon

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.timeout(240)]

MIB = 1 << 20
DISK_MIB = 280
LOW_MIB = 24
IMAGE_MIB = 64


@dataclass(frozen=True)
class Rig:
    """A cluster whose engine has a small disk of its own."""

    jobs: Jobs
    disk: SmallDisk

    @property
    def engine(self) -> Engine:
        return self.jobs.engine

    def arriving(self) -> list[Path]:
        """What the engine has received of images that it has not taken in yet."""
        try:
            return list((self.engine.folder / "data" / "tmp").glob("docker-import-*/*"))
        except FileNotFoundError:
            return []  # it was thrown away meanwhile

    def arrived_bytes(self) -> int:
        total = 0
        for path in self.arriving():
            with contextlib.suppress(FileNotFoundError):  # the engine moves what has come
                total += path.stat().st_size
        return total

    def layers(self) -> set[str]:
        """Everything that the engine keeps of images."""
        data = self.engine.folder / "data"
        folders = (data / "overlay2", data / "image" / "overlay2" / "layerdb" / "sha256")
        kept = {path.name for folder in folders for path in folder.iterdir() if path.name != "l"}
        return kept | {path.name for path in (data / "image" / "overlay2" / "imagedb" / "content" / "sha256").iterdir()}

    def free_mib(self) -> int:
        return shutil.disk_usage(self.engine.folder / "data").free // MIB

    def image_ids(self) -> set[str]:
        client = self.engine.client()
        try:
            return {image["Id"] for image in client.api.images(all=True)}
        finally:
            client.close()


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    folder = Path(tempfile.mkdtemp(prefix="bl", dir=os.environ.get("HEADWAY_TESTS_SCRATCH", "/tmp")))
    folder.chmod(0o755)
    try:
        with (
            small_disks((folder / "e" / "data", DISK_MIB)) as (disk,),
            Engine(folder / "e", gpu_hook=False) as engine,
            a_cluster(
                folder / "cluster",
                cluster__heartbeat_s=1,
                resource_manager__poll_s=1,
                worker__docker_host=engine.url,
                worker__disk_low_bytes=LOW_MIB * MIB,
                worker__pull_images=False,
                **DOCKER_SETTINGS,
            ) as cluster,
        ):
            yield Rig(Jobs(cluster, engine), disk)
            engine.remove_containers()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def upload(rig: Rig, name: str, folder: Path) -> str:
    """An image that the engine does not have; its digest."""
    archive = folder / f"{name}.tar"
    client = rig.engine.client()
    try:
        made = import_busybox(client, f"headway-test/{name}:1", more=[Entry("big", os.urandom(IMAGE_MIB * MIB))])
        with archive.open("wb") as file:
            file.writelines(client.images.get(made).save())
        client.images.remove(made)
    finally:
        client.close()
    pushed = rig.jobs.cluster.headway("images", "push", f"{name}:1", "--from", str(archive))
    assert pushed.returncode == 0, pushed.stderr.decode()
    archive.unlink()
    return pushed.stdout.decode().split()[-1]


def a_task(name: str) -> dict[str, Any]:
    resources = {"cpus": 1, "memory": "64MiB"}
    return {"name": "a", "image": f"admin/{name}:1", "command": "echo ran", "timeout": "1m", "resources": resources}


@dataclass(frozen=True)
class Cut:
    """A load in the midst of which a fault came, and what was there before."""

    job: str
    name: str
    digest: str
    images: set[str]
    layers: set[str]
    free_mib: int


def in_the_midst(rig: Rig, name: str, folder: Path, fault: Callable[[], None]) -> Cut:
    """A job whose image was being received when the fault came.

    On a machine with much to do a load may be over before it is seen: then it is another image's turn.
    """
    for number in range(5):
        image = f"{name}{number}"
        digest = upload(rig, image, folder)
        before = (rig.image_ids(), rig.layers(), rig.free_mib())
        job = rig.jobs.begin(a_task(image))
        if not begun(rig, job):
            continue
        rig.engine.pause()
        try:
            # An engine that has all of an image takes it in, whatever becomes of who sent it.
            if MIB < rig.arrived_bytes() < IMAGE_MIB * MIB // 2:
                fault()
                return Cut(job, image, digest, *before)
        finally:
            rig.engine.resume()
        rig.jobs.ended(job, within_s=120)
    raise AssertionError("five loads were over before they were seen")


def begun(rig: Rig, job: str) -> bool:
    """Wait for the first part of the job's image. False: the job was over before that was seen."""
    give_up_at, ask_at = time.monotonic() + 60, 0.0
    while rig.arrived_bytes() <= MIB:
        now = time.monotonic()
        assert now < give_up_at, "not within 60 s: its first part is there"
        if now >= ask_at:  # seldom: a question takes as long as a good part of a load
            if rig.jobs.cluster.client.job(job)["state"] not in ("PENDING", "RUNNING"):
                return False
            ask_at = now + 1.0
        time.sleep(0.0005)
    return True


def assert_it_ran(rig: Rig, job: str, digest: str, attempts: int) -> dict[str, Any]:
    task = rig.jobs.ended(job, within_s=120)
    assert (task["state"], len(task["attempts"])) == ("SUCCEEDED", attempts), task
    assert rig.jobs.out(task) == b"ran\n"
    assert task["attempts"][-1]["image_id"] == digest
    assert rig.arriving() == []
    return task


def test_a_worker_that_is_killed_in_the_midst_of_a_load_brings_it_anew(rig: Rig, tmp_path: Path) -> None:
    cut = in_the_midst(rig, "killed", tmp_path, lambda: rig.jobs.cluster.kill9("n1"))
    try:
        soon(lambda: rig.arriving() == [], within_s=30, every_s=0.1, what="the engine has thrown away what came")
        assert (rig.image_ids(), rig.layers()) == (cut.images, cut.layers), "nothing half loaded is left"
    finally:
        rig.jobs.cluster.start("n1")
    assert_it_ran(rig, cut.job, cut.digest, attempts=1)
    assert rig.image_ids() - cut.images == {cut.digest}


def test_a_disk_that_fills_in_the_midst_of_a_load_is_told_and_the_task_runs_later(rig: Rig, tmp_path: Path) -> None:
    cut = in_the_midst(rig, "full", tmp_path, rig.disk.fill)
    try:
        task = soon(lambda: first_end(rig, cut.job), within_s=60, every_s=0.2, what="the attempt ends")
        reason = task["attempts"][0]["reason"]
        assert reason["word"] == "image_pull_failed", task
        assert f"Not enough disk on the machine n1 for the image admin/{cut.name}:1" in reason["sentence"]
        rig.disk.fill()  # also with what the engine has just given back
        soon(
            lambda: "disk_full" in {w["word"] for w in rig.jobs.cluster.client.job(cut.job)["tasks"][0]["waits"]},
            within_s=40,
            every_s=0.3,
            what="the task waits for the disk",
        )
        soon(lambda: rig.arriving() == [], within_s=30, every_s=0.1, what="the engine has thrown away what came")
        assert (rig.image_ids(), rig.layers()) == (cut.images, cut.layers), "nothing half loaded is left"
    finally:
        rig.disk.make_room()
    assert rig.free_mib() >= cut.free_mib - 1, "its space is given back"
    task = rig.jobs.ended(cut.job, within_s=120)
    assert_it_ran(rig, cut.job, cut.digest, attempts=len(task["attempts"]))


def first_end(rig: Rig, job: str) -> dict[str, Any] | None:
    (task,) = rig.jobs.cluster.client.job(job)["tasks"]
    return task if task["attempts"] and task["attempts"][0]["reason"] else None
