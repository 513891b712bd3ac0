"""The tests' own engine: what the other Docker tests stand on."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import docker
import pytest
from docker.types import DeviceRequest

from tests.support import cgroups, images, mounts, processes
from tests.support.dockerd import Engine, wait_until_exited
from tests.support.waiting import soon

pytestmark = pytest.mark.docker


def _who_is_in(network: int) -> list[str]:
    """The processes in a network namespace, by its inode."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "ns" / "net").stat().st_ino == network:
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found


def _networks_held() -> set[int]:
    """The network namespaces of which this process holds a descriptor."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("net:"):
                found.add(os.stat(f"/proc/self/fd/{name}").st_ino)
    return found


def test_containers_run_and_memory_limits_hold(docker_client: docker.DockerClient) -> None:
    assert docker_client.containers.run(images.BUSYBOX, ["id", "-u"], remove=True) == b"0\n"
    assert docker_client.containers.run(images.STATIC, ["/static", "print", "hi"], remove=True) == b"hi\n"
    container = docker_client.containers.run(
        images.BUSYBOX, ["sh", "-c", "dd if=/dev/zero of=/dev/null bs=200M count=1"], mem_limit="16m", detach=True
    )
    assert container.wait()["StatusCode"] == 137
    container.reload()
    assert container.attrs["State"]["OOMKilled"]


def test_a_gpu_request_reaches_the_container_by_uuid(docker_engine: Engine, docker_client: docker.DockerClient) -> None:
    request = DeviceRequest(driver="nvidia", device_ids=["GPU-a1"], capabilities=[["gpu"]])
    output = docker_client.containers.run(images.BUSYBOX, ["env"], device_requests=[request], remove=True)
    assert b"NVIDIA_VISIBLE_DEVICES=GPU-a1\n" in output
    assert "prestart" in docker_engine.gpu_calls.read_text()


@pytest.mark.slow
def test_containers_outlive_a_killed_a_restarted_and_a_hanging_engine(own_engine: Engine) -> None:
    client = own_engine.client()
    container = client.containers.run(images.BUSYBOX, ["sh", "-c", "sleep 6; exit 7"], detach=True)
    own_engine.kill9()
    own_engine.start()
    own_engine.restart()
    own_engine.pause()
    with pytest.raises(Exception, match=r"[Tt]imed out"):
        own_engine.client(timeout_s=1).ping()
    own_engine.resume()
    assert wait_until_exited(container.id, own_engine) == 7


@pytest.mark.slow
def test_nothing_is_left_of_a_closed_engine(own_engine: Engine) -> None:
    client = own_engine.client()
    client.containers.run(images.BUSYBOX, ["sleep", "100"], detach=True)
    soon(lambda: cgroups.processes(own_engine.cgroup))
    assert mounts.mounted_below(own_engine.folder)
    network = own_engine.network_inode
    assert _who_is_in(network)
    own_engine.kill9()  # the worst case: containers run and nobody answers
    own_engine.close()
    assert cgroups.processes(own_engine.cgroup) == set()
    assert processes.naming(str(own_engine.folder)) == []
    assert mounts.mounted_below(own_engine.folder) == []
    assert not own_engine.folder.exists()
    # Interfaces and rules go with the namespace, and a namespace goes with its last process and descriptor.
    assert _who_is_in(network) == []
    assert network not in _networks_held()
    rules = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout
    assert str(own_engine.folder) not in rules
