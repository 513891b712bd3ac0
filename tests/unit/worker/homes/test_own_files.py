"""A task with the image's user owns what root left in /root, and what the image left there for this user."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.worker.builders import an_attempt
from tests.unit.worker.homes.image_layers import GONE, Entry, folder, make_layers, snapshot
from worker.homes import HomeOrder, TaskHome, TaskHomes

pytestmark = pytest.mark.homes

_UID, _GID = 1_000, 1_001
_NOBODY = 65_534


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
    assert home.notes == ("The image has more files of its own user below /root than are handed to the task.",)
