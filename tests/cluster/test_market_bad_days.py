"""Killed servers and full disks in the midst of uploads, checks and publishing, as the command line shows it."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.support.archives import Entry, docker_save, tiny_image
from tests.support.cluster import Cluster, a_cluster, a_job, scripted_task
from tests.support.held_line import a_held_line
from tests.support.small_disks import SmallDisk, small_disks
from tests.support.waiting import soon

pytestmark = [pytest.mark.slow, pytest.mark.root]

MIB = 1 << 20
DISK_MIB = 1500  # a limit; only what lies on it takes memory
HELD = 6 * MIB


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, SmallDisk]]:
    folder = tmp_path_factory.mktemp("baddays")
    with (
        small_disks((folder / "mount", DISK_MIB)) as (disk,),
        a_cluster(folder, cluster__heartbeat_s=1, worker__local_images=True) as cluster,
    ):
        yield cluster, disk


def spawned(cluster: Cluster, *arguments: str, url: str = "") -> subprocess.Popen[bytes]:
    """The command line, in the background, with what it remembers of uploads below the cluster's folder."""
    environment = cluster.environ() | {"XDG_STATE_HOME": str(cluster.folder), "XDG_CACHE_HOME": str(cluster.folder)}
    if url:
        environment["HEADWAY_URL"] = url
    return subprocess.Popen(
        [sys.executable, "-m", "headway", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )


def ended(process: subprocess.Popen[bytes], code: int = 0) -> str:
    """What it said, on the way it should have ended."""
    out, err = process.communicate(timeout=100)
    assert process.returncode == code, (process.args, process.returncode, out, err)
    assert b"Traceback" not in err, err.decode()
    return (out if code == 0 else err).decode()


def an_image(path: Path, mib: int) -> str:
    """An archive of a layer that nothing else has; its digest."""
    image = tiny_image([Entry("bin/sh", b"x"), Entry("big", os.urandom(mib * MIB))])
    path.write_bytes(docker_save(image))
    return image.digest


def restarted(cluster: Cluster) -> None:
    cluster.kill9("httpserver")
    cluster.start("httpserver")
    cluster.wait_ready()


def below(folder: Path, pattern: str) -> list[str]:
    with suppress(OSError):
        return sorted(str(path.relative_to(folder)) for path in folder.glob(pattern))
    return []


def leftovers(cluster: Cluster) -> list[str]:
    """All that only work under way may have on the mount."""
    mount = cluster.mount
    patterns = (
        "images/.uploads/*",
        "images/.ingest/*",
        "datasets/.*",
        "code/*/.*",
        "code/*/blobs/.*",
        "homes/*/.headway-uploads/*",
        "homes/*/**/.headway-upload-*",
    )
    return [found for pattern in patterns for found in below(mount, pattern)]


def test_a_kill_in_the_midst_of_everything_costs_nothing(rig: tuple[Cluster, SmallDisk], tmp_path: Path):
    cluster, _ = rig
    client, home = cluster.client, cluster.mount / "homes" / "admin"
    digest = an_image(tmp_path / "image.tar", 16)
    content = os.urandom(16 * MIB)
    (tmp_path / "file").write_bytes(content)
    code = tmp_path / "code"
    code.mkdir()
    for number in range(40):
        (code / f"{number}.bin").write_bytes(os.urandom(MIB // 4))
    (tmp_path / "job.json").write_bytes(a_job(scripted_task()))
    client.make_folder("data")
    owner = home.stat()
    for name in ("shared", "copied"):
        (home / "data" / name).mkdir()
        for number in range(1500):
            (home / "data" / name / f"{number}").write_bytes(b"%d" % number)
            os.chown(home / "data" / name / f"{number}", owner.st_uid, owner.st_gid)
        os.chown(home / "data" / name, owner.st_uid, owner.st_gid)
    with ExitStack() as stack:
        image_line, file_line, folder_line, code_line = lines = [
            stack.enter_context(a_held_line(cluster.http_port, after=HELD)) for _ in range(4)
        ]
        pushing = spawned(cluster, "images", "push", "tool:1", "--from", f"{tmp_path}/image.tar", url=image_line.url)
        putting = spawned(cluster, "files", "put", f"{tmp_path}/file", "file", url=file_line.url)
        filling = spawned(cluster, "files", "put", "-r", str(code), "folder", url=folder_line.url)
        coding = spawned(cluster, "submit", f"{tmp_path}/job.json", "--code", str(code), url=code_line.url)
        for line in lines:
            assert line.held.wait(60)
        publishing = [
            spawned(cluster, "datasets", "publish", "shared", "data/shared"),
            spawned(cluster, "datasets", "publish", "copied", "data/copied", "--copy"),
        ]
        for name in ("shared", "copied"):
            soon(
                lambda name=name: (
                    below(cluster.mount, f"datasets/.staging-{name}@1/data/*")
                    or below(cluster.mount, f"datasets/{name}/1")
                ),
                within_s=60,
                every_s=0.002,
                what=f"{name} is being published",
            )
        cluster.kill9("httpserver")
        assert below(cluster.mount, "images/.uploads/*")
        assert below(home, ".headway-uploads/*")
        cluster.start("httpserver")
        for line in lines:
            line.release()
        # And in the midst of the check.
        soon(
            lambda: below(cluster.mount, "images/.ingest/*/layer-*") or pushing.poll() is not None,
            within_s=60,
            every_s=0.002,
        )
        restarted(cluster)
        assert digest in ended(pushing)
        ended(putting)
        ended(filling)
        ended(coding)
        for one in publishing:
            assert "1500 files" in ended(one)
    assert hashlib.sha256((home / "file").read_bytes()).digest() == hashlib.sha256(content).digest()
    for path in code.iterdir():
        assert (home / "folder" / path.name).read_bytes() == path.read_bytes()
    for name in ("shared", "copied"):
        assert len(below(cluster.mount / "datasets" / name, "*/*")) == 1500
    soon(lambda: leftovers(cluster) == [], within_s=60, what="nothing half done is left")


def test_a_disk_that_fills_in_the_midst_is_said_and_gives_its_space_back(
    rig: tuple[Cluster, SmallDisk], tmp_path: Path
):
    cluster, disk = rig
    home = cluster.mount / "homes" / "admin"
    digest = an_image(tmp_path / "image.tar", 16)
    (tmp_path / "file").write_bytes(os.urandom(16 * MIB))
    code = tmp_path / "code"
    code.mkdir()
    for number in range(8):
        (code / f"{number}.bin").write_bytes(os.urandom(2 * MIB))
    (tmp_path / "job.json").write_bytes(a_job(scripted_task()))
    pushes = ("images", "push", "other:1", "--from", f"{tmp_path}/image.tar")
    puts = ("files", "put", f"{tmp_path}/file", "big")
    folders = ("files", "put", "-r", str(code), "halves")
    submits = ("submit", f"{tmp_path}/job.json", "--code", str(code))
    before = disk.used_mib()
    with ExitStack() as stack:
        lines = [stack.enter_context(a_held_line(cluster.http_port, after=HELD)) for _ in range(4)]
        several = [
            spawned(cluster, *words, url=line.url)
            for words, line in zip((pushes, puts, folders, submits), lines, strict=True)
        ]
        for line in lines:
            assert line.held.wait(60)
        disk.limit()
        try:
            for line in lines:
                line.release()
            for one in several:
                said = ended(one, 4)
                assert "full" in said, said
                assert "\n" not in said.partition("\n  (request ")[0], said
            # What is there can be fetched, and deleted.
            fetched = spawned(cluster, "files", "get", "-r", "halves", f"{tmp_path}/halves.zip")
            ended(fetched)
            cluster.client.delete_file("data", recursive=True, permanent=True)
        finally:
            disk.limit(DISK_MIB)
        # The same commands go on from there.
        assert digest in ended(spawned(cluster, *pushes, url=lines[0].url))
        for words, line in zip((puts, folders, submits), lines[1:], strict=True):
            ended(spawned(cluster, *words, url=line.url))
    assert (home / "big").read_bytes() == (tmp_path / "file").read_bytes()
    soon(lambda: leftovers(cluster) == [], within_s=60, what="nothing half done is left")
    assert disk.used_mib() - before < 16 + 16 + 16 + 16 + 4
