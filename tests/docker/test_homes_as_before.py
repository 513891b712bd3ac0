"""A Worker whose folder can hold no homes: tasks run as before, and everybody is told."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docker.conftest import DOCKER_SETTINGS, Jobs
from tests.support import images, mounts
from tests.support.cluster import Cluster
from tests.support.dockerd import Engine
from tests.support.waiting import soon

pytestmark = [pytest.mark.docker, pytest.mark.slow]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, docker_engine: Engine) -> Iterator[Jobs]:
    folder = tmp_path_factory.mktemp("house")
    settings = {
        "worker.docker_host": docker_engine.url,
        "worker.pull_images": False,
        "task_manager.platform_retries": 0,
    }
    settings |= {key.replace("__", "."): value for key, value in DOCKER_SETTINGS.items()}
    cluster = Cluster(folder, ("n1",), settings)
    try:
        _over_itself(folder / "workers" / "n1")
        cluster.start()
        cluster.wait_ready()
        yield Jobs(cluster, docker_engine)
    finally:
        cluster.close()
        docker_engine.remove_containers()
        mounts.unmount_below(folder)


def _over_itself(folder: Path) -> None:
    """The kernel stacks no overlay on an overlay, as inside of a container."""
    for name in ("upper", "work"):
        folder.with_name(name).mkdir()
    above = folder.parent
    options = f"lowerdir={folder},upperdir={above / 'upper'},workdir={above / 'work'}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, str(folder)], check=True)


def test_tasks_run_and_are_told_what_is_closed(house: Jobs) -> None:
    (condition,) = (one for one in house.cluster.client.node("n1")["conditions"] if one["word"] == "homes_partly_open")
    assert not condition["blocks_work"]
    assert condition["sentence"].startswith(
        "Tasks can't read or run all that an image has below /root. The file system of "
    )
    task = house.task("echo x > /root/new; cat /root/from-image; touch /tmp/x; id -un", network="none")
    assert (task["state"], house.out(task)) == ("SUCCEEDED", b"kept\nadmin\n")
    path = house.cluster.mount / "jobs" / task["job"] / "a" / "1" / "platform.log"
    line = "What the image has in folders below /root may be closed to the task. The file system of "
    soon(lambda: path.is_file() and line in path.read_text(), within_s=20, what="a line in the attempt's log")


def test_a_volume_at_the_home_is_refused_there(house: Jobs) -> None:
    client = house.engine.client()
    try:
        name = images.import_busybox(client, "headway-test/volume-root:1", changes=["VOLUME /root"])
    finally:
        client.close()
    task = house.task("true", image=name)
    assert task["reason"]["word"] == "start_failed"
    assert "The image declares a volume at /root, and n1 can't give its tasks a home" in task["reason"]["sentence"]
