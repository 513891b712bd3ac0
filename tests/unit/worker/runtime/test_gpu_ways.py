"""What each way of giving GPUs puts into a container's options, and that nobody gets more than was booked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headway.archive import places
from tests.unit.worker.runtime.test_docker_options import BOX, ME, an_order
from worker.box import LaunchSpec
from worker.ports import LocalImage
from worker.runtime.docker_options import container_config
from worker.runtime.gpu_ways import DRIVER_FOLDER, GivenGpus, by_cdi, by_nodes, by_request, traits_of, without

SPEC = LaunchSpec(args=("true",), env={"LD_LIBRARY_PATH": "/opt/lib:"}, user="1:1", timeout_ms=1, place="/headway-1")
NODES = by_nodes(
    [("/dev/nvidiactl", "/dev/nvidiactl"), ("/dev/nvidia3", "/dev/nvidia3")],
    [("/lib/libcuda.so.550", f"{DRIVER_FOLDER}/lib64/libcuda.so.1")],
    "/state/gpu-driver/1",
)


def config(given: GivenGpus, **fields: Any) -> dict[str, Any]:
    return container_config(an_order(**fields), BOX, ME, digest="d1", pids_limit=99, given=given)


def test_cdi_names_each_gpu_by_its_uuid() -> None:
    made = config(by_cdi(["GPU-2", "MIG-1"], "runc"), gpu_uuids=("GPU-2", "MIG-1"))
    assert made["HostConfig"]["DeviceRequests"] == [
        {"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=GPU-2", "nvidia.com/gpu=MIG-1"]}
    ]
    assert (made["Env"], made["HostConfig"]["Runtime"]) == (["NVIDIA_VISIBLE_DEVICES=void"], "runc")


def test_device_files_come_alone_and_the_driver_is_only_read() -> None:
    host = config(NODES, gpu_uuids=("GPU-2",))["HostConfig"]
    assert [(one["PathOnHost"], one["CgroupPermissions"]) for one in host["Devices"]] == [
        ("/dev/nvidiactl", "rw"),
        ("/dev/nvidia3", "rw"),
    ]
    assert [(one["Target"], one["ReadOnly"]) for one in host["Mounts"][-2:]] == [
        (DRIVER_FOLDER, True),
        (f"{DRIVER_FOLDER}/lib64/libcuda.so.1", True),
    ]
    assert "DeviceRequests" not in host
    assert host["Privileged"] is False


def test_the_driver_is_found_before_what_the_task_names() -> None:
    spec = NODES.spec_for(SPEC)
    assert spec.env["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib64:/opt/lib"
    assert DRIVER_FOLDER in spec.mounts
    assert NODES.spec_for(spec) == spec
    assert NODES.fits(spec)
    assert not NODES.fits(SPEC)
    assert not by_request(["GPU-1"]).fits(spec)
    assert by_request(["GPU-1"]).spec_for(SPEC) == SPEC


def test_without_gpus_no_variable_and_no_volume_of_an_image_asks_for_one() -> None:
    """GPU-08. A site may let NVIDIA's toolkit read other variables, annotations and mounts, too."""
    env = ("NVIDIA_VISIBLE_DEVICES=all", "DOCKER_RESOURCE_GPU=GPU-1", "NVIDIA_MIG_CONFIG_DEVICES=all", "CUDA_HOME=/c")
    made = config(without("runc"), image=LocalImage("sha256:1", env=env))
    assert made["Env"] == ["NVIDIA_VISIBLE_DEVICES=void", "DOCKER_RESOURCE_GPU", "NVIDIA_MIG_CONFIG_DEVICES"]
    assert made["HostConfig"]["Runtime"] == "runc"
    assert not {"DeviceRequests", "Devices", "Annotations", "DeviceCgroupRules"} & set(made["HostConfig"])
    assert "Runtime" not in config(without())["HostConfig"]


@pytest.mark.parametrize(
    "volume",
    [
        "/var/run/nvidia-container-devices/all",
        "/run//nvidia-container-devices/GPU-1",
        "/var/run/nvidia-container-devices",
    ],
)
def test_an_image_can_not_ask_for_gpus_by_a_volume(volume: str) -> None:
    assert "GPUs that nobody booked" in places.problem_of_config([volume], ())
    assert not places.problem_of_config(["/var/run/nvidia-container-devices-of-mine"], ())


@pytest.mark.parametrize(
    ("default", "about", "want"),
    [
        ("runc", {"path": "runc"}, ""),
        ("nvidia", {"path": "/usr/bin/nvidia-container-runtime"}, "runc"),
        ("gpus", {"path": "/opt/bin/nvidia-container-runtime.cdi"}, "runc"),
        ("nvidia", {}, "runc"),
        ("kata", {"path": "/usr/bin/kata-runtime"}, ""),
    ],
)
def test_where_nvidias_runtime_is_the_default_others_are_run_without_it(
    default: str, about: dict[str, str], want: str
) -> None:
    traits = traits_of({"DefaultRuntime": default, "Runtimes": {"runc": {"path": "runc"}, default: about}})
    assert traits.plain_runtime == want


def test_what_an_engine_says_of_cdi() -> None:
    assert traits_of({}).cdi_folders == ()
    assert traits_of({"CDISpecDirs": None}).cdi_devices is None
    found = [{"Source": "cdi", "ID": "nvidia.com/gpu=GPU-1"}, {"Source": "other", "ID": "x"}]
    traits = traits_of({"CDISpecDirs": ["/etc/cdi"], "DiscoveredDevices": found})
    assert (traits.cdi_folders, traits.cdi_devices) == (("/etc/cdi",), frozenset({"nvidia.com/gpu=GPU-1"}))


def test_a_spec_without_a_library_path_gets_one() -> None:
    assert NODES.spec_for(replace(SPEC, env={})).env == {"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}
