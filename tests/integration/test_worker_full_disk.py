"""A Worker whose mount or own disk is really full: a small tmpfs for each."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mounts import unmount_below
from tests.support.waiting import eventually
from tests.support.worker_rig import a_launch, an_attempt, scripted, worker_rig

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(120)]
MIB = 1 << 20


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """40 MiB."""
    disk = tmp_path / "small"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "headway-test", str(disk)], check=True)
    yield disk
    unmount_below(disk)


def fill(disk: Path, *, leave: int) -> Path:
    """A file that leaves so many bytes free."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        for _ in range(100):
            stat = os.statvfs(disk)
            try:
                os.posix_fallocate(file.fileno(), 0, stat.f_bavail * stat.f_frsize - leave)
                break
            except OSError as error:
                # Somebody wrote between the look and the filling.
                if error.errno != errno.ENOSPC:
                    raise
    return ballast


async def test_a_full_mount_holds_new_work_and_loses_no_byte_of_what_runs(tmp_path: Path, small_disk: Path) -> None:
    async with worker_rig(tmp_path, mount=small_disk) as rig:
        incarnation = await rig.start()
        attempt = an_attempt()
        launch = a_launch(attempt, incarnation=incarnation, env=scripted(1, output="y" * 60_000))
        (verdict,) = await rig.launch(launch)
        assert verdict.accepted
        ballast = fill(small_disk, leave=0)
        end = await rig.ended(attempt, within_s=30)
        assert end.kind == "SUCCEEDED", "a full mount does the task no harm"
        # Live readers get it from the machine itself.
        assert await rig.read(attempt) == b"y" * 60_000
        await eventually(lambda: "disk_full" in rig.resource_manager.conditions(), within_s=25)
        (verdict,) = await rig.launch(a_launch(an_attempt("next"), incarnation=incarnation))
        assert not verdict.accepted
        assert verdict.again_later
        ballast.unlink()
        await eventually(
            lambda: (
                (rig.logs(attempt) / "stdout.log").read_bytes() == b"y" * 60_000
                if (rig.logs(attempt) / "stdout.log").exists()
                else False
            ),
            within_s=60,
            what="the copy recovers by itself",
        )
        await eventually(lambda: "disk_full" not in rig.resource_manager.conditions(), within_s=25)


async def test_a_worker_with_a_full_disk_takes_nothing_and_recovers(tmp_path: Path, small_disk: Path) -> None:
    async with worker_rig(tmp_path, worker__folder=str(small_disk / "worker"), worker__disk_low_bytes=8 * MIB) as rig:
        incarnation = await rig.start()
        running = an_attempt("running")
        await rig.launch(a_launch(running, incarnation=incarnation, env=scripted(4)))
        ballast = fill(small_disk, leave=0)
        attempt = an_attempt()
        verdicts = await rig.launch_or_error(a_launch(attempt, incarnation=incarnation))
        assert not [verdict for verdict in verdicts if verdict.accepted], "what can't be written is not accepted"
        await eventually(lambda: "disk_full" in rig.resource_manager.conditions(), within_s=25)
        ballast.unlink()
        assert (await rig.ended(running, within_s=40)).kind == "SUCCEEDED"
        await eventually(lambda: "disk_full" not in rig.resource_manager.conditions(), within_s=25)
        (verdict,) = await rig.launch(a_launch(attempt, incarnation=incarnation))
        assert verdict.accepted
        assert (await rig.ended(attempt)).kind == "SUCCEEDED"
