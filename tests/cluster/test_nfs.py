"""Three machines, each with a mount of its own of one NFS share.

The share is tests/support/nfs, since no kernel of the tests' machines has NFS. Service and Workers each have a mount of
their own, so what one writes is not simply there for the other.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headway.client import Client, Refused
from headway.errors import HeadwayError
from headway.mount import MARKER, prepare_local
from tests.support.cluster import Cluster, a_job, scripted_task
from tests.support.nfs.share import NfsShare
from tests.support.shared_mounts import ALL_OF_ONE, QUICK, assert_each_ran_once, blocked, refused, running
from tests.support.waiting import soon

pytestmark = [pytest.mark.nfs, pytest.mark.root, pytest.mark.slow]

NODES = ("n1", "n2")
LATE_S = 2.0  # as `acregmax`: how long a mount believes what it has seen


@dataclass(frozen=True)
class Machines:
    """The cluster, the share, and where each machine sees it."""

    cluster: Cluster
    share: NfsShare
    service: Path

    @property
    def client(self) -> Client:
        return self.cluster.client


def build(stack: ExitStack, *, squashed: tuple[str, ...] = (), **settings: Any) -> Machines:
    folder = Path(tempfile.mkdtemp(prefix="nfs", dir=os.environ.get("HEADWAY_TESTS_SCRATCH", "/tmp")))
    folder.chmod(0o755)
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    share = NfsShare(folder / "share")
    stack.callback(share.close)
    prepare_local(share.export, "headway")
    service = share.mount("service", late_s=LATE_S)
    own = {node: {"cluster.mount": str(share.mount(node, late_s=LATE_S, squash=node in squashed))} for node in NODES}
    chosen = {"cluster.mount": str(service), **{key.replace("__", "."): value for key, value in QUICK.items()}}
    cluster = Cluster(folder / "cluster", NODES, chosen | settings, own)
    stack.callback(cluster.close)
    cluster.start()
    cluster.wait_ready()
    return Machines(cluster, share, service)


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    with ExitStack() as stack:
        yield build(stack)


def test_what_one_machine_wrote_is_read_whole_on_another_at_once(machines: Machines, tmp_path: Path) -> None:
    """Logs right after the end, though the service looked before and believes for a while what it saw."""
    text = {"HEADWAY_SCRIPTED_OUTPUT": "printed\n" * 5_000}
    ann = machines.cluster.user("ann")
    for _ in range(3):
        job_id = str(
            ann.submit(a_job(*(scripted_task(name, run_s=1, env=text, resources=ALL_OF_ONE) for name in "ab")))["id"]
        )
        for task in "ab":
            with suppress(Refused):  # so that a name that is not there yet is remembered as missing
                ann.log(job_id, task)
        assert assert_each_ran_once(ann, job_id, b"printed\n" * 5_000) == set(NODES)
        for task in "ab":
            log = machines.share.export / "jobs" / job_id / task / "1" / "stdout.log"
            soon(lambda log=log: log.is_file() and log.stat().st_size == 40_000, within_s=20, what=f"{log} is whole")
            assert ann.log(job_id, task) == b"printed\n" * 5_000
    source = tmp_path / "größe 日本.bin"
    source.write_bytes(os.urandom(3_000_000))
    ann.put_file(source.name, source)
    with (tmp_path / "back").open("wb") as target:
        ann.get_file(source.name, target)
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    assert (machines.share.export / "homes" / "ann" / source.name).stat().st_uid >= 20_000


def test_while_the_server_is_away_work_is_held_and_nothing_is_lost(machines: Machines) -> None:
    client = machines.client
    text = {"HEADWAY_SCRIPTED_OUTPUT": "before\n" * 1000}
    goes_on = running(client, *(scripted_task(name, run_s=4, env=text, resources=ALL_OF_ONE) for name in "ab"))
    client.make_folder("kept")
    machines.share.down()
    try:
        soon(
            lambda: all("mount_unavailable" in words for words in blocked(client).values()),
            within_s=40,
            every_s=0.3,
            what="both machines say mount_unavailable",
        )
        waiting = str(client.submit(a_job(scripted_task(env={"HEADWAY_SCRIPTED_OUTPUT": "after\n"})))["id"])
        soon(lambda: client.job(goes_on)["state"] == "SUCCEEDED", within_s=60, every_s=0.3, what="what ran ends well")
        soon(lambda: refused(client, 503), within_s=20, every_s=0.3, what="the page says so")
    finally:
        machines.share.up()
    assert_each_ran_once(client, waiting, b"after\n")
    assert_each_ran_once(client, goes_on, b"before\n" * 1000)
    for task in "ab":
        log = machines.share.export / "jobs" / goes_on / task / "1" / "stdout.log"
        soon(lambda log=log: log.is_file() and log.stat().st_size == 7_000, within_s=30, what=f"{log} is whole")
    soon(lambda: not any(blocked(client).values()), within_s=30, every_s=0.3, what="nothing holds work")
    soon(lambda: "kept" in [e["name"] for e in client.files()], within_s=20, every_s=0.3, what="the files are there")
    assert (machines.share.export / MARKER).is_file()


def test_a_full_disk_that_only_a_flush_tells_leaves_no_half_file(machines: Machines, tmp_path: Path) -> None:
    client = machines.client
    text = {"HEADWAY_SCRIPTED_OUTPUT": "kept\n" * 1000}
    job_id = running(client, scripted_task(run_s=3, env=text))
    source = tmp_path / "much.bin"
    source.write_bytes(os.urandom(300_000))
    machines.share.full(True)
    try:
        soon(lambda: client.job(job_id)["state"] == "SUCCEEDED", within_s=60, every_s=0.3, what="what ran ends well")
        with pytest.raises((Refused, HeadwayError)):
            client.put_file(source.name, source)
    finally:
        machines.share.full(False)
    log = machines.share.export / "jobs" / job_id / "a" / "1" / "stdout.log"
    soon(lambda: log.is_file() and log.stat().st_size == 5_000, within_s=60, what=f"{log} is whole")
    assert client.log(job_id, "a") == b"kept\n" * 1000
    assert source.name not in [entry["name"] for entry in client.files()]
    soon(lambda: not any(blocked(client).values()), within_s=40, every_s=0.3, what="nothing holds work")
    client.put_file(source.name, source)


def test_a_job_whose_log_is_being_read_is_removed_whole(machines: Machines) -> None:
    """The reader's file becomes `.nfs…`, so its folder is not empty until the last byte is read."""
    client = machines.client
    text = {"HEADWAY_SCRIPTED_OUTPUT": "x" * 100_000}
    job_id = str(client.submit(a_job(scripted_task(env=text)))["id"])
    client.wait(job_id, timeout_s=60, poll_s=0.2)
    folder = machines.share.export / "jobs" / job_id
    log = folder / "a" / "1" / "stdout.log"
    soon(lambda: log.is_file() and log.stat().st_size == 100_000, within_s=30, what="the log is on the share")
    held = (machines.service / "jobs" / job_id / "a" / "1" / "stdout.log").open("rb")
    try:
        client.ask("DELETE", f"/jobs/{job_id}")
        soon(lambda: any(folder.rglob(".nfs*")), within_s=20, what="a silly rename")
        assert held.read() == b"x" * 100_000
    finally:
        held.close()
    soon(lambda: not folder.exists(), within_s=60, every_s=0.3, what="the job's folder is gone")


def test_a_download_of_a_file_that_another_machine_removes_says_so(machines: Machines, tmp_path: Path) -> None:
    """The handle is stale: the server lets the line be cut, and what comes is no wrong content."""
    client = machines.client
    admin = client.profile.user
    source = tmp_path / "going.bin"
    source.write_bytes(os.urandom(30_000_000))
    client.put_file(source.name, source)
    elsewhere = machines.share.mount("task") / "homes" / admin / source.name
    assert elsewhere.stat().st_size == 30_000_000
    with pytest.raises((HeadwayError, OSError)), (tmp_path / "back").open("wb") as target:
        client.get_file(source.name, _Removing(target, elsewhere))  # type: ignore[arg-type]
    assert (tmp_path / "back").stat().st_size < 30_000_000
    log = machines.cluster.log("httpserver")
    assert "was removed or replaced on another machine while it was sent" in log
    assert "Traceback" not in log
    soon(lambda: source.name not in [e["name"] for e in client.files()], within_s=20, what="the list says so too")


class _Removing:
    """A target of a download that removes the file elsewhere after the first bytes."""

    def __init__(self, target: Any, path: Path) -> None:
        self._target = target
        self._path = path
        self._once = threading.Lock()

    def write(self, data: bytes) -> int:
        if self._once.acquire(blocking=False):
            self._path.unlink()
        return int(self._target.write(data))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)


def test_where_root_is_squashed_the_machine_says_what_to_do_and_others_work() -> None:
    with ExitStack() as stack:
        machines = build(stack, squashed=("n2",))
        client = machines.client

        def told() -> str:
            (node,) = [node for node in client.nodes() if node["id"] == "n2"]
            return " ".join(c["sentence"] for c in node["conditions"] if c["blocks_work"])

        soon(lambda: "no_root_squash" in told(), within_s=30, what="n2 says what its share refuses, and the remedy")
        ann = machines.cluster.user("ann")
        job_id = str(ann.submit(a_job(scripted_task(env={"HEADWAY_SCRIPTED_OUTPUT": "well\n"})))["id"])
        assert assert_each_ran_once(ann, job_id, b"well\n") == {"n1"}
