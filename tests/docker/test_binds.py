"""What lies at a task's mounts: unchangeable where it is shared, also for root, and no set-uid file counts anywhere."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contracts.subjects import DockerSubject
from tests.support.dockerd import Engine
from tests.support.waiting import eventually
from tests.support.worker_rig import an_attempt
from worker.ports import StartOrder

pytestmark = [pytest.mark.docker, pytest.mark.timeout(120)]

ACCOUNT = 20001
_SHARED = {"the code": "/root/code", "a dataset": "/root/datasets/mnist"}

# Each line that works prints itself. Root in a container that an admin allowed has its capabilities.
_CHANGES = """
try() { "$@" 2>/dev/null && echo "worked: $*"; }
cd $0
try sh -c 'echo changed > x'
try sh -c 'echo more >> x'
try touch new
try mkdir folder
try rm -f x
try mv x y
try chmod 777 x
try chown 1 x
try ln x second
try ln -s x link
try truncate -s 0 x
cd /
try mount -o remount,rw $0
try mount -o remount,bind,rw $0
try mount -o bind,rw $0 /tmp
try umount $0
try umount -l $0
try mount -t tmpfs tmpfs $0
try mv $0 /tmp/moved
try rmdir $0
try unshare -m sh -c "mount -o remount,bind,rw $0"
try unshare -Ur sh -c "mount -o remount,bind,rw $0"
try nsenter -t 1 -m mount -o remount,rw $0
try sh -c "echo changed > /proc/1/root$0/x"
try mknod /tmp/disk b 8 0
cat $0/x
"""


@pytest.fixture
async def subject(tmp_path: Path, docker_engine: Engine) -> AsyncIterator[DockerSubject]:
    one = DockerSubject(tmp_path, docker_engine.url)
    await one.open()
    yield one
    await one.abandon()
    docker_engine.remove_containers()


def _folder(path: Path, owner: int = 0) -> Path:
    path.mkdir()
    (path / "x").write_text("as published\n")
    for one in (path, path / "x"):
        os.chown(one, owner, owner)
        one.chmod(0o777)
    return path


async def _order(subject: DockerSubject, folder: Path) -> StartOrder:
    order = await subject.order(an_attempt())
    return replace(
        order,
        home=_folder(folder / "home", ACCOUNT),
        code=_folder(folder / "code"),
        datasets={"mnist": _folder(folder / "mnist")},
        spec=replace(order.spec, mounts=("/root/nfs", "/root/code", "/root/datasets/mnist")),
    )


async def _printed(subject: DockerSubject, order: StartOrder) -> str:
    async def end() -> list[int | None]:
        found = (await subject.runtime.progress(order.attempt)).end
        return [found.exit_code] if found else []

    ended = await eventually(end, within_s=60)
    box = subject.runtime.box(order.attempt)
    assert ended == [0], (box.stderr.read_text(), (await subject.runtime.progress(order.attempt)).end)
    return box.stdout.read_text()


@pytest.mark.parametrize("what", _SHARED)
@pytest.mark.parametrize("user", ["0:0", f"{ACCOUNT}:{ACCOUNT}"])
@pytest.mark.parametrize("drop_caps", [False, True], ids=["as the image's user", "as an account"])
async def test_shared_files_are_unchangeable(
    subject: DockerSubject, tmp_path: Path, what: str, user: str, drop_caps: bool
) -> None:
    order = await _order(subject, tmp_path)
    args = ("/bin/sh", "-c", _CHANGES, _SHARED[what])
    order = replace(order, spec=replace(order.spec, args=args, user=user, drop_caps=drop_caps))
    await subject.runtime.start(order)
    assert await _printed(subject, order) == "as published\n"
    for folder in ("code", "mnist"):
        assert (tmp_path / folder / "x").read_text() == "as published\n"
        assert os.listdir(tmp_path / folder) == ["x"]
        assert (tmp_path / folder / "x").stat().st_uid == 0


async def test_a_set_uid_file_counts_on_no_bind(subject: DockerSubject, tmp_path: Path) -> None:
    """A root task may have left one on the mount. Engines drop `nosuid` from read-only binds."""
    order = await _order(subject, tmp_path)
    program = tmp_path / "program"
    shutil.copyfile("/bin/busybox", program)

    def put(folder: Path) -> None:
        target = folder / "rights"
        shutil.copyfile(program, target)
        os.chown(target, 0, 0)
        target.chmod(0o6755)

    for folder in ("home", "code", "mnist"):
        put(tmp_path / folder)
    script = """
        box=${HEADWAY_ATTEMPT_DIR%/attempt}
        for place in /root/nfs /root/code /root/datasets/mnist $HEADWAY_ATTEMPT_DIR $box; do
            while [ ! -e $place/rights ]; do sleep 0.05; done
            status=$($place/rights grep NoNewPrivs /proc/self/status)
            echo ${place##*/} $($place/rights id -u) $($place/rights id -g) $status
        done
    """
    place = order.spec.place
    env = {"PATH": "/bin", "HEADWAY_ATTEMPT_DIR": f"{place}/attempt"}
    order = replace(order, spec=replace(order.spec, args=("/bin/sh", "-ec", script), env=env))
    await subject.runtime.start(order)
    box = subject.runtime.box(order.attempt)
    await asyncio.to_thread(put, box.attempt)
    await asyncio.to_thread(put, box.root)
    lines = (await _printed(subject, order)).splitlines()
    assert [line.split()[0] for line in lines] == ["nfs", "code", "mnist", "attempt", place.lstrip("/")]
    assert {tuple(line.split()[1:]) for line in lines} == {(str(ACCOUNT), str(ACCOUNT), "NoNewPrivs:", "1")}
