"""How an uploaded file gets into its place, also twice, and where links can't be made."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.errors import Conflict, InvalidInput
from httpserver.files import upload_target
from httpserver.files.space import UPLOADS, PersonalSpace
from httpserver.files.upload_target import _path, _publish, _sweeper
from httpserver.uploads.errors import UploadOver


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / UPLOADS).mkdir()
    (tmp_path / UPLOADS / "abc").write_bytes(b"new")
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.fixture(params=["links", "no links"])
def links(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Also a file system without hard links has to do."""
    if request.param == "links":
        return True

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(upload_target.os, "link", refused)
    return False


@pytest.fixture
def folders(home: Path) -> Iterator[tuple[int, int]]:
    """Where it is, and where it shall be."""
    both = [os.open(home / name, os.O_RDONLY | os.O_DIRECTORY) for name in (UPLOADS, "folder")]
    yield both[0], both[1]
    for descriptor in both:
        os.close(descriptor)


def publish(folders: tuple[int, int], *, overwrite: bool = True, modified_at: float | None = None) -> bool:
    return _publish(folders[0], "abc", folders[1], "file", overwrite=overwrite, modified_at=modified_at)


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_new_file(home: Path, folders: tuple[int, int], overwrite: bool, links: bool):
    assert publish(folders, overwrite=overwrite, modified_at=12.5) is False
    path = home / "folder" / "file"
    assert (path.read_bytes(), path.stat().st_mode & 0o777, path.stat().st_mtime) == (b"new", 0o644, 12.5)
    assert (home / UPLOADS / "abc").exists() is links


@pytest.mark.parametrize("overwrite", [True, False])
def test_done_again_after_a_kill_it_changes_nothing(home: Path, folders: tuple[int, int], overwrite: bool):
    publish(folders, overwrite=overwrite)
    before = (home / "folder" / "file").stat()
    publish(folders, overwrite=overwrite)
    after = (home / "folder" / "file").stat()
    assert (before.st_ino, before.st_size) == (after.st_ino, after.st_size)
    assert [p.name for p in (home / UPLOADS).iterdir()] == ["abc"]
    (home / UPLOADS / "abc").unlink()
    assert (home / "folder" / "file").stat().st_nlink == 1


def test_what_is_there_is_replaced_with_its_mode_or_left(home: Path, folders: tuple[int, int], links: bool):
    path = home / "folder" / "file"
    path.write_bytes(b"old")
    path.chmod(0o755)
    with pytest.raises(FileExistsError):
        publish(folders, overwrite=False)
    assert path.read_bytes() == b"old"
    assert publish(folders) is True
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o755)


def test_a_link_is_replaced_and_not_what_it_points_at(home: Path, folders: tuple[int, int]):
    (home / "other").write_bytes(b"other")
    (home / "folder" / "file").symlink_to(home / "other")
    publish(folders)
    assert (home / "other").read_bytes() == b"other"
    assert (home / "folder" / "file").read_bytes() == b"new"


def test_a_folder_that_came_in_between_is_not_replaced(home: Path, folders: tuple[int, int]):
    (home / "folder" / "file").mkdir()
    with pytest.raises(OSError, match="directory"):
        publish(folders)
    assert [p.name for p in (home / UPLOADS).iterdir()] == ["abc"]


def test_bytes_that_are_gone_or_a_link_are_not_published(home: Path, folders: tuple[int, int]):
    (home / UPLOADS / "abc").unlink()
    with pytest.raises(UploadOver):
        publish(folders)
    (home / UPLOADS / "abc").symlink_to("/etc/passwd")
    with pytest.raises(OSError, match="symbolic"):
        publish(folders)
    assert list((home / "folder").iterdir()) == []


def test_a_sweep_takes_what_no_record_knows(home: Path):
    (home / UPLOADS / "known").write_bytes(b"")
    descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _sweeper({"known"})(PersonalSpace(descriptor))
        assert [p.name for p in (home / UPLOADS).iterdir()] == ["known"]
        _sweeper(())(PersonalSpace(descriptor))
    finally:
        os.close(descriptor)
    assert not (home / UPLOADS).exists()


@pytest.mark.parametrize("path", ["", "/", "a/../b", "a\0", UPLOADS, f"{UPLOADS}/x", "x" * 256])
def test_paths_that_are_refused(path: str):
    with pytest.raises((InvalidInput, Conflict)):
        _path({"path": path})
