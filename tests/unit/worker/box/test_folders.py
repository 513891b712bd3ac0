"""The Worker is root: it follows no link that a task left in a folder of its box. A test for each kind of call."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.without_openat2 import KERNELS
from worker import box as boxes
from worker.box import Box, BoxEnd, BoxStanding, EndRecord, StopWord

_SECRET = "none\n"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder of the machine with files as a box has them."""
    folder = tmp_path / "outside"
    boxes.create(folder)
    for name in ("lease", "stop", "limits", "launch", "spec", "started", "taken", "index", "ticket", "stdout"):
        (folder / "run" / name).write_text(_SECRET)
    return folder


@pytest.fixture
def box(tmp_path: Path, outside: Path) -> Box:
    """Its two folders are links now."""
    box = boxes.create(tmp_path / "box")
    for folder in (box.run, box.attempt):
        folder.rename(folder.with_name(f"old-{folder.name}"))
        folder.symlink_to(outside / folder.name)
    return box


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


WRITES: dict[str, Callable[[Box], object]] = {
    "a lease": lambda box: boxes.write_lease(box, 1),
    "a stop": lambda box: boxes.write_stop(box, StopWord.CANCELLED),
    "limits": lambda box: boxes.write_limits(box, timeout_ms=1),
    "a deadline": lambda box: boxes.write_deadline(box, 1.0),
    "an end": lambda box: boxes.write_end(box, EndRecord(BoxEnd.EXITED, exit_code=0)),
    "a ticket": lambda box: boxes.write_ticket(box, attempt="a", boot_id="b"),
    "a withdrawal": boxes.withdraw,
    "a launch": lambda box: boxes.write_atomic(box.launch, b"x"),
    "a box": lambda box: boxes.create(box.root, command="echo"),
    "a folder's names": lambda box: boxes.fsync_dir(box.run),
}
READS: dict[str, Callable[[Box], object]] = {
    "a lease": boxes.read_lease,
    "a stop": boxes.read_stop,
    "limits": boxes.read_limits,
    "a spec": boxes.spec_bytes,
    "a start": boxes.read_started,
    "a changed timeout": boxes.read_taken,
    "an end": boxes.read_end,
    "an index": boxes.read_index,
    "a spool": lambda box: os.close(boxes.open_regular(box.stdout)),
}


@pytest.mark.parametrize("what", WRITES)
def test_nothing_is_written_renamed_or_made_through_a_link(box: Box, outside: Path, what: str) -> None:
    before = _files(outside)
    (outside / "run").chmod(0o750)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        WRITES[what](box)
    assert _files(outside) == before
    assert (outside / "run").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("what", READS)
def test_nothing_is_read_through_a_link(box: Box, what: str) -> None:
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        READS[what](box)


def test_a_box_with_a_link_proves_nothing(box: Box, outside: Path) -> None:
    (outside / "run" / "ticket").write_text("attempt=a\nboot_id=b\n")
    standing = boxes.judge(boxes.look(box, attempt="a", boot_id="b"))
    assert standing is BoxStanding.UNKNOWN
    assert boxes.exists(box.run), "the link itself"
    assert not boxes.exists(box.ticket)
    assert boxes.read_launch(box) is None


@pytest.mark.parametrize("name", ["lease", "stop", "end", "ticket"])
def test_a_link_in_the_place_of_a_file_is_not_written_through(tmp_path: Path, name: str) -> None:
    box, target = boxes.create(tmp_path / "box"), tmp_path / "target"
    target.write_text(_SECRET)
    (box.run / name).symlink_to(target)
    temporary = box.run / f".{name}.{os.getpid()}.new"
    temporary.symlink_to(target)
    boxes.write_atomic(box.run / name, b"new")
    assert target.read_text() == _SECRET
    assert (box.run / name).read_bytes() == b"new"
    assert not (box.run / name).is_symlink()


# -- deep folders and folders that are swapped -------------------------------------------------------


_OPEN_BELOW = """
import os, sys
sys.path.insert(0, sys.argv[1])
from worker.box import open_below
top = os.open(sys.argv[2], os.O_RDONLY | os.O_DIRECTORY)
try:
    folder = open_below(top, sys.argv[3])
except OSError as error:
    print("refused", type(error).__name__)
else:
    print("opened", sorted(os.listdir(folder)))
"""


@pytest.mark.parametrize("prefix", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("a/b", "opened ['here']"),
        ("a/link", "refused"),
        ("a/link/inner", "refused"),
        ("a/../a/b", "opened ['here']"),
        ("../outside", "refused"),
        ("/tmp", "refused"),
        ("a/b/here", "refused"),
        ("missing", "refused FileNotFoundError"),
    ],
)
def test_a_folder_below_is_opened_without_any_link(tmp_path: Path, prefix: list[str], path: str, want: str) -> None:
    top, outside = tmp_path / "top", tmp_path / "outside"
    (top / "a" / "b" / "here").mkdir(parents=True)
    (outside / "inner").mkdir(parents=True)
    (top / "a" / "link").symlink_to(outside)
    (top / "a" / "b" / "here").rmdir()
    (top / "a" / "b" / "here").write_text("")
    if prefix and ".." in path:
        want = "refused"  # step by step no dots are taken at all
    repository = str(Path(__file__).resolve().parents[4])
    command = [*prefix, sys.executable, "-c", _OPEN_BELOW, repository, str(top), path]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.startswith(want), (done.stdout, done.stderr)


def _nest(top: Path, depth: int) -> None:
    """Folders deeper than any path can name and any recursion goes."""
    folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir("deeper", dir_fd=folder)
        inner = os.open("deeper", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)


def test_a_folder_below_has_any_depth(tmp_path: Path) -> None:
    _nest(tmp_path, 2_000)
    top = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    folder = boxes.open_below(top, "/".join(["deeper"] * 2_000))
    assert os.listdir(folder) == ["bottom"]
    os.close(folder)
    os.close(top)
    boxes.remove_tree(tmp_path / "deeper")


def test_a_tree_of_any_depth_is_removed(tmp_path: Path) -> None:
    """shutil.rmtree recurses, and keeps a descriptor open for each folder."""
    top = tmp_path / "top"
    top.mkdir()
    _nest(top, 3_000)
    (top / ".gone.0").mkdir()
    (top / ".gone.0" / "x").write_text("")
    (top / ".gone.1").write_text("")
    boxes.remove_tree(top)
    assert not top.exists()
    boxes.remove_tree(top)  # safe twice


def test_a_tree_is_removed_where_no_folder_can_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the first removals of a home failed: the folders of many were brought up first."""
    top = tmp_path / "top"
    for number in range(3):
        (top / "a" / "b" / str(number) / "deeper" / "empty").mkdir(parents=True)
        (top / "a" / "b" / str(number) / "deeper" / "file").write_text("")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "rename", full)
    boxes.remove_tree(top)
    assert not top.exists()


def test_a_tree_is_removed_and_nothing_that_its_links_point_to(tmp_path: Path) -> None:
    top, outside = tmp_path / "top", tmp_path / "outside"
    (outside / "inner").mkdir(parents=True)
    (outside / "file").write_text("precious")
    (top / "a" / "b").mkdir(parents=True)
    for place in (top / "link", top / "a" / "link", top / "a" / "b" / "link"):
        place.symlink_to(outside)
    os.link(outside / "file", top / "a" / "second name")
    os.mkfifo(top / "a" / "pipe")
    boxes.remove_tree(top)
    assert not top.exists()
    assert (outside / "file").read_text() == "precious"
    assert (outside / "inner").is_dir()


def test_a_link_in_the_place_of_a_tree_is_removed_itself(tmp_path: Path) -> None:
    top, outside = tmp_path / "top", tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("precious")
    top.symlink_to(outside)
    boxes.remove_tree(top)
    assert not top.is_symlink()
    assert (outside / "file").exists()
