"""The shared mount: paths from checked ids only, and never a write to the bare folder below."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from headway import mount
from headway.errors import ConfigInvalid, InvalidInput, MountUnavailable, StoreFull
from headway.ids import AttemptId, JobId, TaskId, new_job_id
from headway.mount import (
    MARKER,
    Layout,
    MountKind,
    MountProbe,
    ensure_home,
    mount_state,
    prepare_local,
    reach,
    read_marker,
)

JOB = new_job_id(1_800_000_000.0)
NAME = "cluster-a"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return prepare_local(tmp_path / "mount", NAME)


def test_paths_are_those_of_the_design(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    attempt = AttemptId(TaskId(JOB, "train.v2"), 3)
    assert layout.home("ann") == tmp_path / "homes" / "ann"
    assert layout.attempt(attempt) == tmp_path / "jobs" / JOB / "train.v2" / "3"
    assert layout.image("sha256:" + "a" * 64) == tmp_path / "images" / ("sha256-" + "a" * 64)
    assert layout.dataset("mnist", "1") == tmp_path / "datasets" / "mnist" / "1"


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "../x", "a\0b", "ä", "a" * 200, "-rf", "a\n"])
def test_no_name_leads_elsewhere(tmp_path: Path, name: str) -> None:
    layout = Layout(tmp_path)
    for path in (
        lambda: layout.home(name),
        lambda: layout.dataset(name, "1"),
        lambda: layout.dataset("mnist", name),
        lambda: layout.image(name),
        lambda: layout.job(JobId(name)),
    ):
        with pytest.raises(InvalidInput):
            path()
    if name != "a" * 200:
        with pytest.raises(InvalidInput):
            layout.attempt(AttemptId(TaskId(JOB, name), 1))
    with pytest.raises(InvalidInput):
        layout.attempt(AttemptId(TaskId(JOB, "a"), 0))


def test_a_prepared_folder_is_ok_and_stays_so(layout: Layout) -> None:
    state = mount_state(layout, NAME)
    assert state.ok, state.sentence
    assert state.free_bytes > 0
    assert prepare_local(layout.root, NAME) == layout
    assert read_marker(layout.root) == NAME
    assert sorted(p.name for p in layout.root.iterdir()) == [MARKER, "code", "datasets", "homes", "images", "jobs"]


def test_the_bare_folder_is_missing_and_nothing_is_written_to_it(tmp_path: Path) -> None:
    state = mount_state(Layout(tmp_path), NAME)
    assert state.kind is MountKind.MISSING
    assert "Is it mounted?" in state.sentence
    assert list(tmp_path.iterdir()) == []
    assert mount_state(Layout(tmp_path / "absent"), NAME).kind is MountKind.MISSING


def test_another_clusters_mount_is_not_ours(layout: Layout) -> None:
    state = mount_state(layout, "cluster-b")
    assert state.kind is MountKind.MISSING
    assert "belongs to the cluster 'cluster-a'" in state.sentence
    with pytest.raises(ConfigInvalid, match="belongs to the cluster 'cluster-a'"):
        prepare_local(layout.root, "cluster-b")


def test_a_used_mount_that_lost_its_marker_gets_no_new_one(layout: Layout) -> None:
    layout.marker.unlink()
    with pytest.raises(ConfigInvalid, match="is the disk mounted"):
        prepare_local(layout.root, NAME)
    assert not layout.marker.exists()


def test_an_empty_folder_that_was_the_mount_before_gets_no_marker(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="is the disk mounted"):
        prepare_local(tmp_path, NAME, used_before=True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_other_things_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "mine.txt").write_text("x")
    prepare_local(tmp_path, NAME)
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert mount_state(Layout(tmp_path), NAME).ok


def test_a_path_through_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigInvalid, match="can't be used as the shared folder: Not a directory"):
        prepare_local(tmp_path / "file" / "mount", NAME)


@pytest.mark.parametrize(
    ("number", "want"),
    [
        (errno.ENOSPC, MountKind.FULL),
        (errno.EDQUOT, MountKind.FULL),
        (errno.EROFS, MountKind.READ_ONLY),
        (errno.EACCES, MountKind.READ_ONLY),
        (errno.ESTALE, MountKind.MISSING),
        (errno.ENOTCONN, MountKind.MISSING),
        (errno.EIO, MountKind.MISSING),
    ],
)
def test_each_fault_has_its_word(layout: Layout, monkeypatch: pytest.MonkeyPatch, number: int, want: MountKind) -> None:
    def fails(root: Path) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(mount, "_write_probe", fails)
    state = mount_state(layout, NAME)
    assert state.kind is want
    assert str(layout.root) in state.sentence


def test_little_space_counts_as_full(layout: Layout) -> None:
    assert mount_state(layout, NAME, low_bytes=1 << 62).kind is MountKind.FULL


async def test_a_mount_that_hangs_is_told_and_looked_at_by_one_thread_only(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, looks = threading.Event(), []
    real = mount._write_probe

    def hangs(root: Path) -> None:
        looks.append(root)
        gate.wait(30)
        real(root)

    monkeypatch.setattr(mount, "_write_probe", hangs)
    probe = MountProbe(layout, NAME, timeout_s=0.05)
    first, second = await probe.check(), await probe.check()
    assert (first.kind, second.kind) == (MountKind.MISSING, MountKind.MISSING)
    assert "hangs" in first.sentence
    assert len(looks) == 1
    with pytest.raises(MountUnavailable, match="hangs"):
        await probe.require()
    gate.set()
    patient = MountProbe(layout, NAME)
    assert (await patient.require()).ok


async def test_many_looks_at_once_are_fine(layout: Layout) -> None:
    probes = [MountProbe(layout, NAME) for _ in range(8)]
    assert all(state.ok for state in await asyncio.gather(*(probe.check() for probe in probes)))


def test_a_home_is_private_and_made_once(layout: Layout) -> None:
    home = ensure_home(layout, "ann", 20_001, 20_001)
    (home / "mine").write_text("x")
    assert ensure_home(layout, "ann", 20_001, 20_001) == home
    stat = home.stat()
    assert stat.st_mode & 0o777 == 0o700
    if os.geteuid() == 0:
        assert (stat.st_uid, stat.st_gid) == (20_001, 20_001)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_new_account_on_a_full_mount_is_told_so(layout: Layout, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """It used to be told that the mount was away."""

    def full(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(StoreFull, match="full"):
        ensure_home(layout, "ann", 20_001, 20_001)


def test_no_home_is_made_on_the_bare_folder(tmp_path: Path) -> None:
    with pytest.raises(MountUnavailable):
        ensure_home(Layout(tmp_path), "ann", 20_001, 20_001)
    assert list(tmp_path.iterdir()) == []


def test_what_is_reached_stays_on_the_mount_though_another_folder_takes_its_place(layout: Layout) -> None:
    """The Worker looked at the mount every ten seconds, and wrote logs to the bare folder in between."""
    with reach(layout, NAME, layout.root / "jobs" / "x") as folder:
        layout.root.rename(layout.root.with_name("real"))
        layout.root.mkdir()
        folder.mkdir()
        (folder / "file").write_text("y")
    assert list(layout.root.iterdir()) == []
    assert (layout.root.with_name("real") / "jobs" / "x" / "file").read_text() == "y"
    with pytest.raises(OSError, match="not mounted"), reach(layout, NAME, layout.root / "jobs"):
        pass
