"""Publishing on real file systems: one that shares content, one that is full, one that is too deep."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headway.errors import HeadwayError, StoreFull, TooLarge
from headway.mount import Layout, prepare_local
from httpserver.datasets.publication import CopyNeeded, Publication, checksum_line, choose
from httpserver.datasets.source_folder import DatasetLimits, NotPublishable, SourceFolder
from httpserver.datasets.staging import VersionFolders, VersionInfo, discard
from tests.support.small_disks import small_disks

UID = 20_001
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root takes files over")


@pytest.fixture
def places(tmp_path: Path) -> VersionFolders:
    return VersionFolders(a_mount(tmp_path / "mount"))


def a_mount(at: Path) -> Layout:
    layout = prepare_local(at, "test")
    home = layout.home("ann")
    home.mkdir()
    os.chown(home, UID, UID)
    return layout


def a_folder(places: VersionFolders, files: dict[str, bytes]) -> Path:
    folder = places.root.parent / "homes" / "ann" / "data"
    for name, content in {**files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for each in (folder, *folder.rglob("*")):
        os.chown(each, UID, UID, follow_symlinks=False)
    return folder


@contextmanager
def opened(folder: Path) -> Iterator[SourceFolder]:
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield SourceFolder(descriptor, UID, UID)
    finally:
        os.close(descriptor)


def publish(
    places: VersionFolders,
    folder: Path,
    *,
    copy: bool = False,
    name: str = "d",
    stop: Callable[[], None] = lambda: None,
) -> VersionInfo:
    """As the publisher does it, with what it does after a failure."""
    with opened(folder) as source:
        scanned = source.scan(DatasetLimits())
        scanned.check(DatasetLimits())
        method = choose(places, source, copy=copy, counted=lambda: scanned)
        work = Publication(places, name, "1", source, method, scanned, stop)
        try:
            work.collect()
            work.take_over()
            info = work.check()
        except HeadwayError:
            discard(places.staging(name, "1"))
            raise
        assert work.progress == 1.0
    places.publish(name, "1")
    return info


def owners(folder: Path) -> set[tuple[int, int, int]]:
    return {
        (p.stat().st_uid, stat.S_IMODE(p.stat().st_mode), p.stat().st_nlink) for p in folder.rglob("*") if p.is_file()
    }


@pytest.mark.root
@pytest.mark.skipif(shutil.which("mkfs.xfs") is None, reason="no mkfs.xfs (Debian package xfsprogs) here")
def test_where_content_can_be_shared_nothing_of_the_space_changes(tmp_path: Path) -> None:
    image, at = tmp_path / "xfs", tmp_path / "mount"
    at.mkdir()
    with image.open("wb") as file:
        file.truncate(320 << 20)
    subprocess.run(["mkfs.xfs", "-q", "-m", "reflink=1", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(at)], check=True)
    try:
        places = VersionFolders(a_mount(at / "headway"))
        folder = a_folder(places, {"big": os.urandom(30 << 20), "run": b"#!"})
        (folder / "run").chmod(0o755)
        before, used = owners(folder), _used(at)
        info = publish(places, folder)
        assert (info.method, info.files) == ("reflink", 2)
        assert _used(at) - used < 4 << 20, "it was copied"
        assert owners(folder) == before
        placed = places.version("d", "1")
        assert owners(placed) == {(0, 0o444, 1), (0, 0o555, 1)}
        original = (placed / "big").read_bytes()
        with (folder / "big").open("r+b") as file:
            file.write(b"changed afterwards")
        assert (placed / "big").read_bytes() == original
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


def _used(at: Path) -> int:
    os.sync()
    found = os.statvfs(at)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


@pytest.mark.root
@pytest.mark.parametrize("copy", [False, True])
def test_a_disk_that_gets_full_costs_nothing(tmp_path: Path, copy: bool) -> None:
    at = tmp_path / "mount"
    with small_disks((at, 8)) as (disk,):
        places = VersionFolders(a_mount(at / "headway"))
        folder = a_folder(places, {f"d{i}/f": b"x" * 10_000 for i in range(300)})
        before = owners(folder)
        full: list[bool] = []

        def fill() -> None:
            if not full:
                disk.fill()
                full.append(True)

        with pytest.raises(StoreFull, match="nothing was published"):
            publish(places, folder, copy=copy, stop=fill)
        disk.make_room()
        assert owners(folder) == before
        assert list(places.root.iterdir()) == []
        if not copy:  # there was never room for one
            assert publish(places, folder).files == 300


def test_the_same_tree_has_the_same_checksum_however_it_was_made(places: VersionFolders) -> None:
    folder = a_folder(places, {"b": b"1", "a/z": b"2", "a.txt": b"3", "a/b/c": b"4"})
    first = publish(places, folder, copy=True, name="one")
    shutil.rmtree(folder)
    a_folder(places, {"a/b/c": b"4", "a.txt": b"3", "b": b"1", "a/z": b"2"})
    assert publish(places, folder, name="two").checksum == first.checksum


def test_too_many_files_are_told_before_anything_is_done(places: VersionFolders) -> None:
    folder = a_folder(places, {f"f{i}": b"" for i in range(20)})
    with opened(folder) as source:
        scanned = source.scan(DatasetLimits(files=10))
    assert scanned.files <= 11, "it went on counting"
    with pytest.raises(TooLarge, match="more than 10 files"):
        scanned.check(DatasetLimits(files=10))
    with opened(a_folder(places, {"big": b"x" * 5000})) as source, pytest.raises(TooLarge, match=r"more than 4\.0 KiB"):
        source.scan(DatasetLimits(bytes=4096)).check(DatasetLimits(bytes=4096))


@pytest.mark.parametrize("after", [0, 1, 7, 25, 31, 45, 60, 75, 90])
def test_a_kill_at_any_moment_gives_everything_back(places: VersionFolders, after: int) -> None:
    """A real one, in a process of its own."""
    folder = a_folder(places, {f"d{i}/f": b"x" for i in range(20)})
    before = owners(folder)
    child = os.fork()
    if child == 0:
        calls = iter(range(1000))

        def stop() -> None:
            if next(calls) == after:
                os.kill(os.getpid(), signal.SIGKILL)

        publish(places, folder, stop=stop)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it came to its end"
    if after > 45:
        assert (0, 0o444, 2) in owners(folder)
    for left in places.leftovers():
        discard(left)
    assert owners(folder) == before
    assert list(places.root.iterdir()) == []
    assert publish(places, folder).files == 20


def test_folders_may_be_as_deep_as_a_path_can_say(places: VersionFolders) -> None:
    folder = a_folder(places, {"x": b"1"})
    deep = "/".join(["d"] * 1200)
    subprocess.run(["mkdir", "-p", str(folder / deep)], check=True)
    (folder / deep / "x").write_bytes(b"deep")
    subprocess.run(["chown", "-R", f"{UID}:{UID}", str(folder)], check=True)
    assert publish(places, folder).files == 2
    discard(places.take_out("d", "1"))
    assert (folder / deep / "x").stat().st_uid == UID
    subprocess.run(["rm", "-rf", str(folder)], check=True)  # more than what pytest can clear away


def test_without_root_there_is_no_promise_and_so_no_hard_link(
    places: VersionFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = a_folder(places, {"x": b"1"})
    with opened(folder) as source:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        scanned = source.scan(DatasetLimits())
        with pytest.raises(CopyNeeded, match="does not run as root"):
            choose(places, source, copy=False, counted=lambda: scanned)
        assert choose(places, source, copy=True, counted=lambda: scanned) == "copy"
    assert list(places.root.iterdir()) == []


def test_whose_tasks_may_be_root_gets_no_hard_links(places: VersionFolders) -> None:
    """Root in a container with the space in it writes into any file there, whoever owns it."""
    with opened(a_folder(places, {"x": b"1"})) as source:
        scanned = source.scan(DatasetLimits())
        with pytest.raises(CopyNeeded, match="user: image"):
            choose(places, source, copy=False, counted=lambda: scanned, root_tasks=True)
        assert choose(places, source, copy=True, counted=lambda: scanned, root_tasks=True) == "copy"


def test_a_mount_that_squashes_root_is_told(places: VersionFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = a_folder(places, {"x": b"1"})

    def squashed(*args: object, **kwargs: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with opened(folder) as source:
        monkeypatch.setattr(os, "chown", squashed)
        with pytest.raises(CopyNeeded, match="root_squash"):
            choose(places, source, copy=False, counted=lambda: source.scan(DatasetLimits()))


def test_set_uid_is_lost_and_never_given_back(places: VersionFolders) -> None:
    folder = a_folder(places, {"su": b"#!"})
    (folder / "su").chmod(0o4755)
    publish(places, folder)
    assert owners(places.version("d", "1")) == {(0, 0o555, 2)}
    discard(places.take_out("d", "1"))
    assert owners(folder) == {(UID, 0o755, 1)}


def test_a_folder_with_nothing_to_publish_says_so(places: VersionFolders) -> None:
    folder = a_folder(places, {"x/y": b""})
    (folder / "x/y").unlink()
    with opened(folder) as source, pytest.raises(NotPublishable, match="no file"):
        source.scan(DatasetLimits()).check(DatasetLimits())


@pytest.mark.parametrize(
    ("path", "want"),
    [("a b", b"0  a b\n"), ("a\nb", b"\\0  a\\nb\n"), ("a\\b", b"\\0  a\\\\b\n"), ("\udcff", b"0  \xff\n")],
)
def test_checksums_are_written_as_sha256sum_does(path: str, want: bytes) -> None:
    assert checksum_line(path, "0") == want
