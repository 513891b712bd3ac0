"""Two workers on one real GlusterFS mount: what they share, and what becomes of work when the mount fails."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from headway.client import Client
from headway.mount import MARKER
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.gluster import Gluster
from tests.support.shared_mounts import ALL_OF_ONE, QUICK, assert_each_ran_once, blocked, refused, running
from tests.support.small_disks import SmallDisk, small_disks
from tests.support.waiting import soon

pytestmark = [pytest.mark.gluster, pytest.mark.root, pytest.mark.slow]

NODES = ("n1", "n2")


@dataclass(frozen=True)
class Shared:
    """The cluster, the volume under its mount, and the disk under that."""

    cluster: Cluster
    gluster: Gluster
    disk: SmallDisk

    @property
    def client(self) -> Client:
        return self.cluster.client


@pytest.fixture(scope="module")
def shared() -> Iterator[Shared]:
    # A short path: GlusterFS makes a socket's name of it.
    folder = Path(tempfile.mkdtemp(prefix="gl", dir=os.environ.get("HEADWAY_TESTS_SCRATCH", "/tmp")))
    folder.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        (disk,) = stack.enter_context(small_disks((folder / "brick", 192)))
        gluster = Gluster(folder)
        stack.callback(gluster.close)
        gluster.start()
        cluster = stack.enter_context(a_cluster(folder, workers=NODES, **QUICK))
        yield Shared(cluster, gluster, disk)


def on_the_mount(shared: Shared, job_id: str, task: str) -> Path:
    return shared.cluster.mount / "jobs" / job_id / task / "1" / "stdout.log"


def test_jobs_logs_and_files_of_two_workers_are_on_the_volume(shared: Shared, tmp_path: Path):
    """STO-01: also on the server's disk they belong to the account."""
    ann = shared.cluster.user("ann")
    uid = next(user["uid"] for user in shared.client.users() if user["name"] == "ann")
    text = {"HEADWAY_SCRIPTED_OUTPUT": "printed\n" * 5_000}
    job_id = str(
        ann.submit(a_job(*(scripted_task(name, run_s=1, env=text, resources=ALL_OF_ONE) for name in "ab")))["id"]
    )
    assert assert_each_ran_once(ann, job_id, b"printed\n" * 5_000) == set(NODES)
    for task in "ab":
        log = on_the_mount(shared, job_id, task)
        soon(lambda log=log: log.is_file() and log.stat().st_size == 40_000, within_s=20, what=f"{log} is whole")
    source = tmp_path / "größe 日本.bin"
    source.write_bytes(os.urandom(3_000_000))
    ann.put_file(source.name, source)
    brick = shared.gluster.brick / "homes" / "ann"
    for path in (brick, brick / source.name):
        assert (path.stat().st_uid, path.stat().st_gid) == (uid, uid), path
    with (tmp_path / "back").open("wb") as target:
        ann.get_file(source.name, target)
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    ann.delete_file(source.name)
    assert [entry["name"] for entry in ann.files()] == []
    assert len(list((brick / ".headway-trash").iterdir())) == 2


def mount_again(gluster: Gluster) -> None:
    gluster.unmount()
    gluster.mount_it()


FAULTS: dict[str, tuple[str, Callable[[Shared], None], Callable[[Shared], None]]] = {
    "brick stopped": ("mount_unavailable", lambda s: s.gluster.stop_brick(), lambda s: s.gluster.start_brick()),
    "process of the mount killed": (
        "mount_unavailable",
        lambda s: s.gluster.kill_client(),
        lambda s: mount_again(s.gluster),
    ),
    "network cut": ("mount_unavailable", lambda s: s.gluster.cut(), lambda s: s.gluster.heal()),
    "full": ("disk_full", lambda s: s.disk.fill(), lambda s: s.disk.make_room()),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_work_is_held_with_a_reason_and_nothing_is_lost(shared: Shared, fault: str):
    """STO-07, STO-08."""
    client = shared.client
    word, break_it, mend_it = FAULTS[fault]
    text = {"HEADWAY_SCRIPTED_OUTPUT": "before\n" * 1000}
    goes_on = running(client, *(scripted_task(name, run_s=4, env=text, resources=ALL_OF_ONE) for name in "ab"))
    client.make_folder(f"kept-{fault}")
    break_it(shared)
    try:
        soon(
            lambda: all(word in words for words in blocked(client).values()),
            within_s=40,
            every_s=0.3,
            what=f"both machines say {word}",
        )
        waiting = str(client.submit(a_job(scripted_task(env={"HEADWAY_SCRIPTED_OUTPUT": "after\n"})))["id"])

        def waits() -> bool:
            (task,) = client.job(waiting)["tasks"]
            return word in {wait["word"] for wait in task["waits"]}

        soon(waits, within_s=20, every_s=0.3, what=f"new work waits for {word}")
        # Its end comes meanwhile.
        soon(lambda: client.job(goes_on)["state"] == "SUCCEEDED", within_s=60, every_s=0.3, what="what ran ends well")
        soon(lambda: refused(client, 507 if fault == "full" else 503), within_s=20, every_s=0.3, what="it says so")
    finally:
        mend_it(shared)
    assert_each_ran_once(client, waiting, b"after\n")
    assert_each_ran_once(client, goes_on, b"before\n" * 1000)
    for task in "ab":
        log = on_the_mount(shared, goes_on, task)
        soon(lambda log=log: log.is_file() and log.stat().st_size == 7_000, within_s=30, what=f"{log} is whole")
    soon(lambda: not any(blocked(client).values()), within_s=30, every_s=0.3, what="nothing holds work")

    def listed() -> bool:
        return f"kept-{fault}" in [entry["name"] for entry in client.files()]

    soon(listed, within_s=20, every_s=0.3, what="the files are there")
    assert (shared.cluster.mount / MARKER).is_file()
