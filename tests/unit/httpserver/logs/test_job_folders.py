"""Folders of jobs that are removed go from the mount in steps, and nothing else does."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headway.clock import SystemClock
from headway.errors import InvalidInput, MountUnavailable
from headway.ids import JobId, new_job_id
from headway.mount import Layout, MountProbe, prepare_local
from httpserver.logs import job_folders
from httpserver.logs.job_folders import MOST_JOBS, JobFolders


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return prepare_local(tmp_path / "mount", "headway")


@pytest.fixture
def folders(layout: Layout) -> Iterator[JobFolders]:
    made = JobFolders(layout, MountProbe(layout, "headway"), "headway")
    yield made
    made.close()


def a_job(layout: Layout, *, tasks: int = 1) -> JobId:
    job = new_job_id(SystemClock().now())
    for number in range(tasks):
        attempt = layout.job(job) / f"t{number}" / "1"
        attempt.mkdir(parents=True)
        (attempt / "stdout.log").write_text("a line")
        (attempt / "command").write_text("true")
    return job


async def test_a_folder_goes_whole_and_no_other(layout: Layout, folders: JobFolders) -> None:
    job, other, never = a_job(layout, tasks=3), a_job(layout), new_job_id(SystemClock().now())
    assert await folders.remove([job, never]) == [job, never]
    assert not layout.job(job).exists()
    assert (layout.job(other) / "t0" / "1" / "stdout.log").exists()


async def test_no_link_is_followed(layout: Layout, folders: JobFolders, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("mine")
    inside, itself = a_job(layout), new_job_id(SystemClock().now())
    (layout.job(inside) / "t0" / "link").symlink_to(kept)
    (layout.job(inside) / "to a file").symlink_to(kept / "file")
    layout.job(itself).symlink_to(kept)
    assert await folders.remove([inside, itself]) == [inside, itself]
    assert not layout.job(itself).is_symlink()
    assert (kept / "file").read_text() == "mine"


async def test_a_step_ends_in_time_and_the_next_goes_on(layout: Layout) -> None:
    ticks = iter(range(1_000_000))
    folders = JobFolders(layout, MountProbe(layout, "headway"), "headway", now=lambda: next(ticks) / 4)
    large, small = a_job(layout, tasks=20), a_job(layout)
    steps = 0
    left = [large, small]
    while left:
        gone = await folders.remove(left)
        left = [job for job in left if job not in gone]
        steps += 1
    assert steps > 3
    assert not list((layout.root / "jobs").iterdir())
    folders.close()


async def test_a_mount_that_is_away_is_told_and_its_bare_folder_left_alone(layout: Layout, folders: JobFolders) -> None:
    job = a_job(layout)
    layout.marker.unlink()
    with pytest.raises(MountUnavailable):
        await folders.remove([job])
    assert layout.job(job).exists()


def broken(monkeypatch: pytest.MonkeyPatch, errors: dict[str, int]) -> None:
    """The folders of these jobs can't be removed."""
    real = job_folders.remove_account_tree

    def remove(folder: int, name: str, *, go_on: Callable[[], bool]) -> bool:
        if name in errors:
            raise OSError(errors[name], os.strerror(errors[name]))
        return real(folder, name, go_on=go_on)

    monkeypatch.setattr(job_folders, "remove_account_tree", remove)


@pytest.mark.parametrize("error", [errno.EIO, errno.ESTALE, errno.EUCLEAN, errno.EACCES])
async def test_a_folder_that_can_not_be_read_holds_up_no_other(
    layout: Layout, folders: JobFolders, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    bad, good, later = a_job(layout), a_job(layout), a_job(layout)
    broken(monkeypatch, {bad: error})
    assert await folders.remove([bad, good]) == [good]
    assert await folders.remove([bad, later]) == [later]
    assert await folders.remove([bad]) == [], "one folder says nothing of the mount"


async def test_a_mount_of_which_no_folder_can_be_removed_is_away(
    layout: Layout, folders: JobFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = a_job(layout), a_job(layout)
    broken(monkeypatch, {one: errno.EIO, other: errno.EIO})
    with pytest.raises(MountUnavailable, match="Input/output error"):
        await folders.remove([one, other])
    broken(monkeypatch, {one: errno.ENOTCONN})
    with pytest.raises(MountUnavailable):
        await folders.remove([one])


async def test_what_is_no_job_id_is_refused(layout: Layout, folders: JobFolders) -> None:
    job = a_job(layout)
    for wrong in ("..", "../homes", "", "x/y"):
        with pytest.raises(InvalidInput, match="no job id"):
            await folders.remove([job, wrong])
    with pytest.raises(InvalidInput, match="At most"):
        await folders.remove([job] * (MOST_JOBS + 1))
    assert layout.job(job).exists()


async def test_a_mount_that_hangs_gets_no_second_removal(layout: Layout) -> None:
    """Each would wait in the one thread there is, and all would run at once when the mount comes back."""
    hangs, goes_on = threading.Event(), threading.Event()

    def now() -> float:
        if threading.current_thread() is not threading.main_thread():
            hangs.set()
            goes_on.wait(60)
        return 0.0

    folders = JobFolders(layout, MountProbe(layout, "headway"), "headway", now=now)
    job, other = a_job(layout), a_job(layout)
    first = asyncio.ensure_future(folders.remove([job]))
    try:
        await asyncio.to_thread(hangs.wait, 60)
        with pytest.raises(MountUnavailable, match="has not answered the removal before this one"):
            await folders.remove([other])
    finally:
        goes_on.set()
    assert await first == [job]
    assert layout.job(other).exists()
    assert await folders.remove([other]) == [other]
    folders.close()
