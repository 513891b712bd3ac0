"""What lies at a task's mounts: unchangeable where it is shared, also for root, and no set-uid file counts anywhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contracts.subjects import DockerSubject
from tests.support.dockerd import Engine
from tests.support.images import static_program
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


async def test_the_same_changes_work_where_the_account_may_write(subject: DockerSubject, tmp_path: Path) -> None:
    """So the ones above fail by the binds, and not by the script."""
    order = await _order(subject, tmp_path)
    args = ("/bin/sh", "-c", _CHANGES.replace("cat $0/x", "true"), "/root/nfs")
    order = replace(order, spec=replace(order.spec, args=args))
    await subject.runtime.start(order)
    printed = await _printed(subject, order)
    assert "worked: sh -c echo changed > x\n" in printed
    assert "worked: mkdir folder\n" in printed
    assert "mount" not in printed


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder on the way to which everybody may go."""
    with tempfile.TemporaryDirectory(prefix="hw") as folder:
        Path(folder).chmod(0o755)
        assert not os.statvfs(folder).f_flag & os.ST_NOSUID, "this test needs a folder for set-uid files"
        yield Path(folder)


def _put(folder: Path) -> Path:
    """A set-uid program of root's that writes a file as who it becomes."""
    target = folder / "rights"
    shutil.copyfile(static_program(), target)
    os.chown(target, 0, 0)
    target.chmod(0o6755)
    return target


def test_the_set_uid_program_is_root_outside_of_containers(open_folder: Path) -> None:
    """So the one below fails by no-new-privileges, and not by the program."""
    command = [_put(open_folder), "write", open_folder / "by-root"]
    assert subprocess.run(command, user=ACCOUNT, group=ACCOUNT, extra_groups=[], check=False).returncode == 0
    assert (open_folder / "by-root").stat().st_uid == 0


async def test_a_set_uid_file_counts_on_no_bind(subject: DockerSubject, tmp_path: Path) -> None:
    """A root task may have left one on the mount. Engines drop `nosuid` from read-only binds."""
    order = await _order(subject, tmp_path)
    for folder in ("home", "code", "mnist"):
        _put(tmp_path / folder)
    script = """
        box=${HEADWAY_ATTEMPT_DIR%/attempt}
        for place in /root/nfs /root/code /root/datasets/mnist $HEADWAY_ATTEMPT_DIR $box; do
            while [ ! -e $place/ready ]; do sleep 0.05; done
            $place/rights write /tmp/file && echo it runs in ${place##*/}
            $place/rights write /etc/by-root 2>/dev/null && echo it is root in ${place##*/}
        done
        true
    """
    place = order.spec.place
    env = {"PATH": "/bin", "HEADWAY_ATTEMPT_DIR": f"{place}/attempt"}
    order = replace(order, spec=replace(order.spec, args=("/bin/sh", "-c", script), env=env))
    await subject.runtime.start(order)
    box = subject.runtime.box(order.attempt)
    for folder in (box.attempt, box.root):
        _put(folder)
    for folder in (tmp_path / "home", tmp_path / "code", tmp_path / "mnist", box.attempt, box.root):
        (folder / "ready").write_text("")
    names = ["nfs", "code", "mnist", "attempt", place.lstrip("/")]
    assert (await _printed(subject, order)).splitlines() == [f"it runs in {name}" for name in names]
