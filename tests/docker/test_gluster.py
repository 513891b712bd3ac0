"""Two machines with an engine each, and a real GlusterFS mount between them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.docker.conftest import DOCKER_SETTINGS
from tests.support.cluster import Cluster, a_job
from tests.support.dockerd import Engine, start_engine
from tests.support.gluster import Gluster
from tests.support.images import Entry, import_busybox
from tests.support.waiting import soon

pytestmark = [pytest.mark.docker, pytest.mark.gluster, pytest.mark.slow]


@pytest.fixture
def machines(docker_engine: Engine) -> Iterator[tuple[Cluster, dict[str, Engine]]]:
    # A short path: GlusterFS makes a socket's name of it.
    folder = Path(tempfile.mkdtemp(prefix="gl", dir=os.environ.get("HEADWAY_TESTS_SCRATCH", "/tmp")))
    folder.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        gluster = Gluster(folder)
        stack.callback(gluster.close)
        gluster.start()
        engines = {"n1": docker_engine, "n2": stack.enter_context(start_engine())}
        cluster = Cluster(
            folder,
            tuple(engines),
            {key.replace("__", "."): value for key, value in DOCKER_SETTINGS.items()} | {"worker.pull_images": False},
            {node: {"worker.docker_host": engine.url} for node, engine in engines.items()},
        )
        stack.callback(docker_engine.remove_containers)
        stack.callback(cluster.close)
        cluster.start()
        cluster.wait_ready()
        yield cluster, engines


def test_an_image_and_files_are_shared_through_the_mount(
    machines: tuple[Cluster, dict[str, Engine]], tmp_path: Path
) -> None:
    """STO-01: what one task writes, the next one on the other machine and its owner outside can read and delete."""
    cluster, engines = machines
    client = cluster.client
    archive = tmp_path / "box.tar"
    docker = engines["n1"].client()
    try:
        # One that neither engine has, once it is archived.
        name = import_busybox(docker, "headway-test/gluster:1", more=[Entry("etc/mark", os.urandom(16))])
        archive.write_bytes(b"".join(docker.images.get(name).save()))
        docker.images.remove(name)
    finally:
        docker.close()
    pushed = cluster.headway("images", "push", "box:1", "--from", str(archive))
    assert pushed.returncode == 0, pushed.stderr.decode()

    task = {"image": "admin/box:1", "timeout": "1m", "resources": {"cpus": 5, "memory": "64MiB"}}
    both = client.submit(
        a_job(
            *(
                {**task, "name": name, "command": f"umask 077; hostname > /root/nfs/{name}; id -u; sleep 2"}
                for name in ("one", "two")
            )
        )
    )["id"]
    done = client.wait(both, timeout_s=90, poll_s=0.2)
    assert done["state"] == "SUCCEEDED", [t["reason"] for t in done["tasks"]]
    ran_on = {t["name"]: t["attempts"][-1]["node_id"] for t in done["tasks"]}
    assert set(ran_on.values()) == set(engines), "each machine has run one"
    (uid,) = {user["uid"] for user in client.users() if user["name"] == "admin"}
    for name in ran_on:
        assert client.log(both, name) == f"{uid}\n".encode()
        assert (cluster.mount / "homes" / "admin" / name).stat().st_uid == uid
        log = cluster.mount / "jobs" / both / name / "1" / "stdout.log"
        soon(lambda log=log: log.is_file() and log.stat().st_size > 0, within_s=30, what=f"{log} is on the mount")

    reader = {**task, "name": "reader", "command": "cat /root/nfs/one /root/nfs/two; rm /root/nfs/one"}
    read = client.submit(a_job(reader))["id"]
    assert client.wait(read, timeout_s=60, poll_s=0.2)["state"] == "SUCCEEDED"
    assert len(client.log(read, "reader").split()) == 2
    soon(lambda: [entry["name"] for entry in client.files()] == ["two"], what="one is gone for the page too")
    client.delete_file("two")
    assert list(client.files()) == []
