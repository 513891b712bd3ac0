"""Full, lost and read-only disks under a running cluster: work is held with a reason, and goes on by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from headway.client import Client, Refused
from headway.mount import MARKER
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.small_disks import SmallDisk, small_disks
from tests.support.waiting import soon

pytestmark = [pytest.mark.slow, pytest.mark.root]

ROOMS = ("httpserver", "job_manager", "task_manager", "resource_manager")
QUICK = {
    "cluster__heartbeat_s": 1,
    "resource_manager__poll_s": 1,
    "task_manager__platform_retry_delay_s": 0.5,
    "worker__disk_low_bytes": 2 << 20,
    "worker__cpus": 8,
    "worker__memory_bytes": 64 << 30,
}


class Disks(dict[str, SmallDisk]):
    """The shared mount, the disk of each database, and that of the worker's folder."""


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Disks]]:
    folder = tmp_path_factory.mktemp("disks")
    places = {"mount": 64, "workers": 32, **dict.fromkeys((f"db-{room}" for room in ROOMS), 8)}
    databases = {f"{room}__database": str(folder / f"db-{room}" / "headway.db") for room in ROOMS}
    with (
        small_disks(*((folder / name, mib) for name, mib in places.items())) as made,
        a_cluster(folder, **QUICK, **databases) as cluster,
    ):
        yield cluster, Disks(zip(places, made, strict=True))


def waits(client: Client, job_id: str) -> set[str]:
    (task,) = client.job(job_id)["tasks"]
    return {wait["word"] for wait in task["waits"]}


def blocking(client: Client) -> dict[str, str]:
    return {c["word"]: c["sentence"] for c in client.node("n1")["conditions"] if c["blocks_work"]}


def running(client: Client, *tasks: dict[str, Any]) -> str:
    job_id = str(client.submit(a_job(*tasks))["id"])
    soon(lambda: client.job(job_id)["tasks"][0]["state"] == "RUNNING", within_s=30, what=f"{job_id} runs")
    return job_id


def assert_ran_once(client: Client, job_id: str, want_log: bytes) -> None:
    done = client.wait(job_id, timeout_s=60)
    assert done["state"] == "SUCCEEDED", done["tasks"]
    (task,) = done["tasks"]
    assert [a["state"] for a in task["attempts"]] == ["SUCCEEDED"], task["attempts"]
    assert client.log(job_id, "a") == want_log


def refused_folder(client: Client) -> Refused | None:
    """A few seconds after its last look the server may still make one, where the disk lets it."""
    try:
        client.make_folder(f"new-{time.monotonic_ns()}")
    except Refused as refused:
        return refused
    return None


MOUNT_FAULTS: dict[str, tuple[str, Callable[[SmallDisk], None], Callable[[SmallDisk], None], int]] = {
    "full": ("disk_full", SmallDisk.fill, SmallDisk.make_room, 507),
    "gone": ("mount_unavailable", SmallDisk.take_away, SmallDisk.put_back, 503),
    "read-only": (
        "mount_unavailable",
        lambda disk: disk.read_only(True),
        lambda disk: disk.read_only(False),
        503,
    ),
}


@pytest.mark.parametrize("fault", MOUNT_FAULTS)
def test_work_is_held_while_the_mount_is(held: tuple[Cluster, Disks], fault: str):
    """STO-07, STO-08: tasks went to the bare folder behind the mount, and what ran was ended for it."""
    cluster, disks = held
    client, disk = cluster.client, disks["mount"]
    word, break_it, mend_it, status = MOUNT_FAULTS[fault]
    print_then_run = {"HEADWAY_SCRIPTED_OUTPUT": "before\n" * 1000}
    ends_meanwhile = running(client, scripted_task(run_s=3, env=print_then_run))
    goes_on = running(client, scripted_task(run_s=600, env=print_then_run))
    client.make_folder("kept")
    break_it(disk)
    try:
        soon(lambda: word in blocking(client), within_s=30, every_s=0.2, what=f"n1 says {word}")
        assert str(cluster.mount) in blocking(client)[word]

        # New work is taken and waits, and says why.
        waiting = str(client.submit(a_job(scripted_task(env={"HEADWAY_SCRIPTED_OUTPUT": "after\n"})))["id"])
        soon(lambda: word in waits(client, waiting), within_s=30, every_s=0.2, what=f"it waits for {word}")

        refusal = soon(lambda: refused_folder(client), within_s=15, every_s=0.5, what="no folder can be made")
        assert refusal.status == status
        assert len(str(refusal)) > 30
        if fault != "gone":
            listed = [entry["name"] for entry in client.files()]
            assert "kept" in listed, "a full or read-only mount can be read"
        if fault == "full":
            client.delete_file("kept", recursive=True)

        # What runs isn't touched, and what it printed is there meanwhile.
        soon(lambda: client.log(ends_meanwhile, "a") == b"before\n" * 1000, within_s=30, what="its log")
        assert client.job(goes_on)["tasks"][0]["state"] == "RUNNING"
        assert client.job(waiting)["tasks"][0]["attempts"] == []
        if fault == "gone":
            assert list(cluster.mount.iterdir()) == []
    finally:
        mend_it(disk)
    assert_ran_once(client, waiting, b"after\n")
    assert_ran_once(client, ends_meanwhile, b"before\n" * 1000)
    assert client.job(goes_on)["tasks"][0]["state"] == "RUNNING"
    client.act("cancel", goes_on)
    assert client.wait(goes_on, timeout_s=30)["state"] == "CANCELLED"
    assert client.log(goes_on, "a") == b"before\n" * 1000
    soon(lambda: not blocking(client), within_s=30, what="nothing holds work")
    if fault != "full":
        client.delete_file("kept", recursive=True)
    for job_id in (waiting, ends_meanwhile, goes_on):
        log = cluster.mount / "jobs" / job_id / "a" / "1" / "stdout.log"
        soon(lambda log=log: log.is_file() and log.stat().st_size > 0, within_s=30, what=f"{log} is on the mount")


def test_services_that_start_without_the_mount_hold_work_until_it_is_there(held: tuple[Cluster, Disks]):
    cluster, disks = held
    client, disk = cluster.client, disks["mount"]
    goes_on = running(client, scripted_task(run_s=600, env={"HEADWAY_SCRIPTED_OUTPUT": "x\n"}))
    disk.take_away()
    try:
        cluster.restart("httpserver", "n1")
        soon(lambda: answers(cluster), within_s=60, what="it answers")
        soon(lambda: "mount_unavailable" in blocking(client), within_s=30, every_s=0.2, what="the node says so")
        waiting = str(client.submit(a_job(scripted_task()))["id"])
        soon(lambda: "mount_unavailable" in waits(client, waiting), within_s=30, every_s=0.2, what="it waits")
        assert client.job(goes_on)["tasks"][0]["state"] == "RUNNING"
        assert list(cluster.mount.iterdir()) == []
    finally:
        disk.put_back()
    assert_ran_once(client, waiting, b"")
    client.act("cancel", goes_on)
    assert client.wait(goes_on, timeout_s=30)["state"] == "CANCELLED"
    assert client.log(goes_on, "a") == b"x\n"
    assert (cluster.mount / MARKER).is_file()


def answers(cluster: Cluster) -> bool:
    try:
        return httpx.get(f"{cluster.url}/healthz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def test_a_full_disk_of_the_worker_holds_new_work_only(held: tuple[Cluster, Disks]):
    cluster, disks = held
    client, disk = cluster.client, disks["workers"]
    ends_meanwhile = running(client, scripted_task(run_s=3, env={"HEADWAY_SCRIPTED_OUTPUT": "x\n"}))
    disk.fill()
    try:
        # Before the machine has noticed: what can't be written down is not accepted; a refusal uses up no retry.
        at_once = [str(client.submit(a_job(scripted_task()))["id"]) for _ in range(3)]
        soon(lambda: "disk_full" in blocking(client), within_s=30, every_s=0.2, what="the node says so")
        waiting = str(client.submit(a_job(scripted_task()))["id"])
        soon(lambda: "disk_full" in waits(client, waiting), within_s=30, every_s=0.2, what="it waits")
        assert client.job(waiting)["tasks"][0]["attempts"] == []
    finally:
        disk.make_room()
    assert_ran_once(client, waiting, b"")
    for job_id in at_once:
        done = client.wait(job_id, timeout_s=60)
        *refused, last = done["tasks"][0]["attempts"]
        assert (done["state"], last["state"]) == ("SUCCEEDED", "SUCCEEDED")
        assert all("refused the launch" in attempt["reason"]["sentence"] for attempt in refused), refused
    assert_ran_once(client, ends_meanwhile, b"x\n")


@pytest.mark.parametrize("room", ROOMS)
def test_a_full_disk_under_a_database_loses_nothing(held: tuple[Cluster, Disks], room: str):
    cluster, disks = held
    client, disk = cluster.client, disks[f"db-{room}"]
    before = running(client, scripted_task(run_s=3, env={"HEADWAY_SCRIPTED_OUTPUT": "x\n"}))
    accepted: list[str] = []
    refused: list[Refused] = []
    disk.fill()
    try:
        # Files that have grown before have some room left inside.
        for _ in range(100 if room == "job_manager" else 5):
            try:
                accepted.append(str(client.submit(a_job(scripted_task(env={"ROOM": "x" * 120_000})))["id"]))
            except Refused as error:
                refused.append(error)
                break
        for error in refused:
            assert error.status in (503, 507), error
            assert "full" in str(error) or "disk" in str(error), error
        # It still tells what it knows.
        assert client.job(before)["id"] == before
        assert client.nodes()[0]["id"] == "n1"
        assert client.me()["name"]
    finally:
        disk.make_room()
    for job_id in accepted:
        assert_ran_once(client, job_id, b"")
    assert_ran_once(client, before, b"x\n")
    cluster.wait_ready()
    assert_ran_once(client, str(client.submit(a_job(scripted_task()))["id"]), b"")
    assert (len(refused) > 0) == (room == "job_manager"), (room, accepted, refused)


@pytest.mark.parametrize("room", ["job_manager", "task_manager"])
def test_a_removal_waits_for_a_full_disk_and_goes_on(held: tuple[Cluster, Disks], room: str):
    cluster, disks = held
    client, disk = cluster.client, disks[f"db-{room}"]
    kept, *old = (running_to_its_end(client) for _ in range(4))
    client.act("pin", kept)
    before = len(cluster.log("job_manager"))
    waits = lambda: cluster.log("job_manager")[before:].count("removal.waits")  # noqa: E731
    # Files that have grown before have some room left inside. After a clean stop there is no such file.
    cluster.stop(room)
    cluster.start(room)
    cluster.wait_ready()
    disk.fill()
    try:
        refused = None
        try:
            assert client.ask("POST", "/jobs/prune", json={"older": "0.1s"})["jobs"] >= len(old)
        except Refused as error:
            refused = error
        if room == "job_manager":
            assert refused is not None
            assert refused.status in (503, 507), refused
            assert "full" in str(refused), refused
            assert all(client.job(one)["state"] == "SUCCEEDED" for one in old), "nothing was deleted"
        else:
            assert refused is None
            soon(lambda: waits() == 1, within_s=30, what="the log says that it waits")
            for one in old:
                with pytest.raises(Refused, match="is being deleted"):
                    client.job(one)
    finally:
        disk.make_room()
    client.ask("POST", "/jobs/prune", json={"older": "0.1s"})
    soon(lambda: not any((cluster.mount / "jobs" / one).exists() for one in old), within_s=60, what="it goes on")
    for one in old:
        soon(lambda one=one: refusal(client, one) == "was deleted", within_s=60, what=f"{one} is gone")
    assert waits() <= 1, "told once"
    assert client.job(kept)["pinned"]
    client.act("unpin", kept)


def running_to_its_end(client: Client) -> str:
    job_id = str(client.submit(a_job(scripted_task(env={"HEADWAY_SCRIPTED_OUTPUT": "x\n"})))["id"])
    assert client.wait(job_id, timeout_s=60)["state"] == "SUCCEEDED"
    return job_id


def refusal(client: Client, job_id: str) -> str:
    """What is said about a job that does not show."""
    with pytest.raises(Refused) as refused:
        client.job(job_id)
    return "was deleted" if "was deleted" in str(refused.value) else str(refused.value)


def test_services_that_start_on_full_disks_say_so_or_serve(held: tuple[Cluster, Disks]):
    cluster, disks = held
    client = cluster.client
    goes_on = running(client, scripted_task(run_s=4, env={"HEADWAY_SCRIPTED_OUTPUT": "x\n"}))
    names = (*ROOMS, "n1")
    full = [disk for name, disk in disks.items() if name != "mount"]
    before = {name: len(cluster.log(name)) for name in names}
    for disk in full:
        disk.fill()
    try:
        cluster.restart(*names)
        soon(
            lambda: all(
                cluster.processes[name].poll() is not None or "service.ready" in cluster.log(name)[before[name] :]
                for name in names
            ),
            within_s=60,
            what="each serves or has ended",
        )
        for name in names:
            code = cluster.processes[name].poll()
            news = cluster.log(name)[before[name] :]
            print(name, code, news[-300:])
            assert "Traceback" not in news, f"{name}\n{news}"
            if code is not None:
                assert code != 0
                assert "full" in news.splitlines()[-1], f"{name}\n{news}"
    finally:
        for disk in full:
            disk.make_room()
    for name in names:
        if cluster.processes[name].poll() is not None:
            del cluster.processes[name]
            cluster.start(name)
    cluster.wait_ready()
    assert_ran_once(client, goes_on, b"x\n")
