"""What a container is made of, and whose it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.jobfile import Network, Ulimit
from headway.model.simulated_gpus import simulated_uuid
from tests.support.worker_rig import an_attempt
from worker.box import Box, LaunchSpec
from worker.ports import LocalImage, StartOrder
from worker.runtime.docker_images import came_from_registry
from worker.runtime.docker_options import WorkerIdentity, container_config, container_name, folder_of

ME = WorkerIdentity("lab", "n1", "/state/attempts")
BOX = Box(Path("/state/attempts/x/box"))


def an_order(**fields: Any) -> StartOrder:
    spec = LaunchSpec(args=("true",), env={"A": "secret"}, user="20000:20000", timeout_ms=1000, place="/headway-1")
    order = StartOrder(
        attempt=an_attempt(),
        image=LocalImage("sha256:1"),
        spec=replace(spec, drop_caps=fields.pop("drop_caps", True)),
        command=None,
        lease_until_boot_ns=None,
        cpus_centi=50,
        memory_bytes=64 << 20,
        shm_bytes=32 << 20,
        network=Network.NONE,
        home=Path("/mnt/homes/ann"),
    )
    return replace(order, **fields)


def config(**fields: Any) -> dict[str, Any]:
    return container_config(an_order(**fields), BOX, ME, digest="d1", pids_limit=99)


@pytest.mark.parametrize(
    ("cpus_centi", "memory", "want_quota", "want_memory"),
    [(50, 64 << 20, 50_000, 64 << 20), (1, 1 << 20, 1_000, 6 << 20), (6400, 1 << 40, 6_400_000, 1 << 40)],
)
def test_limits(cpus_centi: int, memory: int, want_quota: int, want_memory: int) -> None:
    host = config(cpus_centi=cpus_centi, memory_bytes=memory)["HostConfig"]
    assert (host["CpuQuota"], host["CpuPeriod"]) == (want_quota, 100_000)
    assert host["Memory"] == host["MemorySwap"] == want_memory
    assert (host["ShmSize"], host["PidsLimit"]) == (32 << 20, 99)


def test_gpus_by_uuid_or_none_at_all() -> None:
    without = config()
    assert without["Env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
    assert "DeviceRequests" not in without["HostConfig"]
    some = config(gpu_uuids=("GPU-2", "GPU-1"))
    assert some["Env"] == ["NVIDIA_VISIBLE_DEVICES=GPU-2,GPU-1"]
    assert some["HostConfig"]["DeviceRequests"] == [
        {"Driver": "nvidia", "DeviceIDs": ["GPU-2", "GPU-1"], "Capabilities": [["gpu"]]}
    ]


def test_no_device_is_asked_for_a_simulated_gpu() -> None:
    """I11: each GPU task of a rehearsal failed after all its retries, for want of NVIDIA's toolkit."""
    simulated = config(gpu_uuids=(simulated_uuid("n1", 0), simulated_uuid("n1", 1)))
    assert simulated["Env"] == ["NVIDIA_VISIBLE_DEVICES=void"]
    assert "DeviceRequests" not in simulated["HostConfig"]


@pytest.mark.parametrize("drop_caps", [True, False])
def test_nothing_is_ever_privileged(drop_caps: bool) -> None:
    host = config(drop_caps=drop_caps, gpu_uuids=("GPU-1",))["HostConfig"]
    assert host["Privileged"] is False
    assert host["CapDrop"] == ["ALL"]
    assert not {"SYS_ADMIN", "SYS_PTRACE", "NET_ADMIN", "NET_RAW", "MKNOD", "SYS_MODULE"} & set(host["CapAdd"])
    assert host["SecurityOpt"] == ["no-new-privileges"]


def test_without_a_network_the_own_host_name_resolves() -> None:
    without, outgoing = config(), config(network=Network.OUTGOING)
    assert without["HostConfig"]["ExtraHosts"] == [f"{without['Hostname']}:127.0.0.1"]
    assert "ExtraHosts" not in outgoing["HostConfig"]
    assert outgoing["Hostname"]


def test_a_container_has_the_workers_hardware_address_where_old_and_new_engines_read_it() -> None:
    order = an_order(network=Network.OUTGOING)
    made = container_config(order, BOX, ME, digest="d", pids_limit=99, address="0a:01:02:03:04:05")
    assert made["HostConfig"]["NetworkMode"] == "bridge"
    assert made["MacAddress"] == "0a:01:02:03:04:05"
    assert made["NetworkingConfig"]["EndpointsConfig"] == {"bridge": {"MacAddress": "0a:01:02:03:04:05"}}
    without = config()
    assert without["HostConfig"]["NetworkMode"] == "none"
    assert "MacAddress" not in without
    assert "NetworkingConfig" not in without


def test_in_the_network_of_its_job_a_container_has_its_tasks_name() -> None:
    order = an_order(network=Network.JOB)
    made = container_config(
        order, BOX, ME, digest="d", pids_limit=99, address="0e:01:02:03:04:05", network="of-the-job"
    )
    assert made["HostConfig"]["NetworkMode"] == "of-the-job"
    endpoint = made["NetworkingConfig"]["EndpointsConfig"]["of-the-job"]
    assert endpoint == {"MacAddress": "0e:01:02:03:04:05", "Aliases": [order.attempt.task.name]}


def test_only_known_folders_are_mounted() -> None:
    def mounts(**fields: Any) -> dict[str, tuple[str, bool]]:
        found = config(**fields)["HostConfig"]["Mounts"]
        assert {mount["Type"] for mount in found} == {"bind"}
        return {mount["Target"]: (mount["Source"], mount["ReadOnly"]) for mount in found}

    box = str(BOX.root)
    assert mounts(datasets={"mnist": Path("/mnt/datasets/mnist/1")}) == {
        "/headway-1": (box, False),
        "/root/nfs": ("/mnt/homes/ann", False),
        "/root/datasets/mnist": ("/mnt/datasets/mnist/1", True),
    }
    assert mounts(code=Path("/mnt/code/1"))["/root/code"] == ("/mnt/code/1", True)
    assert mounts(drop_caps=False, home=None) == {
        "/headway-1": (box, True),
        "/headway-1/run": (f"{box}/run", False),
        "/headway-1/attempt": (f"{box}/attempt", False),
    }


def test_a_home_of_ones_own_opens_no_code() -> None:
    places = ("/root", "/root/.cache", "/root/nfs", "/root/code", "/root/code/below", "/tmp")
    home = {place: Path(f"/homes{place}") for place in places}
    order = an_order(code=Path("/mnt/code/1"))
    found = container_config(order, BOX, ME, digest="d", pids_limit=99, home=home)["HostConfig"]["Mounts"]
    mounts = {mount["Target"]: (mount["Source"], mount["ReadOnly"]) for mount in found}
    closed = ("/root/code", "/root/code/below")
    assert {place: mounts[place] for place in places} == {p: (f"/homes{p}", p in closed) for p in places}
    assert len(found) == len(places) + 1


def test_no_secret_of_the_task_is_in_the_engines_hands() -> None:
    """SEC-04: whoever may ask the engine read the tokens in an environment."""
    assert "secret" not in str(config())


def test_whose_a_container_is() -> None:
    folder = an_attempt().folder
    labels = config()["Labels"] | {"headway.attempt": folder}
    name = "/" + container_name("lab", folder)
    assert folder_of(name, labels, ME) == folder
    assert folder_of("/somebody", labels, ME) is None, "labels that an image brought"
    assert folder_of(name, labels, replace(ME, node="n2")) is None
    assert folder_of(name, labels, replace(ME, folder="/other")) is None
    assert folder_of(name, None, ME) is None


@pytest.mark.parametrize(
    ("image", "digests", "want"),
    [
        ("busybox:1", ["busybox@sha256:1"], True),
        ("r.example:5000/a/b:1", ["r.example:5000/a/b@sha256:1"], True),
        ("busybox:1", ["other@sha256:1"], False),
        ("busybox:1", [], False),
        ("busybox:1", None, False),
    ],
)
def test_an_image_made_on_the_machine_is_not_from_a_registry(image: str, digests: Any, want: bool) -> None:
    assert came_from_registry(image, {"RepoDigests": digests}) is want


def test_the_name_of_a_container_carries_its_cluster() -> None:
    """Two clusters on one engine must not meet in a name."""
    assert container_name("lab", "j1.a.1") == "headway-lab-j1.a.1"
    assert container_name("headway", "j1.a.1") == "headway-j1.a.1"


def test_ulimits_only_where_they_are_asked_for() -> None:
    assert "Ulimits" not in config()["HostConfig"]
    asked = config(ulimits=(Ulimit("memlock", 1 << 20, -1), Ulimit("nofile", 1024, 65536)))
    assert asked["HostConfig"]["Ulimits"] == [
        {"Name": "memlock", "Soft": 1 << 20, "Hard": -1},
        {"Name": "nofile", "Soft": 1024, "Hard": 65536},
    ]
