"""A task with the image's user owns what root left in /root, and what the image left there for this user."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.unit.worker.builders import an_attempt
from tests.unit.worker.homes.image_layers import GONE, Entry, folder, make_layers, snapshot
from worker.homes import HomeOrder, TaskHome, TaskHomes, image_tree

pytestmark = pytest.mark.homes

_UID, _GID = 1_000, 1_001
_NOBODY = 65_534
_MORE = "The image may have more files of its own user below /root than are handed to the task."


def own(text: str = "", mode: int = 0o600) -> Entry:
    return Entry(text=text, mode=mode, uid=_UID, gid=_GID)


def prepare(homes: TaskHomes, layers: tuple[Path, ...], **more: Any) -> TaskHome:
    values = {"uid": _UID, "gid": _GID, "layers": layers, "is_images_user": True, **more}
    return homes.prepare(an_attempt(), HomeOrder(**values))


def owners(folder: Path) -> set[int]:
    return {path.lstat().st_uid for path in (folder, *folder.rglob("*"))}


def test_folders_and_files_of_the_images_user_stay_its_own(homes: TaskHomes, tmp_path: Path) -> None:
    layers = make_layers(
        tmp_path,
        {
            "root/.cache": folder(0o700, _UID, _GID),
            "root/.cache/new": own("n"),
            "root/gone": GONE,
            "root/.netrc": own("s"),
        },
        {
            "root/.cache": folder(0o755, _UID, _GID),
            "root/.cache/old": own("o"),
            "root/gone": folder(0o755, _UID, _GID),
            "root/.local/share/app": folder(0o700, _UID, _GID),
            "root/.local/roots": "r",
            "root/.local/mine": own("m"),
            "root/others": folder(0o711, 7, 7),
            "root/others/app": folder(0o700, _UID, _GID),
            "root/private": folder(0o700, 7, 7),
            "root/private/app": folder(0o700, _UID, _GID),
        },
    )
    before = snapshot(layers)
    home = prepare(homes, layers)
    merged = home.binds["/root"]

    assert list(home.binds) == ["/root", "/root/.cache", "/root/others/app", "/root/.local/share/app"]
    assert sorted(os.listdir(home.binds["/root/.cache"])) == ["new", "old"]
    for place in list(home.binds)[1:]:
        assert owners(home.binds[place]) == {_UID}
    assert owners(merged / ".local/roots") == owners(merged / ".local/mine") == owners(merged / ".netrc") == {_UID}
    assert (merged / ".netrc").read_text() == "s"
    assert (merged / ".netrc").stat().st_mode & 0o777 == 0o600
    assert owners(merged / "others") >= {_NOBODY}
    assert home.notes == ()
    (home.binds["/root/.cache"] / "made").write_text("x")
    assert [path.name for path in home.written.rglob("made")] == ["made"]
    assert snapshot(layers) == before
    homes.remove(an_attempt())
    assert snapshot(layers) == before


def test_another_uid_that_happens_to_be_the_same_gets_nothing(homes: TaskHomes, tmp_path: Path) -> None:
    layers = make_layers(tmp_path, {"root/app": folder(0o700, _UID, _GID), "root/key": own("secret")})
    home = prepare(homes, layers, is_images_user=False)
    assert list(home.binds) == ["/root"]
    assert owners(home.binds["/root"] / "key") == {_NOBODY}


def test_places_of_the_platform_and_volumes_fit_in(homes: TaskHomes, tmp_path: Path) -> None:
    layers = make_layers(
        tmp_path,
        {
            "root/datasets": folder(0o700, _UID, _GID),
            "root/nfs": folder(0o700, _UID, _GID),
            "root/data": folder(0o700, _UID, _GID),
            "root/data/kept": own("k"),
        },
    )
    home = prepare(
        homes,
        layers,
        shares={"/root/nfs": tmp_path},
        mountpoints=("/root/datasets/mnist",),
        volumes=("/root/data", "/root/data/a/b"),
    )
    assert list(home.binds) == ["/root", "/root/data", "/root/nfs", "/root/data/a/b"]
    assert (home.binds["/root/data"] / "kept").read_text() == "k"
    assert home.binds["/root/data/a/b"] == home.binds["/root/data"] / "a/b"
    assert owners(home.binds["/root/data/a/b"]) == {_UID}
    assert owners(home.binds["/root"] / "datasets/mnist") == {_UID}


def test_the_search_ends_and_what_is_left_is_told(homes: TaskHomes, tmp_path: Path) -> None:
    many = {f"root/d{number:02}": folder(0o755, _UID, _GID) for number in range(20)}
    big = Entry(text="x" * (2 << 20), uid=_UID)
    layers = make_layers(tmp_path, {**many, "root/big": big, "root/a/b/c/d/e": own()})
    home = prepare(homes, layers)
    assert len(home.binds) == 17
    assert home.notes == (_MORE,)


def test_many_files_of_root_and_deep_folders_hide_nothing_silently(homes: TaskHomes, tmp_path: Path) -> None:
    many = {f"root/n{number:04}": "" for number in range(2_100)}
    wide = make_layers(tmp_path / "wide", {**many, "root/zz": folder(0o700, _UID, _GID)})
    assert prepare(homes, wide).notes == (_MORE,)
    deep = make_layers(tmp_path / "deep", {"root/a/b/c/zz": folder(0o700, _UID, _GID)})
    home = prepare(homes, deep)
    assert home.notes == ()
    assert "/root/a/b/c/zz" in home.binds
    deeper = make_layers(tmp_path / "deeper", {f"root/{'d/' * 20}zz": folder(0o700, _UID, _GID)})
    assert prepare(homes, deeper).notes == (_MORE,)
    broad = make_layers(tmp_path / "broad", {f"root/d{number:02}/zz": folder(0o700) for number in range(70)})
    assert prepare(homes, broad).notes == (_MORE,)


def test_a_name_that_no_engine_can_be_told_is_left_and_told(homes: TaskHomes, tmp_path: Path) -> None:
    odd = os.fsdecode(b"\xff\xfe")
    layers = make_layers(tmp_path, {f"root/{odd}": folder(0o755, _UID, _GID), "root/own": folder(0o755, _UID, _GID)})
    home = prepare(homes, layers)
    assert list(home.binds) == ["/root", "/root/own"]
    assert owners(home.binds["/root"] / odd) == {_NOBODY}
    assert home.notes == (_MORE,)


def test_the_search_asks_few_layers_and_is_done_once_for_an_image(
    homes: TaskHomes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {f"root/n{number:03}": folder() for number in range(600)}
    layers = make_layers(tmp_path, names, *({"root": folder()} for _ in range(30)))
    asked = []
    mark = image_tree._mark
    monkeypatch.setattr(image_tree, "_mark", lambda layer, path: (asked.append(path), mark(layer, path))[1])
    assert prepare(homes, layers).notes == (_MORE,)
    assert len(asked) < 6_000
    asked.clear()
    assert prepare(homes, layers).notes == (_MORE,)
    assert len(asked) < 200
    other = prepare(homes, layers, uid=_UID + 1)
    assert other.notes == (_MORE,)
    assert len(asked) > 1_000


@pytest.mark.parametrize(("mode", "seen"), [(0o755, 0o755), (0o700, 0o711), (0o1777, 0o1777), (0o000, 0o711)])
def test_a_program_that_goes_on_as_another_user_passes_the_home(
    homes: TaskHomes, tmp_path: Path, mode: int, seen: int
) -> None:
    tool = Entry(text="#!/bin/sh\necho works\n", mode=0o755)
    layers = make_layers(tmp_path, {"root": folder(mode), "root/bin/tool": tool, "root/key": Entry(mode=0o600)})
    (layers[0] / "root").chmod(mode)
    home = prepare(homes, layers, uid=0, gid=0).binds["/root"]
    assert stat.S_IMODE(home.stat().st_mode) == seen
    script = "bin/tool; test ! -r key && echo closed"
    done = subprocess.run(["/bin/sh", "-c", script], cwd=home, user=7, group=7, extra_groups=(), capture_output=True)
    assert done.stdout == b"works\nclosed\n", done.stderr
    account = prepare(homes, layers, uid=100_001, is_images_user=False).binds["/root"]
    assert stat.S_IMODE(account.stat().st_mode) == 0o700
