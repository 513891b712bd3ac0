"""Trees as tasks make them: deep, read-only, hostile; measured, removed, put into the trash and taken out."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.errors import Conflict, InvalidInput, NotFound
from httpserver.files import listing, trash_bin
from httpserver.files.measure import MeasuringStopped, Pace, measure
from httpserver.files.space import PersonalSpace
from httpserver.filesystem.removal import remove_account_tree

FREELY = Pace(1e9, lambda: False)
NOW = 1_800_000_000.0
ID = f"{int(NOW):08x}-0123456789ab"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def space(home: Path) -> Iterator[PersonalSpace]:
    root = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    yield PersonalSpace(root)
    os.close(root)


def deep(home: Path, name: str, levels: int, part: str) -> None:
    """Deeper than any path may be long."""
    here = os.open(home, os.O_RDONLY)
    for level in range(levels):
        os.mkdir(name if level == 0 else part, dir_fd=here)
        deeper = os.open(name if level == 0 else part, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.write(end := os.open("file", os.O_WRONLY, dir_fd=here), b"x" * 8192)
    os.close(end)
    os.close(here)


# -- removal ------------------------------------------------------------------------------------


def test_a_tree_deeper_than_any_path_is_removed(home: Path, space: PersonalSpace):
    deep(home, "top", 100, "d" * 200)
    remove_account_tree(space.root, "top")
    assert list(home.iterdir()) == []


def test_folders_that_their_owner_made_read_only_are_removed(home: Path, space: PersonalSpace):
    """As Go and conda keep packages."""
    inner = home / "pkg" / "mod"
    inner.mkdir(parents=True)
    (inner / "f").touch()
    inner.chmod(0o555)
    (home / "pkg").chmod(0o111)
    remove_account_tree(space.root, "pkg")
    assert list(home.iterdir()) == []


def test_links_and_pipes_are_removed_and_what_links_point_at_stays(home: Path, space: PersonalSpace, tmp_path: Path):
    (tmp_path / "kept").write_text("kept")
    (home / "t").mkdir()
    (home / "t" / "link").symlink_to(tmp_path)
    os.mkfifo(home / "t" / "pipe")
    remove_account_tree(space.root, "t")
    assert list(home.iterdir()) == []
    assert (tmp_path / "kept").read_text() == "kept"


# -- measuring ----------------------------------------------------------------------------------


def used(space: PersonalSpace, pace: Pace = FREELY) -> int:
    return measure(space.root, os.geteuid(), os.getegid(), pace).used_bytes


def test_blocks_count_holes_do_not_and_several_names_count_once(home: Path, space: PersonalSpace, tmp_path: Path):
    empty = used(space)
    (home / "data").write_bytes(b"x" * 1_000_000)
    os.sync()
    one = used(space) - empty
    assert 1_000_000 <= one < 1_100_000
    os.link(home / "data", home / "again")
    assert used(space) - empty == one
    with (home / "holes").open("wb") as file:
        file.truncate(1 << 40)
    assert used(space) - empty - one < 100_000
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "big").write_bytes(b"x" * 1_000_000)
    (home / "link").symlink_to(tmp_path / "outside")
    assert used(space) - empty - one < 100_000


def test_what_lies_too_deep_for_a_path_counts(home: Path, space: PersonalSpace):
    deep(home, "top", 100, "d" * 200)
    os.sync()
    found = measure(space.root, os.geteuid(), os.getegid(), FREELY)
    assert found.entries == 102
    remove_account_tree(space.root, "top")


def test_what_is_being_uploaded_is_told_apart(home: Path, space: PersonalSpace):
    """Those of resumable uploads used to count twice, and those of a plain PUT not at all."""
    (home / ".headway-uploads").mkdir()
    (home / ".headway-uploads" / ("a" * 32)).write_bytes(b"x" * 100_000)
    (home / ".headway-uploads" / ".headway-upload-x").write_bytes(b"x" * 300_000)
    os.sync()
    found = measure(space.root, os.geteuid(), os.getegid(), FREELY)
    assert found.used_bytes >= 400_000
    assert 100_000 <= found.uploading_bytes < 200_000


def test_a_measuring_rests_and_can_be_called_off(home: Path, space: PersonalSpace):
    for number in range(10):
        (home / str(number)).touch()
    rests = []
    used(space, Pace(0.0, lambda: bool(rests.append(1))))
    assert len(rests) == 10
    with pytest.raises(MeasuringStopped):
        used(space, Pace(0.0, lambda: True))


@pytest.mark.root
def test_an_account_can_not_hide_a_folder_from_its_quota(home: Path, space: PersonalSpace):
    (home / "hidden").mkdir()
    (home / "hidden" / "data").write_bytes(b"x" * 1_000_000)
    os.chown(home / "hidden", 20_000, 20_000)
    (home / "hidden").chmod(0)
    os.sync()
    assert measure(space.root, 20_000, 20_000, FREELY).used_bytes > 1_000_000


# -- listing ------------------------------------------------------------------------------------


def names(space: PersonalSpace, after: str, limit: int, cache: listing.NameCache) -> list[str]:
    return [entry.name for entry in space.list(("many",), after, limit, cache)[0]]


def test_a_large_folder_is_read_once_and_a_change_is_seen_at_once(
    home: Path, space: PersonalSpace, monkeypatch: pytest.MonkeyPatch
):
    many = home / "many"
    many.mkdir()
    for number in range(2_500):
        (many / f"f{number:05d}").touch()
    monkeypatch.setattr(listing, "_SETTLED_S", -1e9)
    reads = []
    real = os.scandir

    def scandir(folder: int):  # type: ignore[no-untyped-def]
        reads.append(folder)
        return real(folder)

    monkeypatch.setattr(listing.os, "scandir", scandir)
    cache = listing.NameCache()
    seen: list[str] = []
    while page := names(space, seen[-1] if seen else "", 1000, cache):
        seen += page
    assert seen == [f"f{number:05d}" for number in range(2_500)]
    assert len(reads) == 1
    (many / "f00000a").touch()
    assert names(space, "f00000", 2, cache) == ["f00000a", "f00001"]
    (many / "f00001").unlink()
    assert names(space, "f00000", 2, cache) == ["f00000a", "f00002"]


def test_a_folder_that_has_just_changed_is_read_again(home: Path, space: PersonalSpace):
    """Its clock may not have ticked since, so the next change would not be seen."""
    many = home / "many"
    many.mkdir()
    for number in range(2_500):
        (many / f"{number:05d}").touch()
    cache = listing.NameCache()
    names(space, "", 1, cache)
    assert not cache._kept


def test_names_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(listing, "_KEPT_NAMES", 10_000)
    cache = listing.NameCache()
    for number in range(10):
        cache.put((0, number, 0, 0), ["x"] * 4_000)
    assert cache._count == sum(len(kept[1]) for kept in cache._kept.values()) <= 10_000
    assert cache.get((0, 9, 0, 0)) is not None
    assert cache.get((0, 0, 0, 0)) is None


# -- trash --------------------------------------------------------------------------------------


def test_what_is_deleted_comes_back_whole_with_its_rights(home: Path, space: PersonalSpace):
    """Also a read-only folder, whose own `..` has to be written for it."""
    (home / "a" / "b").mkdir(parents=True)
    (home / "a" / "b" / "f").write_text("content")
    (home / "a" / "b").chmod(0o555)
    id = trash_bin.put(space, ("a", "b"), recursive=True, now=NOW)
    assert not (home / "a" / "b").exists()
    (item,) = trash_bin.items(space)
    assert (item.id, item.path, item.deleted_at, item.size) == (id, ("a", "b"), NOW, 7)
    (home / "a").rmdir()
    assert trash_bin.restore(space, id, None) == ("a", "b")
    assert (home / "a" / "b" / "f").read_text() == "content"
    assert stat.S_IMODE((home / "a" / "b").stat().st_mode) == 0o555
    assert list((home / ".headway-trash").iterdir()) == []


def test_nothing_is_restored_over_something(home: Path, space: PersonalSpace):
    (home / "f").write_text("old")
    id = trash_bin.put(space, ("f",), recursive=False, now=NOW)
    (home / "f").write_text("new")
    with pytest.raises(Conflict, match="`f` is there again"):
        trash_bin.restore(space, id, None)
    assert (home / "f").read_text() == "new"
    assert trash_bin.restore(space, id, ("deep", "g")) == ("deep", "g")
    assert (home / "deep" / "g").read_text() == "old"
    with pytest.raises(NotFound):
        trash_bin.restore(space, id, None)


def test_a_link_goes_into_the_trash_and_its_target_stays(home: Path, space: PersonalSpace):
    (home / "real").mkdir()
    (home / "real" / "f").touch()
    (home / "link").symlink_to("real")
    id = trash_bin.put(space, ("link",), recursive=False, now=NOW)
    assert (home / "real" / "f").exists()
    assert (home / ".headway-trash" / id).is_symlink()
    trash_bin.forget(space, id)
    assert (home / "real" / "f").exists()
    assert not (home / ".headway-trash" / id).is_symlink()


@pytest.mark.parametrize("kind", ["link", "file", "pipe", "link to folder outside"])
def test_a_faked_trash_is_refused_with_advice_and_does_no_harm(
    home: Path, space: PersonalSpace, tmp_path: Path, kind: str
):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / ID).write_text("kept")
    fake = home / ".headway-trash"
    if kind == "link":
        fake.symlink_to("nowhere")
    elif kind == "link to folder outside":
        fake.symlink_to(outside)
    elif kind == "file":
        fake.touch()
    else:
        os.mkfifo(fake)
    (home / "f").write_text("mine")
    for call in (
        lambda: trash_bin.put(space, ("f",), recursive=False, now=NOW),
        lambda: trash_bin.items(space),
        lambda: trash_bin.empty(space),
        lambda: trash_bin.sweep(space, before=NOW * 2, now=NOW * 2),
        lambda: trash_bin.restore(space, ID, None),
    ):
        with pytest.raises(Conflict, match="permanent"):
            call()
    assert (home / "f").read_text() == "mine"
    assert (outside / ID).read_text() == "kept"
    space.delete((".headway-trash",), recursive=False)
    trash_bin.put(space, ("f",), recursive=False, now=NOW)


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"{",
        b"[]",
        b'{"path": 3}',
        b'{"path": "../../etc/passwd"}',
        b'{"path": "a%00b"}',
        b"[" * 60_000,
        b"x" * 70_000,
    ],
)
def test_a_faked_note_leads_nowhere(home: Path, space: PersonalSpace, note: bytes):
    trash = home / ".headway-trash"
    trash.mkdir()
    (trash / ID).write_text("x")
    (trash / f"{ID}.json").write_bytes(note)
    (item,) = trash_bin.items(space)
    assert item.path is None
    with pytest.raises(InvalidInput, match="to"):
        trash_bin.restore(space, ID, None)
    assert trash_bin.restore(space, ID, ("back",)) == ("back",)


def test_a_note_that_is_a_pipe_or_a_link_is_not_read(home: Path, space: PersonalSpace, tmp_path: Path):
    trash = home / ".headway-trash"
    trash.mkdir()
    (tmp_path / "note").write_text('{"path": "stolen"}')
    (trash / ID).write_text("x")
    (trash / f"{ID}.json").symlink_to(tmp_path / "note")
    assert trash_bin.items(space)[0].path is None
    (trash / f"{ID}.json").unlink()
    os.mkfifo(trash / f"{ID}.json")
    assert trash_bin.items(space)[0].path is None


def test_the_broom_takes_what_is_over_and_what_a_kill_left(home: Path, space: PersonalSpace):
    for name, at in (("old", NOW - 300_000), ("new", NOW)):
        (home / name).mkdir()
        (home / name / "f").touch()
        trash_bin.put(space, (name,), recursive=True, now=at)
    trash = home / ".headway-trash"
    dead, fresh = f"{int(NOW) - 700:08x}-0123456789ab.json", f"{int(NOW) - 5:08x}-0123456789ab.json"
    for name in (dead, fresh, "mine"):
        (trash / name).touch()
    assert trash_bin.sweep(space, before=NOW - 259_200, now=NOW) == 1
    assert [item.path for item in trash_bin.items(space)] == [("new",)]
    left = {path.name for path in trash.iterdir()}
    assert dead not in left
    assert {fresh, "mine"} < left
    trash_bin.empty(space)
    assert list(trash.iterdir()) == []


def test_without_room_for_the_note_it_is_deleted_all_the_same(
    home: Path, space: PersonalSpace, monkeypatch: pytest.MonkeyPatch
):
    """On a full disk people delete to make room."""
    (home / "f").write_text("x")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trash_bin.os, "write", full)
    id = trash_bin.put(space, ("f",), recursive=False, now=NOW)
    monkeypatch.undo()
    assert trash_bin.items(space)[0].path is None
    assert trash_bin.restore(space, id, ("f",)) == ("f",)
