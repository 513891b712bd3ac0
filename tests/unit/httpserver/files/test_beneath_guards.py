"""No way out of a personal space, and nothing of it lost."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.errors import Conflict
from httpserver.files.space import PersonalSpace
from httpserver.filesystem import rights
from httpserver.filesystem.system_calls import open_beneath, rename_no_replace


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "secret").write_text("secret")
    return tmp_path / "home"


@pytest.fixture
def root(home: Path) -> Iterator[int]:
    descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


def refused(root: int, path: str, **how: bool) -> int:
    try:
        os.close(open_beneath(root, path, os.O_RDONLY, **how))
    except OSError as error:
        return error.errno or 0
    return 0


def test_every_way_out_is_refused(home: Path, root: int) -> None:
    (home / "up").symlink_to("../secret")
    (home / "abroad").symlink_to(home.parent / "secret")
    for path in ("../secret", "up", "abroad", str(home.parent / "secret")):
        assert refused(root, path) == errno.EXDEV


def test_links_inside_are_followed_only_where_they_may(home: Path, root: int) -> None:
    (home / "file").write_text("mine")
    (home / "link").symlink_to("file")
    os.close(open_beneath(root, "link", os.O_RDONLY))
    assert refused(root, "link", links=False) == errno.ELOOP


def test_a_rename_replaces_nothing(home: Path, root: int) -> None:
    (home / "a").write_text("a")
    (home / "b").write_text("b")
    with pytest.raises(FileExistsError):
        rename_no_replace(root, "a", root, "b")
    assert (home / "b").read_text() == "b"


def test_a_pipe_is_not_opened(home: Path, root: int) -> None:
    os.mkfifo(home / "pipe")
    with pytest.raises(Conflict):
        PersonalSpace(root).open(("pipe",))


def test_a_file_is_on_the_disk_before_it_has_its_name(home: Path, root: int, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    def fsync(descriptor: int) -> None:
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        steps.append("folder" if folder else f"file {'there' if (home / 'new').exists() else 'unnamed'}")

    monkeypatch.setattr(os, "fsync", fsync)
    file = PersonalSpace(root).begin(("new",), overwrite=False, parents=False)
    file.write(b"bytes")
    file.finish()
    assert steps == ["file unnamed", "folder"]
    assert (home / "new").read_bytes() == b"bytes"


class Kernel:
    """Takes no other identity, and says so the way the kernel does."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def setfsuid(self, uid: int) -> int:
        self.asked.append(uid)
        return 0

    setfsgid = setfsuid


def test_a_thread_that_did_not_get_the_accounts_rights_touches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both calls answer the value before, never an error: without a second look root itself would write."""
    monkeypatch.setattr(rights, "_libc", Kernel())
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(PermissionError), rights.acting_as(20_001, 20_001):
        raise AssertionError("as root")
